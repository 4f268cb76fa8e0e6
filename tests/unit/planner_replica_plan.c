/* Replicas of a plan, and of blocks of a cluster, as methods see them. */
#include "support/setting.h"
#include "support/support.h"

#include "planner/replica_plan.h"

#include <math.h>
#include <string.h>

/* Four hosts of two devices each; the network is slow, nothing of it lost. */
static const char hosts[] =
    "name: hosts\n"
    "devices:\n"
    "  - kind: card\n"
    "    count: 8\n"
    "    flops: {f32: 10 TFLOP/s, bf16: 10 TFLOP/s}\n"
    "    memory: 64 GB\n"
    "    bandwidth: 1 TB/s\n"
    "    constants: {network_share: 1, network_sec: 0}\n"
    "links:\n"
    "  - {level: host, size: 2, bandwidth: 100 GB/s, latency: 1 us}\n"
    "  - {level: network, bandwidth: 100 Mbit/s, latency: 20 ms}\n";

#define GPT2_WEIGHTS 124439808.0

static struct pen_setting open_hosts(uint64_t batch)
{
    return make_setting_of("preset:gpt2", hosts, PEN_TARGET_PENSTOCK, batch,
                           256);
}

static void blocks_are_replicas(void **state)
{
    (void)state;
    struct pen_setting setting = open_hosts(16);
    struct pen_replica_plan replicas;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_replica_plan_of_blocks(&setting, 1, &replicas, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    const struct pen_replica_setting *it = &replicas.setting;
    const struct pen_plan_found *own = &replicas.own->found[0];
    assert_int_equal(4, it->num_replicas);
    assert_string_equal("network", replicas.link);
    expect_close(12.5e6, it->bytes_per_sec, "rate");
    expect_close(0.02, it->latency_sec, "latency");
    expect_close(16, it->samples, "samples");
    expect_close(own->prediction.step_sec, it->compute_sec, "step");
    assert_int_equal(1, own->plan->degrees[PEN_DEGREE_DP]);
    assert_true(pen_plan_num_ranks(own->plan) <= 2);
    assert_true(it->num_weights >= GPT2_WEIGHTS / 2 &&
                it->num_weights <= GPT2_WEIGHTS);
    pen_replica_plan_release(&replicas);
    release_setting(&setting);
}

static void uneven_blocks_are_refused(void **state)
{
    (void)state;
    struct pen_setting setting = open_hosts(15);
    struct pen_replica_plan replicas;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_replica_plan_of_blocks(&setting, 1, &replicas, &why));
    assert_non_null(strstr(pen_text_string(&why), "a batch of 15"));
    pen_text_release(&why);
    release_setting(&setting);
}

static void predict(const struct pen_setting *setting, uint32_t dp, uint32_t pp,
                    struct pen_plan_found *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    *out = (struct pen_plan_found){
        .candidate = {.degrees = {1, 1, 1, 1, 1, 1},
                      .micro_batch = 1,
                      .num_microbatches = 16 / dp,
                      .generator = pen_generator_find("1f1b")}};
    out->candidate.degrees[PEN_DEGREE_DP] = dp;
    out->candidate.degrees[PEN_DEGREE_PP] = pp;
    if (pen_candidate_predict(setting, &out->candidate, true, &out->plan,
                              &out->prediction, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

/* What the plan waits for its replicas is what the all-reduce waits here. */
static void replicas_of_a_plan_wait_as_planned(void **state)
{
    (void)state;
    struct pen_setting setting = open_hosts(16);
    struct pen_plan_found found;
    struct pen_replica_plan replicas;
    struct pen_sync_choice choice;
    struct pen_replica_time time;
    predict(&setting, 8, 1, &found);
    assert_int_equal(PEN_OK,
                     pen_replica_plan_init(&setting, &found, &replicas, NULL));
    assert_int_equal(8, replicas.setting.num_replicas);
    expect_close(GPT2_WEIGHTS, replicas.setting.num_weights, "weights");
    assert_int_equal(
        PEN_OK, pen_sync_choose("allreduce", 0, NULL, 0, NULL, &choice, NULL));
    pen_replica_predict(&replicas.setting, &choice, &time);
    expect_close(found.prediction.step_sec, time.step_sec, "step");
    assert_true(time.stall_sec > replicas.setting.compute_sec);
    pen_replica_plan_release(&replicas);
    pen_plan_free(found.plan);
    pen_prediction_release(&found.prediction);
    release_setting(&setting);
}

/* The rank with the embedding, which head and embedding share, has most. */
static void the_fullest_rank_of_a_pipeline_counts(void **state)
{
    (void)state;
    struct pen_setting setting = open_hosts(16);
    struct pen_plan_found found;
    struct pen_replica_plan replicas;
    predict(&setting, 2, 2, &found);
    assert_int_equal(PEN_OK,
                     pen_replica_plan_init(&setting, &found, &replicas, NULL));
    double count = 0;
    for (uint32_t i = 0; i < found.plan->stages[0].count; i++)
        count += (double)pen_model_layer_parameters(setting.model, i);
    expect_close(fmax(count, GPT2_WEIGHTS - count),
                 replicas.setting.num_weights, "weights");
    pen_replica_plan_release(&replicas);
    pen_plan_free(found.plan);
    pen_prediction_release(&found.prediction);
    release_setting(&setting);
}

static void one_replica_has_nobody(void **state)
{
    (void)state;
    struct pen_setting setting = open_hosts(16);
    struct pen_plan_found found;
    struct pen_replica_plan replicas;
    struct pen_text why = PEN_TEXT_EMPTY;
    predict(&setting, 1, 2, &found);
    assert_int_equal(PEN_INVALID,
                     pen_replica_plan_init(&setting, &found, &replicas, &why));
    assert_non_null(strstr(pen_text_string(&why), "one replica"));
    pen_text_release(&why);
    pen_plan_free(found.plan);
    pen_prediction_release(&found.prediction);
    release_setting(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_replicas),
        cmocka_unit_test(uneven_blocks_are_refused),
        cmocka_unit_test(replicas_of_a_plan_wait_as_planned),
        cmocka_unit_test(the_fullest_rank_of_a_pipeline_counts),
        cmocka_unit_test(one_replica_has_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
