/* The step of replicas on a slow link, worked out by hand. */
#include "support/support.h"

#include "planner/replica_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A million weights: 4 MB, of which each of 4 replicas sends 6. */
static const size_t shapes[1][2] = {{1000, 1000}};

/* 100 Mbit/s and 20 ms: 2 * 0.02 + 6 / 12.5 = 0.52 s. */
static const struct pen_replica_setting slow = {
    .shapes = shapes,
    .num_shapes = 1,
    .num_weights = 1e6,
    .num_replicas = 4,
    .bytes_per_sec = 12.5e6,
    .latency_sec = 0.02,
    .compute_sec = 0.1,
    .overlap_sec = 0.06,
    .last_share = 0.25,
    .samples = 8,
    .encode_bytes_per_sec = 2e9,
};

static struct pen_replica_time predict(const struct pen_replica_setting *at,
                                       const char *method, uint64_t interval,
                                       const char *compress)
{
    struct pen_sync_choice choice;
    struct pen_replica_time time;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_sync_choose(method, interval, NULL, 0, compress, &choice, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_replica_predict(at, &choice, &time);
    return time;
}

/* A processor has its core; an H100 half of what its memory gives. */
static void devices_encode_in_their_memory(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        bool is_processor;
    } cases[] = {{"preset:xeon-amx*1", true},
                 {"preset:h100-sxm*1", false},
                 {"preset:a100-80*1", false},
                 {"preset:rtx4090*1", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_cluster *cluster = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        if (pen_cluster_load(cases[i].kind, &cluster, &why) != PEN_OK)
            fail_msg("%s", pen_text_string(&why));
        const struct pen_device *device = &cluster->groups[0].device;
        double rate = pen_replica_device_rate(device);
        double most = device->memory_bytes_per_sec / 2;
        bool is_right = cases[i].is_processor ? rate == PEN_REPLICA_CORE_RATE
                                              : rate > most / 4 && rate <= most;
        if (!is_right)
            fail_msg("%s encodes %g bytes a second", cases[i].kind, rate);
        pen_cluster_free(cluster);
        pen_text_release(&why);
    }
}

/* ---- one choice ---- */

/* A quarter comes last: 0.13 s; of 0.39 s the backward hides 0.06. */
static void the_trainer_hides_behind_the_last_backward(void **state)
{
    (void)state;
    struct pen_replica_time time = predict(&slow, "allreduce", 0, NULL);
    expect_close(6e6, time.step_bytes, "bytes");
    expect_close(0.52, time.sync_sec, "on the link");
    expect_close(0.13 + 0.33, time.stall_sec, "stall");
    expect_close(0.56, time.step_sec, "step");
    expect_close(8 / 0.56, time.samples_per_sec, "samples");
}

static void a_long_backward_leaves_what_comes_last(void **state)
{
    (void)state;
    struct pen_replica_setting at = slow;
    at.compute_sec = 2;
    at.overlap_sec = 1.2;
    struct pen_replica_time time = predict(&at, "allreduce", 0, NULL);
    expect_close(0.13, time.stall_sec, "stall");
}

/* Long shares take turns: 6 * 0.02 + 6 / 12.5 = 0.6 s. */
static void an_interval_divides_what_is_waited(void **state)
{
    (void)state;
    struct pen_replica_time time = predict(&slow, "diloco", 100, NULL);
    expect_close(6e4, time.step_bytes, "bytes");
    expect_close(0.006, time.stall_sec, "stall");
    expect_close(0.106, time.step_sec, "step");
    expect_close(99, time.cost.staleness, "staleness");
}

/* Shares of a MB. */
static void long_messages_are_asked_for(void **state)
{
    (void)state;
    struct pen_replica_setting at = slow;
    at.eager_bytes = 1e4;
    at.bytes_per_sec = 1e12;
    struct pen_replica_time long_ones = predict(&at, "allreduce", 0, NULL);
    expect_close(3 * 2 * 0.02 + 6e-6, long_ones.sync_sec, "asked for");
    at.eager_bytes = 1e7;
    struct pen_replica_time short_ones = predict(&at, "allreduce", 0, NULL);
    expect_close(2 * 0.02 + 6e-6, short_ones.sync_sec, "unasked");
}

/* 2 * (1000 + 1000) floats, 24 kB sent; 4 MB at 2 GB/s are 2 ms. */
static void a_compressor_computes_while_nothing_hides_it(void **state)
{
    (void)state;
    struct pen_replica_time time =
        predict(&slow, "allreduce", 0, "random-block:2");
    expect_close(24e3, time.step_bytes, "bytes");
    expect_close(0.04 + 0.00192, time.stall_sec, "stall");
    expect_close(0.002, time.encode_sec, "encode");
    expect_close(0.1 + 0.04192 + 0.002, time.step_sec, "step");
}

/* 10 MB every `interval` steps, which `hidden` of them may hide. */
static void cost_of_ten(const struct pen_sync_case *of,
                        const struct pen_mean_cost *mean,
                        struct pen_sync_cost *out)
{
    (void)mean;
    out->bytes = 10e6;
    out->legs = 5;
    out->hidden = of->options[0];
}

static struct pen_replica_time predict_ten(uint32_t interval, double hidden)
{
    static const struct pen_sync_method method = {.name = "ten",
                                                  .cost = cost_of_ten};
    struct pen_sync_choice choice = {
        .method = &method, .interval = interval, .options.at = {hidden}};
    struct pen_replica_time time;
    pen_replica_predict(&slow, &choice, &time);
    return time;
}

/* 5 * 0.02 + 0.8 = 0.9 s, behind steps of 0.1 s. */
static void steps_hide_what_is_under_way(void **state)
{
    (void)state;
    expect_close(0.9 / 10, predict_ten(10, 0).stall_sec, "none");
    expect_close(0.6 / 10, predict_ten(10, 3).stall_sec, "three");
    expect_close(0, predict_ten(10, 9).stall_sec, "all");
}

/* Four steps compute 0.4 s, but the link needs 0.8 s for what they send. */
static void nothing_hides_more_than_the_link_carries(void **state)
{
    (void)state;
    expect_close(0.4 / 4, predict_ten(4, 100).stall_sec, "bytes");
    expect_close(0.4 / 4, predict_ten(4, INFINITY).stall_sec, "any");
    expect_close(0, predict_ten(8, INFINITY).stall_sec, "enough");
}

/* ---- comparisons ---- */

static struct pen_replica_comparison *
compare(const struct pen_replica_setting *at,
        const struct pen_replica_wish *wish)
{
    struct pen_replica_comparison *found = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_replica_compare(at, wish, &found, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return found;
}

static const struct pen_replica_row *
find(const struct pen_replica_comparison *all, const char *name)
{
    const struct pen_replica_row *found = NULL;
    struct pen_text text = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < all->count; i++) {
        pen_text_clear(&text);
        pen_replica_name(&all->rows[i].time, &text);
        if (strcmp(pen_text_string(&text), name) == 0)
            found = &all->rows[i];
    }
    pen_text_release(&text);
    if (found == NULL)
        fail_msg("no row %s", name);
    return found;
}

static void expect_verdict(const struct pen_replica_setting *at,
                           const struct pen_replica_wish *wish,
                           const char *name, enum pen_replica_verdict expected)
{
    struct pen_replica_comparison *all = compare(at, wish);
    assert_string_equal(pen_replica_verdict_keys[find(all, name)->verdict],
                        pen_replica_verdict_keys[expected]);
    pen_replica_comparison_free(all);
}

static void expect_advice(const struct pen_replica_setting *at,
                          const struct pen_replica_wish *wish, bool is_native,
                          const char *words)
{
    struct pen_replica_comparison *all = compare(at, wish);
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_replica_advise(all, &text);
    if ((all->advice == all->reference) != is_native ||
        strstr(pen_text_string(&text), words) == NULL)
        fail_msg("%s\nlacks: %s", pen_text_string(&text), words);
    pen_text_release(&text);
    pen_replica_comparison_free(all);
}

static const char *const two[] = {"allreduce", "diloco"};
static const struct pen_replica_wish wish = {
    .methods = two, .num_methods = 2, .compress = "random-block"};

/* 10 Gbit/s: 4.8 ms beside 100. Memory: less than a millisecond. */
static void fast_links_want_the_all_reduce(void **state)
{
    (void)state;
    const struct pen_replica_wish all = {.compress = "all"};
    struct pen_replica_setting fast = slow;
    fast.bytes_per_sec = 1.25e9;
    fast.latency_sec = 50e-6;
    expect_advice(&fast, &all, true, "advice: allreduce; nothing else");
    expect_verdict(&fast, &wish, "diloco", PEN_REPLICA_HIDDEN);
    expect_verdict(&fast, &wish, "allreduce+random-block", PEN_REPLICA_HIDDEN);
    fast.bytes_per_sec = 10e9;
    fast.latency_sec = 1e-6;
    expect_advice(&fast, &all, true, "advice: allreduce; nothing else");
    expect_advice(&fast, &all, true, "compression does not pay");
    expect_advice(&fast, &all, true, "rare synchronisation does not pay");
    expect_advice(&fast, &all, true, "not the time to reach a loss");
}

static void slow_links_do_not(void **state)
{
    (void)state;
    struct pen_replica_wish rare = wish;
    expect_verdict(&slow, &rare, "allreduce", PEN_REPLICA_REFERENCE);
    expect_verdict(&slow, &rare, "diloco", PEN_REPLICA_PAYS);
    expect_verdict(&slow, &rare, "allreduce+random-block", PEN_REPLICA_PAYS);
    expect_verdict(&slow, &rare, "diloco+random-block", PEN_REPLICA_HIDDEN);
    expect_advice(&slow, &rare, false,
                  "advice: diloco with an interval of 500");
    /* 0.52 / 0.1 = 5.2. */
    expect_advice(&slow, &rare, false,
                  "with an interval of 6 or more, waiting takes less");
    expect_advice(&slow, &rare, false, "with 52 or more, less than a tenth");
    expect_advice(&slow, &rare, false, "82.1 % of the step, would be waiting");
}

/* Parle is a bit quicker and less stale, and has a step of its own. */
static void who_keeps_the_optimizer_is_advised(void **state)
{
    (void)state;
    static const char *const both[] = {"parle", "diloco"};
    const struct pen_replica_wish one = {
        .methods = both, .num_methods = 1, .compress = "none"};
    const struct pen_replica_wish all = {
        .methods = both, .num_methods = 2, .compress = "none"};
    expect_advice(&slow, &one, false, "advice: parle with");
    expect_advice(&slow, &all, false, "advice: diloco with");
}

/* Of compressors that are as quick, the one that sends the most. */
static void the_mildest_compressor_is_advised(void **state)
{
    (void)state;
    const struct pen_replica_wish all = {
        .methods = two, .num_methods = 1, .compress = "all"};
    struct pen_replica_setting at = slow;
    at.compute_sec = 1;
    at.overlap_sec = 0.01;
    at.latency_sec = 0;
    at.compute_sec = 1;
    struct pen_replica_comparison *found = compare(&at, &all);
    const struct pen_replica_time *best = &found->rows[found->advice].time;
    double least = found->rows[0].time.step_sec;
    assert_true(found->advice != found->reference);
    assert_true(0.9 * best->step_sec <= least);
    for (size_t i = 0; i < found->count; i++)
        assert_true(0.9 * found->rows[i].time.step_sec > least ||
                    found->rows[i].time.step_bytes <= best->step_bytes);
    pen_replica_comparison_free(found);
}

static void what_does_not_pay_says_why(void **state)
{
    (void)state;
    struct pen_replica_setting at = slow;
    struct pen_replica_wish other = wish;
    at.encode_bytes_per_sec = 1e7;
    expect_verdict(&at, &wish, "allreduce+random-block", PEN_REPLICA_ENCODE);
    at = slow;
    at.latency_sec = 10;
    expect_verdict(&at, &wish, "allreduce+random-block", PEN_REPLICA_LATENCY);
    expect_advice(&at, &wish, false, "% of a synchronisation is latency");
    other.compress = "random-block:100000";
    expect_verdict(&slow, &other, "allreduce+random-block",
                   PEN_REPLICA_MORE_BYTES);
    at = slow;
    at.compute_sec = 0.4;
    at.overlap_sec = 0.3;
    other.interval = 2;
    expect_verdict(&at, &other, "diloco", PEN_REPLICA_INTERVAL);
}

static struct pen_replica_factors read_factors(const char *text)
{
    struct pen_replica_factors factors;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_replica_factors_parse(text, strlen(text), &factors, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return factors;
}

static void factors_turn_steps_into_losses(void **state)
{
    (void)state;
    struct pen_replica_factors factors =
        read_factors("# steps to a loss of 3.2\n"
                     "diloco\t8   # far apart\n\n"
                     "allreduce+random-block 1.5");
    struct pen_replica_wish known = wish;
    known.factors = &factors;
    assert_int_equal(2, factors.count);
    expect_close(8, factors.items[0].factor, "factor");
    /* 0.1 * 8 is more than 0.56. */
    expect_verdict(&slow, &known, "diloco", PEN_REPLICA_LOSS);
    expect_verdict(&slow, &known, "allreduce+random-block", PEN_REPLICA_PAYS);
    expect_advice(&slow, &known, false, "advice: allreduce+random-block");
    struct pen_replica_comparison *all = compare(&slow, &known);
    expect_close(0, find(all, "diloco+random-block")->time.factor, "unknown");
    assert_true(find(all, "diloco+random-block") == &all->rows[3]);
    pen_replica_comparison_free(all);
}

static void expect_refused(const char *text, const char *words)
{
    struct pen_replica_factors factors;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_replica_factors_parse(text, strlen(text),
                                                            &factors, &why));
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("%s lacks %s", pen_text_string(&why), words);
    pen_text_release(&why);
}

static void wrong_factors_are_refused(void **state)
{
    (void)state;
    expect_refused("diloco 1\nallreduce", "line 2: expected");
    expect_refused("diloco 1 2", "line 1: expected");
    expect_refused("diloco one", "line 1: expected");
    expect_refused("diloco -1", "line 1: expected");
    expect_refused("diloco nan", "line 1: expected");
    expect_refused("\n\nnobody 1", "line 3: there is no 'nobody'");
    expect_refused("diloco+nothing 1", "there is no 'diloco+nothing'");
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"nobody"};
    struct pen_replica_comparison *found = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_replica_wish wrong = {.methods = names, .num_methods = 1};
    assert_int_equal(PEN_INVALID,
                     pen_replica_compare(&slow, &wrong, &found, &why));
    assert_non_null(strstr(pen_text_string(&why), "nobody"));
    wrong = (struct pen_replica_wish){.compress = "nothing"};
    assert_int_equal(PEN_INVALID,
                     pen_replica_compare(&slow, &wrong, &found, &why));
    assert_null(found);
    pen_text_release(&why);
}

