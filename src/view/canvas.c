/* The common part of all kinds of canvas. */
#include "view/canvas.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Widths of the letters from ' ' to '~' of DejaVu Sans, in 1/2048 of its size.
 * Verdana's differ by less than one in a hundred.
 */
#define EM 2048.0
#define FIRST_LETTER 0x20u
#define LAST_LETTER 0x7eu

static const uint16_t widths[2][LAST_LETTER - FIRST_LETTER + 1] = {
    {651,  821,  942,  1716, 1303, 1946, 1597, 563,  799,  799,  1024, 1716,
     651,  739,  651,  690,  1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303,
     1303, 1303, 690,  690,  1716, 1716, 1716, 1087, 2048, 1401, 1405, 1430,
     1577, 1294, 1178, 1587, 1540, 604,  604,  1343, 1141, 1767, 1532, 1612,
     1235, 1612, 1423, 1300, 1251, 1499, 1401, 2025, 1403, 1251, 1403, 799,
     690,  799,  1716, 1024, 1024, 1255, 1300, 1126, 1300, 1260, 721,  1300,
     1298, 569,  569,  1186, 569,  1995, 1298, 1253, 1300, 1300, 842,  1067,
     803,  1298, 1212, 1675, 1212, 1212, 1075, 1303, 690,  1303, 1716},
    {713,  934,  1067, 1716, 1425, 2052, 1786, 627,  936,  936,  1071, 1716,
     778,  850,  778,  748,  1425, 1425, 1425, 1425, 1425, 1425, 1425, 1425,
     1425, 1425, 819,  819,  1716, 1716, 1716, 1188, 2048, 1585, 1561, 1503,
     1700, 1399, 1399, 1681, 1714, 762,  762,  1587, 1305, 2038, 1714, 1741,
     1501, 1741, 1577, 1475, 1397, 1663, 1585, 2259, 1579, 1483, 1485, 936,
     748,  936,  1716, 1024, 1024, 1382, 1466, 1214, 1466, 1389, 891,  1466,
     1458, 702,  702,  1362, 702,  2134, 1458, 1407, 1466, 1466, 1010, 1219,
     979,  1458, 1335, 1892, 1321, 1335, 1192, 1458, 748,  1458, 1716},
};

/*
 * Width of letters outside the table, whatever font has them: Chinese ones fill
 * the square.
 */
#define OTHER_WIDTH 1400u
#define WIDE_WIDTH 2048u
#define FIRST_WIDE 0xe1u /* the first byte of U+1000 in UTF-8 */

static unsigned letter_width(unsigned char byte, bool is_bold)
{
    if (byte >= FIRST_LETTER && byte <= LAST_LETTER)
        return widths[is_bold][byte - FIRST_LETTER];
    if ((byte & 0xc0u) == 0x80) /* a continuation byte */
        return 0;
    return byte < FIRST_WIDE ? OTHER_WIDTH : WIDE_WIDTH;
}

double pen__text_width(const struct pen__canvas *canvas, const char *text)
{
    uint64_t sum = 0;
    for (; *text != '\0'; text++)
        sum += letter_width((unsigned char)*text, canvas->is_bold);
    return (double)sum / EM * canvas->font_size;
}

void pen__move_to(struct pen__canvas *canvas, double x, double y)
{
    canvas->kind->move_to(canvas, x, y);
}

void pen__line_to(struct pen__canvas *canvas, double x, double y)
{
    canvas->kind->line_to(canvas, x, y);
}

void pen__close(struct pen__canvas *canvas)
{
    canvas->kind->close(canvas);
}

void pen__add_line(struct pen__canvas *canvas, double x0, double y0, double x1,
                   double y1)
{
    pen__move_to(canvas, x0, y0);
    pen__line_to(canvas, x1, y1);
}

void pen__add_box(struct pen__canvas *canvas, const struct pen__box *box)
{
    double right = box->x + box->width;
    double bottom = box->y + box->height;
    pen__add_line(canvas, box->x, box->y, right, box->y);
    pen__line_to(canvas, right, bottom);
    pen__line_to(canvas, box->x, bottom);
    pen__close(canvas);
}

void pen__add_circle(struct pen__canvas *canvas, double x, double y,
                     double radius)
{
    canvas->kind->add_circle(canvas, x, y, radius);
}

void pen__use_colour(struct pen__canvas *canvas, struct pen__colour colour)
{
    canvas->colour = colour;
}

void pen__use_grey(struct pen__canvas *canvas, double grey)
{
    canvas->colour = (struct pen__colour){grey, grey, grey};
}

void pen__fill(struct pen__canvas *canvas)
{
    canvas->kind->paint(canvas, &canvas->colour, NULL, NULL);
}

void pen__stroke(struct pen__canvas *canvas, double width)
{
    const struct pen__line line = {width, false};
    canvas->kind->paint(canvas, NULL, &canvas->colour, &line);
}

void pen__stroke_round(struct pen__canvas *canvas, double width)
{
    const struct pen__line line = {width, true};
    canvas->kind->paint(canvas, NULL, &canvas->colour, &line);
}

void pen__fill_outlined(struct pen__canvas *canvas, double grey, double width)
{
    const struct pen__colour outline = {grey, grey, grey};
    const struct pen__line line = {width, false};
    canvas->kind->paint(canvas, &canvas->colour, &outline, &line);
}

void pen__use_font(struct pen__canvas *canvas, double size, bool is_bold)
{
    canvas->font_size = size;
    canvas->is_bold = is_bold;
}

void pen__use_font_size(struct pen__canvas *canvas, double size)
{
    canvas->font_size = size;
}

double pen__write(struct pen__canvas *canvas, double x, double y,
                  enum pen__align align, const char *text)
{
    const struct pen__words words = {text, x, y, align,
                                     pen__text_width(canvas, text)};
    canvas->kind->write(canvas, &words);
    return words.width;
}

double pen__write_within(struct pen__canvas *canvas, double x, double y,
                         double room, double size, bool is_bold,
                         const char *text)
{
    pen__use_font(canvas, size, is_bold);
    double width = pen__text_width(canvas, text);
    if (width > room)
        pen__use_font_size(canvas, size * room / width);
    return pen__write(canvas, x, y, PEN__LEFT, text);
}
