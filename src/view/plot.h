#ifndef PEN_VIEW_PLOT_H
#define PEN_VIEW_PLOT_H

#include "core/run_log.h"

/*
 * Curves of trainings: the loss, with marks where it was validated, over the
 * speed, of one run or several. The same runs become a drawing (SVG, PNG, PDF)
 * or a plot for the terminal.
 */
struct pen_plot_item {
    const struct pen_run *run;
    const char *label; /* in the legend; any bytes */
};

/* The quantity on the x axis. */
enum pen_plot_x { PEN_PLOT_STEP, PEN_PLOT_TOKENS, PEN_PLOT_TIME };

/* The last is NULL. */
extern const char *const pen_plot_x_names[];

struct pen_plot_options {
    enum pen_plot_x x;
    uint32_t smooth;   /* lines are means over this many steps; 0, 1: none */
    bool has_log_loss; /* the axis of the loss is logarithmic */
    const char *title; /* NULL: what was trained */
};

/*
 * Writes what the ending of path asks for: .svg, .png or .pdf. Another ending
 * is refused, as are runs that have no step yet.
 */
pen_status pen_plot_draw(const struct pen_plot_item *items, size_t count,
                         const struct pen_plot_options *options,
                         const char *path, struct pen_text *why);

/*
 * Prints a plot for a terminal that is `columns` wide: UTF-8, braille dots. It
 * has escape sequences only with_colour; otherwise letters mark the runs.
 */
pen_status pen_plot_print(const struct pen_plot_item *items, size_t count,
                          const struct pen_plot_options *options,
                          bool with_colour, unsigned columns,
                          struct pen_text *out, struct pen_text *why);

#endif
