/*
 * The generators that write their rows directly cost what their papers say:
 * idle seconds and peak activations by formula, as equalities, for p = 1 to 8,
 * several m and four sets of times. Their text reads back as the same schedule,
 * a window of 1 suffices where that is claimed, the thresholds are sharp, and a
 * refusal says what would work.
 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_STAGES 8u

/* Equal times, nearly equal ones, unequal ones, a W longer than F and I. */
static const struct {
    double f, i, w;
} times[] = {{1, 1, 1}, {1, 1.2, 0.8}, {2, 3, 1}, {1, 0.5, 2}};
#define NUM_TIMES (sizeof times / sizeof *times)

/* One schedule at one set of times: what the formulas are functions of. */
struct given {
    uint32_t p, m;
    uint32_t v; /* chunks, slices or size of a group */
    double f, i, w;
};

static double backward(const struct given *g)
{
    return g->i + g->w;
}

static double whole(const struct given *g)
{
    return g->f + g->i + g->w;
}

/* What a schedule promises. NULL: nothing of the kind. */
struct promise {
    const char *name;
    uint32_t window;    /* smallest that suffices; 0: the schedule's own */
    bool needs_short_w; /* formulas hold while tW is at most tF and tB */
    bool is_bound;      /* idle is a bound when the times are not equal */
    double (*idle)(const struct given *given); /* makespan - m T */
    double (*span_idle)(const struct given *given);
    double (*peak)(const struct given *given, uint32_t rank);
    double (*freed)(const struct given *given, uint32_t rank); /* at I */
};

static struct pen_costs costs_of(const struct given *given)
{
    struct pen_costs costs = unit_costs();
    costs.uniform.forward_sec = given->f;
    costs.uniform.input_sec = given->i;
    costs.uniform.weight_sec = given->w;
    return costs;
}

static struct pen_schedule *make_given(const struct promise *promise,
                                       const struct given *given)
{
    struct pen_costs costs = costs_of(given);
    struct pen_generator_args args = {.ranks = given->p,
                                      .microbatches = given->m,
                                      .chunks = given->v,
                                      .slices = given->v,
                                      .warmup = given->v,
                                      .costs = &costs};
    return make_with(promise->name, &args);
}

static void expect_verified(const struct pen_schedule *schedule,
                            uint32_t window)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_verify_options options = {.send_window = window};
    if (pen_schedule_verify(schedule, &options, NULL, &why) != PEN_OK)
        fail_msg("%s p=%u m=%u window %u: %s", schedule->name,
                 schedule->shape.num_ranks, schedule->shape.num_microbatches,
                 window, pen_text_string(&why));
    pen_text_release(&why);
}

static void expect_round_trip(const struct pen_schedule *schedule)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_schedule_print(schedule, &text);
    struct pen_schedule *again = parse(pen_text_string(&text));
    assert_true(pen_schedule_equal(schedule, again));
    pen_schedule_free(again);
    pen_text_release(&text);
}

static void say(char *out, size_t size, const struct promise *promise,
                const struct given *g, const char *what)
{
    snprintf(out, size, "%s p=%u m=%u v=%u f=%g i=%g w=%g: %s", promise->name,
             g->p, g->m, g->v, g->f, g->i, g->w, what);
}

static void expect_costs(const struct promise *promise,
                         const struct given *given,
                         const struct pen_schedule *schedule)
{
    char what[160];
    struct pen_costs costs = costs_of(given);
    struct pen_timing *timing = time_of(schedule, &costs);
    costs.memory = (struct pen_memory){.forward = 1, .input = -1};
    struct pen_timing *freeing = time_of(schedule, &costs);
    double work = given->m * whole(given);
    for (uint32_t rank = 0; rank < given->p; rank++) {
        const struct pen_rank_time *time = &timing->ranks[rank];
        say(what, sizeof what, promise, given, "busy");
        expect_close(work, time->busy_sec, what);
        say(what, sizeof what, promise, given, "peak");
        if (promise->peak != NULL)
            expect_close(promise->peak(given, rank), time->peak, what);
        say(what, sizeof what, promise, given, "peak freed at I");
        if (promise->freed != NULL)
            expect_close(promise->freed(given, rank), freeing->ranks[rank].peak,
                         what);
    }
    say(what, sizeof what, promise, given, "makespan");
    if (promise->idle != NULL) {
        double stated = work + promise->idle(given);
        bool is_below = timing->makespan_sec < stated;
        if (!promise->is_bound || given->f == given->w || !is_below)
            expect_close(stated, timing->makespan_sec, what);
    }
    say(what, sizeof what, promise, given, "span");
    if (promise->span_idle != NULL)
        expect_close(work + promise->span_idle(given), timing->span_sec, what);
    pen_timing_free(timing);
    pen_timing_free(freeing);
}

