/*
 * A model that is cut into pieces has the same bits wherever its pieces are:
 * all in one network, or shared out to the members of a group, which are
 * threads here.
 */
#include "support/engine.h"

#include "network_step.h"
#include "support/span.h"
#include "support/thread_group.h"

#include <pthread.h>

enum { BATCH = 2, SEQUENCE = 8, ROWS = BATCH * SEQUENCE, VOCAB = 27 };
enum { MICROBATCHES = 2, MOST_MEMBERS = 4 };

/* Keys and values are copied in four pieces of the last three. */
static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":27,\"n_positions\":8,"
    "\"n_embd\":64,\"n_layer\":2,\"n_head\":4}",
    "{\"model_type\":\"llama\",\"vocab_size\":27,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"max_position_embeddings\":8,\"rms_norm_eps\":1e-5}",
    "{\"model_type\":\"qwen2\",\"vocab_size\":27,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":1,"
    "\"max_position_embeddings\":8,\"tie_word_embeddings\":true}",
    "{\"model_type\":\"qwen3\",\"vocab_size\":27,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"head_dim\":16,\"max_position_embeddings\":8}",
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":27,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"max_position_embeddings\":8,\"num_experts\":4,"
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32}",
    "{\"model_type\":\"deepseek_v3\",\"vocab_size\":27,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
    "\"max_position_embeddings\":8,\"n_routed_experts\":4,"
    "\"num_experts_per_tok\":2,\"n_group\":2,\"topk_group\":1,"
    "\"moe_intermediate_size\":32,\"n_shared_experts\":1,"
    "\"first_k_dense_replace\":0,\"q_lora_rank\":24,\"kv_lora_rank\":16,"
    "\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":16}",
    "{\"model_type\":\"gpt_oss\",\"vocab_size\":27,\"hidden_size\":64,"
    "\"intermediate_size\":32,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"max_position_embeddings\":8,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":2,\"sliding_window\":3,\"swiglu_limit\":0.7}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

struct setting {
    const struct pen_model *model;
    enum pen_precision dtype;
    enum pen_recompute recompute;
    bool cuts_rows;
};

struct member {
    const struct setting *setting;
    struct pen_tensor_share tensor;
    struct pen_engine *engine;
    struct pen_network *network;
    double loss;
    pthread_t thread;
};

static int32_t word_of(size_t number)
{
    return (int32_t)(number * number * 7 % VOCAB);
}

/* f32 by the reference, bf16 by oneDNN. */
static void make_member(struct member *it)
{
    const struct setting *setting = it->setting;
    it->engine = setting->dtype == PEN_PRECISION_F32
                     ? reference_engine(PEN_PRECISION_F32)
                     : onednn_engine(setting->dtype, 1);
    struct pen_network_options options = {.engine = it->engine,
                                          .model = setting->model,
                                          .num_layers =
                                              setting->model->num_layers,
                                          .batch = BATCH,
                                          .sequence = SEQUENCE,
                                          .step_rows = MICROBATCHES * ROWS,
                                          .recompute = setting->recompute,
                                          .tensor = it->tensor};
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
    int32_t ids[MICROBATCHES][ROWS], targets[MICROBATCHES][ROWS];
    for (size_t m = 0; m < MICROBATCHES; m++) {
        for (size_t i = 0; i < ROWS; i++) {
            ids[m][i] = word_of(m * ROWS + i);
            targets[m][i] = i % 7 == 3 ? PEN_NO_TARGET : word_of(i + 11 * m);
        }
        batches[m] = (struct pen_microbatch){
            .ids = ids[m], .targets = targets[m], .loss_count = 2 * ROWS};
    }
    it->loss = network_step(it->network, batches, MICROBATCHES, false);
    return NULL;
}

static void free_member(struct member *it)
{
    pen_network_free(it->network);
    pen_engine_free(it->engine);
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
    fail_msg("tensor %u, number %u: nobody has it", like->slices[0].tensor,
             like->number);
    return NULL;
}

/* Gradients of a member are those of the network with all pieces. */
static void expect_bits(const struct member *all, const struct member *it)
{
    if (it->loss != all->loss)
        fail_msg("member %u of %u pieces: loss %.17g, not %.17g",
                 it->tensor.first / it->tensor.count, it->tensor.total,
                 it->loss, all->loss);
    for (size_t i = 0; i < pen_network_num_parameters(it->network); i++) {
        const struct pen_network_parameter *here =
            pen_network_parameter(it->network, i);
        const struct pen_network_parameter *there =
            find_parameter(all->network, here);
        size_t count = 0, other = 0;
        const void *found = span_of_part(it->engine, here->parameter,
                                         PEN_PART_GRADIENT, &count);
        const void *expected = span_of_part(all->engine, there->parameter,
                                            PEN_PART_GRADIENT, &other);
        assert_int_equal(count, other);
        if (memcmp(found, expected, count * sizeof(float)) != 0)
            fail_msg("member %u of %u pieces: the gradient of tensor %u, "
                     "number %u differs",
                     it->tensor.first / it->tensor.count, it->tensor.total,
                     here->slices[0].tensor, here->number);
    }
}

