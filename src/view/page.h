#ifndef PEN_VIEW_PAGE_H
#define PEN_VIEW_PAGE_H

#include "view/ink.h"

/*
 * Where things are on the page, in points. From the top: a panel per schedule
 * (a title, then its rows), the time axis, the legend, the small print.
 *
 *      1f1b   p=4 m=8   makespan 33 s ...          busy   peak
 *      rank 0 [F0][F1][F2][F3]        [ B0 ]...    73 %      4
 *             ___/^^^^^^^^^^^^^^^^^\_______ memory
 *      rank 1 ...
 *             |----|----|----|----|  time (s)
 *      [] forward  [] backward  ...
 */
struct pen__page {
    const struct pen__sheet *sheets; /* borrowed */
    size_t count;
    bool is_by_row; /* titles first, then each row of all sheets */
    struct pen__unit unit;
    double width;
    double height;
    double plot_x;
    double plot_width;
    double per_sec;   /* points */
    double per_level; /* points per A of the memory curves */
    double cell_height;
    double curve_height;
    double pitch;      /* from one row to the next */
    double label_size; /* of the type in cells */
    double zoom;       /* of all other type: wide pages are seen from afar */
    double title_height;
    double legend_y;
    double small_print_y;
};

#define PEN__MARGIN 14.0

void pen__page_init(struct pen__page *page, const struct pen__sheet *sheets,
                    size_t count, bool is_by_row);

double pen__page_x(const struct pen__page *page, double at_sec);

/*
 * Returns the top of the title of this panel, or of the axis when index is the
 * count.
 */
double pen__page_panel_y(const struct pen__page *page, size_t index);

/* Returns the top of the cells of this rank. */
double pen__page_row_y(const struct pen__page *page, size_t index,
                       uint32_t rank);

struct pen__box pen__page_box(const struct pen__page *page,
                              const struct pen__cell *cell, double row_y);

/* How cells are labelled, the same in all rows of a panel. */
struct pen__labels {
    bool has_letters;   /* F3, not 3 */
    const char *widest; /* borrowed */
};

/* Draws one rank of the schedule at `index`. */
void pen__row_draw(struct pen__canvas *canvas, const struct pen__page *page,
                   size_t index, uint32_t rank,
                   const struct pen__labels *labels);

/* Draws one schedule with its title, rows and critical path. */
void pen__panel_draw(struct pen__canvas *canvas, const struct pen__page *page,
                     size_t index);

/* Draws the legend, or only measures it; returns its height. */
double pen__legend(struct pen__canvas *canvas, const struct pen__page *page,
                   bool is_drawn);

/* Draws the whole page. */
void pen__page_draw(struct pen__canvas *canvas, const struct pen__page *page);

#endif
