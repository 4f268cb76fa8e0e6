/*
 * SVG as text: the same bytes on every machine, without a library. Numbers are
 * hundredths of a point, paths are relative, and texts of one look that follow
 * each other are in one group:
 *
 *      <path fill="#add3f0" d="M60 40h22v20h-22zm44 0h22v20h-22z"/>
 *      <g font-size="8.5" text-anchor="middle">
 *      <text x="71" y="53.1" textLength="10.7">F0</text>
 *      </g>
 *
 * Texts have the length of our table in viewers with any font (textLength).
 */
#include "view/picture.h"
#include "view/report_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_POINTS 1e7 /* pictures end long before */

/* Verdana has the widths of DejaVu Sans, and most desktops have one of them. */
#define FONTS "Verdana,DejaVu Sans,Geneva,sans-serif"

/* How texts of a group look. */
struct look {
    struct pen__colour colour;
    double size;
    bool is_bold;
    enum pen__align align;
};

struct point {
    long x; /* hundredths of a point */
    long y;
};

struct svg {
    struct pen_text *out;
    struct pen_text path;
    struct point at;
    struct point start; /* of the part of the path that is being drawn */
    struct look look;
    bool has_group;
};

static long round_points(double points)
{
    return isnan(points)
               ? 0
               : lround(fmax(-MOST_POINTS, fmin(points, MOST_POINTS)) * 100);
}

/* Adds 1234 as 12.34, and 50 as .5. */
static void add_number(struct pen_text *out, long hundredths)
{
    unsigned long size = (unsigned long)labs(hundredths);
    unsigned long rest = size % 100;
    if (hundredths < 0)
        pen_text_add_bytes(out, "-", 1);
    if (size >= 100 || rest == 0)
        pen_text_add_number(out, size / 100);
    if (rest > 0) {
        const char digits[] = {'.', (char)('0' + rest / 10),
                               (char)('0' + rest % 10)};
        pen_text_add_bytes(out, digits, rest % 10 == 0 ? 2 : 3);
    }
}

static void add_points(struct pen_text *out, double points)
{
    add_number(out, round_points(points));
}

static void add_command(struct pen_text *out, char letter, long x, long y)
{
    pen_text_add_bytes(out, &letter, 1);
    add_number(out, x);
    if (y >= 0)
        pen_text_add_bytes(out, " ", 1);
    add_number(out, y);
}

static void move_to(struct pen__canvas *canvas, double x, double y)
{
    struct svg *svg = canvas->target;
    struct point to = {round_points(x), round_points(y)};
    if (svg->path.length == 0)
        add_command(&svg->path, 'M', to.x, to.y);
    else
        add_command(&svg->path, 'm', to.x - svg->at.x, to.y - svg->at.y);
    svg->at = to;
    svg->start = to;
}

static void line_to(struct pen__canvas *canvas, double x, double y)
{
    struct svg *svg = canvas->target;
    struct point to = {round_points(x), round_points(y)};
    if (to.y == svg->at.y) {
        pen_text_add_bytes(&svg->path, "h", 1);
        add_number(&svg->path, to.x - svg->at.x);
    } else if (to.x == svg->at.x) {
        pen_text_add_bytes(&svg->path, "v", 1);
        add_number(&svg->path, to.y - svg->at.y);
    } else {
        add_command(&svg->path, 'l', to.x - svg->at.x, to.y - svg->at.y);
    }
    svg->at = to;
}

static void close_path(struct pen__canvas *canvas)
{
    struct svg *svg = canvas->target;
    pen_text_add_bytes(&svg->path, "z", 1);
    svg->at = svg->start;
}

/* Adds a circle of two halves. */
static void add_circle(struct pen__canvas *canvas, double x, double y,
                       double radius)
{
    struct svg *svg = canvas->target;
    long size = round_points(radius);
    move_to(canvas, x - radius, y);
    for (int i = 0; i < 2; i++) {
        add_command(&svg->path, 'a', size, size);
        pen_text_add_string(&svg->path, " 0 1 1");
        add_command(&svg->path, ' ', i == 0 ? 2 * size : -2 * size, 0);
    }
    close_path(canvas);
}

static unsigned shade(double part)
{
    return (unsigned)lround(255 * fmax(0, fmin(part, 1)));
}

/* Adds an attribute, as #rgb where that is the same colour. */
static void add_colour(struct pen_text *out, const char *name,
                       const struct pen__colour *colour)
{
    unsigned red = shade(colour->red);
    unsigned green = shade(colour->green);
    unsigned blue = shade(colour->blue);
    if (red % 17 == 0 && green % 17 == 0 && blue % 17 == 0)
        pen_text_add(out, " %s=\"#%x%x%x\"", name, red / 17, green / 17,
                     blue / 17);
    else
        pen_text_add(out, " %s=\"#%02x%02x%02x\"", name, red, green, blue);
}

