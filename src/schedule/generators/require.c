#include "schedule/generators/require.h"

/* "16 or 24 would work", or only the larger one when the smaller is 0. */
static void suggest_neighbours(uint32_t number, uint32_t unit,
                               struct pen_text *why)
{
    unsigned long long below = number / unit * (unsigned long long)unit;
    if (below > 0)
        pen_why(why, "%llu or ", below);
    pen_why(why, "%llu would work", below + unit);
}

pen_status pen__require_even_stages(const char *name,
                                    const struct pen_generator_args *args,
                                    struct pen_text *why)
{
    if (args->ranks % 2 == 0)
        return PEN_OK;
    pen_why(why, "%s needs an even number of stages: %u is odd; ", name,
            args->ranks);
    suggest_neighbours(args->ranks, 2, why);
    return PEN_INVALID;
}

pen_status pen__require_multiple(const char *name,
                                 const struct pen_generator_args *args,
                                 uint32_t unit, struct pen_text *why)
{
    if (args->microbatches % unit == 0)
        return PEN_OK;
    if (unit == 2)
        pen_why(why, "%s needs an even number of micro-batches: %u is odd; ",
                name, args->microbatches);
    else
        pen_why(why,
                "%s needs p to divide m: %u stages and %u micro-batches do "
                "not; ",
                name, args->ranks, args->microbatches);
    suggest_neighbours(args->microbatches, unit, why);
    return PEN_INVALID;
}

pen_status pen__require_microbatches(const char *name,
                                     const struct pen_generator_args *args,
                                     uint64_t least, struct pen_text *why)
{
    if (args->microbatches >= least)
        return PEN_OK;
    pen_why(why,
            "%s on %u stage%s needs at least %llu micro-batches, not %u; %llu "
            "would work",
            name, args->ranks, args->ranks == 1 ? "" : "s",
            (unsigned long long)least, args->microbatches,
            (unsigned long long)least);
    return PEN_INVALID;
}

pen_status pen__require_chunks(const char *name,
                               const struct pen_generator_args *args,
                               uint32_t chunks, struct pen_text *why)
{
    if (args->ranks > PEN_MAX_STAGES) {
        pen_why(why, "%s: %u ranks, at most %u are supported", name,
                args->ranks, PEN_MAX_STAGES);
        return PEN_INVALID;
    }
    uint32_t most = PEN_MAX_STAGES / args->ranks;
    if (chunks <= most)
        return PEN_OK;
    pen_why(why,
            "%s: %u chunks on %u ranks are more than %u stages; up to %u "
            "chunks would work",
            name, chunks, args->ranks, PEN_MAX_STAGES, most);
    return PEN_INVALID;
}
