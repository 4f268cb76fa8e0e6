#ifndef PEN_TESTS_UNIT_VIEW_ITEM_H
#define PEN_TESTS_UNIT_VIEW_ITEM_H

/* A schedule that is timed and ready for a picture. */
#include "support/support.h"
#include "view/timeline.h"

#include <stdlib.h>
#include <string.h>

static inline struct pen_picture_item time_item(struct pen_schedule *schedule,
                                                const struct pen_costs *costs)
{
    const struct pen_time_options options = {.with_ops = true};
    struct pen_picture_item item = {.schedule = schedule};
    struct pen_timing *timing = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_schedule_time(schedule, costs, &options, &timing, &why) != PEN_OK)
        fail_msg("%s: %s", schedule->name, pen_text_string(&why));
    item.timing = timing;
    return item;
}

static inline struct pen_picture_item make_item(const char *name,
                                                uint32_t ranks,
                                                uint32_t microbatches,
                                                double latency_sec)
{
    struct pen_costs costs = unit_costs();
    costs.latency_sec = latency_sec;
    return time_item(make(name, ranks, microbatches, 0), &costs);
}

static inline void free_item(struct pen_picture_item *item)
{
    pen_timing_free((struct pen_timing *)item->timing);
    pen_schedule_free((struct pen_schedule *)item->schedule);
}

static inline uint32_t count_compute(const struct pen_schedule *schedule)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++)
            count += pen_op_is_compute(row->ops[i].kind);
    }
    return count;
}

/* Names that a user may give, and that no format may trip over. */
#define STRANGE_LABEL "a \"b\" \\ <c> & \x1b[31m \xff\xc0\x80 \xc3\xa9\n"
#define STRANGE_LABEL_CLEAN "a \"b\" \\ <c> & ?[31m ??? \xc3\xa9?"

#endif
