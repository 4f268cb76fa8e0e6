#ifndef PEN_VIEW_REPORT_INTERNAL_H
#define PEN_VIEW_REPORT_INTERNAL_H

#include "view/report.h"

/* The limits of the style sheet: one colour for each part of a bar. */
#define PEN__REPORT_COLOURS 12u
#define PEN__REPORT_LINES 8u /* colours of curves */

/* Prints the style sheet. */
void pen__style_print(struct pen_text *out);

/* Adds any bytes as text, or inside the quotes of an attribute. */
void pen__html_add(struct pen_text *out, const char *string);

/* Charts are so wide, in units of their own, whatever the page makes of it. */
#define PEN__CHART_WIDTH 960.0
#define PEN__LETTER_WIDTH 6.9 /* of type at 12 units, on average */

/* Returns roughly how wide a text is, at 12 units. */
double pen__letters_width(const char *string);

enum pen__anchor { PEN__START, PEN__MIDDLE, PEN__END };

/* Writes a text of a chart; of the class, if it is not NULL. */
void pen__chart_write(struct pen_text *out, double x, double y,
                      enum pen__anchor anchor, const char *class_name,
                      const char *string);

/* Draws a faint line. */
void pen__chart_guide(struct pen_text *out, double x0, double y0, double x1,
                      double y1);

/* Begins the element that contains a chart; end it with pen__chart_end(). */
void pen__chart_begin(struct pen_text *out, double height, const char *name);
void pen__chart_end(struct pen_text *out);

void pen__bars_print(const struct pen_report_bars *bars, struct pen_text *out);
void pen__scatter_print(const struct pen_report_scatter *scatter,
                        struct pen_text *out);
pen_status pen__curves_print(const struct pen_report_curves *curves,
                             struct pen_text *out);

#endif
