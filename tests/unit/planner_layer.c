/*
 * A layer keeps what the formulas of Korthikanti et al. (MLSys 2023) say, has
 * the parameters of its rank, and its passes take what their parts take.
 */
#include "support/layout.h"
#include "support/support.h"

#include <math.h>

/* The 22 B model of the paper: s 2048, b 4, h 6144, a 64. */
static const char gpt_22b[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 6144, \"n_layer\": 48, "
    "\"n_head\": 64, \"vocab_size\": 51200, \"n_positions\": 2048}";

#define S 2048.0
#define B 4.0
#define H 6144.0
#define A 64.0

static void open_paper(struct layout *out, uint32_t tp)
{
    layout_init(out, gpt_22b, "preset:dgx-a100*1", 1, 1);
    out->plan->micro_batch = 4;
    out->plan->degrees[PEN_DEGREE_TP] = tp;
    out->setting.practice.has_fused_attention = false;
    out->setting.practice.has_dropout = true;
}

static struct pen_layer_bytes bytes_of(const struct layout *layout,
                                       uint32_t layer, enum pen_recompute mode)
{
    struct pen_layer_time time;
    struct pen_layer_bytes bytes;
    pen_predict_layer(&layout->setting, layout->plan, 0, layer, mode, &time,
                      &bytes);
    return bytes;
}

static struct pen_layer_time time_of_layer(const struct layout *layout,
                                           uint32_t layer,
                                           enum pen_recompute mode)
{
    struct pen_layer_time time;
    struct pen_layer_bytes bytes;
    pen_predict_layer(&layout->setting, layout->plan, 0, layer, mode, &time,
                      &bytes);
    return time;
}

static void expect_stash(const struct layout *layout, enum pen_recompute mode,
                         double expected)
{
    struct pen_layer_bytes bytes = bytes_of(layout, 1, mode);
    expect_close(expected, (double)bytes.stash_bytes,
                 pen_recompute_names[mode]);
}

static void blocks_keep_what_the_paper_says(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 1);
    expect_stash(&layout, PEN_RECOMPUTE_NONE, S * B * H * (34 + 5 * A * S / H));
    expect_stash(&layout, PEN_RECOMPUTE_SELECTIVE, 34 * S * B * H);
    expect_stash(&layout, PEN_RECOMPUTE_FULL, 2 * S * B * H);
    for (uint32_t t = 2; t <= 8; t *= 2) {
        double each = 24.0 / t + 5 * A * S / (H * t);
        layout.plan->degrees[PEN_DEGREE_TP] = t;
        layout.plan->has_sequence_parallel = false;
        expect_stash(&layout, PEN_RECOMPUTE_NONE, S * B * H * (10 + each));
        expect_stash(&layout, PEN_RECOMPUTE_SELECTIVE,
                     S * B * H * (10 + 24.0 / t));
        expect_stash(&layout, PEN_RECOMPUTE_FULL, 2 * S * B * H);
        layout.plan->has_sequence_parallel = true;
        expect_stash(&layout, PEN_RECOMPUTE_NONE,
                     S * B * H / t * (34 + 5 * A * S / H));
        expect_stash(&layout, PEN_RECOMPUTE_SELECTIVE, 34 * S * B * H / t);
    }
    layout_release(&layout);
}

/* A mask of the embedding's dropout: a byte an element, cut as the rows. */
static void embeddings_keep_their_masks(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 8);
    expect_close(S * B * H,
                 (double)bytes_of(&layout, 0, PEN_RECOMPUTE_NONE).stash_bytes,
                 "whole rows");
    layout.plan->has_sequence_parallel = true;
    expect_close(S * B * H / 8,
                 (double)bytes_of(&layout, 0, PEN_RECOMPUTE_NONE).stash_bytes,
                 "cut rows");
    layout_release(&layout);
}

/* No matrix of pairs, no masks: 32 sbh, whatever the sequence. */
static void fused_attention_keeps_no_pairs(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 1);
    layout.setting.practice.has_fused_attention = true;
    layout.setting.practice.has_dropout = false;
    expect_stash(&layout, PEN_RECOMPUTE_NONE, 32 * S * B * H);
    expect_stash(&layout, PEN_RECOMPUTE_SELECTIVE, 32 * S * B * H);
    layout_release(&layout);
}

/* What W needs, M_W of the zero bubble paper (ICLR 2024): 32 sbh. */
static void weight_gradients_hold_what_the_paper_says(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 1);
    expect_close(32 * S * B * H,
                 (double)bytes_of(&layout, 1, PEN_RECOMPUTE_NONE).hold_bytes,
                 "without recomputation");
    expect_close(32 * S * B * H,
                 (double)bytes_of(&layout, 1, PEN_RECOMPUTE_FULL).hold_bytes,
                 "with it: I and W compute once");
    /* Computed again for W, inputs need not be held: 18 of the 32. */
    layout.setting.practice.recomputes_twice = true;
    expect_close((2 + 18) * S * B * H,
                 (double)bytes_of(&layout, 1, PEN_RECOMPUTE_FULL).hold_bytes,
                 "computed twice");
    layout_release(&layout);
}

