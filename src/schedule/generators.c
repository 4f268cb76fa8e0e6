#include "schedule/generators.h"

#include <string.h>

/* In the order of the list that people read: by family, then by year. */
#define GENERATORS(X)                                                          \
    X(gpipe)                                                                   \
    X(1f1b)                                                                    \
    X(kfkb)                                                                    \
    X(interleaved)                                                             \
    X(breadth_first)                                                           \
    X(2bp)                                                                     \
    X(zb_h1)                                                                   \
    X(zb_h2)                                                                   \
    X(zb_auto)                                                                 \
    X(zb_v)                                                                    \
    X(v_half)                                                                  \
    X(v_min)                                                                   \
    X(chimera)                                                                 \
    X(hanayo)                                                                  \
    X(bitpipe)                                                                 \
    X(dualpipe)                                                                \
    X(dualpipev)                                                               \
    X(seq1f1b)                                                                 \
    X(local)                                                                   \
    X(bpipe)                                                                   \
    X(pipedream)                                                               \
    X(pipedream_2bw)                                                           \
    X(spectrain)                                                               \
    X(xpipe)                                                                   \
    X(pipemare)                                                                \
    X(timeprest)                                                               \
    X(wpipe)                                                                   \
    X(pb)                                                                      \
    X(cyclic)

#define DECLARE(name) extern const struct pen_generator pen__##name;
GENERATORS(DECLARE)
#undef DECLARE

const struct pen_generator *pen_generator_at(size_t index)
{
    static const struct pen_generator *const all[] = {
#define LIST(name) &pen__##name,
        GENERATORS(LIST)
#undef LIST
    };
    return index < sizeof all / sizeof *all ? all[index] : NULL;
}

const struct pen_generator *pen_generator_find(const char *name)
{
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        if (strcmp(pen_generator_at(i)->name, name) == 0)
            return pen_generator_at(i);
    }
    return NULL;
}

static pen_status recompute(struct pen_schedule **schedule,
                            struct pen_text *why)
{
    struct pen_schedule *made = NULL;
    pen_status status = pen_schedule_recompute(*schedule, &made, why);
    if (status == PEN_OK) {
        pen_schedule_free(*schedule);
        *schedule = made;
    }
    return status;
}

pen_status pen_generator_make(const struct pen_generator *generator,
                              const struct pen_generator_args *args,
                              struct pen_schedule **out, struct pen_text *why)
{
    if (args->ranks == 0 || args->microbatches == 0) {
        pen_why(why, "%s needs at least 1 stage and 1 micro-batch",
                generator->name);
        return PEN_INVALID;
    }
    struct pen_schedule *compute = NULL;
    pen_status status = generator->generate(args, &compute, why);
    if (status != PEN_OK)
        return status;
    compute->shape.is_local = generator->is_local;
    compute->rules.is_optimistic = generator->is_optimistic && args->ranks > 1;
    if (args->recomputes)
        status = recompute(&compute, why);
    if (status == PEN_OK)
        status = pen_schedule_lower(compute, out, why);
    pen_schedule_free(compute);
    return status;
}

/* Rule 5 is the memory limit, which users choose. */
static bool is_of_the_generator(const struct pen_finding *finding)
{
    return finding->rule != 0 && finding->rule != 5;
}

pen_status pen_generator_make_verified(const struct pen_generator *generator,
                                       const struct pen_generator_args *args,
                                       const struct pen_verify_options *options,
                                       struct pen_schedule **out,
                                       struct pen_text *why)
{
    struct pen_schedule *schedule = NULL;
    pen_status status = pen_generator_make(generator, args, &schedule, why);
    if (status != PEN_OK)
        return status;
    struct pen_finding finding = {.rule = 0};
    struct pen_text mistake = PEN_TEXT_EMPTY;
    status = pen_schedule_verify(schedule, options, &finding, &mistake);
    if (status == PEN_OK) {
        *out = schedule;
        schedule = NULL;
    } else if (is_of_the_generator(&finding)) {
        pen_why(why,
                "the generator of %s has a bug: its schedule of %u stages and "
                "%u micro-batches is wrong; report this command, or choose "
                "other numbers. %s",
                generator->name, args->ranks, args->microbatches,
                pen_text_string(&mistake));
    } else {
        pen_why(why, "%s", pen_text_string(&mistake));
    }
    pen_text_release(&mistake);
    pen_schedule_free(schedule);
    return status;
}
