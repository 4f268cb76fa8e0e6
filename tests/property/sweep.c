/*
 * Every generator at every size: what it makes passes the verifier, is timed,
 * reads back from its text, and costs what its formula says; what it refuses
 * it refuses with a sentence.
 *
 * p runs from 1 to 16 and over 24, 32 and 64, m from 1 to 4p, with all chunks
 * and slices up to 4 and two sets of times. Unless PEN_LONG is set, sizes above
 * p = 6 are a sample of one in SHARE (support/seed.h); all of them take a
 * minute or two in a release build.
 */
#include "support/support.h"

#include "base/random.h"
#include "support/seed.h"

#include <math.h>
#include <string.h>

enum { SHARE = 40 };

/* Equal times and unequal ones. */
static const struct pen_cost times[] = {{.forward_sec = 1,
                                         .input_sec = 1,
                                         .weight_sec = 1,
                                         .recompute_sec = -1,
                                         .pair_sec = -1,
                                         .memory = 1},
                                        {.forward_sec = 2,
                                         .input_sec = 3,
                                         .weight_sec = 1,
                                         .recompute_sec = -1,
                                         .pair_sec = -1,
                                         .memory = 1}};
#define NUM_TIMES (sizeof times / sizeof *times)

/* One combination: what the formulas are functions of. */
struct point {
    uint32_t p;
    uint32_t m; /* of the whole run */
    uint32_t v; /* chunks of the placement */
    uint32_t n; /* slices */
    double f, i, w;
};

static double whole(const struct point *at)
{
    return at->f + at->i + at->w;
}

static bool has_equal_times(const struct point *at)
{
    return at->f == at->i && at->i == at->w;
}

/* ---- the formulas; NAN where nothing is claimed ---- */

static double fill_and_drain(const struct point *at)
{
    return (at->p - 1) * whole(at);
}

static double fill_over_chunks(const struct point *at)
{
    return (at->p - 1) * whole(at) / at->v;
}

static double fill_over_slices(const struct point *at)
{
    return (at->p - 1) * whole(at) / at->n;
}

static double zb_h1_idle(const struct point *at)
{
    return at->m < at->p ? NAN : (at->p - 1) * (at->f + at->i - at->w);
}

static double zb_h2_span_idle(const struct point *at)
{
    if (at->m + 1 < 2 * at->p)
        return NAN;
    return (at->p - 1) * (at->f + at->i - 2 * at->w);
}

static double zb_v_span_idle(const struct point *at)
{
    bool is_claimed = at->p >= 2 && (at->p <= 6 || at->p == 8);
    return is_claimed && has_equal_times(at) && at->m + 1 >= 2 * at->p ? 0
                                                                       : NAN;
}

static double two_bp_idle(const struct point *at)
{
    return (at->p - 1) * (at->f + at->i);
}

static double chimera_idle(const struct point *at)
{
    double backward = at->i + at->w;
    return (at->p - 2) * (backward + (at->m / at->p - 1) * (backward - at->f));
}

static double dualpipe_idle(const struct point *at)
{
    double pair = whole(at);
    if (!has_equal_times(at))
        return NAN;
    return (at->p / 2 - 1) * (pair + at->i + at->w - 3 * at->w);
}

static double dualpipev_idle(const struct point *at)
{
    double pair = whole(at);
    if (!has_equal_times(at))
        return NAN;
    return (at->p - 1) * (pair + at->i + at->w - 3 * at->w) / 2;
}

static double all_microbatches(const struct point *at, uint32_t rank)
{
    (void)rank;
    return at->m;
}

static double pipeline_peak(const struct point *at, uint32_t rank)
{
    return fmin(at->p - rank, at->m);
}

static double interleaved_peak(const struct point *at, uint32_t rank)
{
    double chunks = (at->v - 1) * at->p + 2 * (at->p - rank - 1) + 1;
    return at->m == at->p ? at->m : fmin(chunks, at->v * at->m) / at->v;
}

static double zb_h1_peak(const struct point *at, uint32_t rank)
{
    (void)rank;
    return at->m < at->p ? NAN : (double)at->p;
}

static double zb_h2_peak(const struct point *at, uint32_t rank)
{
    (void)rank;
    return at->m + 1 < 2 * at->p ? NAN : 2.0 * at->p - 1;
}

static double zb_v_peak(const struct point *at, uint32_t rank)
{
    (void)rank;
    return at->m < 2 * at->p ? NAN : (double)at->p;
}

static double chimera_peak(const struct point *at, uint32_t rank)
{
    return at->p / 2 + 1 + fmin(rank, at->p - 1 - rank);
}

static double dualpipe_peak(const struct point *at, uint32_t rank)
{
    (void)rank;
    return at->p + 1;
}

static double dualpipev_peak(const struct point *at, uint32_t rank)
{
    (void)rank;
    return at->p + 0.5;
}

