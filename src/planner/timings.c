#include "planner/timings.h"

#include <stdlib.h>

#define MAX_KEPT 64u
#define MAX_KEPT_OPS (4 * (uint64_t)PEN_TIMINGS_MOST_OPS)

/* A schedule and what it was made from. */
struct kept {
    const struct pen_generator *generator;
    struct pen_generator_args args;
    struct pen_schedule *schedule;
    struct pen_timer *timer;
};

struct pen_timings {
    struct kept items[MAX_KEPT];
    uint32_t count;
    uint32_t oldest;
    uint64_t num_ops;
    uint64_t num_made; /* schedules */
};

struct pen_timings *pen_timings_create(void)
{
    return calloc(1, sizeof(struct pen_timings));
}

static void release(struct kept *kept)
{
    pen_timer_free(kept->timer);
    pen_schedule_free(kept->schedule);
    *kept = (struct kept){.generator = NULL};
}

void pen_timings_free(struct pen_timings *timings)
{
    if (timings == NULL)
        return;
    for (uint32_t i = 0; i < timings->count; i++)
        release(&timings->items[i]);
    free(timings);
}

uint64_t pen_timings_made(const struct pen_timings *timings)
{
    return timings->num_made;
}

static bool is_same(const struct pen_generator_args *a,
                    const struct pen_generator_args *b)
{
    return a->ranks == b->ranks && a->microbatches == b->microbatches &&
           a->chunks == b->chunks && a->slices == b->slices &&
           a->batches == b->batches && a->warmup == b->warmup &&
           a->memory_limit == b->memory_limit &&
           a->has_memory == b->has_memory &&
           a->has_vertical_sync == b->has_vertical_sync;
}

static struct kept *find(struct pen_timings *timings,
                         const struct pen_generator *generator,
                         const struct pen_generator_args *args)
{
    if (timings == NULL || generator->uses_costs)
        return NULL;
    for (uint32_t i = 0; i < timings->count; i++)
        if (timings->items[i].generator == generator &&
            is_same(&timings->items[i].args, args))
            return &timings->items[i];
    return NULL;
}

static pen_status make(const struct pen_generator *generator,
                       const struct pen_generator_args *args, struct kept *out,
                       struct pen_text *why)
{
    *out = (struct kept){.generator = generator, .args = *args};
    out->args.costs = NULL;
    pen_status status =
        pen_generator_make(generator, args, &out->schedule, why);
    if (status == PEN_OK)
        status = pen_timer_create(out->schedule, 0, &out->timer, why);
    if (status != PEN_OK)
        release(out);
    return status;
}

/* Takes what was made, or lets it go when it is too large. */
static void keep(struct pen_timings *timings, struct kept *made)
{
    uint64_t num_ops = pen_schedule_count(made->schedule);
    if (timings == NULL || made->generator->uses_costs ||
        num_ops > PEN_TIMINGS_MOST_OPS) {
        release(made);
        return;
    }
    while (timings->count > 0 && timings->num_ops + num_ops > MAX_KEPT_OPS) {
        struct kept *last = &timings->items[--timings->count];
        timings->num_ops -= pen_schedule_count(last->schedule);
        release(last);
    }
    if (timings->count == MAX_KEPT) {
        struct kept *old = &timings->items[timings->oldest];
        timings->oldest = (timings->oldest + 1) % MAX_KEPT;
        timings->num_ops -= pen_schedule_count(old->schedule);
        release(old);
        *old = *made;
    } else
        timings->items[timings->count++] = *made;
    timings->num_ops += num_ops;
}

pen_status pen_timings_run(struct pen_timings *timings,
                           const struct pen_generator *generator,
                           const struct pen_generator_args *args,
                           struct pen_timing **out, struct pen_text *why)
{
    struct kept made = {.generator = NULL};
    struct kept *kept = find(timings, generator, args);
    pen_status status = PEN_OK;
    if (kept == NULL) {
        status = make(generator, args, &made, why);
        kept = &made;
        if (timings != NULL && status == PEN_OK)
            timings->num_made++;
    }
    if (status == PEN_OK)
        status = pen_timer_run(kept->timer, args->costs, false, out, why);
    if (kept == &made && made.generator != NULL)
        keep(timings, &made);
    return status;
}