static void add_length(struct pen_text *out, const char *name, double points)
{
    pen_text_add(out, " %s=\"", name);
    add_points(out, points);
    pen_text_add_string(out, "\"");
}

static void end_group(struct svg *svg)
{
    if (svg->has_group)
        pen_text_add_string(svg->out, "</g>\n");
    svg->has_group = false;
}

static void paint(struct pen__canvas *canvas, const struct pen__colour *fill,
                  const struct pen__colour *stroke,
                  const struct pen__line *line)
{
    struct svg *svg = canvas->target;
    struct pen_text *out = svg->out;
    if (svg->path.has_failed)
        out->has_failed = 1;
    if (svg->path.length == 0)
        return;
    end_group(svg);
    pen_text_add_string(out, "<path");
    if (fill != NULL)
        add_colour(out, "fill", fill);
    else
        pen_text_add_string(out, " fill=\"none\"");
    if (stroke != NULL) {
        add_colour(out, "stroke", stroke);
        add_length(out, "stroke-width", line->width);
        if (line->is_round)
            pen_text_add_string(out, " stroke-linecap=\"round\" "
                                     "stroke-linejoin=\"round\"");
    }
    pen_text_add_string(out, " d=\"");
    pen_text_add_bytes(out, svg->path.bytes, svg->path.length);
    pen_text_add_string(out, "\"/>\n");
    pen_text_clear(&svg->path);
}

static bool is_same_look(const struct look *a, const struct look *b)
{
    return a->colour.red == b->colour.red &&
           a->colour.green == b->colour.green &&
           a->colour.blue == b->colour.blue && a->size == b->size &&
           a->is_bold == b->is_bold && a->align == b->align;
}

static void begin_group(struct svg *svg, const struct look *look)
{
    static const char *const anchors[] = {
        [PEN__LEFT] = "",
        [PEN__CENTRE] = " text-anchor=\"middle\"",
        [PEN__RIGHT] = " text-anchor=\"end\""};
    if (svg->has_group && is_same_look(look, &svg->look))
        return;
    end_group(svg);
    pen_text_add_string(svg->out, "<g");
    add_colour(svg->out, "fill", &look->colour);
    add_length(svg->out, "font-size", look->size);
    pen_text_add_string(svg->out, look->is_bold ? " font-weight=\"bold\"" : "");
    pen_text_add_string(svg->out, anchors[look->align]);
    pen_text_add_string(svg->out, ">\n");
    svg->look = *look;
    svg->has_group = true;
}

static void write_words(struct pen__canvas *canvas,
                        const struct pen__words *words)
{
    struct svg *svg = canvas->target;
    const struct look look = {canvas->colour, canvas->font_size,
                              canvas->is_bold, words->align};
    if (words->text[0] == '\0')
        return;
    begin_group(svg, &look);
    pen_text_add_string(svg->out, "<text");
    add_length(svg->out, "x", words->x);
    add_length(svg->out, "y", words->y);
    add_length(svg->out, "textLength", words->width);
    if (strstr(words->text, "  ") != NULL)
        pen_text_add_string(svg->out, " xml:space=\"preserve\"");
    pen_text_add_string(svg->out, ">");
    pen__html_add(svg->out, words->text);
    pen_text_add_string(svg->out, "</text>\n");
}

static const struct pen__canvas_kind kind = {
    .move_to = move_to,
    .line_to = line_to,
    .close = close_path,
    .add_circle = add_circle,
    .paint = paint,
    .write = write_words,
};

static void add_head(const struct pen__picture *picture, struct pen_text *out)
{
    pen_text_add_string(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                             "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    pen_text_add_string(out, " width=\"");
    add_points(out, picture->width);
    pen_text_add_string(out, "pt\" height=\"");
    add_points(out, picture->height);
    pen_text_add_string(out, "pt\" viewBox=\"0 0 ");
    add_points(out, picture->width);
    pen_text_add_string(out, " ");
    add_points(out, picture->height);
    pen_text_add_string(out, "\" role=\"img\" aria-label=\"");
    pen__html_add(out, picture->name);
    pen_text_add_string(
        out, "\" font-family=\"" FONTS "\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
}

void pen__svg_print(const struct pen__picture *picture, struct pen_text *out)
{
    struct svg svg = {.out = out, .path = PEN_TEXT_EMPTY};
    struct pen__canvas canvas = {.kind = &kind, .target = &svg};
    add_head(picture, out);
    picture->draw(&canvas, picture->context);
    end_group(&svg);
    pen_text_add_string(out, "</svg>\n");
    pen_text_release(&svg.path);
}
