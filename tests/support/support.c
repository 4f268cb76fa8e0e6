#include "support/support.h"

#include <math.h>
#include <string.h>

struct pen_costs unit_costs(void)
{
    struct pen_costs costs;
    pen_costs_init(&costs);
    return costs;
}

struct pen_schedule *make_with(const char *name,
                               const struct pen_generator_args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    const struct pen_generator *generator = pen_generator_find(name);
    if (generator == NULL)
        fail_msg("no generator is called %s", name);
    if (pen_generator_make(generator, args, &schedule, &why) != PEN_OK)
        fail_msg("%s p=%u m=%u v=%u: %s", name, args->ranks, args->microbatches,
                 args->chunks, pen_text_string(&why));
    pen_text_release(&why);
    return schedule;
}

struct pen_schedule *make(const char *name, uint32_t ranks,
                          uint32_t microbatches, uint32_t chunks)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {.ranks = ranks,
                                      .microbatches = microbatches,
                                      .chunks = chunks,
                                      .costs = &costs};
    return make_with(name, &args);
}

struct pen_timing *time_of(const struct pen_schedule *schedule,
                           const struct pen_costs *costs)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_timing *timing = NULL;
    if (pen_schedule_time(schedule, costs, NULL, &timing, &why) != PEN_OK)
        fail_msg("%s: %s", schedule->name, pen_text_string(&why));
    pen_text_release(&why);
    return timing;
}

struct pen_schedule *parse(const char *text)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    if (pen_schedule_parse(text, strlen(text), &schedule, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return schedule;
}

void compute_row(const struct pen_schedule *schedule, uint32_t rank,
                 struct pen_text *out)
{
    const struct pen_row *row = &schedule->rows[rank];
    for (uint32_t i = 0; i < row->count; i++) {
        if (!pen_op_is_compute(row->ops[i].kind))
            continue;
        pen_text_add_string(out, out->length > 0 ? " " : "");
        pen_op_print(&row->ops[i], out);
    }
}

void expect_close(double expected, double found, const char *what)
{
    double scale = fmax(fabs(expected), fabs(found));
    if (fabs(expected - found) > 1e-9 * fmax(scale, 1e-300))
        fail_msg("%s: expected %.12g, found %.12g", what, expected, found);
}
