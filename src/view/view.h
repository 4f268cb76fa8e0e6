#ifndef PEN_VIEW_VIEW_H
#define PEN_VIEW_VIEW_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One step of a traced training (core/trace.h) beside its prediction: as a
 * picture, as a Perfetto trace, as tables that say where they differ and why.
 */
struct pen_view;

/*
 * Reads a folder; step NULL: the one with the median of the seconds. Without a
 * costs.json in the folder there is no prediction.
 *
 * On success *out is owned by the caller; free it with pen_view_free().
 */
pen_status pen_view_load(const char *folder, const uint32_t *step,
                         struct pen_view **out, struct pen_text *why);
void pen_view_free(struct pen_view *view);

/*
 * Writes what the ending of path asks for: .svg, .png or .pdf, where every row
 * of the schedule has its prediction and under it what its ranks did; or .json
 * with one process per rank.
 */
pen_status pen_view_draw(const struct pen_view *view, const char *path,
                         struct pen_text *why);

/*
 * The tables; `width` is that of the page in letters, 0: as it gets. Of many
 * ranks those are told that lie most behind their prediction or, without one,
 * wait most; unless with_all_ranks. PEN_NOMEM is the only failure.
 */
pen_status pen_view_print(const struct pen_view *view, size_t width,
                          bool with_all_ranks, struct pen_text *out);

#endif
