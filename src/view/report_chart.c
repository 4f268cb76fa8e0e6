/*
 * The common part of all charts of reports. They are SVG, coloured by classes.
 */
#include "view/report_internal.h"

#include <string.h>

double pen__letters_width(const char *string)
{
    size_t letters = 0;
    for (const char *at = string; *at != '\0'; at++)
        letters += ((unsigned char)*at & 0xC0) != 0x80;
    return PEN__LETTER_WIDTH * (double)letters;
}

void pen__chart_write(struct pen_text *out, double x, double y,
                      enum pen__anchor anchor, const char *class_name,
                      const char *string)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"",
                                          " text-anchor=\"end\""};
    pen_text_add(out, "<text x=\"%.1f\" y=\"%.1f\"%s", x, y, anchors[anchor]);
    if (class_name != NULL)
        pen_text_add(out, " class=\"%s\"", class_name);
    pen_text_add_string(out, ">");
    pen__html_add(out, string);
    pen_text_add_string(out, "</text>\n");
}

void pen__chart_guide(struct pen_text *out, double x0, double y0, double x1,
                      double y1)
{
    pen_text_add(out,
                 "<line class=\"guide\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                 "y2=\"%.1f\"/>\n",
                 x0, y0, x1, y1);
}

void pen__chart_begin(struct pen_text *out, double height, const char *name)
{
    pen_text_add(out,
                 "<figure><svg class=\"chart\" role=\"img\" "
                 "xmlns=\"http://www.w3.org/2000/svg\" "
                 "viewBox=\"0 0 %.0f %.0f\" aria-label=\"",
                 PEN__CHART_WIDTH, height);
    pen__html_add(out, name);
    pen_text_add_string(out, "\">\n");
}

void pen__chart_end(struct pen_text *out)
{
    pen_text_add_string(out, "</svg></figure>\n");
}
