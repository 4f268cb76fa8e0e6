/*
 * Blocks with experts: the gradient is the derivative of the loss, also of the
 * losses of routers; engines agree whatever the routing, all tokens to one
 * expert, none to most, one token; no way to run a network changes a bit; and
 * memory is what the model counts.
 */
#include "support/engine.h"

#include "network/experts.h"
#include "network_step.h"
#include "support/plain_driver.h"
#include "support/span.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, SEQUENCE = 5, ROWS = BATCH * SEQUENCE, VOCAB = 11 };
enum { MICROBATCHES = 2 };

#define SHAPE                                                                  \
    "\"vocab_size\":11,\"hidden_size\":8,\"num_hidden_layers\":2,"             \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,"                     \
    "\"max_position_embeddings\":8,"

static const char *const configs[] = {
    "{\"model_type\":\"mixtral\"," SHAPE "\"intermediate_size\":6,"
    "\"num_local_experts\":4,\"num_experts_per_tok\":2}",
    "{\"model_type\":\"qwen3_moe\"," SHAPE "\"intermediate_size\":12,"
    "\"num_experts\":5,\"num_experts_per_tok\":3,\"moe_intermediate_size\":4,"
    "\"mlp_only_layers\":[0],\"norm_topk_prob\":true}",
    "{\"model_type\":\"qwen3_moe\"," SHAPE "\"intermediate_size\":12,"
    "\"num_experts\":3,\"num_experts_per_tok\":1,\"moe_intermediate_size\":4,"
    "\"norm_topk_prob\":false}",
    "{\"model_type\":\"deepseek_v2\"," SHAPE "\"intermediate_size\":12,"
    "\"n_routed_experts\":6,\"num_experts_per_tok\":2,\"n_group\":3,"
    "\"topk_group\":2,\"topk_method\":\"group_limited_greedy\","
    "\"moe_intermediate_size\":4,\"n_shared_experts\":1,"
    "\"routed_scaling_factor\":1.7,\"q_lora_rank\":null,\"kv_lora_rank\":4,"
    "\"qk_nope_head_dim\":2,\"qk_rope_head_dim\":2,\"v_head_dim\":3}",
    "{\"model_type\":\"deepseek_v3\"," SHAPE "\"intermediate_size\":12,"
    "\"n_routed_experts\":6,\"num_experts_per_tok\":2,\"n_group\":3,"
    "\"topk_group\":2,\"moe_intermediate_size\":4,\"n_shared_experts\":2,"
    "\"first_k_dense_replace\":1,\"routed_scaling_factor\":1.7,"
    "\"q_lora_rank\":6,\"kv_lora_rank\":5,\"qk_nope_head_dim\":4,"
    "\"qk_rope_head_dim\":2,\"v_head_dim\":3}",
    "{\"model_type\":\"deepseek_v3\"," SHAPE "\"intermediate_size\":12,"
    "\"n_routed_experts\":4,\"num_experts_per_tok\":3,\"n_group\":1,"
    "\"topk_group\":1,\"moe_intermediate_size\":4,\"n_shared_experts\":1,"
    "\"first_k_dense_replace\":0,\"norm_topk_prob\":false,"
    "\"q_lora_rank\":null,\"kv_lora_rank\":4,\"qk_nope_head_dim\":4,"
    "\"qk_rope_head_dim\":4,\"v_head_dim\":5,\"attention_bias\":true,"
    "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":1,"
    "\"mscale_all_dim\":0.5,\"original_max_position_embeddings\":4}}",
    "{\"model_type\":\"gpt_oss\"," SHAPE "\"intermediate_size\":6,"
    "\"num_local_experts\":4,\"num_experts_per_tok\":2,\"head_dim\":4,"
    "\"sliding_window\":3,\"swiglu_limit\":0.7}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

static struct pen_model *model_of(int config)
{
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_model_parse(configs[config], strlen(configs[config]), &model,
                        &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return model;
}

struct way {
    size_t batch;
    size_t sequence;
    enum pen_recompute recompute;
    unsigned modules;
    struct pen_router_settings router;
};

static const struct way usual = {.batch = BATCH, .sequence = SEQUENCE};

static struct pen_network *network_of(struct pen_engine *engine,
                                      const struct pen_model *model,
                                      const struct way *way)
{
    struct pen_network_options options = {.engine = engine,
                                          .model = model,
                                          .num_layers = model->num_layers,
                                          .batch = way->batch,
                                          .sequence = way->sequence,
                                          .step_rows = MICROBATCHES * ROWS,
                                          .recompute = way->recompute,
                                          .modules = way->modules,
                                          .router = way->router};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_network *network = NULL;
    if (pen_network_create(&options, &network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(pen_network_initialize(network, 7), PEN_OK);
    return network;
}

static int32_t ids[MICROBATCHES][ROWS];
static int32_t targets[MICROBATCHES][ROWS];

static struct pen_microbatch microbatch_of(int m)
{
    for (size_t i = 0; i < ROWS; i++) {
        ids[m][i] = (int32_t)((i * 7 + (size_t)m) % VOCAB);
        targets[m][i] = (int32_t)((i * 3 + 5 * (size_t)m) % VOCAB);
    }
    return (struct pen_microbatch){.ids = ids[m],
                                   .targets = targets[m],
                                   .loss_count = MICROBATCHES * ROWS};
}

static double step_of(struct pen_network *network, bool is_split)
{
    struct pen_microbatch batches[MICROBATCHES];
    for (int m = 0; m < MICROBATCHES; m++)
        batches[m] = microbatch_of(m);
    return network_step(network, batches, MICROBATCHES, is_split);
}

static double loss_of(struct pen_network *network)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(network, &sizes);
    void *stash = room(sizes.stash);
    double loss = 0;
    for (int m = 0; m < MICROBATCHES; m++) {
        struct pen_microbatch batch = microbatch_of(m);
        pen_network_forward(network, &batch, stash, NULL, NULL);
        loss += pen_network_loss(network);
    }
    free(stash);
    return loss;
}

/* ---- derivatives ---- */

static void spread(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    struct pen_random random = {.state = 3};
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        struct pen_parameter *it = pen_network_parameter(network, i)->parameter;
        size_t count = 0;
        double *values = span_of_part(engine, it, PEN_PART_VALUE, &count);
        for (size_t k = 0; k < count; k++)
            values[k] += pen_random_unit(&random) - 0.5;
        engine->ops->parameter_value_changed(engine, it);
    }
}

static void expect_derivative(struct pen_network *network, int config,
                              size_t index)
{
    struct pen_engine *engine = pen_network_engine(network);
    struct pen_parameter *it = pen_network_parameter(network, index)->parameter;
    size_t count = 0;
    double *values = span_of_part(engine, it, PEN_PART_VALUE, &count);
    double *gradient = span_of_part(engine, it, PEN_PART_GRADIENT, &count);
    double *quotient = calloc(count, sizeof *quotient);
    assert_non_null(quotient);
    const double step = 1e-5;
    bool is_used = false;
    for (size_t k = 0; k < count; k++) {
        double value = values[k];
        values[k] = value + step;
        double above = loss_of(network);
        values[k] = value - step;
        quotient[k] = (above - loss_of(network)) / (2 * step);
        values[k] = value;
        is_used = is_used || gradient[k] != 0;
    }
    double apart = relative_distance(count, quotient, gradient);
    if (is_used && !(apart <= 1e-6))
        fail_msg("model %d, parameter %zu: %g from the difference quotient "
                 "(expected %.12g, found %.12g)",
                 config, index, apart, quotient[0], gradient[0]);
    for (size_t k = 0; k < count && !is_used; k++)
        assert_true(fabs(quotient[k]) <= 1e-9);
    free(quotient);
}

static void gradient_is_the_derivative_of_the_loss(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    for (int config = 0; config < CONFIGS; config++) {
        struct pen_model *model = model_of(config);
        struct pen_network *network = network_of(engine, model, &usual);
        spread(network);
        double loss = step_of(network, config % 2 != 0);
        assert_true(isfinite(loss) && loss > 0);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++)
            expect_derivative(network, config, i);
        pen_network_free(network);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

/* Of a router whose gates are a softmax of those chosen, of all, or sigmoids.
 */
static void dropped_tokens_leave_a_derivative(void **state)
{
    (void)state;
    static const int mixtures[] = {0, 3, 4};
    static const struct way tight = {
        .batch = BATCH, .sequence = SEQUENCE, .router = {.capacity = 0.7}};
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        struct pen_model *model = model_of(mixtures[i]);
        struct pen_network *network = network_of(engine, model, &tight);
        struct pen_routings routings = {.count = 0};
        spread(network);
        (void)step_of(network, false);
        pen_network_take_routings(network, &routings);
        assert_true(routings.dropped >= routings.count);
        for (size_t k = 0; k < pen_network_num_parameters(network); k++) {
            struct pen_tensor_info info;
            pen_model_tensor(model,
                             pen_network_parameter(network, k)->slices->tensor,
                             &info);
            if (info.form->part == PEN_PART_ROUTER ||
                info.form->part == PEN_PART_MLP_NORM ||
                info.form->part == PEN_PART_EXPERT_DOWN)
                expect_derivative(network, mixtures[i], k);
        }
        pen_network_free(network);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

/* ---- losses of routers ---- */

enum { EXPERTS = 5, WIDTH = 7, CHOSEN = 2 };

struct routing {
    struct pen_router router;
    double x[ROWS * WIDTH];
    double logits[ROWS * EXPERTS];
    double gates[ROWS * CHOSEN];
    int32_t choice[ROWS * CHOSEN];
    int32_t tokens[EXPERTS];
};

static void route(struct pen_engine *engine, struct routing *it)
{
    engine->ops->route_forward(engine, &it->router, it->x, it->logits,
                               it->gates, it->choice);
    memset(it->tokens, 0, sizeof it->tokens);
    for (size_t slot = 0; slot < ROWS * CHOSEN; slot++)
        it->tokens[it->choice[slot]]++;
}

/* As Megatron-LM's functions have them, written down from their formulas. */
static double router_loss(const struct routing *it)
{
    double means[EXPERTS] = {0};
    double squares = 0, balance = 0;
    for (size_t row = 0; row < ROWS; row++) {
        double sum = 0;
        for (size_t e = 0; e < EXPERTS; e++)
            sum += exp(it->logits[row * EXPERTS + e]);
        for (size_t e = 0; e < EXPERTS; e++)
            means[e] += exp(it->logits[row * EXPERTS + e]) / sum / ROWS;
        squares += log(sum) * log(sum) / ROWS;
    }
    for (size_t e = 0; e < EXPERTS; e++)
        balance += means[e] * it->tokens[e] / ROWS;
    return it->router.aux * EXPERTS / CHOSEN * balance + it->router.z * squares;
}

static void losses_of_routers_have_their_derivatives(void **state)
{
    (void)state;
    static const struct {
        double aux, z;
    } cases[] = {{0.3, 0}, {0, 0.2}, {0.1, 0.7}};
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    struct pen_random random = {.state = 11};
    const struct pen_parameter_shape shape = {
        .use = PEN_PARAMETER_VECTORS, .rows = EXPERTS, .columns = WIDTH};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct routing it = {.router = {.rows = ROWS,
                                        .chosen = CHOSEN,
                                        .is_normal = i == 0,
                                        .aux = cases[i].aux,
                                        .z = cases[i].z}};
        double zeros[ROWS * CHOSEN] = {0}, dx[ROWS * WIDTH] = {0};
        double dlogits[ROWS * EXPERTS], quotient[ROWS * WIDTH];
        size_t count = 0;
        assert_int_equal(engine->ops->parameter_create(engine, &shape, NULL,
                                                       &it.router.weight),
                         PEN_OK);
        double *weight =
            span_of_part(engine, it.router.weight, PEN_PART_VALUE, &count);
        for (size_t k = 0; k < count; k++)
            weight[k] = 2 * pen_random_unit(&random) - 1;
        for (size_t k = 0; k < ROWS * WIDTH; k++)
            it.x[k] = 2 * pen_random_unit(&random) - 1;
        route(engine, &it);
        const struct pen_route about = {it.logits, it.gates, it.choice,
                                        it.tokens};
        engine->ops->route_backward_input(engine, &it.router, &about, zeros,
                                          dlogits, dx);
        for (size_t k = 0; k < ROWS * WIDTH; k++) {
            double value = it.x[k];
            it.x[k] = value + 1e-5;
            route(engine, &it);
            double above = router_loss(&it);
            it.x[k] = value - 1e-5;
            route(engine, &it);
            quotient[k] = (above - router_loss(&it)) / 2e-5;
            it.x[k] = value;
        }
        double apart = relative_distance(ROWS * WIDTH, quotient, dx);
        if (!(apart <= 1e-7))
            fail_msg("aux %g, z %g: %g from the difference quotient",
                     cases[i].aux, cases[i].z, apart);
        engine->ops->parameter_free(engine, it.router.weight);
    }
    pen_engine_free(engine);
}

/* ---- engines, and routings ---- */

/* A part of a parameter of any engine, in float; free() it. */
static float *part_of(const struct pen_network *network, size_t index,
                      enum pen_parameter_part part, size_t *count)
{
    struct pen_engine *engine = pen_network_engine(network);
    struct pen_parameter *it = pen_network_parameter(network, index)->parameter;
    struct pen_parameter_shape shape;
    engine->ops->parameter_shape(it, &shape);
    *count = shape.rows * shape.columns;
    float *plain = malloc(*count * sizeof *plain);
    assert_non_null(plain);
    engine->ops->parameter_export(engine, it, part, PEN_ORDER_ROWS, plain);
    return plain;
}

/*
 * Logits that are all equal choose the first experts: all tokens go the same
 * way, and the last experts have none.
 */
static void set_weights(struct pen_network *network, bool is_tied)
{
    struct pen_engine *engine = pen_network_engine(network);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        struct pen_tensor_info info;
        size_t count = 0;
        pen_model_tensor(pen_network_model(network), it->slices[0].tensor,
                         &info);
        bool is_router = info.form->part == PEN_PART_ROUTER;
        float *values = part_of(network, i, PEN_PART_VALUE, &count);
        for (size_t k = 0; k < count && info.form->num_dims == 2; k++)
            values[k] *= is_router && is_tied ? 0 : 10;
        engine->ops->parameter_import(engine, it->parameter, PEN_PART_VALUE,
                                      PEN_ORDER_ROWS, values);
        engine->ops->parameter_value_changed(engine, it->parameter);
        free(values);
    }
}

static void expect_gradients(const struct pen_network *left,
                             const struct pen_network *right, double limit)
{
    double apart = 0, whole = 0;
    for (size_t i = 0; i < pen_network_num_parameters(left); i++) {
        size_t count = 0;
        float *a = part_of(left, i, PEN_PART_GRADIENT, &count);
        float *b = part_of(right, i, PEN_PART_GRADIENT, &count);
        for (size_t k = 0; k < count; k++) {
            apart += pow((double)a[k] - (double)b[k], 2);
            whole += pow((double)a[k], 2);
        }
        free(a);
        free(b);
    }
    if (!(sqrt(apart) <= limit * sqrt(whole)))
        fail_msg("gradients are %g apart", sqrt(apart / whole));
}

static void expect_agreement(struct pen_engine *truth,
                             struct pen_engine *engine,
                             const struct pen_model *model,
                             const struct way *way, bool is_tied, double limit)
{
    struct pen_network *plain = network_of(truth, model, way);
    struct pen_network *other = network_of(engine, model, way);
    set_weights(plain, is_tied);
    set_weights(other, is_tied);
    double loss = step_of(plain, false);
    double found = step_of(other, true);
    if (!(fabs(loss - found) <= limit * loss))
        fail_msg("%zu tokens: loss %.9g, not %.9g", way->sequence, found, loss);
    expect_gradients(plain, other, 10 * limit);
    pen_network_free(plain);
    pen_network_free(other);
}

/* The second one has memory of its own, and is late. */
static void engines_agree_whatever_the_routing(void **state)
{
    (void)state;
    static const struct way one = {.batch = 1, .sequence = 1};
    struct pen_engine *truth = reference_engine(PEN_PRECISION_F32);
    struct pen_engine *engines[] = {onednn_engine(PEN_PRECISION_F32, 1),
                                    plain_engine(PEN_PRECISION_F32)};
    for (size_t i = 0; i < 2; i++) {
        struct pen_engine *engine = engines[i];
        for (int config = 0; config < CONFIGS && engine != NULL; config++) {
            struct pen_model *model = model_of(config);
            for (int tied = 0; tied < 2; tied++) {
                expect_agreement(truth, engine, model, &usual, tied != 0, 1e-5);
                expect_agreement(truth, engine, model, &one, tied != 0, 1e-5);
            }
            pen_model_free(model);
        }
        pen_engine_free(engine);
    }
    pen_engine_free(truth);
}

/* Tokens are dropped by the host, wherever their gates are. */
static void engines_drop_the_same_tokens(void **state)
{
    (void)state;
    static const struct way tight = {.batch = BATCH,
                                     .sequence = SEQUENCE,
                                     .recompute = PEN_RECOMPUTE_FULL,
                                     .router = {.capacity = 0.7, .aux = 0.1}};
    struct pen_engine *truth = reference_engine(PEN_PRECISION_F32);
    struct pen_engine *engine = plain_engine(PEN_PRECISION_F32);
    struct pen_model *model = model_of(0);
    expect_agreement(truth, engine, model, &tight, false, 1e-5);
    pen_model_free(model);
    pen_engine_free(engine);
    pen_engine_free(truth);
}

/* With choices that rounding cannot change. */
static void any_number_of_tokens_is_a_product_in_bf16(void **state)
{
    (void)state;
    struct pen_engine *truth = reference_engine(PEN_PRECISION_F32);
    struct pen_engine *engine = onednn_engine(PEN_PRECISION_BF16, 1);
    struct pen_model *model = model_of(0);
    for (size_t length = 1; length <= SEQUENCE && engine != NULL; length++) {
        const struct way way = {.batch = 1, .sequence = length};
        expect_agreement(truth, engine, model, &way, true, 0.02);
    }
    pen_model_free(model);
    pen_engine_free(engine);
    pen_engine_free(truth);
}

/* All tokens to one of three experts, whatever is computed again. */
static void routings_of_a_step_are_counted_once(void **state)
{
    (void)state;
    const struct way again = {
        BATCH, SEQUENCE, PEN_RECOMPUTE_FULL, 0, {.aux = 0}};
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_model *model = model_of(2);
    struct pen_network *network = network_of(engine, model, &again);
    struct pen_routings routings = {.count = 0};
    set_weights(network, true);
    (void)step_of(network, false);
    pen_network_take_routings(network, &routings);
    assert_true(routings.count == MICROBATCHES * model->num_blocks);
    assert_true(routings.imbalance == 3 * routings.count);
    routings = (struct pen_routings){.count = 0};
    pen_network_take_routings(network, &routings);
    assert_true(routings.count == 0);
    pen_network_free(network);
    pen_model_free(model);
    pen_engine_free(engine);
}

/* Two slots of three stay; of equal gates the first; what is no number, too. */
static void an_expert_keeps_its_largest_gates(void **state)
{
    (void)state;
    const int32_t order[] = {0, 2, 4, 6, 1, 3, 5, 7, 8};
    const int32_t tokens[] = {4, 1, 4};
    const float gates[][9] = {
        {0.3F, 0.1F, 0.2F, 0.5F, 0.9F, 0.5F, 0.3F, 0.5F, 0.4F},
        {NAN, 0.1F, 0.2F, 0, 0.9F, 0, 0.3F, 0, 0}};
    const float kept[][9] = {{0.3F, 0.1F, 0, 0.5F, 0.9F, 0.5F, 0, 0, 0},
                             {NAN, 0.1F, 0, 0, 0.9F, 0, 0.3F, 0, 0}};
    const struct pen__experts experts = {
        .num_experts = 3, .capacity = 2, .shape = {.stat = sizeof(float)}};
    for (size_t i = 0; i < 2; i++) {
        float found[9];
        memcpy(found, gates[i], sizeof found);
        size_t dropped = pen__experts_drop(&experts, order, tokens, found);
        assert_int_equal(dropped, i == 0 ? 4 : 3);
        for (size_t k = 0; k < 9; k++)
            if (isnan(kept[i][k]) ? !isnan(found[k])
                                  : fabsf(found[k] - kept[i][k]) > 0)
                fail_msg("gate %zu: expected %g, found %g", k,
                         (double)kept[i][k], (double)found[k]);
    }
}

/* In the gradient of the offset, whatever is computed again or apart. */
static void tokens_of_experts_are_counted(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {BATCH, SEQUENCE, PEN_RECOMPUTE_NONE, 0, {.counts_tokens = true}},
        {BATCH, SEQUENCE, PEN_RECOMPUTE_FULL, 0, {.counts_tokens = true}},
        {BATCH, SEQUENCE, PEN_RECOMPUTE_NONE, 0, {.counts_tokens = false}}};
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_model *model = model_of(4);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct pen_network *network = network_of(engine, model, &ways[i]);
        size_t num_offsets = 0;
        (void)step_of(network, i > 0);
        for (size_t k = 0; k < pen_network_num_parameters(network); k++) {
            const struct pen_network_parameter *it =
                pen_network_parameter(network, k);
            size_t count = 0;
            double sum = 0;
            if (it->role != PEN_ROLE_FIXED)
                continue;
            const float *tokens =
                span_of_part(engine, it->parameter, PEN_PART_GRADIENT, &count);
            for (size_t e = 0; e < count; e++)
                sum += (double)tokens[e];
            assert_true(
                fabs(sum - (ways[i].router.counts_tokens
                                ? MICROBATCHES * ROWS * model->experts_per_token
                                : 0)) < 1e-9);
            num_offsets++;
        }
        assert_int_equal(num_offsets,
                         model->num_blocks - model->num_dense_blocks);
        pen_network_free(network);
    }
    pen_model_free(model);
    pen_engine_free(engine);
}