/* ---- shapes ---- */

static void expect_all_weights(const char *source, bool is_exact)
{
    struct pen_any_model model = {.decoder = NULL};
    struct pen_replica_shapes all;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_image_model_is(source)
                            ? pen_image_model_load(source, &model.images, &why)
                            : pen_model_load(source, &model.decoder, &why);
    if (status != PEN_OK || pen_replica_shapes_of(&model, &all, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    double count = (double)pen_any_model_num_parameters(&model);
    if (is_exact)
        expect_close(count, all.num_weights, source);
    else
        assert_true(fabs(all.num_weights / count - 1) < 1e-3);
    assert_true(all.last_share > 0 && all.last_share < 1);
    free(all.at);
    pen_any_model_release(&model);
}

static void shapes_are_all_parameters(void **state)
{
    (void)state;
    expect_all_weights("preset:gpt2", true);
    expect_all_weights("preset:llama-3.1-8b", true);
    expect_all_weights("preset:mnist-cnn", true);
    expect_all_weights("preset:deepseek-v3", false);
}

/* ---- failures ---- */

static const char *const failing_methods[] = {"allreduce", "diloco", "sgp"};

/* Eight replicas on a fast link, of which one fails each half hour. */
static struct pen_replica_comparison *compare_failing(uint32_t islands,
                                                      double restart_sec)
{
    struct pen_replica_setting at = slow;
    struct pen_replica_failures failures;
    at.num_replicas = 8;
    at.bytes_per_sec = 1e12;
    at.latency_sec = 0;
    pen_replica_failures_init(&at, 1800, islands, &failures);
    failures.job.restart_sec = restart_sec;
    const struct pen_replica_wish asked = {.methods = failing_methods,
                                           .num_methods = 3,
                                           .interval = 20,
                                           .compress = "none",
                                           .failures = &failures};
    return compare(&at, &asked);
}

/* The others, and those that run between islands where there are none, lose
 * what a job with checkpoints loses. */
static void one_job_has_the_goodput_of_checkpoints(void **state)
{
    (void)state;
    struct pen_replica_comparison *all = compare_failing(1, 600);
    double one = find(all, "allreduce")->time.goodput;
    assert_true(one < 1 - 600.0 / 1800 * 0.75 && one > 1 - 600.0 / 1800 * 1.1);
    for (size_t i = 0; i < all->count; i++) {
        assert_int_equal(all->rows[i].time.islands, 0);
        expect_close(one, all->rows[i].time.goodput, "one job");
    }
    pen_replica_comparison_free(all);
}

/*
 * A failure stops one of eight, for 600 s of 8 times 1800, and the others for
 * a few seconds.
 */
static void a_failure_stops_one_island(void **state)
{
    (void)state;
    struct pen_replica_comparison *all = compare_failing(8, 600);
    const struct pen_replica_time *islands = &find(all, "diloco")->time;
    const struct pen_replica_time *job = &find(all, "sgp")->time;
    assert_int_equal(islands->islands, 8);
    assert_int_equal(job->islands, 0);
    expect_close(7 * 4e6, islands->cost.bytes, "all of it, to each other one");
    double stopped = 600.0 / 1800 / 8;
    assert_true(islands->goodput < 1 - 0.8 * stopped);
    assert_true(islands->goodput > 1 - 1.6 * stopped);
    assert_ptr_equal(&all->rows[0].time, islands);
    assert_ptr_equal(&all->rows[all->advice].time, islands);
    assert_int_equal(all->rows[0].verdict, PEN_REPLICA_PAYS);
    expect_close(islands->step_sec / islands->goodput,
                 pen_replica_kept_sec(islands), "steps that stay");
    pen_replica_comparison_free(all);
}

static void islands_divide_the_replicas(void **state)
{
    (void)state;
    assert_int_equal(pen_replica_most_islands(4), 4);
    assert_int_equal(pen_replica_most_islands(16), 16);
    assert_int_equal(pen_replica_most_islands(24), 12);
    assert_int_equal(pen_replica_most_islands(17), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_encode_in_their_memory),
        cmocka_unit_test(the_trainer_hides_behind_the_last_backward),
        cmocka_unit_test(a_long_backward_leaves_what_comes_last),
        cmocka_unit_test(an_interval_divides_what_is_waited),
        cmocka_unit_test(a_compressor_computes_while_nothing_hides_it),
        cmocka_unit_test(steps_hide_what_is_under_way),
        cmocka_unit_test(nothing_hides_more_than_the_link_carries),
        cmocka_unit_test(fast_links_want_the_all_reduce),
        cmocka_unit_test(slow_links_do_not),
        cmocka_unit_test(long_messages_are_asked_for),
        cmocka_unit_test(who_keeps_the_optimizer_is_advised),
        cmocka_unit_test(the_mildest_compressor_is_advised),
        cmocka_unit_test(what_does_not_pay_says_why),
        cmocka_unit_test(factors_turn_steps_into_losses),
        cmocka_unit_test(wrong_factors_are_refused),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(shapes_are_all_parameters),
        cmocka_unit_test(one_job_has_the_goodput_of_checkpoints),
        cmocka_unit_test(a_failure_stops_one_island),
        cmocka_unit_test(islands_divide_the_replicas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