/* Queries, values, attention, gate and down of Llama, and the input. */
static void selection_by_operation_keeps_every_second(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*1", 1, 1);
    layout.setting.practice.selects_products = true;
    expect_stash(&layout, PEN_RECOMPUTE_SELECTIVE,
                 2 * 2048.0 * (4096 + 1024 + 4096 + 14336 + 4096 + 4096));
    struct pen_layer_time time =
        time_of_layer(&layout, 1, PEN_RECOMPUTE_SELECTIVE);
    assert_true(time.recompute_sec > 0.4 * time.forward_sec);
    assert_true(time.recompute_sec < 0.75 * time.forward_sec);
    layout_release(&layout);
}

/* Two ranks of a sequence hold half of it each, and all keys of the pairs. */
static void context_ranks_share_the_sequence(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 1);
    double whole = (double)bytes_of(&layout, 1, PEN_RECOMPUTE_NONE).stash_bytes;
    layout.plan->degrees[PEN_DEGREE_CP] = 2;
    struct pen_layer_bytes half = bytes_of(&layout, 1, PEN_RECOMPUTE_NONE);
    expect_close(whole / 2, (double)half.stash_bytes, "half the tokens");
    expect_close(S * B * H, (double)half.output_bytes, "to the next layer");
    layout_release(&layout);
}

static uint64_t count_parameters(const struct layout *layout)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < layout->model->num_layers; i++)
        sum += bytes_of(layout, i, PEN_RECOMPUTE_NONE).num_parameters;
    return sum;
}

static void parameters_of_all_ranks_are_the_models(void **state)
{
    (void)state;
    static const char *const models[] = {
        "preset:gpt2",         "preset:gpt3-175b",     "preset:llama-3.1-8b",
        "preset:mixtral-8x7b", "preset:qwen3-30b-a3b", "preset:deepseek-v3",
        "preset:gpt-oss-20b",  "preset:qwen3-4b",      "preset:opt-1.3b"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct layout layout;
        layout_init(&layout, models[i], "preset:dgx-h100*8", 1, 1);
        assert_int_equal(layout.model->num_parameters,
                         count_parameters(&layout));
        layout.plan->degrees[PEN_DEGREE_TP] = 2;
        uint64_t both = 2 * count_parameters(&layout);
        /* Each layer may round down. */
        assert_true(both <= layout.model->num_parameters);
        assert_true(both + 4u * layout.model->num_layers >
                    layout.model->num_parameters);
        layout_release(&layout);
    }
}

static void experts_are_dealt_to_their_ranks(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:mixtral-8x7b", "preset:dgx-h100*8", 1, 1);
    layout.cluster->groups[0].device.constants[PEN_CONSTANT_COUNT_SEC] = 0;
    struct pen_layer_bytes all = bytes_of(&layout, 1, PEN_RECOMPUTE_NONE);
    struct pen_layer_time alone = time_of_layer(&layout, 1, PEN_RECOMPUTE_NONE);
    /* Eight experts of three matrices. */
    assert_int_equal(8u * 3u * 4096u * 14336u, all.num_experts);
    expect_close(0, alone.expert_sec, "nobody to exchange tokens with");
    for (uint32_t ep = 2; ep <= 8; ep *= 2) {
        layout.plan->degrees[PEN_DEGREE_DP] = 8;
        layout.plan->degrees[PEN_DEGREE_EP] = ep;
        struct pen_layer_bytes part = bytes_of(&layout, 1, PEN_RECOMPUTE_NONE);
        assert_int_equal(all.num_experts / ep, part.num_experts);
        assert_int_equal(all.num_parameters - all.num_experts,
                         part.num_parameters - part.num_experts);
        /* Tokens come from the other ranks: as many as leave. */
        assert_int_equal(all.stash_bytes, part.stash_bytes);
        struct pen_layer_time time =
            time_of_layer(&layout, 1, PEN_RECOMPUTE_NONE);
        assert_true(time.expert_sec > 0);
        assert_true(time.weight_sec < alone.weight_sec * 1.01);
    }
    layout_release(&layout);
}

