/*
 * Members of a group that have a share of the experts each (expert
 * parallelism): loss, gradients of what all have and the gradient of an expert
 * from each source have the bits of a network that is alone with the tokens of
 * that source, whatever the routing, all tokens to few experts, none to most,
 * one token; they send the bytes of the formula; and a lost member ends a step.
 */
#include "support/engine.h"

#include "network_step.h"
#include "support/span.h"
#include "support/thread_group.h"

#include <pthread.h>

enum { VOCAB = 27, MICROBATCHES = 2, MOST_MEMBERS = 4, MOST_ROWS = 2 * 6 };

#define SIZES                                                                  \
    "\"vocab_size\":27,\"hidden_size\":64,\"num_hidden_layers\":2,"            \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,"                     \
    "\"max_position_embeddings\":16,"

/* Of the second a member has fewer experts than a token, where there are four.
 */
static const char *const configs[] = {
    "{\"model_type\":\"mixtral\"," SIZES "\"intermediate_size\":96,"
    "\"num_local_experts\":8,\"num_experts_per_tok\":2}",
    "{\"model_type\":\"qwen3_moe\"," SIZES "\"intermediate_size\":96,"
    "\"num_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":64,"
    "\"head_dim\":16,\"mlp_only_layers\":[0],\"norm_topk_prob\":true}",
    "{\"model_type\":\"deepseek_v3\"," SIZES "\"intermediate_size\":96,"
    "\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_group\":1,"
    "\"topk_group\":1,\"moe_intermediate_size\":64,\"n_shared_experts\":1,"
    "\"first_k_dense_replace\":0,\"q_lora_rank\":null,\"kv_lora_rank\":16,"
    "\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":16}",
    "{\"model_type\":\"gpt_oss\"," SIZES "\"intermediate_size\":64,"
    "\"num_local_experts\":8,\"num_experts_per_tok\":2,\"head_dim\":16,"
    "\"sliding_window\":3,\"swiglu_limit\":0.1}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

struct way {
    const struct pen_model *model;
    size_t batch;
    size_t sequence;
    bool is_reference;
    enum pen_precision dtype;
    enum pen_recompute recompute;
    unsigned modules;
    bool is_split;
    bool is_tied; /* logits of routers: all tokens go to the first experts */
};

struct member {
    const struct way *way;
    uint32_t number;
    struct pen_expert_share share;
    struct pen_engine *engine;
    struct pen_network *network;
    double loss;
    struct pen_routings routings;
    pthread_t thread;
};

static void level_routers(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        struct pen_tensor_info info;
        size_t count = 0;
        pen_model_tensor(pen_network_model(network), it->slices[0].tensor,
                         &info);
        if (info.form->part != PEN_PART_ROUTER)
            continue;
        float *values =
            span_of_part(engine, it->parameter, PEN_PART_VALUE, &count);
        memset(values, 0, count * sizeof *values);
        engine->ops->parameter_value_changed(engine, it->parameter);
    }
}

/* Trainings begin with biases of experts that are zero. */
static void raise_biases(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        struct pen_tensor_info info;
        size_t count = 0;
        pen_model_tensor(pen_network_model(network), it->slices[0].tensor,
                         &info);
        if (!info.form->is_stacked || it->role != PEN_ROLE_BIAS)
            continue;
        float *values =
            span_of_part(engine, it->parameter, PEN_PART_VALUE, &count);
        for (size_t k = 0; k < count; k++)
            values[k] = 0.01f * (float)(k % 7 + it->number);
        engine->ops->parameter_value_changed(engine, it->parameter);
    }
}

