#ifndef PEN_VIEW_CANVAS_H
#define PEN_VIEW_CANVAS_H

#include <stdbool.h>

/*
 * The surface for pictures: paths that are filled or stroked, and lines of
 * text. Lengths are in points, y points down. Two kinds of canvas exist: an SVG
 * that we write ourselves (canvas_svg.c), and cairo for PNG and PDF
 * (canvas_cairo.c). Both have the same geometry: the width of a text comes from
 * a table, whatever font the viewer has.
 */

struct pen__colour {
    double red; /* 0 to 1 */
    double green;
    double blue;
};

struct pen__box {
    double x;
    double y;
    double width;
    double height;
};

/* The ends and corners of a stroke are cut off, or round. */
struct pen__line {
    double width;
    bool is_round;
};

enum pen__align { PEN__LEFT, PEN__CENTRE, PEN__RIGHT };

/* A text next to the point (x, y) of its baseline, at most `width` long. */
struct pen__words {
    const char *text;
    double x;
    double y;
    enum pen__align align;
    double width;
};

struct pen__canvas;

/* The functions that a kind of canvas provides. */
struct pen__canvas_kind {
    void (*move_to)(struct pen__canvas *canvas, double x, double y);
    void (*line_to)(struct pen__canvas *canvas, double x, double y);
    void (*close)(struct pen__canvas *canvas);
    void (*add_circle)(struct pen__canvas *canvas, double x, double y,
                       double radius);
    /* Paints the path and begins a new one. NULL: not filled, not stroked. */
    void (*paint)(struct pen__canvas *canvas, const struct pen__colour *fill,
                  const struct pen__colour *stroke,
                  const struct pen__line *line);
    /* Writes in the colour and font of the canvas. */
    void (*write)(struct pen__canvas *canvas, const struct pen__words *words);
};

struct pen__canvas {
    const struct pen__canvas_kind *kind; /* NULL: texts are only measured */
    void *target;                        /* of the kind */
    struct pen__colour colour;
    double font_size;
    bool is_bold;
};

/* Add to the path. */
void pen__move_to(struct pen__canvas *canvas, double x, double y);
void pen__line_to(struct pen__canvas *canvas, double x, double y);
void pen__close(struct pen__canvas *canvas);
void pen__add_line(struct pen__canvas *canvas, double x0, double y0, double x1,
                   double y1);
void pen__add_box(struct pen__canvas *canvas, const struct pen__box *box);
void pen__add_circle(struct pen__canvas *canvas, double x, double y,
                     double radius);

void pen__use_colour(struct pen__canvas *canvas, struct pen__colour colour);
/* Sets a grey from 0, black, to 1. */
void pen__use_grey(struct pen__canvas *canvas, double grey);

/* Fill or stroke the path in the colour of the canvas, and begin a new path. */
void pen__fill(struct pen__canvas *canvas);
void pen__stroke(struct pen__canvas *canvas, double width);
void pen__stroke_round(struct pen__canvas *canvas, double width);
/* Fills the path in the colour of the canvas, with an outline of this grey. */
void pen__fill_outlined(struct pen__canvas *canvas, double grey, double width);

/* Sans serif. */
void pen__use_font(struct pen__canvas *canvas, double size, bool is_bold);
void pen__use_font_size(struct pen__canvas *canvas, double size);
double pen__text_width(const struct pen__canvas *canvas, const char *text);

/* Writes text on the baseline y; returns its width. */
double pen__write(struct pen__canvas *canvas, double x, double y,
                  enum pen__align align, const char *text);

/*
 * Writes text from the left as above, in smaller type where the room is short.
 */
double pen__write_within(struct pen__canvas *canvas, double x, double y,
                         double room, double size, bool is_bold,
                         const char *text);

#endif
