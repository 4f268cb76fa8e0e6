#ifndef PEN_CLI_FIGURES_H
#define PEN_CLI_FIGURES_H

#include "base/table.h"

/* Numbers as people write them. All are finite and not negative. */

/*
 * Adds "68,180", "7.21" or "0.0314": whole from 1000 on, else three or more
 * digits.
 */
void pen__add_figure(struct pen_text *out, double value);

/* Adds the same as a cell. */
void pen__add_figure_cell(struct pen_table *out, double value);

/* Adds "19.8 GB", "812 kB" or "7 B": decimal units, as links are sold. */
void pen__add_traffic(struct pen_text *out, double bytes);

/* Adds words from a million on, "1.05 million"; below, a figure. */
void pen__add_large(struct pen_text *out, double value);

#endif