/* All promises at one p, m and v, for every set of times. */
static void expect_kept(const struct promise *promise, uint32_t p, uint32_t m,
                        uint32_t v)
{
    struct given given = {.p = p, .m = m, .v = v};
    for (size_t set = 0; set < NUM_TIMES; set++) {
        given.f = times[set].f;
        given.i = times[set].i;
        given.w = times[set].w;
        if (promise->needs_short_w && given.w > fmin(given.f, given.i))
            continue;
        struct pen_schedule *schedule = make_given(promise, &given);
        if (set == 0) {
            expect_verified(schedule, 0);
            expect_verified(schedule, promise->window);
            expect_round_trip(schedule);
        }
        expect_costs(promise, &given, schedule);
        pen_schedule_free(schedule);
    }
}

/* Formulas, named after their schedule. */

static double idle_of_1f1b(const struct given *g)
{
    return (g->p - 1) * whole(g);
}

static double idle_over_v(const struct given *g)
{
    return (g->p - 1) * whole(g) / g->v;
}

static double peak_all(const struct given *g, uint32_t rank)
{
    (void)rank;
    return g->m;
}

static double peak_of_1f1b(const struct given *g, uint32_t rank)
{
    return fmin(g->p - rank, g->m);
}

static double interleaved_peak(const struct given *g, uint32_t rank)
{
    double chunks = (g->v - 1) * g->p + 2 * (g->p - rank - 1) + 1;
    return g->m == g->p ? g->m : fmin(chunks, g->v * g->m) / g->v;
}

static void interleaved_idles_1_over_v(void **state)
{
    (void)state;
    const struct promise promise = {.name = "interleaved",
                                    .window = 1,
                                    .idle = idle_over_v,
                                    .peak = interleaved_peak};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t v = 1; v <= 4; v++) {
            for (uint32_t units = 1; units <= 4; units++)
                expect_kept(&promise, p, units * p, v);
        }
    }
}

static void breadth_first_idles_1_over_v(void **state)
{
    (void)state;
    struct promise promise = {
        .name = "breadth-first", .idle = idle_over_v, .peak = peak_all};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t m = p; m <= 3 * p + 1; m++) {
            promise.window = m / p;
            for (uint32_t v = 1; v <= 3; v++)
                expect_kept(&promise, p, m, v);
        }
    }
}

/* As published while tW is at most tF and tB, and beyond. */
static double zb_h1_idle(const struct given *g)
{
    return (g->p - 1) * fmax(g->f + g->i - g->w, fmax(g->f, g->i));
}

static double zb_h1_span_idle(const struct given *g)
{
    return (g->p - 1) * fmax(g->f + g->i - g->w, g->i);
}

static double zb_h1_peak(const struct given *g, uint32_t rank)
{
    (void)rank;
    return fmin(g->p, g->m);
}

static void zb_h1_fills_the_drain(void **state)
{
    (void)state;
    const struct promise promise = {.name = "zb-h1",
                                    .window = 1,
                                    .idle = zb_h1_idle,
                                    .span_idle = zb_h1_span_idle,
                                    .peak = zb_h1_peak,
                                    .freed = peak_of_1f1b};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t m = p; m <= 4 * p; m++)
            expect_kept(&promise, p, m, 1);
    }
}

static double zb_h2_span_idle(const struct given *g)
{
    return (g->p - 1) * (g->f + g->i - 2 * g->w);
}

static double zb_h2_peak(const struct given *g, uint32_t rank)
{
    (void)rank;
    return fmin(2 * g->p - 1, g->m);
}

static double zb_h2_freed(const struct given *g, uint32_t rank)
{
    return fmin(2 * (g->p - rank) - 1, g->m);
}

static void zb_h2_has_no_bubble_at_equal_times(void **state)
{
    (void)state;
    const struct promise promise = {.name = "zb-h2",
                                    .window = 1,
                                    .needs_short_w = true,
                                    .span_idle = zb_h2_span_idle,
                                    .peak = zb_h2_peak,
                                    .freed = zb_h2_freed};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t m = 2 * p - 1; m <= 4 * p; m++)
            expect_kept(&promise, p, m, 1);
    }
}

