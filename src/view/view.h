#ifndef PEN_VIEW_VIEW_H
#define PEN_VIEW_VIEW_H

#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One step of a traced training (core/trace.h) compared with its prediction: as
 * a picture, as a Perfetto trace, and as tables that say where they differ and
 * why.
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
 * Prints the same drawing as the text of an SVG file. Where it would have more
 * than most_ops, only num_drawn replicas are in it, those that decided the
 * step; it is refused where one replica has more.
 */
pen_status pen_view_print_svg(const struct pen_view *view, uint64_t most_ops,
                              struct pen_text *out, uint32_t *num_drawn,
                              struct pen_text *why);

/* Some ranks of all, both ends included. */
struct pen_view_ranks {
    uint32_t first;
    uint32_t last;
};

/*
 * Draws (.svg, .png, .pdf) the ops of these ranks, a low row for each in the
 * order of their numbers, in which waiting has a colour of its own.
 */
pen_status pen_view_draw_ranks(const struct pen_view *view,
                               const struct pen_view_ranks *ranks,
                               const char *path, struct pen_text *why);

/*
 * Prints the tables; `width` is that of the page in letters, 0: no limit.
 * Unless with_all_ranks, only the ranks appear that are latest against their
 * prediction or, without one, wait most. PEN_NOMEM is the only failure.
 */
pen_status pen_view_print(const struct pen_view *view, size_t width,
                          bool with_all_ranks, struct pen_text *out);

/*
 * Returns the same facts of all ranks, in seconds; a figure without a
 * prediction is null. NULL when memory runs out; drop it with json_decref().
 */
json_t *pen_view_json(const struct pen_view *view);

#endif