/* Every number is counted and written by one member. */
static void expect_owners(const struct member *all,
                          const struct member *members, uint32_t count)
{
    for (size_t i = 0; i < pen_network_num_parameters(all->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(all->network, i);
        uint32_t owners = 0;
        for (uint32_t k = 0; k < count; k++)
            for (size_t j = 0;
                 j < pen_network_num_parameters(members[k].network); j++) {
                const struct pen_network_parameter *here =
                    pen_network_parameter(members[k].network, j);
                owners += here->slices[0].tensor == it->slices[0].tensor &&
                          here->number == it->number && !here->is_copy;
            }
        assert_int_equal(owners, it->is_copy ? 0 : 1);
    }
}

static void compare(const struct setting *setting, uint32_t pieces,
                    uint32_t size)
{
    struct member members[MOST_MEMBERS];
    struct member all = {
        .setting = setting,
        .tensor = {pieces, 0, pieces, NULL, setting->cuts_rows}};
    struct thread_world *world = thread_world_create(size);
    make_member(&all);
    run_member(&all);
    for (uint32_t k = 0; k < size; k++) {
        uint32_t share = pieces / size;
        members[k] = (struct member){.setting = setting,
                                     .tensor = {pieces, k * share, share,
                                                thread_world_group(world, k),
                                                setting->cuts_rows}};
        make_member(&members[k]);
    }
    for (uint32_t k = 0; k < size; k++)
        assert_int_equal(
            pthread_create(&members[k].thread, NULL, run_member, &members[k]),
            0);
    for (uint32_t k = 0; k < size; k++)
        assert_int_equal(pthread_join(members[k].thread, NULL), 0);
    for (uint32_t k = 0; k < size; k++)
        expect_bits(&all, &members[k]);
    expect_owners(&all, members, size);
    for (uint32_t k = 0; k < size; k++)
        free_member(&members[k]);
    free_member(&all);
    thread_world_free(world);
}

static void compare_models(enum pen_precision dtype, bool cuts_rows)
{
    for (int i = 0; i < CONFIGS; i++) {
        struct pen_model *model = NULL;
        assert_int_equal(
            pen_model_parse(configs[i], strlen(configs[i]), &model, NULL),
            PEN_OK);
        for (int recompute = 0; recompute < PEN_RECOMPUTES; recompute++) {
            const struct setting setting = {
                model, dtype, (enum pen_recompute)recompute, cuts_rows};
            compare(&setting, 2, 2);
            compare(&setting, 4, 2);
            compare(&setting, 4, 4);
        }
        pen_model_free(model);
    }
}

static void members_have_the_bits_of_one_network(void **state)
{
    (void)state;
    compare_models(PEN_PRECISION_F32, false);
}

static void so_they_have_in_bf16(void **state)
{
    (void)state;
    compare_models(PEN_PRECISION_BF16, false);
}

static void so_they_have_with_parts_of_the_rows(void **state)
{
    (void)state;
    compare_models(PEN_PRECISION_F32, true);
    compare_models(PEN_PRECISION_BF16, true);
}

static void numbers_without_a_subtree_are_refused(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\":\"gpt2\",\"vocab_size\":27,\"n_positions\":8,"
        "\"n_embd\":48,\"n_layer\":1,\"n_head\":6}";
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct thread_world *world = thread_world_create(2);
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    struct pen_network *network = NULL;
    assert_int_equal(pen_model_parse(config, strlen(config), &model, NULL),
                     PEN_OK);
    struct pen_network_options options = {
        .engine = engine,
        .model = model,
        .num_layers = model->num_layers,
        .batch = BATCH,
        .sequence = SEQUENCE,
        .tensor = {.total = 6,
                   .first = 3,
                   .count = 3,
                   .group = thread_world_group(world, 1)}};
    assert_int_equal(pen_network_create(&options, &network, &why), PEN_INVALID);
    assert_string_equal(pen_text_string(&why),
                        "2 tensor-parallel ranks with 3 pieces each: both have "
                        "to be powers of two");
    pen_text_release(&why);
    pen_model_free(model);
    thread_world_free(world);
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_have_the_bits_of_one_network),
        cmocka_unit_test(so_they_have_in_bf16),
        cmocka_unit_test(so_they_have_with_parts_of_the_rows),
        cmocka_unit_test(numbers_without_a_subtree_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