static double two_bp_idle(const struct given *g)
{
    return (g->p - 1) * (g->f + g->i);
}

static void two_bp_idles_without_w(void **state)
{
    (void)state;
    const struct promise promise = {.name = "2bp",
                                    .window = 1,
                                    .idle = two_bp_idle,
                                    .peak = peak_all,
                                    .freed = peak_of_1f1b};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t m = 1; m <= 3 * p; m++)
            expect_kept(&promise, p, m, 1);
    }
}

static double kfkb_peak(const struct given *g, uint32_t rank)
{
    return fmin(g->v * (g->p - rank), g->m);
}

static void kfkb_idles_as_1f1b(void **state)
{
    (void)state;
    struct promise promise = {
        .name = "kfkb", .idle = idle_of_1f1b, .peak = kfkb_peak};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t k = 1; k <= 4; k++) {
            promise.window = k;
            for (uint32_t m = 1; m <= 3 * p; m++)
                expect_kept(&promise, p, m, k);
        }
    }
}

static double seq1f1b_peak(const struct given *g, uint32_t rank)
{
    return fmin((double)(g->p - rank - 1 + g->v) / g->v, g->m);
}

static void seq1f1b_idles_1_over_n(void **state)
{
    (void)state;
    const struct promise promise = {.name = "seq1f1b",
                                    .window = 1,
                                    .idle = idle_over_v,
                                    .peak = seq1f1b_peak};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t n = 1; n <= 4; n++) {
            for (uint32_t m = 1; m <= 2 * p; m++)
                expect_kept(&promise, p, m, n);
        }
    }
}

static double chimera_idle(const struct given *g)
{
    double units = g->m / g->p;
    return (g->p - 2) * backward(g) +
           (units - 1) * (g->p - 2) * (backward(g) - g->f);
}

static double chimera_peak(const struct given *g, uint32_t rank)
{
    uint32_t mirror = g->p - 1 - rank;
    return g->p / 2 + 1 + (rank < mirror ? rank : mirror);
}

static void chimera_idles_p_minus_2_backwards(void **state)
{
    (void)state;
    const struct promise promise = {.name = "chimera",
                                    .window = 1,
                                    .idle = chimera_idle,
                                    .peak = chimera_peak};
    for (uint32_t p = 2; p <= MAX_STAGES; p += 2) {
        for (uint32_t units = 1; units <= 4; units++)
            expect_kept(&promise, p, units * p, 1);
    }
}

static double dualpipe_idle(const struct given *g)
{
    return (g->p / 2 - 1) * (whole(g) + backward(g) - 3 * g->w);
}

static double dualpipe_peak(const struct given *g, uint32_t rank)
{
    (void)rank;
    return g->p + 1;
}

static void dualpipe_idles_half_of_the_ranks(void **state)
{
    (void)state;
    const struct promise promise = {.name = "dualpipe",
                                    .window = 1,
                                    .needs_short_w = true,
                                    .is_bound = true,
                                    .idle = dualpipe_idle,
                                    .peak = dualpipe_peak};
    for (uint32_t p = 2; p <= MAX_STAGES; p += 2) {
        for (uint32_t m = 2 * p; m <= 4 * p; m += 2)
            expect_kept(&promise, p, m, 1);
    }
}

static double dualpipev_idle(const struct given *g)
{
    return (g->p - 1) * (whole(g) + backward(g) - 3 * g->w) / 2;
}

static double dualpipev_peak(const struct given *g, uint32_t rank)
{
    (void)rank;
    return (2 * g->p + 1) / 2.0;
}

static void dualpipev_idles_half_of_dualpipe(void **state)
{
    (void)state;
    const struct promise promise = {.name = "dualpipev",
                                    .window = 1,
                                    .needs_short_w = true,
                                    .is_bound = true,
                                    .idle = dualpipev_idle,
                                    .peak = dualpipev_peak};
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t m = 2 * p; m <= 4 * p; m++)
            expect_kept(&promise, p, m, 1);
    }
}

/* All ranks but the one beside the middle, whose partner moves nothing. */
static double bpipe_peak(const struct given *g, uint32_t rank)
{
    return g->p / 2 + (rank == g->p / 2 ? 0 : 1);
}

