#ifndef PEN_VIEW_RANK_ROWS_H
#define PEN_VIEW_RANK_ROWS_H

#include "view/canvas.h"
#include "view/cells.h"

#include <stdint.h>

/* The common part of pictures with one low row per rank. */

#define PEN__ROWS_TYPE_SIZE 8.5
#define PEN__ROWS_MOST 2048u

/*
 * Returns the distance from one row to the next: the more rows, the lower they
 * are.
 */
double pen__rows_pitch(uint32_t count);

/* The size of type in such rows, and of how many rows one has room for it. */
double pen__rows_type_size(double pitch, uint32_t *every);

/*
 * Draws a time axis from 0 to end_sec under the rows, with ticks and its name.
 */
void pen__rows_axis(struct pen__canvas *canvas, const struct pen__box *plot,
                    double end_sec, const struct pen__unit *unit);

/*
 * Draws a sample of the legend with its words; returns the place of the next
 * one.
 */
double pen__rows_sample(struct pen__canvas *canvas, double x, double y,
                        struct pen__colour colour, const char *words);

#endif
