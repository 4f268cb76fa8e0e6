/*
 * Blocks of all kinds compute what they have: products as the model counts
 * them, one message fewer where a block is only half of one, and less than
 * pairs of all positions where a state or a choice of keys takes their place.
 */
#include "support/layout.h"
#include "support/support.h"

#include "planner/layer_operations.h"

#include <math.h>
#include <stdio.h>

static double product_flops(const struct pen_operation_list *list)
{
    double sum = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct pen_operation *it = &list->items[i];
        if (it->kind == PEN_OPERATION_PRODUCT)
            sum += 2 * it->batch * it->m * it->n * it->k;
    }
    return sum;
}

/* A gate of one number is no operation of its own. */
#define TOLERANCE 2e-3

static void blocks_multiply_with_all_that_they_have(void **state)
{
    (void)state;
    static const char *const models[] = {
        "preset:llama-3.1-8b",     "preset:mixtral-8x7b",
        "preset:deepseek-v3",      "preset:qwen3.5-27b",
        "preset:qwen3.5-35b-a3b",  "preset:deepseek-v3.2",
        "preset:deepseek-v4-pro",  "preset:deepseek-v4-flash",
        "preset:glm-4.5",          "preset:glm-5",
        "preset:llama-4-maverick", "preset:gemma-3-27b",
        "preset:gemma-4-26b-a4b",  "preset:nemotron-3-nano",
        "preset:nemotron-3-super", "preset:minimax-m2.5"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct layout layout;
        layout_init(&layout, models[i], "preset:dgx-h100*128", 1, 1);
        for (uint32_t block = 0; block < layout.model->num_blocks; block++) {
            struct pen__layer layer;
            struct pen_operation_list list = {.count = 0};
            pen__layer_open(&layout.setting, layout.plan, 0, block + 1, &layer);
            pen__layer_list_forward(&layer, &list);
            double expected =
                2 * layer.tokens *
                (double)pen_model_block_products(layout.model, block);
            double found = product_flops(&list);
            if (fabs(found / expected - 1) > TOLERANCE)
                fail_msg("%s, block %u: expected %g, found %g", models[i],
                         block, expected, found);
        }
        layout_release(&layout);
    }
}

#define SIZES                                                                  \
    "\"vocab_size\":32000,\"hidden_size\":4096,\"num_attention_heads\":32,"    \
    "\"num_hidden_layers\":4,\"intermediate_size\":16384"
#define STATES ",\"mamba_num_heads\":128,\"mamba_head_dim\":64"

static struct pen_layer_time layer_time(const char *keys, uint32_t layer,
                                        uint32_t tp, uint32_t sequence)
{
    char text[1000];
    struct layout layout;
    struct pen_layer_time time;
    struct pen_layer_bytes bytes;
    snprintf(text, sizeof text, "{\"model_type\":\"foo\"," SIZES "%s}", keys);
    layout_init(&layout, text, "preset:dgx-h100*1", 1, 1);
    layout.plan->degrees[PEN_DEGREE_TP] = tp;
    layout.plan->sequence = sequence;
    pen_predict_layer(&layout.setting, layout.plan, 0, layer,
                      PEN_RECOMPUTE_NONE, &time, &bytes);
    layout_release(&layout);
    return time;
}

static void half_a_block_has_half_of_the_messages(void **state)
{
    (void)state;
    static const char halves[] = STATES ",\"hybrid_override_pattern\":\"M*-M\"";
    struct pen_layer_time whole = layer_time("", 1, 8, 4096);
    struct pen_layer_time both = {.forward_sec = 0};
    for (uint32_t layer = 1; layer <= 3; layer++) {
        struct pen_layer_time half = layer_time(halves, layer, 8, 4096);
        expect_close(whole.tensor_sec / 2, half.tensor_sec, "messages");
        if (layer > 1)
            both.forward_sec += half.forward_sec;
    }
    /* Attention and MLP, each alone and one behind the other. */
    double ratio = both.forward_sec / whole.forward_sec;
    if (ratio < 0.98 || ratio > 1.1)
        fail_msg("two halves take %g of a whole", ratio);
}

/* How much longer 8 times the sequence takes, forward. */
static double growth_of(const char *keys)
{
    return layer_time(keys, 1, 1, 65536).forward_sec /
           layer_time(keys, 1, 1, 8192).forward_sec;
}

static void states_and_picked_keys_do_not_grow_with_the_square(void **state)
{
    (void)state;
    double pairs = growth_of("");
    double windows = growth_of(",\"sliding_window\":1024");
    double picked = growth_of(",\"index_n_heads\":4,\"index_head_dim\":64,"
                              "\"index_topk\":2048");
    double states = growth_of(STATES ",\"layer_types\":[\"mamba\",\"mamba\","
                                     "\"mamba\",\"mamba\"]");
    if (!(states < 8.2 && windows < 8.2 && picked < 10 && pairs > 12))
        fail_msg("states %g, windows %g, picked %g, all pairs %g", states,
                 windows, picked, pairs);
}

static void residuals_of_hyper_connections_go_to_the_next_stage(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_layer_time time;
    struct pen_layer_bytes bytes;
    layout_init(&layout, "preset:deepseek-v4-flash", "preset:dgx-h100*128", 1,
                1);
    pen_predict_layer(&layout.setting, layout.plan, 0, 1, PEN_RECOMPUTE_FULL,
                      &time, &bytes);
    assert_int_equal((uint64_t)4 * 2048 * 4096 * 2, bytes.output_bytes);
    assert_int_equal((uint64_t)4 * 2048 * 4096 * 2, bytes.stash_bytes);
    layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_multiply_with_all_that_they_have),
        cmocka_unit_test(half_a_block_has_half_of_the_messages),
        cmocka_unit_test(states_and_picked_keys_do_not_grow_with_the_square),
        cmocka_unit_test(residuals_of_hyper_connections_go_to_the_next_stage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