static void bpipe_balances_1f1b(void **state)
{
    (void)state;
    const struct promise promise = {
        .name = "bpipe", .window = 1, .idle = idle_of_1f1b, .peak = bpipe_peak};
    for (uint32_t p = 2; p <= 2 * MAX_STAGES; p += 2) {
        for (uint32_t m = 2 * p; m <= 3 * p; m += 3)
            expect_kept(&promise, p, m, 1);
    }
}

/* Makespan at unit times but for the pair, less the work of the busiest. */
static double overlapped_idle(const char *name, uint32_t p, uint32_t m,
                              double pair)
{
    struct pen_costs costs = unit_costs();
    costs.uniform.pair_sec = pair;
    struct pen_schedule *schedule = make(name, p, m, 0);
    struct pen_timing *timing = time_of(schedule, &costs);
    double idle = 0;
    for (uint32_t rank = 0; rank < p; rank++)
        idle = fmax(idle, timing->ranks[rank].idle_sec);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    return idle;
}

/* The ranks in the middle overlap most pairs; the formula is theirs. */
static void overlap_shortens_the_bubble_of_dualpipe(void **state)
{
    (void)state;
    for (double pair = 2; pair <= 3; pair += 0.5) {
        for (uint32_t p = 2; p <= MAX_STAGES; p += 2) {
            double round = pair + 2 - 3;
            expect_close((p / 2 - 1) * round,
                         overlapped_idle("dualpipe", p, 4 * p, pair),
                         "idle seconds of dualpipe");
            expect_close((p - 1) * round / 2,
                         overlapped_idle("dualpipev", p, 4 * p, pair),
                         "idle seconds of dualpipev");
        }
    }
}

static double span_at(const char *name, uint32_t p, uint32_t m)
{
    struct pen_costs costs = unit_costs();
    struct pen_schedule *schedule = make(name, p, m, 0);
    struct pen_timing *timing = time_of(schedule, &costs);
    double span = timing->span_sec;
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    return span;
}

static void zero_bubble_thresholds_are_sharp(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= MAX_STAGES; p++) {
        double work = 3.0 * (p - 1);
        assert_true(span_at("zb-h1", p, p - 1) > work + (p - 1));
        work = 3.0 * (2 * p - 2);
        assert_true(span_at("zb-h2", p, 2 * p - 2) > work);
    }
}

static void zero_bubble_is_legal_for_few_microbatches(void **state)
{
    (void)state;
    const struct promise h1 = {.name = "zb-h1",
                               .window = 1,
                               .peak = zb_h1_peak,
                               .freed = peak_of_1f1b};
    const struct promise h2 = {
        .name = "zb-h2", .window = 1, .peak = zb_h2_peak, .freed = zb_h2_freed};
    for (uint32_t p = 2; p <= MAX_STAGES; p++) {
        for (uint32_t m = 1; m < p; m++)
            expect_kept(&h1, p, m, 1);
        for (uint32_t m = 1; m < 2 * p - 1; m++)
            expect_kept(&h2, p, m, 1);
    }
}

/* V4 is broken with this window, and with no larger one. */
static void expect_deadlock_up_to(const struct pen_schedule *schedule,
                                  uint32_t window)
{
    struct pen_verify_options options = {.send_window = window};
    struct pen_finding finding = {0};
    assert_int_equal(PEN_INVALID,
                     pen_schedule_verify(schedule, &options, &finding, NULL));
    assert_int_equal(4, finding.rule);
    expect_verified(schedule, window + 1);
}

static void breadth_first_needs_a_window(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= MAX_STAGES; p++) {
        for (uint32_t m = 2 * p; m <= 3 * p + 1; m++) {
            struct pen_schedule *schedule = make("breadth-first", p, m, 2);
            expect_deadlock_up_to(schedule, m / p - 1);
            pen_schedule_free(schedule);
        }
    }
}

