/*
 * Members of a group that have a part of every sequence each (context
 * parallelism): their losses and gradients add up to those of one network with
 * whole sequences but for rounding, with the same bits whether the backward is
 * whole or split and whatever is computed again, also where products are cut
 * into pieces; and they send the bytes of the formula.
 */
#include "support/engine.h"

#include "network_step.h"
#include "support/span.h"
#include "support/thread_group.h"

#include <math.h>
#include <pthread.h>

enum { BATCH = 2, VOCAB = 27, MICROBATCHES = 2, MOST_MEMBERS = 4 };
enum { MOST_ROWS = BATCH * 160, MOST_PARAMETERS = 96 };

#define SIZES                                                                  \
    "\"vocab_size\":27,\"hidden_size\":64,\"intermediate_size\":96,"           \
    "\"num_hidden_layers\":2,\"max_position_embeddings\":160,"                 \
    "\"rms_norm_eps\":1e-5,"

/* Heads of the last fill tiles of AMX. */
static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":27,\"n_positions\":160,"
    "\"n_embd\":64,\"n_layer\":2,\"n_head\":4}",
    "{\"model_type\":\"qwen3\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16}",
    "{\"model_type\":\"mistral\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16,\"sliding_window\":5}",
    "{\"model_type\":\"qwen2\"," SIZES "\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"tie_word_embeddings\":true}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

/* With losses of routers, which count the tokens of whole sequences. */
static const char *const mixtures[] = {
    "{\"model_type\":\"mixtral\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":2}",
    "{\"model_type\":\"gpt_oss\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":2,\"sliding_window\":5,\"swiglu_limit\":0.1}"};
enum { MIXTURES = sizeof mixtures / sizeof *mixtures };

struct way {
    const struct pen_model *model;
    size_t sequence;
    bool is_reference;
    enum pen_precision dtype;
    enum pen_recompute recompute;
    bool is_split;
    uint32_t pieces; /* of every product, all here; 0: whole ones */
};

struct member {
    const struct way *way;
    struct pen_context_share share;
    struct pen_engine *engine;
    struct pen_network *network;
    double loss;
    pthread_t thread;
};

/* The token at a row of a part: [chunk][batch][token]. */
static size_t token_of(const struct member *it, size_t row)
{
    uint32_t total = it->share.total;
    size_t tokens = it->way->sequence / (total == 1 ? 1 : 2 * total);
    size_t chunk = row / (BATCH * tokens);
    size_t number =
        chunk == 0 ? it->share.part : 2 * total - 1 - it->share.part;
    size_t batch = row / tokens % BATCH;
    return batch * it->way->sequence + number * tokens + row % tokens;
}

static void make_member(struct member *it)
{
    const struct way *way = it->way;
    it->engine = way->is_reference ? reference_engine(way->dtype)
                                   : onednn_engine(way->dtype, 1);
    struct pen_network_options options = {
        .engine = it->engine,
        .model = way->model,
        .num_layers = way->model->num_layers,
        .batch = BATCH,
        .sequence = way->sequence,
        .step_rows = MICROBATCHES * BATCH * way->sequence,
        .recompute = way->recompute,
        .tensor = {.total = way->pieces, .count = way->pieces},
        .router = {.aux = 1, .z = 0.1},
        .context = it->share};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_network_create(&options, &it->network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    assert_int_equal(pen_network_initialize(it->network, 7), PEN_OK);
}

static void *run_member(void *context)
{
    struct member *it = context;
    struct pen_microbatch batches[MICROBATCHES];
    static _Thread_local int32_t ids[MICROBATCHES][MOST_ROWS];
    static _Thread_local int32_t targets[MICROBATCHES][MOST_ROWS];
    size_t all = BATCH * it->way->sequence;
    for (size_t m = 0; m < MICROBATCHES; m++) {
        for (size_t i = 0; i < all / it->share.total; i++) {
            size_t token = token_of(it, i), number = m * all + token;
            ids[m][i] = (int32_t)(number * number * 7 % VOCAB);
            targets[m][i] = token % 7 == 3
                                ? PEN_NO_TARGET
                                : (int32_t)((number * 5 + 3) % VOCAB);
        }
        batches[m] = (struct pen_microbatch){.ids = ids[m],
                                             .targets = targets[m],
                                             .loss_count = (double)(2 * all)};
    }
    it->loss =
        network_step(it->network, batches, MICROBATCHES, it->way->is_split);
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
            .way = way, .share = {size, k, thread_world_group(world, k)}};
        make_member(&members[k]);
    }
    for (uint32_t k = 0; k < size; k++)
        assert_int_equal(
            pthread_create(&members[k].thread, NULL, run_member, &members[k]),
            0);
    for (uint32_t k = 0; k < size; k++)
        assert_int_equal(pthread_join(members[k].thread, NULL), 0);
}

