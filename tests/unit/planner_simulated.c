/*
 * A simulation gets the seconds of the prediction and the bytes of its
 * messages, and every second and byte once: what no simulated rank sends is in
 * the seconds.
 */
#include "support/layout.h"
#include "support/support.h"

#include "planner/collective.h"
#include "planner/simulated.h"

#include <string.h>

static void open_layout(struct layout *layout, uint32_t pp, uint32_t dp)
{
    layout_init(layout, "preset:llama-3.1-8b", "preset:dgx-h100*16", pp, 1);
    layout->plan->degrees[PEN_DEGREE_DP] = dp;
}

static void simulate(const struct layout *layout, struct pen_simulated *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_predict_simulated(&layout->setting, layout->plan, out, &why) !=
        PEN_OK)
        fail_msg("refused: %s", pen_text_string(&why));
    pen_text_release(&why);
}

static void stages_take_what_the_timer_takes(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    struct pen_costs costs;
    open_layout(&layout, 4, 2);
    layout_recompute(&layout, PEN_RECOMPUTE_FULL);
    simulate(&layout, &found);
    assert_int_equal(
        PEN_OK, pen_predict_costs(&layout.setting, layout.plan, &costs, NULL));
    assert_int_equal(4, found.num_stages);
    for (uint32_t i = 0; i < found.num_stages; i++) {
        const struct pen_simulated_stage *stage = &found.stages[i];
        const struct pen_cost *cost = &costs.items[i];
        expect_close(cost->forward_sec, stage->forward_sec, "F");
        expect_close(cost->input_sec, stage->input_sec, "I");
        expect_close(cost->weight_sec, stage->weight_sec, "W");
        assert_true(stage->update_sec > 0);
        assert_true(stage->update_sec <= cost->step_sec);
    }
    expect_close(costs.bytes, found.message_bytes, "bytes");
    assert_int_equal(4, found.schedule->shape.num_ranks);
    assert_true(pen_schedule_has_class(found.schedule, PEN_OP_CLASS_SYNC));
    assert_int_equal(2, found.weight_bytes);
    assert_int_equal(4, found.gradient_bytes);
    assert_true(found.is_blocking);
    assert_true(found.other_sec > 0);
    pen_costs_release(&costs);
    pen_simulated_release(&found);
    layout_release(&layout);
}

static uint64_t parameters_of(const struct pen_simulated *simulated)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < simulated->num_stages; i++)
        sum += simulated->stages[i].num_parameters;
    return sum;
}

static void replicas_sum_every_parameter_once(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    open_layout(&layout, 4, 2);
    simulate(&layout, &found);
    assert_int_equal(layout.model->num_parameters, parameters_of(&found));
    assert_false(found.is_sharded);
    pen_simulated_release(&found);
    layout.plan->sharding = PEN_SHARDING_ZERO1;
    simulate(&layout, &found);
    assert_int_equal(layout.model->num_parameters, parameters_of(&found));
    assert_true(found.is_sharded);
    pen_simulated_release(&found);
    layout_release(&layout);
}

/* Of context parallel devices, which are one simulated rank. */
static void sums_that_nobody_sends_are_in_the_seconds(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated alone;
    struct pen_simulated shared;
    struct pen_costs costs;
    open_layout(&layout, 2, 1);
    simulate(&layout, &alone);
    assert_int_equal(0, parameters_of(&alone));
    layout.plan->degrees[PEN_DEGREE_CP] = 2;
    simulate(&layout, &shared);
    assert_int_equal(
        PEN_OK, pen_predict_costs(&layout.setting, layout.plan, &costs, NULL));
    assert_int_equal(0, parameters_of(&shared));
    assert_true(costs.items[0].sync_sec > 0);
    expect_close(alone.stages[0].update_sec + costs.items[0].sync_sec,
                 shared.stages[0].update_sec, "sums in the update");
    pen_costs_release(&costs);
    pen_simulated_release(&alone);
    pen_simulated_release(&shared);
    layout_release(&layout);
}

/* Its messages stretch every micro-batch already. */
static void zero3_sends_nothing_at_the_end(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    open_layout(&layout, 1, 16);
    layout.plan->sharding = PEN_SHARDING_ZERO3;
    simulate(&layout, &found);
    assert_int_equal(0, parameters_of(&found));
    assert_false(found.is_sharded);
    assert_false(found.gathers_weights);
    assert_null(found.layer_parameters);
    pen_simulated_release(&found);
    layout_release(&layout);
}