/* Its own window is the smallest that does not lengthen it. */
static void breadth_first_asks_for_no_larger_window(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    struct pen_schedule *schedule = make("breadth-first", 4, 16, 2);
    assert_int_equal(12, pen_schedule_window(schedule));
    struct pen_time_options options = {.send_window = 11};
    struct pen_timing *timing = NULL;
    assert_int_equal(
        PEN_OK, pen_schedule_time(schedule, &costs, &options, &timing, NULL));
    expect_close(54, timing->makespan_sec, "makespan with a window of 11");
    pen_timing_free(timing);
    timing = time_of(schedule, &costs);
    expect_close(52.5, timing->makespan_sec, "makespan with its own window");
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

static void kfkb_needs_a_window_of_k(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (uint32_t k = 2; k <= 5; k++) {
        for (uint32_t p = 2; p <= MAX_STAGES; p++) {
            struct pen_generator_args args = {.ranks = p,
                                              .microbatches = 3 * k,
                                              .warmup = k,
                                              .costs = &costs};
            struct pen_schedule *schedule = make_with("kfkb", &args);
            expect_deadlock_up_to(schedule, k - 1);
            pen_schedule_free(schedule);
        }
    }
}

static void kfkb_with_k_1_is_1f1b(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (uint32_t p = 1; p <= MAX_STAGES; p++) {
        for (uint32_t m = 1; m <= 2 * p; m++) {
            struct pen_generator_args args = {
                .ranks = p, .microbatches = m, .warmup = 1, .costs = &costs};
            struct pen_schedule *found = make_with("kfkb", &args);
            struct pen_schedule *expected = make("1f1b", p, m, 0);
            strcpy(found->name, expected->name);
            assert_true(pen_schedule_equal(expected, found));
            pen_schedule_free(found);
            pen_schedule_free(expected);
        }
    }
}

/* One chunk is legal, and not 1F1B: the same time, a longer warm-up. */
static void interleaved_with_1_chunk_keeps_its_warmup(void **state)
{
    (void)state;
    struct pen_text row = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = make("interleaved", 2, 4, 1);
    compute_row(schedule, 0, &row);
    assert_string_equal("0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3",
                        pen_text_string(&row));
    pen_text_release(&row);
    pen_schedule_free(schedule);
}

/* A number has 16 bits; behind the last one comes 1, never 0. */
static void groups_of_a_long_dualpipe_wrap(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("dualpipe", 2, 65600, 0);
    const struct pen_row *row = &schedule->rows[0];
    uint32_t pairs = 0;
    uint16_t last = 0;
    for (uint32_t i = 0; i + 1 < row->count; i++) {
        uint16_t group = row->ops[i].group;
        if (group == 0 || group != row->ops[i + 1].group)
            continue;
        assert_int_equal(last == UINT16_MAX ? 1 : last + 1, group);
        last = group;
        pairs++;
    }
    assert_true(pairs > UINT16_MAX);
    expect_verified(schedule, 1);
    pen_schedule_free(schedule);
}

/* The planner leaves out what these say, and asks no generator. */
static void flags_are_of_what_is_refused(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (size_t i = 0; pen_generator_at(i) != NULL; i++)
        for (uint32_t p = 2; p <= MAX_STAGES; p++)
            for (uint32_t m = 1; m <= 3 * MAX_STAGES; m++) {
                const struct pen_generator *generator = pen_generator_at(i);
                if ((!generator->divides || m % p == 0) &&
                    m >= generator->least_rounds * p)
                    continue;
                const struct pen_generator_args args = {
                    .ranks = p, .microbatches = m, .costs = &costs};
                struct pen_schedule *schedule = NULL;
                if (pen_generator_make(generator, &args, &schedule, NULL) !=
                    PEN_INVALID)
                    fail_msg("%s makes %u micro-batches on %u ranks",
                             generator->name, m, p);
            }
}

static void refusals_say_what_would_work(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t p, m, v;
        const char *why;
    } cases[] = {
        {"interleaved", 8, 20, 2,
         "interleaved needs p to divide m: 8 stages and 20 micro-batches do "
         "not; 16 or 24 would work"},
        {"interleaved", 8, 5, 2,
         "interleaved needs p to divide m: 8 stages and 5 micro-batches do "
         "not; 8 would work"},
        {"interleaved", 4, 8, (1u << 30) + 1,
         "interleaved: 1073741825 chunks on 4 ranks are more than 65535 "
         "stages; up to 16383 chunks would work"},
        {"breadth-first", 4, 3, 2,
         "breadth-first on 4 stages needs at least 4 micro-batches, not 3; 4 "
         "would work"},
        {"chimera", 1, 4, 0,
         "chimera needs an even number of stages: 1 is odd; 2 would work"},
        {"chimera", 4, 6, 0,
         "chimera needs p to divide m: 4 stages and 6 micro-batches do not; 4 "
         "or 8 would work"},
        {"dualpipe", 5, 20, 0,
         "dualpipe needs an even number of stages: 5 is odd; 4 or 6 would "
         "work"},
        {"dualpipe", 4, 6, 0,
         "dualpipe on 4 stages needs at least 8 micro-batches, not 6; 8 would "
         "work"},
        {"dualpipe", 4, 9, 0,
         "dualpipe needs an even number of micro-batches: 9 is odd; 8 or 10 "
         "would work"},
        {"dualpipev", 1, 1, 0,
         "dualpipev on 1 stage needs at least 2 micro-batches, not 1; 2 would "
         "work"},
        {"bpipe", 7, 8, 0,
         "bpipe needs an even number of stages: 7 is odd; 6 or 8 would work"},
    };
    struct pen_costs costs = unit_costs();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_generator_args args = {.ranks = cases[i].p,
                                          .microbatches = cases[i].m,
                                          .chunks = cases[i].v,
                                          .costs = &costs};
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_schedule *schedule = NULL;
        const struct pen_generator *generator =
            pen_generator_find(cases[i].name);
        assert_int_equal(PEN_INVALID,
                         pen_generator_make(generator, &args, &schedule, &why));
        assert_string_equal(cases[i].why, pen_text_string(&why));
        assert_null(schedule);
        pen_text_release(&why);
    }
}