static const float *gradient_of(const struct member *it, size_t index,
                                size_t *count)
{
    return span_of_part(it->engine,
                        pen_network_parameter(it->network, index)->parameter,
                        PEN_PART_GRADIENT, count);
}

/* A bias of keys has no gradient but rounding: the least norm is a part of the
 * largest. */
static void expect_sums(const struct member *whole,
                        const struct member *members, uint32_t size)
{
    bool is_bf16 = whole->way->dtype == PEN_PRECISION_BF16;
    double loss = 0, largest = 0;
    double apart[MOST_PARAMETERS] = {0}, norms[MOST_PARAMETERS] = {0};
    size_t num = pen_network_num_parameters(whole->network);
    assert_true(num <= MOST_PARAMETERS);
    for (uint32_t k = 0; k < size; k++)
        loss += members[k].loss;
    if (!(fabs(loss / whole->loss - 1) < (is_bf16 ? 5e-3 : 1e-6)))
        fail_msg("loss %.9g, not %.9g", loss, whole->loss);
    for (size_t p = 0; p < num; p++) {
        size_t count = 0;
        const float *expected = gradient_of(whole, p, &count);
        for (size_t i = 0; i < count; i++) {
            double sum = 0, number = (double)expected[i];
            for (uint32_t k = 0; k < size; k++)
                sum += (double)gradient_of(&members[k], p, &count)[i];
            apart[p] += (sum - number) * (sum - number);
            norms[p] += number * number;
        }
        largest = fmax(largest, sqrt(norms[p]));
    }
    for (size_t p = 0; p < num; p++) {
        double norm = fmax(sqrt(norms[p]), 1e-2 * largest);
        if (!(sqrt(apart[p]) <= (is_bf16 ? 5e-2 : 1e-5) * norm))
            fail_msg("%u members: parameter %zu differs by %g of its norm",
                     size, p, sqrt(apart[p]) / norm);
    }
}

static void expect_bits(const struct member *first, const struct member *again)
{
    assert_true(first->loss == again->loss);
    for (size_t p = 0; p < pen_network_num_parameters(first->network); p++) {
        size_t count = 0;
        const float *a = gradient_of(first, p, &count);
        const float *b = gradient_of(again, p, &count);
        if (memcmp(a, b, count * sizeof *a) != 0)
            fail_msg("part %u: parameter %zu has other bits", first->share.part,
                     p);
    }
}

static void try_ways(const struct way *like, uint32_t size)
{
    struct member whole = {.way = like, .share = {1, 0, NULL}};
    struct member first[MOST_MEMBERS], again[MOST_MEMBERS];
    struct thread_world *world = thread_world_create(size);
    make_member(&whole);
    run_member(&whole);
    run_group(like, world, size, first);
    expect_sums(&whole, first, size);
    for (int recompute = 0; recompute < PEN_RECOMPUTES; recompute++) {
        struct way way = *like;
        way.recompute = (enum pen_recompute)recompute;
        way.is_split = recompute != PEN_RECOMPUTE_SELECTIVE;
        run_group(&way, world, size, again);
        for (uint32_t k = 0; k < size; k++) {
            expect_bits(&first[k], &again[k]);
            free_member(&again[k]);
        }
    }
    for (uint32_t k = 0; k < size; k++)
        free_member(&first[k]);
    free_member(&whole);
    thread_world_free(world);
}