static void owners_of_this_program_send_weights_and_get_sums(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    struct pen_costs costs;
    open_layout(&layout, 1, 4);
    layout.plan->sharding = PEN_SHARDING_ZERO3;
    layout.plan->num_microbatches = 1;
    layout.plan->target = layout.setting.target = PEN_TARGET_PENSTOCK;
    layout.setting.global_batch = 4;
    simulate(&layout, &found);
    assert_int_equal(
        PEN_OK, pen_predict_costs(&layout.setting, layout.plan, &costs, NULL));
    assert_true(found.is_sharded);
    assert_true(found.gathers_weights);
    assert_int_equal(sizeof(float), found.weight_bytes);
    assert_int_equal(layout.model->num_parameters, parameters_of(&found));
    uint64_t sum = 0;
    for (uint32_t i = 0; i < layout.model->num_layers; i++)
        sum += found.layer_parameters[i];
    assert_int_equal(layout.model->num_parameters, sum);
    assert_true(found.stages[0].forward_sec < costs.items[0].forward_sec);
    pen_costs_release(&costs);
    pen_simulated_release(&found);
    layout_release(&layout);
}

static void receivers_join_the_parts_of_a_message(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    struct pen_simulated whole;
    open_layout(&layout, 4, 2);
    simulate(&layout, &whole);
    layout.plan->degrees[PEN_DEGREE_TP] = 8;
    layout.plan->has_sequence_parallel = false;
    simulate(&layout, &found);
    assert_true(found.gather_sec > 0);
    assert_true(found.costs.latency_sec > found.gather_sec);
    expect_close(whole.message_bytes / 8, found.message_bytes, "a part");
    pen_simulated_release(&found);
    layout.plan->has_sequence_parallel = true;
    simulate(&layout, &found);
    expect_close(0, found.gather_sec, "each keeps its part");
    pen_simulated_release(&found);
    pen_simulated_release(&whole);
    layout_release(&layout);
}

static double seconds_of(const struct pen_pass_messages *sent,
                         const struct pen_cluster *cluster)
{
    const struct pen_device *device = &cluster->groups[0].device;
    double sec = 0;
    for (uint32_t i = 0; i < sent->count; i++)
        sec += sent->rounds[i].after_sec +
               pen_message_latency(cluster, device, 1) +
               (double)sent->rounds[i].part_bytes[0] /
                   pen_message_bandwidth(cluster, device, 1);
    return sec;
}

/* Two ranks, so that each has one partner. */
static void groups_of_this_program_send_what_is_in_the_seconds(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    struct pen_costs costs;
    open_layout(&layout, 4, 2);
    layout.plan->degrees[PEN_DEGREE_TP] = 2;
    layout.plan->target = layout.setting.target = PEN_TARGET_PENSTOCK;
    uint32_t num_layers = layout.model->num_layers;
    simulate(&layout, &found);
    assert_int_equal(
        PEN_OK, pen_predict_costs(&layout.setting, layout.plan, &costs, NULL));
    assert_int_equal(2, found.tensor_ranks);
    uint32_t sums = 0;
    double row_bytes = 2048.0 * layout.model->hidden * 2;
    for (uint32_t i = 0; i < num_layers; i++) {
        const struct pen_layer_messages *sent = &found.messages[i];
        bool is_loss = i + 1 == num_layers;
        sums += sent->forward.count + sent->input.count;
        assert_int_equal(PEN_WAY_DISTANCES, sent->forward.rounds[0].way);
        expect_close(is_loss ? 3 * 4 * 2048.0 : row_bytes,
                     (double)sent->forward.rounds[0].part_bytes[0], "forward");
        if (sent->input.count > 0)
            expect_close(row_bytes, (double)sent->input.rounds[0].part_bytes[0],
                         "backward");
    }
    assert_int_equal(4 * layout.model->num_blocks + 3, sums);
    expect_close(row_bytes, found.message_bytes, "whole, between stages");
    expect_close(0, found.gather_sec, "nothing is joined");
    const struct pen_layer_range *stage = &layout.plan->stages[1];
    double sec = 0;
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++)
        sec += seconds_of(&found.messages[i].forward, layout.cluster);
    assert_true(sec > 0);
    assert_true(found.stages[1].forward_sec < costs.items[1].forward_sec);
    assert_true(found.stages[1].forward_sec + sec >=
                costs.items[1].forward_sec * (1 - 1e-9));
    pen_costs_release(&costs);
    pen_simulated_release(&found);
    layout.plan->target = layout.setting.target = PEN_TARGET_MEGATRON;
    simulate(&layout, &found);
    assert_int_equal(1, found.tensor_ranks);
    assert_null(found.messages);
    pen_simulated_release(&found);
    layout_release(&layout);
}

/* 10 rounds of a block and 5 of both ends, the loss, and sums of norms. */
static void groups_that_cut_rows_send_their_parts(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    open_layout(&layout, 4, 2);
    layout.plan->degrees[PEN_DEGREE_TP] = 2;
    layout.plan->has_sequence_parallel = true;
    layout.plan->target = layout.setting.target = PEN_TARGET_PENSTOCK;
    simulate(&layout, &found);
    assert_int_equal(2, found.tensor_ranks);
    uint32_t rounds = 0, copies = 0;
    double part_bytes = 2048.0 * layout.model->hidden * 2 / 2;
    for (uint32_t i = 0; i < layout.model->num_layers; i++) {
        const struct pen_layer_messages *sent = &found.messages[i];
        rounds += sent->forward.count + sent->input.count + sent->weight.count;
        copies += sent->copies.count;
        assert_int_equal(PEN_WAY_BACK, sent->forward.rounds[0].way);
        expect_close(part_bytes, (double)sent->forward.rounds[0].part_bytes[0],
                     "a part");
        assert_true(sent->forward.rounds[0].after_sec > 0);
    }
    assert_int_equal(10 * layout.model->num_blocks + 5 + 1, rounds);
    assert_int_equal(2 * layout.model->num_blocks + 1, copies);
    expect_close(part_bytes, found.message_bytes, "between stages");
    pen_simulated_release(&found);
    layout_release(&layout);
}