static double seq1f1b_peak(const struct point *at, uint32_t rank)
{
    return fmin((double)(at->p - rank - 1 + at->n) / at->n, at->m);
}

static double bpipe_most(const struct point *at)
{
    return ceil((at->p + 2) / 2.0);
}

static double twice_the_ranks(const struct point *at)
{
    return 2 * at->p;
}

static double v_half_most(const struct point *at)
{
    bool is_claimed = at->p >= 2 && (at->p <= 6 || at->p == 8);
    return is_claimed ? floor(at->p / 2.0) + 1 : NAN;
}

static double v_min_most(const struct point *at)
{
    bool is_claimed = at->p >= 2 && (at->p <= 6 || at->p == 8);
    return is_claimed ? floor((at->p + 4) / 3.0) : NAN;
}

/* What schedules promise beyond being correct. NULL: nothing of the kind. */
struct formula {
    const char *name;
    double (*idle)(const struct point *at);      /* makespan - m T */
    double (*span_idle)(const struct point *at); /* span - m T */
    double (*peak)(const struct point *at, uint32_t rank);
    double (*most)(const struct point *at); /* the largest peak is at most */
};

static const struct formula formulas[] = {
    {"gpipe", fill_and_drain, fill_and_drain, all_microbatches, NULL},
    {"1f1b", fill_and_drain, fill_and_drain, pipeline_peak, NULL},
    {"kfkb", fill_and_drain, NULL, NULL, NULL},
    {"interleaved", fill_over_chunks, NULL, interleaved_peak, NULL},
    {"breadth-first", fill_over_chunks, NULL, all_microbatches, NULL},
    {"zb-h1", zb_h1_idle, zb_h1_idle, zb_h1_peak, NULL},
    {"zb-h2", NULL, zb_h2_span_idle, zb_h2_peak, NULL},
    {"2bp", two_bp_idle, NULL, all_microbatches, NULL},
    {"chimera", chimera_idle, NULL, chimera_peak, NULL},
    {"dualpipe", dualpipe_idle, NULL, dualpipe_peak, NULL},
    {"dualpipev", dualpipev_idle, NULL, dualpipev_peak, NULL},
    {"seq1f1b", fill_over_slices, NULL, seq1f1b_peak, NULL},
    {"bpipe", fill_and_drain, NULL, NULL, bpipe_most},
    {"zb-auto", NULL, NULL, NULL, twice_the_ranks},
    {"zb-v", NULL, zb_v_span_idle, zb_v_peak, NULL},
    {"v-half", NULL, NULL, NULL, v_half_most},
    {"v-min", NULL, NULL, NULL, v_min_most},
    {"pipedream", fill_and_drain, NULL, pipeline_peak, NULL},
    {"pipedream-2bw", fill_and_drain, NULL, pipeline_peak, NULL},
    {"spectrain", fill_and_drain, NULL, pipeline_peak, NULL},
    {"pb", fill_and_drain, NULL, pipeline_peak, NULL},
};

static const struct formula *formula_of(const char *name)
{
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        if (strcmp(formulas[i].name, name) == 0)
            return &formulas[i];
    }
    return NULL;
}

/* ---- one combination ---- */

static void expect_equal(const struct pen_generator *generator,
                         const struct point *at, const char *what,
                         double expected, double found)
{
    if (isnan(expected))
        return;
    double scale = fmax(1, fabs(expected));
    if (fabs(expected - found) > 1e-9 * scale)
        fail_msg(
            "%s p=%u m=%u v=%u n=%u f=%g i=%g w=%g: %s is %.10g, not %.10g",
            generator->name, at->p, at->m, at->v, at->n, at->f, at->i, at->w,
            what, found, expected);
}

static void check_formulas(const struct pen_generator *generator,
                           const struct point *at,
                           const struct pen_timing *timing)
{
    double work = at->m * whole(at);
    const struct formula *formula = formula_of(generator->name);
    double largest = 0;
    for (uint32_t rank = 0; rank < at->p; rank++) {
        const struct pen_rank_time *time = &timing->ranks[rank];
        largest = fmax(largest, time->peak);
        if (formula != NULL && formula->peak != NULL)
            expect_equal(generator, at, "the peak of a rank",
                         formula->peak(at, rank), time->peak);
    }
    if (formula == NULL)
        return;
    if (formula->idle != NULL)
        expect_equal(generator, at, "makespan - mT", formula->idle(at),
                     timing->makespan_sec - work);
    if (formula->span_idle != NULL)
        expect_equal(generator, at, "span - mT", formula->span_idle(at),
                     timing->span_sec - work);
    if (formula->most != NULL && largest > formula->most(at) + 1e-9)
        fail_msg("%s p=%u m=%u: the peak is %g, more than %g", generator->name,
                 at->p, at->m, largest, formula->most(at));
}