static void try_models(enum pen_precision dtype, bool is_reference)
{
    for (int i = 0; i < CONFIGS; i++) {
        struct pen_model *model = NULL;
        assert_int_equal(
            pen_model_parse(configs[i], strlen(configs[i]), &model, NULL),
            PEN_OK);
        struct way way = {.model = model,
                          .sequence = 16,
                          .is_reference = is_reference,
                          .dtype = dtype};
        try_ways(&way, 2);
        try_ways(&way, 4);
        if (is_reference && i % 2 == 1) {
            way.pieces = 2;
            try_ways(&way, 2);
        }
        way.sequence = 160;
        if (!is_reference && i % 2 == 1)
            try_ways(&way, 2);
        pen_model_free(model);
    }
}

static void so_do_those_of_mixtures(void **state)
{
    (void)state;
    for (int i = 0; i < MIXTURES; i++) {
        struct pen_model *model = NULL;
        assert_int_equal(
            pen_model_parse(mixtures[i], strlen(mixtures[i]), &model, NULL),
            PEN_OK);
        struct way way = {
            .model = model, .sequence = 16, .dtype = PEN_PRECISION_F32};
        try_ways(&way, 4);
        way.is_reference = true;
        way.pieces = 2;
        try_ways(&way, 2);
        pen_model_free(model);
    }
}

static void parts_add_up_to_whole_sequences(void **state)
{
    (void)state;
    try_models(PEN_PRECISION_F32, true);
}

static void so_they_do_in_the_fast_engine(void **state)
{
    (void)state;
    try_models(PEN_PRECISION_F32, false);
}

static void so_they_do_in_bf16(void **state)
{
    (void)state;
    try_models(PEN_PRECISION_BF16, false);
}

/*
 * Of each layer and micro-batch, in chunks of keys and values: forward both
 * chunks go to all others; backward all low chunks get a share of every other
 * part, and the high chunk of a part those of the parts before it. Blocks with
 * experts send others the tokens of each.
 */
static void expect_bytes(const char *config)
{
    enum { SIZE = 4, SEQUENCE = 16, LAYERS = 2 };
    struct pen_model *model = NULL;
    struct member members[MOST_MEMBERS];
    struct thread_world *world = thread_world_create(SIZE);
    assert_int_equal(pen_model_parse(config, strlen(config), &model, NULL),
                     PEN_OK);
    const struct way way = {.model = model,
                            .sequence = SEQUENCE,
                            .is_reference = true,
                            .dtype = PEN_PRECISION_F32};
    run_group(&way, world, SIZE, members);
    uint64_t chunk = BATCH * SEQUENCE / (2 * SIZE) * 2 * (2 * 16) * 4;
    for (uint32_t k = 0; k < SIZE; k++) {
        uint64_t chunks = 2 * (SIZE - 1) + (SIZE - 1) + (SIZE - 1 - k);
        assert_int_equal(
            members[k].share.group->num_bytes,
            MICROBATCHES * LAYERS *
                (chunks * chunk + (SIZE - 1) * model->num_experts * 4));
        free_member(&members[k]);
    }
    pen_model_free(model);
    thread_world_free(world);
}

static void bytes_are_those_of_the_formula(void **state)
{
    (void)state;
    expect_bytes(configs[1]);
    expect_bytes(mixtures[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_whole_sequences),
        cmocka_unit_test(so_they_do_in_the_fast_engine),
        cmocka_unit_test(so_they_do_in_bf16),
        cmocka_unit_test(so_do_those_of_mixtures),
        cmocka_unit_test(bytes_are_those_of_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