static void make_member(struct member *it)
{
    const struct way *way = it->way;
    it->engine = way->is_reference ? reference_engine(way->dtype)
                                   : onednn_engine(way->dtype, 1);
    if (it->engine == NULL)
        return;
    struct pen_network_options options = {
        .engine = it->engine,
        .model = way->model,
        .num_layers = way->model->num_layers,
        .batch = way->batch,
        .sequence = way->sequence,
        .step_rows = MICROBATCHES * way->batch * way->sequence,
        .recompute = way->recompute,
        .modules = way->modules,
        .router = {.aux = 0.01, .z = 0.001},
        .experts = it->share};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_network_create(&options, &it->network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    assert_int_equal(pen_network_initialize(it->network, 7), PEN_OK);
    raise_biases(it->network);
    if (way->is_tied)
        level_routers(it->network);
}

/* Two steps, so that what the first one left is cleared. */
static void *run_member(void *context)
{
    struct member *it = context;
    struct pen_microbatch batches[MICROBATCHES];
    static _Thread_local int32_t ids[MICROBATCHES][MOST_ROWS];
    static _Thread_local int32_t targets[MICROBATCHES][MOST_ROWS];
    size_t rows = it->way->batch * it->way->sequence;
    for (size_t m = 0; m < MICROBATCHES; m++) {
        for (size_t i = 0; i < rows; i++) {
            size_t number = (it->number * MICROBATCHES + m) * rows + i;
            ids[m][i] = (int32_t)(number * number * 7 % VOCAB);
            targets[m][i] = (int32_t)((number * 5 + 3) % VOCAB);
        }
        batches[m] = (struct pen_microbatch){.ids = ids[m],
                                             .targets = targets[m],
                                             .loss_count = 4.0 * (double)rows};
    }
    for (int step = 0; step < 2; step++)
        it->loss =
            network_step(it->network, batches, MICROBATCHES, it->way->is_split);
    pen_network_take_routings(it->network, &it->routings);
    return NULL;
}

static void free_member(struct member *it)
{
    pen_network_free(it->network);
    pen_engine_free(it->engine);
}

static void run_group(const struct way *way, struct thread_world *world,
                      uint32_t size, struct member *members)
{
    for (uint32_t k = 0; k < size; k++) {
        members[k] = (struct member){
            .way = way,
            .number = k,
            .share = {.total = size, .group = thread_world_group(world, k)}};
        make_member(&members[k]);
    }
    for (uint32_t k = 0; k < size; k++)
        assert_int_equal(
            pthread_create(&members[k].thread, NULL, run_member, &members[k]),
            0);
    for (uint32_t k = 0; k < size; k++)
        assert_int_equal(pthread_join(members[k].thread, NULL), 0);
}

static const struct pen_network_parameter *
find_parameter(const struct pen_network *network,
               const struct pen_network_parameter *like)
{
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (it->slices[0].tensor == like->slices[0].tensor &&
            it->number == like->number)
            return it;
    }
    return NULL;
}

static const float *gradient_of(const struct member *it,
                                const struct pen_network_parameter *parameter,
                                size_t *count)
{
    return span_of_part(it->engine, parameter->parameter, PEN_PART_GRADIENT,
                        count);
}

/* What the network of `alone` has of each parameter, and where else it is. */
static void expect_bits(const struct member *alone,
                        const struct member *members, uint32_t size)
{
    uint32_t source = alone->number, num_found = 0, num_experts = 0;
    if (alone->loss != members[source].loss)
        fail_msg("loss %.17g, not %.17g", members[source].loss, alone->loss);
    assert_true(alone->routings.imbalance ==
                members[source].routings.imbalance);
    for (size_t i = 0; i < pen_network_num_parameters(alone->network); i++) {
        const struct pen_network_parameter *own =
            pen_network_parameter(alone->network, i);
        for (uint32_t k = 0; k < size; k++) {
            const struct pen_network_parameter *it =
                find_parameter(members[k].network, own);
            size_t count = 0;
            if (it == NULL || (it->num_dealt == 1 && k != source))
                continue;
            const float *expected = gradient_of(alone, own, &count);
            const float *found =
                it->num_dealt == 1
                    ? gradient_of(&members[k], it, &count)
                    : (const float *)it->gradients + source * count;
            num_found++;
            num_experts += it->num_dealt > 1;
            if (memcmp(found, expected, count * sizeof *found) != 0)
                fail_msg("source %u, member %u: parameter %zu has other bits",
                         source, k, i);
        }
    }
    assert_int_equal(num_found, pen_network_num_parameters(alone->network));
    assert_true(num_experts > 0);
}

static uint32_t count_blocks(const struct pen_model *model)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->num_blocks; i++)
        count += pen_model_block_is_sparse(model, i);
    return count;
}

/*
 * Of levelled routers: the first experts have all tokens. Every member tells
 * the others its counts; a row that leaves its member takes its input there and
 * the gradient of the result, and the result and the gradient of the input
 * back; and the gate and its gradient.
 */
static void expect_bytes(const struct way *way, struct thread_world *world,
                         uint32_t size)
{
    const struct pen_model *model = way->model;
    uint64_t owned = model->num_experts / size, rows = 0, sent = 0;
    for (uint32_t k = 0; k < size; k++)
        for (uint32_t e = 0; e < model->experts_per_token; e++)
            rows += e / owned != k ? way->batch * way->sequence : 0;
    uint64_t row = model->hidden * pen_precision_bytes(way->dtype);
    uint64_t counts = owned * size * (size - 1) * sizeof(int32_t);
    uint64_t again = way->recompute == PEN_RECOMPUTE_FULL
                         ? counts + rows * (row + sizeof(float))
                         : 0;
    uint64_t passes = (uint64_t)2 * MICROBATCHES * count_blocks(model);
    for (uint32_t k = 0; k < size; k++)
        sent += thread_world_group(world, k)->num_bytes;
    assert_int_equal(
        sent, passes * (counts + rows * (4 * row + 2 * sizeof(float)) + again));
}