static void check_text(const struct pen_schedule *schedule)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *again = NULL;
    pen_schedule_print(schedule, &text);
    if (pen_schedule_parse(text.bytes, text.length, &again, &why) != PEN_OK)
        fail_msg("%s does not read back: %s", schedule->name,
                 pen_text_string(&why));
    assert_true(pen_schedule_equal(schedule, again));
    pen_schedule_free(again);
    pen_text_release(&text);
    pen_text_release(&why);
}

struct tally {
    unsigned made;
    unsigned refused;
};

static void try_times(const struct pen_generator *generator,
                      struct pen_generator_args args,
                      const struct pen_cost *time, struct tally *tally)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_costs costs = unit_costs();
    costs.uniform = *time;
    args.costs = &costs;
    args.has_memory = true; /* limits count what the peaks count */
    pen_status status = pen_generator_make(generator, &args, &schedule, &why);
    if (status != PEN_OK) {
        if (why.length == 0)
            fail_msg("%s p=%u m=%u refuses without a word", generator->name,
                     args.ranks, args.microbatches);
        pen_text_release(&why);
        tally->refused++;
        return;
    }
    const struct pen_verify_options options = {.needs_sync = true};
    if (pen_schedule_verify(schedule, &options, NULL, &why) != PEN_OK)
        fail_msg("%s p=%u m=%u v=%u n=%u: %s", generator->name, args.ranks,
                 args.microbatches, args.chunks, args.slices,
                 pen_text_string(&why));
    check_text(schedule);
    struct pen_timing *timing = time_of(schedule, &costs);
    const struct point at = {.p = args.ranks,
                             .m = schedule->shape.num_microbatches,
                             .v = pen_shape_chunks(&schedule->shape),
                             .n = schedule->shape.num_slices,
                             .f = time->forward_sec,
                             .i = time->input_sec,
                             .w = time->weight_sec};
    check_formulas(generator, &at, timing);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    tally->made++;
}

static void try_size(const struct pen_generator *generator, uint32_t p,
                     uint32_t m, struct tally *tally)
{
    uint32_t most_chunks = generator->has_chunks ? 4 : 1;
    uint32_t most_slices = generator->has_slices ? 4 : 1;
    for (uint32_t v = 1; v <= most_chunks; v++) {
        for (uint32_t n = 1; n <= most_slices; n++) {
            struct pen_generator_args args = {
                .ranks = p,
                .microbatches = m,
                .chunks = generator->has_chunks ? v : 0,
                .slices = generator->has_slices ? n : 0};
            for (size_t i = 0; i < NUM_TIMES; i++)
                try_times(generator, args, &times[i], tally);
        }
    }
}

/*
 * Every m for few ranks; for many, those at which something changes. With a
 * sample, one size in SHARE.
 */
static void try_ranks(const struct pen_generator *generator, uint32_t p,
                      struct pen_random *sample, struct tally *tally)
{
    const uint32_t some[] = {1, p - 1, p, p + 1, 2 * p - 1, 2 * p, 4 * p};
    const uint32_t count = p <= 16 ? 4 * p : sizeof some / sizeof *some;
    for (uint32_t i = 0; i < count; i++) {
        if (sample == NULL || pen_random_below(sample, SHARE) == 0)
            try_size(generator, p, p <= 16 ? i + 1 : some[i], tally);
    }
}

static const uint32_t small[] = {1, 2, 3, 4, 5, 6};
static const uint32_t large[] = {7,  8,  9,  10, 11, 12, 13,
                                 14, 15, 16, 24, 32, 64};

/* The large sizes: all of them, or a sample for each seed. */
static void try_large(const struct pen_generator *generator,
                      const uint64_t *seeds, size_t num_seeds,
                      struct tally *tally)
{
    for (size_t s = 0; s < num_seeds; s++) {
        struct pen_random sample = {.state = seeds[s]};
        for (size_t k = 0; k < sizeof large / sizeof *large; k++)
            try_ranks(generator, large[k], is_long_run() ? NULL : &sample,
                      tally);
    }
}

static void every_generator_keeps_its_promises(void **state)
{
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = is_long_run() ? 1 : seeds_of("property/sweep", seeds);
    struct tally all = {0, 0};
    (void)state;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct tally tally = {0, 0};
        for (size_t k = 0; k < sizeof small / sizeof *small; k++)
            try_ranks(generator, small[k], NULL, &tally);
        try_large(generator, seeds, num_seeds, &tally);
        print_message("%-14s %5u made, %5u refused\n", generator->name,
                      tally.made, tally.refused);
        all.made += tally.made;
        all.refused += tally.refused;
    }
    print_message("%u combinations, of which %u made, %u refused\n",
                  all.made + all.refused, all.made, all.refused);
    if (is_long_run())
        assert_true(all.made > 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_generator_keeps_its_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