/* ---- ways to run ---- */

static void expect_same(const struct pen_network *plain,
                        const struct pen_network *other)
{
    struct pen_engine *engine = pen_network_engine(plain);
    for (size_t i = 0; i < pen_network_num_parameters(plain); i++) {
        size_t count = 0;
        const void *left =
            span_of_part(engine, pen_network_parameter(plain, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        const void *right =
            span_of_part(engine, pen_network_parameter(other, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        assert_memory_equal(left, right, count * sizeof(float));
    }
}

static const struct way ways[] = {
    {BATCH, SEQUENCE, PEN_RECOMPUTE_FULL, 0, {.aux = 0}},
    {BATCH, SEQUENCE, PEN_RECOMPUTE_SELECTIVE, 0, {.aux = 0}},
    {BATCH,
     SEQUENCE,
     PEN_RECOMPUTE_SELECTIVE,
     1u << PEN_MODULE_MLP,
     {.aux = 0}},
    {BATCH,
     SEQUENCE,
     PEN_RECOMPUTE_SELECTIVE,
     PEN_TRAINED_MODULES,
     {.aux = 0}}};
enum { WAYS = sizeof ways / sizeof *ways };

static void expect_no_change(struct pen_engine *engine)
{
    for (int config = 0; config < CONFIGS && engine != NULL; config++) {
        struct pen_model *model = model_of(config);
        struct pen_network *plain = network_of(engine, model, &usual);
        double loss = step_of(plain, false);
        for (int w = 0; w < 2 * WAYS; w++) {
            struct pen_network *other = network_of(engine, model, &ways[w / 2]);
            double found = step_of(other, w % 2 != 0);
            if (found != loss)
                fail_msg("model %d, way %d: loss %.17g, not %.17g", config, w,
                         found, loss);
            expect_same(plain, other);
            pen_network_free(other);
        }
        pen_network_free(plain);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

static void recomputing_and_splitting_change_no_bit(void **state)
{
    (void)state;
    expect_no_change(reference_engine(PEN_PRECISION_F32));
    expect_no_change(onednn_engine(PEN_PRECISION_BF16, 1));
}

static void expect_bytes(const char *what, double found, double counted)
{
    enum { ALIGNMENTS = 2 * 40 * 64 }; /* each array begins on a line */
    if (found < counted || found > counted + ALIGNMENTS)
        fail_msg("%s %.0f bytes, counted %.0f", what, found, counted);
}

#define ONE_BLOCK                                                              \
    "\"vocab_size\":11,\"hidden_size\":64,\"num_hidden_layers\":1,"            \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"     \
    "\"max_position_embeddings\":64,\"num_experts_per_tok\":4,"

static void expect_counted_memory(const char *config)
{
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_model *model = NULL;
    assert_int_equal(pen_model_parse(config, strlen(config), &model, NULL),
                     PEN_OK);
    for (int w = 0; w <= WAYS; w++) {
        struct pen_workload work = {
            .batch = 2, .sequence = 64, .element_bytes = 4, .stat_bytes = 4};
        struct pen_network_options options = {.engine = engine,
                                              .model = model,
                                              .first_layer = 1,
                                              .num_layers = 1,
                                              .batch = 2,
                                              .sequence = 64};
        struct pen_network *network = NULL;
        struct pen_network_sizes sizes;
        struct pen_layer_cost cost;
        if (w > 0) {
            options.recompute = work.recompute = ways[w - 1].recompute;
            options.modules = work.modules = ways[w - 1].modules;
        }
        assert_int_equal(pen_network_create(&options, &network, NULL), PEN_OK);
        pen_network_sizes(network, &sizes);
        pen_model_layer_cost(model, 1, &work, &cost);
        expect_bytes("stash", (double)sizes.stash, (double)cost.stash_bytes);
        expect_bytes("hold", (double)sizes.hold, (double)cost.hold_bytes);
        assert_true((double)pen_network_scratch_bytes(network) >=
                    (double)(cost.copy_bytes + cost.again_bytes));
        pen_network_free(network);
    }
    pen_model_free(model);
    pen_engine_free(engine);
}

/* Of one block of the size of a real one, so that lines do not count. */
static void memory_is_what_the_model_counts(void **state)
{
    (void)state;
    expect_counted_memory(
        "{\"model_type\":\"qwen3_moe\"," ONE_BLOCK
        "\"intermediate_size\":96,\"num_experts\":16,"
        "\"moe_intermediate_size\":48,\"norm_topk_prob\":true}");
    expect_counted_memory("{\"model_type\":\"gpt_oss\"," ONE_BLOCK
                          "\"intermediate_size\":48,\"num_local_experts\":16}");
}

static void what_cannot_have_experts_is_refused(void **state)
{
    (void)state;
    struct pen_model *model = model_of(0);
    struct pen_engine *engine = NULL;
    struct pen_network *network = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        pen_engine_distant_create(PEN_PRECISION_F32, 1, NULL, &engine), PEN_OK);
    const struct pen_network_options options = {.engine = engine,
                                                .model = model,
                                                .num_layers = model->num_layers,
                                                .batch = BATCH,
                                                .sequence = SEQUENCE};
    assert_int_equal(pen_network_create(&options, &network, &why), PEN_INVALID);
    assert_string_equal(pen_text_string(&why),
                        "the engine distant does not compute experts; use "
                        "--engine onednn or --engine reference");
    pen_text_release(&why);
    pen_engine_free(engine);
    pen_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_the_derivative_of_the_loss),
        cmocka_unit_test(dropped_tokens_leave_a_derivative),
        cmocka_unit_test(an_expert_keeps_its_largest_gates),
        cmocka_unit_test(tokens_of_experts_are_counted),
        cmocka_unit_test(losses_of_routers_have_their_derivatives),
        cmocka_unit_test(engines_agree_whatever_the_routing),
        cmocka_unit_test(engines_drop_the_same_tokens),
        cmocka_unit_test(any_number_of_tokens_is_a_product_in_bf16),
        cmocka_unit_test(routings_of_a_step_are_counted_once),
        cmocka_unit_test(recomputing_and_splitting_change_no_bit),
        cmocka_unit_test(memory_is_what_the_model_counts),
        cmocka_unit_test(what_cannot_have_experts_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
