#ifndef PEN_VIEW_REPORT_H
#define PEN_VIEW_REPORT_H

#include "base/table.h"
#include "view/timeline.h"

/*
 * A self-contained report: one file of HTML with its pictures inside, which
 * loads nothing else, is well-formed XML too, follows the reader's choice of
 * light or dark and can be printed.
 *
 * It knows texts, tables, bars, points, curves and drawings, not what they are
 * about.
 * All is borrowed; texts are of any bytes.
 */

/* A number at the top: "step", "3.21 s", "typical error 10 %". */
struct pen_report_figure {
    const char *name;
    const char *value;
    const char *note; /* NULL: none, as all notes below */
};

/* A bar of parts in a row, from the left. */
struct pen_report_bar {
    const char *label;
    const char *note;    /* at its right */
    const double *parts; /* none is negative */
    double limit;        /* marked by a line; 0: there is none */
};

struct pen_report_bars {
    const char *unit;         /* of the axis */
    const char *const *names; /* of the parts */
    size_t num_parts;
    const struct pen_report_bar *bars;
    size_t num_bars;
    const char *limit_name;
};

struct pen_report_point {
    double x;
    double y;
    const char *label; /* a few letters; NULL: none */
    const char *note;  /* shown under the pointer */
};

struct pen_report_series {
    const char *name;
    const struct pen_report_point *points;
    size_t num_points;
    bool is_front; /* joined by steps: what no other point beats */
};

struct pen_report_scatter {
    const char *x_name;
    const char *y_name;
    const struct pen_report_series *series;
    size_t num_series;
};

/* Values along an axis, in order; those that are no number leave a gap. */
struct pen_report_curve {
    const char *name; /* in the legend; NULL: not there */
    const double *x;
    const double *y;
    size_t count;
    size_t colour;  /* curves of one colour belong together */
    bool has_marks; /* at its points, which are joined by dashes */
    bool is_loose;  /* marks alone, which nothing joins */
};

/*
 * Curves. Where a column of the chart has many points, the first, the least,
 * the greatest and the last are drawn, and the report says so.
 */
struct pen_report_curves {
    const char *x_name;
    const char *y_name;
    const struct pen_report_curve *curves;
    size_t num_curves;
    bool has_zero; /* the axis begins there */
};

/* Something to be noted, and a sentence on it. */
struct pen_report_remark {
    const char *label; /* the rank or place concerned; NULL: all */
    const char *head;
    const char *text;
};

/* A section: its parts in this order, without those that are NULL. */
struct pen_report_section {
    const char *title;
    const char *text;
    const struct pen_report_remark *remarks; /* num_remarks of them */
    size_t num_remarks;
    const struct pen_report_bars *bars;
    const struct pen_report_scatter *scatter;
    const struct pen_report_curves *curves; /* num_curves charts of them */
    size_t num_curves;
    const struct pen_picture_item *picture;
    const char *drawing; /* the text of an SVG file that Penstock wrote */
    const struct pen_table *table;
    bool marks_first; /* row of the table: it is the one that matters */
    bool is_folded;   /* the table, until the reader opens it */
    const char *fold; /* what to open is called; NULL: "in numbers" */
    const char *commands;
    const char *note; /* small print */
};

struct pen_report {
    const char *title;
    const char *subtitle;
    const struct pen_report_figure *figures;
    size_t num_figures;
    const struct pen_report_section *sections;
    size_t num_sections;
    const char *foot;
};

/*
 * Bars, and points of a series, beyond these are left out, and the report says
 * how many.
 */
#define PEN_REPORT_MAX_BARS 64u
#define PEN_REPORT_MAX_POINTS 200u

/*
 * Prints the report. On failure (no memory, a picture of too many ops) *out has
 * a part of it.
 */
pen_status pen_report_print(const struct pen_report *report,
                            struct pen_text *out, struct pen_text *why);

#endif
