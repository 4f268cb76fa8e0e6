#ifndef PEN_SCHEDULE_TORCH_CSV_H
#define PEN_SCHEDULE_TORCH_CSV_H

#include "schedule/schedule.h"

/*
 * PyTorch's compute-only schedule file: one row per rank, cells such as 0F3,
 * an empty cell is a bubble (dropped on reading, never written), an overlapped
 * pair is (0F3;7B1)OVERLAP_F_B. It knows stages on a loop or a V, one copy of
 * the model, and no recomputation, moves, slices or versions: what it cannot
 * say is refused with the first op that is in the way.
 *
 * A read schedule is called "imported", has compute ops only and the placement
 * that its rows show: linear, loop or v. Sends, receives, SYNC and STEP are not
 * written, PyTorch adds its own.
 */

/*
 * Returns whether the path ends in .csv, which distinguishes it from the text
 * form.
 */
bool pen_torch_csv_is_path(const char *path);

pen_status pen_torch_csv_parse(const char *text, size_t length,
                               struct pen_schedule **out, struct pen_text *why);
pen_status pen_torch_csv_print(const struct pen_schedule *schedule,
                               struct pen_text *out, struct pen_text *why);

/*
 * Returns PyTorch's class that places the stages as this schedule does, or NULL
 * when there is none. The program that builds the stages (torchtitan) goes by
 * this name, not by the rows.
 */
const char *pen_torch_csv_class(const struct pen_schedule *schedule);

#endif
