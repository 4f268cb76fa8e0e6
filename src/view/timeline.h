#ifndef PEN_VIEW_TIMELINE_H
#define PEN_VIEW_TIMELINE_H

#include "schedule/time.h"

/*
 * Pictures of schedules: time to scale, one row per rank, several schedules
 * one over the other on one time axis. The same items become a drawing (SVG,
 * PNG, PDF), a Perfetto trace or a grid for the terminal.
 */
struct pen_picture_item {
    const struct pen_schedule *schedule;
    const struct pen_timing *timing; /* made with_ops */
    const char *label;               /* NULL: the name of the schedule */
    const char *note; /* said in small print, as the costs; NULL: nothing */
    const uint32_t *ranks; /* what its rows are called; NULL: 0, 1, 2... */
    const char *row_label; /* instead of "rank 3"; NULL: that */
    bool is_bare; /* no makespan and bubble: they are not those of the step */
};

/*
 * Writes what the ending of path asks for: .svg, .png, .pdf or .json (for
 * ui.perfetto.dev). Another ending is refused, as is a drawing of more ops
 * than anybody can see.
 */
pen_status pen_timeline_draw(const struct pen_picture_item *items, size_t count,
                             const char *path, struct pen_text *why);

/* Returns whether the path asks for a picture: .svg, .png or .pdf. */
bool pen_timeline_is_picture(const char *path);

/* Prints the same drawing as the text of an SVG file. */
pen_status pen_timeline_print_svg(const struct pen_picture_item *items,
                                  size_t count, struct pen_text *out,
                                  struct pen_text *why);

/*
 * Draws items of one schedule: under each row of the first item are those of
 * the others. Memory is not drawn; the path does not end in .json.
 */
pen_status pen_timeline_draw_rows(const struct pen_picture_item *items,
                                  size_t count, const char *path,
                                  struct pen_text *why);

/* Prints the same drawing as the text of an SVG file. */
pen_status pen_timeline_print_rows_svg(const struct pen_picture_item *items,
                                       size_t count, struct pen_text *out,
                                       struct pen_text *why);

/*
 * Prints the grid for a terminal that is `columns` wide. It is ASCII;
 * with_colour adds escape sequences, and then letters and colours have the same
 * meaning.
 */
void pen_timeline_print(const struct pen_picture_item *items, size_t count,
                        bool with_colour, unsigned columns,
                        struct pen_text *out);

/*
 * Prints Chrome's trace event format: one process per rank with tracks for
 * compute, activations and gradients and a counter for the memory; an arrow for
 * every message; one process for the critical path. PEN_NOMEM is the only
 * failure.
 */
pen_status pen_perfetto_print(const struct pen_picture_item *items,
                              size_t count, struct pen_text *out);

#endif