static void try_group(const struct way *way, uint32_t size)
{
    struct member members[MOST_MEMBERS];
    struct thread_world *world = thread_world_create(size);
    run_group(way, world, size, members);
    for (uint32_t k = 0; k < size; k++) {
        struct member alone = {.way = way, .number = k};
        make_member(&alone);
        run_member(&alone);
        expect_bits(&alone, members, size);
        free_member(&alone);
    }
    if (way->is_tied)
        expect_bytes(way, world, size);
    for (uint32_t k = 0; k < size; k++)
        free_member(&members[k]);
    thread_world_free(world);
}

static struct pen_model *model_of(int config)
{
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_model_parse(configs[config], strlen(configs[config]), &model,
                        &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return model;
}

static void try_routings(struct way way, int config)
{
    struct pen_model *model = model_of(config);
    way.model = model;
    for (uint32_t size = 2; size <= MOST_MEMBERS; size *= 2)
        for (int tied = 0; tied < 2; tied++) {
            way.is_tied = tied != 0;
            try_group(&way, size);
        }
    pen_model_free(model);
}

static void try_models(const struct way *way)
{
    for (int config = 0; config < CONFIGS; config++)
        try_routings(*way, config);
}

static void dealing_out_experts_changes_no_bit(void **state)
{
    (void)state;
    static const struct way some[] = {
        {.is_reference = true, .dtype = PEN_PRECISION_F32},
        {.dtype = PEN_PRECISION_F32, .is_split = true},
        {.dtype = PEN_PRECISION_BF16}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct way way = some[i];
        way.batch = 2;
        way.sequence = 6;
        try_models(&way);
    }
}

static void one_token_goes_its_way(void **state)
{
    (void)state;
    const struct way way = {
        .batch = 1, .sequence = 1, .dtype = PEN_PRECISION_F32};
    try_models(&way);
}

static void computing_again_changes_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct way way = {.batch = 2,
                                .sequence = 6,
                                .dtype = PEN_PRECISION_F32,
                                .recompute = i / 2 == 0
                                                 ? PEN_RECOMPUTE_FULL
                                                 : PEN_RECOMPUTE_SELECTIVE,
                                .modules = i / 2 == 0 ? 0 : PEN_TRAINED_MODULES,
                                .is_split = i % 2 != 0};
        try_routings(way, i % CONFIGS);
    }
}

/* Nothing is read of those that are gone, and the step comes to its end. */
static void a_lost_member_ends_the_step(void **state)
{
    (void)state;
    struct pen_model *model = model_of(0);
    struct way way = {.model = model,
                      .batch = 2,
                      .sequence = 6,
                      .is_reference = true,
                      .dtype = PEN_PRECISION_F32};
    struct thread_world *world = thread_world_create(2);
    struct member it = {
        .way = &way,
        .share = {.total = 2, .group = thread_world_group(world, 0)}};
    make_member(&it);
    thread_world_lose(world, 1);
    run_member(&it);
    assert_int_equal(pen_group_status(it.share.group), PEN_LOST);
    free_member(&it);
    thread_world_free(world);
    pen_model_free(model);
}

static void experts_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    struct pen_model *model = model_of(2);
    struct thread_world *world = thread_world_create(3);
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_network_options options = {
        .engine = engine,
        .model = model,
        .num_layers = model->num_layers,
        .batch = 1,
        .sequence = 4,
        .step_rows = 4,
        .experts = {.total = 3, .group = thread_world_group(world, 0)}};
    struct pen_network *network = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_network_create(&options, &network, &why), PEN_INVALID);
    assert_string_equal(
        pen_text_string(&why),
        "the 4 experts of the model cannot be dealt out evenly "
        "over 3 ranks; use an --expert-model-parallel-size that "
        "divides them");
    pen_text_release(&why);
    pen_engine_free(engine);
    thread_world_free(world);
    pen_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dealing_out_experts_changes_no_bit),
        cmocka_unit_test(one_token_goes_its_way),
        cmocka_unit_test(computing_again_changes_no_bit),
        cmocka_unit_test(a_lost_member_ends_the_step),
        cmocka_unit_test(experts_that_do_not_divide_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