static void recomputation_costs_what_it_computes_again(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 8);
    struct pen_layer_time none = time_of_layer(&layout, 1, PEN_RECOMPUTE_NONE);
    struct pen_layer_time core =
        time_of_layer(&layout, 1, PEN_RECOMPUTE_SELECTIVE);
    struct pen_layer_time full = time_of_layer(&layout, 1, PEN_RECOMPUTE_FULL);
    expect_close(0, none.recompute_sec, "nothing");
    expect_close(none.forward_sec, full.recompute_sec, "the forward");
    assert_true(core.recompute_sec > 0);
    assert_true(core.recompute_sec < full.recompute_sec / 2);
    expect_close(none.input_sec, full.input_sec, "not in the backward");
    expect_close(1.5 * none.tensor_sec, full.tensor_sec, "messages again");
    layout_release(&layout);
}

/*
 * Table 4 of the paper, milliseconds of a layer on 8 A100: forward, backward
 * with what is computed again. In sample: the constants were fitted with it.
 */
static void a_layer_takes_what_the_paper_measured(void **state)
{
    (void)state;
    static const struct {
        bool has_sequence_parallel;
        enum pen_recompute mode;
        double forward_ms;
        double backward_ms;
    } rows[] = {{false, PEN_RECOMPUTE_NONE, 7.7, 11.9},
                {true, PEN_RECOMPUTE_NONE, 7.2, 11.8},
                {false, PEN_RECOMPUTE_FULL, 7.7, 19.5},
                {false, PEN_RECOMPUTE_SELECTIVE, 7.7, 13.2},
                {true, PEN_RECOMPUTE_SELECTIVE, 7.2, 13.1}};
    struct layout layout;
    open_paper(&layout, 8);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        layout.plan->has_sequence_parallel = rows[i].has_sequence_parallel;
        struct pen_layer_time time = time_of_layer(&layout, 1, rows[i].mode);
        double backward = time.input_sec + time.weight_sec + time.recompute_sec;
        if (fabs(1e3 * time.forward_sec / rows[i].forward_ms - 1) > 0.1 ||
            fabs(1e3 * backward / rows[i].backward_ms - 1) > 0.1)
            fail_msg("row %zu: %.2f and %.2f ms, measured %.1f and %.1f", i,
                     1e3 * time.forward_sec, 1e3 * backward, rows[i].forward_ms,
                     rows[i].backward_ms);
    }
    layout_release(&layout);
}

/* Half of a step's bytes never take longer than all of them. */
static void tensor_ranks_share_the_work(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 1);
    double before = INFINITY;
    for (uint32_t t = 1; t <= 8; t *= 2) {
        layout.plan->degrees[PEN_DEGREE_TP] = t;
        struct pen_layer_time time =
            time_of_layer(&layout, 1, PEN_RECOMPUTE_NONE);
        double compute = time.forward_sec + time.input_sec + time.weight_sec -
                         time.tensor_sec;
        assert_true(compute < before);
        assert_true((t > 1) == (time.tensor_sec > 0));
        before = compute;
    }
    layout_release(&layout);
}

/* The head sees the logits of its share of the words. */
static void logits_are_cut_unless_they_are_gathered(void **state)
{
    (void)state;
    struct layout layout;
    open_paper(&layout, 1);
    uint32_t head = layout.model->num_layers - 1;
    expect_close(
        4 * S * B * 51200,
        (double)bytes_of(&layout, head, PEN_RECOMPUTE_NONE).working_bytes,
        "4 bytes where the loss is fused");
    layout.setting.practice.has_fused_loss = false;
    uint64_t all = bytes_of(&layout, head, PEN_RECOMPUTE_NONE).working_bytes;
    expect_close(16 * S * B * 51200, (double)all, "16 bytes for each logit");
    layout.plan->degrees[PEN_DEGREE_TP] = 8;
    assert_int_equal(all / 8,
                     bytes_of(&layout, head, PEN_RECOMPUTE_NONE).working_bytes);
    layout.setting.practice.gathers_logits = true;
    assert_true(bytes_of(&layout, head, PEN_RECOMPUTE_NONE).working_bytes >
                all);
    layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_keep_what_the_paper_says),
        cmocka_unit_test(embeddings_keep_their_masks),
        cmocka_unit_test(fused_attention_keeps_no_pairs),
        cmocka_unit_test(weight_gradients_hold_what_the_paper_says),
        cmocka_unit_test(selection_by_operation_keeps_every_second),
        cmocka_unit_test(context_ranks_share_the_sequence),
        cmocka_unit_test(parameters_of_all_ranks_are_the_models),
        cmocka_unit_test(experts_are_dealt_to_their_ranks),
        cmocka_unit_test(recomputation_costs_what_it_computes_again),
        cmocka_unit_test(a_layer_takes_what_the_paper_measured),
        cmocka_unit_test(tensor_ranks_share_the_work),
        cmocka_unit_test(logits_are_cut_unless_they_are_gathered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