static const char mixture[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 512, "
    "\"max_position_embeddings\": 2048, \"hidden_size\": 256, "
    "\"intermediate_size\": 512, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
    "\"num_local_experts\": 8, \"num_experts_per_tok\": 2}";

/* What all ranks of a group of four send, by the formula of running.md. */
static void expect_all_to_all(const struct pen_layer_messages *sent)
{
    enum { RANKS = 4, EXPERTS = 8, ROWS = 2 * 2048 };
    uint64_t bytes = 0;
    const struct pen_pass_messages *passes[] = {&sent->forward, &sent->input};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < passes[pass]->count; i++)
            for (uint32_t to = 0; to < RANKS * (RANKS - 1); to++) {
                const struct pen_message_round *round =
                    &passes[pass]->rounds[i];
                bytes += pen_round_share(round, to % RANKS, RANKS) *
                         (round->part_bytes[0] + round->part_bytes[1]);
            }
    assert_int_equal(3, sent->forward.count);
    assert_int_equal(5, sent->input.count);
    /* With counts, rows and gates once more. */
    assert_int_equal(2 * 4 * EXPERTS * (RANKS - 1) +
                         ROWS * (RANKS - 1) * (5 * 2 * 256 + 3 * 4),
                     bytes);
}

static void experts_are_summed_where_they_are(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_simulated found;
    layout_init(&layout, mixture, "preset:dgx-h100*2", 2, 1);
    layout.plan->degrees[PEN_DEGREE_DP] = 8;
    layout.plan->degrees[PEN_DEGREE_EP] = 4;
    layout.plan->target = layout.setting.target = PEN_TARGET_PENSTOCK;
    layout_recompute(&layout, PEN_RECOMPUTE_FULL);
    simulate(&layout, &found);
    assert_int_equal(4, found.expert_ranks);
    assert_int_equal(1, found.tensor_ranks);
    uint64_t experts = 0;
    for (uint32_t i = 0; i < layout.model->num_layers; i++) {
        const struct pen_layer_messages *sent = &found.messages[i];
        experts += pen_model_expert_parameters(layout.model, i);
        if (pen_model_layer_kind(layout.model, i) == PEN_LAYER_BLOCK)
            expect_all_to_all(sent);
        else
            assert_int_equal(0, sent->forward.count + sent->input.count);
    }
    assert_int_equal(experts / 4,
                     found.stages[0].num_experts + found.stages[1].num_experts);
    assert_int_equal(layout.model->num_parameters - experts,
                     parameters_of(&found));
    struct pen_costs costs;
    assert_int_equal(
        PEN_OK, pen_predict_costs(&layout.setting, layout.plan, &costs, NULL));
    assert_true(found.stages[0].forward_sec < costs.items[0].forward_sec);
    assert_true(found.stages[0].input_sec < costs.items[0].input_sec);
    pen_costs_release(&costs);
    pen_simulated_release(&found);
    layout_release(&layout);
}

static void expect_refusal(const struct layout *layout, const char *words)
{
    struct pen_simulated found;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        PEN_INVALID,
        pen_predict_simulated(&layout->setting, layout->plan, &found, &why));
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("'%s' is not in '%s'", words, pen_text_string(&why));
    pen_text_release(&why);
}

static void what_cannot_be_simulated_is_refused(void **state)
{
    (void)state;
    struct layout layout;
    open_layout(&layout, 4, 1000);
    expect_refusal(&layout, "4000 ranks");
    layout.plan->degrees[PEN_DEGREE_DP] = 2;
    assert_true(pen_plan_set(&layout.plan->schedule.name, "pipedream"));
    expect_refusal(&layout, "steps of pipedream overlap");
    layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_take_what_the_timer_takes),
        cmocka_unit_test(replicas_sum_every_parameter_once),
        cmocka_unit_test(sums_that_nobody_sends_are_in_the_seconds),
        cmocka_unit_test(zero3_sends_nothing_at_the_end),
        cmocka_unit_test(owners_of_this_program_send_weights_and_get_sums),
        cmocka_unit_test(receivers_join_the_parts_of_a_message),
        cmocka_unit_test(groups_of_this_program_send_what_is_in_the_seconds),
        cmocka_unit_test(groups_that_cut_rows_send_their_parts),
        cmocka_unit_test(experts_are_summed_where_they_are),
        cmocka_unit_test(what_cannot_be_simulated_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