/* A generator that forgets the weight gradients of the last stage. */
static pen_status forget_weights(const struct pen_generator_args *args,
                                 struct pen_schedule **out,
                                 struct pen_text *why)
{
    pen_status status = pen_generator_find("zb-h1")->generate(args, out, why);
    struct pen_row *row = &(*out)->rows[args->ranks - 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < row->count; i++)
        if (row->ops[i].kind != PEN_OP_BACKWARD_WEIGHT)
            row->ops[count++] = row->ops[i];
    row->count = count;
    return status;
}

static void a_generator_with_a_bug_is_refused(void **state)
{
    (void)state;
    struct pen_generator broken = *pen_generator_find("zb-h1");
    broken.generate = forget_weights;
    const struct pen_costs costs = unit_costs();
    const struct pen_generator_args args = {
        .ranks = 3, .microbatches = 5, .costs = &costs};
    const struct pen_verify_options options = {.costs = &costs};
    struct pen_schedule *schedule = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        pen_generator_make_verified(&broken, &args, &options, &schedule, &why),
        PEN_INVALID);
    assert_null(schedule);
    const char *words = pen_text_string(&why);
    const char *start = "the generator of zb-h1 has a bug: its schedule of 3 "
                        "stages and 5 micro-batches is wrong; report this "
                        "command, or choose other numbers. V1: rank 2, ";
    if (strncmp(words, start, strlen(start)) != 0)
        fail_msg("'%s' does not begin with '%s'", words, start);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved_idles_1_over_v),
        cmocka_unit_test(breadth_first_idles_1_over_v),
        cmocka_unit_test(zb_h1_fills_the_drain),
        cmocka_unit_test(zb_h2_has_no_bubble_at_equal_times),
        cmocka_unit_test(two_bp_idles_without_w),
        cmocka_unit_test(kfkb_idles_as_1f1b),
        cmocka_unit_test(seq1f1b_idles_1_over_n),
        cmocka_unit_test(chimera_idles_p_minus_2_backwards),
        cmocka_unit_test(dualpipe_idles_half_of_the_ranks),
        cmocka_unit_test(dualpipev_idles_half_of_dualpipe),
        cmocka_unit_test(bpipe_balances_1f1b),
        cmocka_unit_test(overlap_shortens_the_bubble_of_dualpipe),
        cmocka_unit_test(zero_bubble_thresholds_are_sharp),
        cmocka_unit_test(zero_bubble_is_legal_for_few_microbatches),
        cmocka_unit_test(breadth_first_needs_a_window),
        cmocka_unit_test(breadth_first_asks_for_no_larger_window),
        cmocka_unit_test(kfkb_needs_a_window_of_k),
        cmocka_unit_test(kfkb_with_k_1_is_1f1b),
        cmocka_unit_test(interleaved_with_1_chunk_keeps_its_warmup),
        cmocka_unit_test(groups_of_a_long_dualpipe_wrap),
        cmocka_unit_test(flags_are_of_what_is_refused),
        cmocka_unit_test(refusals_say_what_would_work),
        cmocka_unit_test(a_generator_with_a_bug_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
