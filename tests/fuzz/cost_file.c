/*
 * Whatever is accepted as a cost file means the same when read again, becomes
 * a table or is refused for every shape, and can time a schedule.
 */
#include "base/bug.h"
#include "schedule/generators.h"
#include "schedule/time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct pen_shape shapes[] = {
    {PEN_PLACEMENT_LINEAR, 1, 1, 1, 1, 1},
    {PEN_PLACEMENT_LINEAR, 4, 4, 1, 8, 1},
    {PEN_PLACEMENT_LOOP, 2, 6, 1, 4, 1},
    {PEN_PLACEMENT_V, 2, 4, 1, 4, 3},
    {PEN_PLACEMENT_BIDIRECTIONAL, 4, 8, 2, 4, 1},
    {PEN_PLACEMENT_CYCLIC, 3, 9, 3, 3, 1}};

static void check_table(const struct pen_costs *costs,
                        const struct pen_shape *shape)
{
    struct pen_cost_table table;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cost_table_init(&table, costs, shape, &why) == PEN_OK) {
        for (uint32_t stage = 0; stage < table.num_stages; stage++) {
            for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
                double seconds = pen_cost_of(&table, kind, stage);
                double memory = pen_memory_of(&table, kind, stage);
                PEN_BUG_UNLESS(isfinite(seconds) && seconds >= 0);
                PEN_BUG_UNLESS(isfinite(memory));
            }
            PEN_BUG_UNLESS(isfinite(table.transfer_sec[stage]));
        }
        pen_cost_table_release(&table);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
}

/* 1F1B on two ranks; costs for another size are refused. */
static void check_timing(const struct pen_costs *costs)
{
    const struct pen_generator_args args = {
        .ranks = 2, .microbatches = 4, .costs = costs};
    struct pen_schedule *schedule = NULL;
    struct pen_timing *timing = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    PEN_BUG_UNLESS(pen_generator_make(pen_generator_find("1f1b"), &args,
                                      &schedule, &why) == PEN_OK);
    if (pen_schedule_time(schedule, costs, NULL, &timing, &why) == PEN_OK)
        PEN_BUG_UNLESS(isfinite(timing->makespan_sec) &&
                       timing->makespan_sec >= 0);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

static void check_same(const struct pen_costs *a, const struct pen_costs *b)
{
    PEN_BUG_UNLESS(a->scope == b->scope && a->num_items == b->num_items &&
                   a->num_links == b->num_links);
    PEN_BUG_UNLESS(
        a->num_items == 0 ||
        memcmp(a->items, b->items, a->num_items * sizeof *a->items) == 0);
    for (uint32_t i = 0; i < a->num_links; i++)
        PEN_BUG_UNLESS(pen_link_compare(&a->links[i], &b->links[i]) == 0);
    PEN_BUG_UNLESS(a->uniform.forward_sec == b->uniform.forward_sec &&
                   a->latency_sec == b->latency_sec &&
                   a->memory.forward == b->memory.forward);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_costs costs;
    struct pen_costs again;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_costs_init(&costs);
    pen_costs_init(&again);
    const char *text = (const char *)data;
    pen_status status = pen_costs_parse_json(text, size, &costs, &why);
    if (status == PEN_OK) {
        PEN_BUG_UNLESS(pen_costs_parse_json(text, size, &again, &why) ==
                       PEN_OK);
        check_same(&costs, &again);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_table(&costs, &shapes[i]);
        check_timing(&costs);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_costs_release(&costs);
    pen_costs_release(&again);
    pen_text_release(&why);
    return 0;
}
