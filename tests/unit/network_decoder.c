/*
 * Decoders of every family: the gradient is the derivative of the loss, and
 * the ways to run a network that may not change it do not change a bit.
 */
#include "support/engine.h"

#include "network_step.h"
#include "support/span.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, SEQUENCE = 5, ROWS = BATCH * SEQUENCE, VOCAB = 11 };

static const struct family {
    const char *name;
    const char *config;
} families[] = {
    {"gpt2", "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_positions\":8,"
             "\"n_embd\":8,\"n_layer\":2,\"n_head\":2}"},
    {"llama", "{\"model_type\":\"llama\",\"vocab_size\":11,\"hidden_size\":8,"
              "\"intermediate_size\":12,\"num_hidden_layers\":2,"
              "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
              "\"max_position_embeddings\":8,\"rms_norm_eps\":1e-5}"},
    {"mistral",
     "{\"model_type\":\"mistral\",\"vocab_size\":11,\"hidden_size\":8,"
     "\"intermediate_size\":12,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"max_position_embeddings\":8,\"sliding_window\":3}"},
    {"qwen2", "{\"model_type\":\"qwen2\",\"vocab_size\":11,\"hidden_size\":8,"
              "\"intermediate_size\":12,\"num_hidden_layers\":2,"
              "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
              "\"max_position_embeddings\":8,\"tie_word_embeddings\":true}"},
    {"qwen3", "{\"model_type\":\"qwen3\",\"vocab_size\":11,\"hidden_size\":8,"
              "\"intermediate_size\":12,\"num_hidden_layers\":2,"
              "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
              "\"head_dim\":4,\"max_position_embeddings\":8}"},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* Three micro-batches of a step; tokens repeat, some targets do not count. */
enum { MICROBATCHES = 3 };

static const int32_t ids[MICROBATCHES][ROWS] = {
    {1, 2, 3, 4, 1, 10, 9, 3, 3, 0},
    {5, 5, 5, 2, 1, 0, 1, 2, 3, 4},
    {7, 8, 9, 10, 6, 6, 2, 4, 8, 1}};
static const int32_t targets[MICROBATCHES][ROWS] = {
    {2, 3, 4, 1, PEN_NO_TARGET, 9, 3, 3, 0, 7},
    {5, 5, 2, 1, 3, 1, 2, 3, 4, PEN_NO_TARGET},
    {8, 9, 10, 6, 5, 2, 4, 8, 1, 0}};
static const double num_targets = MICROBATCHES * ROWS - 2;

static struct pen_model *model_of(const struct family *family)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    if (pen_model_parse(family->config, strlen(family->config), &model, &why) !=
        PEN_OK)
        fail_msg("%s: %s", family->name, pen_text_string(&why));
    pen_text_release(&why);
    return model;
}

static struct pen_network *make_cut(struct pen_engine *engine,
                                    const struct pen_model *model,
                                    uint32_t first, uint32_t count,
                                    enum pen_recompute recompute,
                                    uint32_t pieces)
{
    struct pen_network_options options = {
        .engine = engine,
        .model = model,
        .first_layer = first,
        .num_layers = count,
        .batch = BATCH,
        .sequence = SEQUENCE,
        .step_rows = MICROBATCHES * ROWS,
        .recompute = recompute,
        .tensor = {.total = pieces, .count = pieces}};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_network *network = NULL;
    if (pen_network_create(&options, &network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    assert_int_equal(pen_network_initialize(network, 7), PEN_OK);
    return network;
}

static struct pen_network *make_network(struct pen_engine *engine,
                                        const struct pen_model *model,
                                        uint32_t first, uint32_t count,
                                        enum pen_recompute recompute)
{
    return make_cut(engine, model, first, count, recompute, 1);
}

static struct pen_microbatch microbatch_of(int m)
{
    return (struct pen_microbatch){
        .ids = ids[m], .targets = targets[m], .loss_count = num_targets};
}

static double run_step(struct pen_network *network, bool is_split)
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

/* Larger than at the start of a training, so that every term shows. */
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

static void expect_derivative(struct pen_network *network,
                              const struct family *family, size_t index)
{
    struct pen_engine *engine = pen_network_engine(network);
    struct pen_parameter *it = pen_network_parameter(network, index)->parameter;
    size_t count = 0;
    double *values = span_of_part(engine, it, PEN_PART_VALUE, &count);
    double *gradient = span_of_part(engine, it, PEN_PART_GRADIENT, &count);
    double *quotient = calloc(count, sizeof *quotient);
    assert_non_null(quotient);
    const double step = 1e-5;
    for (size_t k = 0; k < count; k++) {
        double value = values[k];
        values[k] = value + step;
        engine->ops->parameter_value_changed(engine, it);
        double above = loss_of(network);
        values[k] = value - step;
        engine->ops->parameter_value_changed(engine, it);
        quotient[k] = (above - loss_of(network)) / (2 * step);
        values[k] = value;
        engine->ops->parameter_value_changed(engine, it);
    }
    double apart = relative_distance(count, quotient, gradient);
    if (!(apart <= 1e-6))
        fail_msg("%s, parameter %zu: %g from the difference quotient "
                 "(expected %.12g, found %.12g)",
                 family->name, index, apart, quotient[0], gradient[0]);
    free(quotient);
}

static void gradient_is_the_derivative_of_the_loss(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    for (int f = 0; f < FAMILIES; f++) {
        struct pen_model *model = model_of(&families[f]);
        struct pen_network *network = make_network(
            engine, model, 0, model->num_layers, PEN_RECOMPUTE_NONE);
        spread(network);
        double loss = run_step(network, false);
        assert_true(isfinite(loss) && loss > 0);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++)
            expect_derivative(network, &families[f], i);
        pen_network_free(network);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

static void expect_same_gradients(const struct pen_network *a,
                                  const struct pen_network *b, const char *name)
{
    struct pen_engine *engine = pen_network_engine(a);
    for (size_t i = 0; i < pen_network_num_parameters(a); i++) {
        size_t count = 0;
        const void *left =
            span_of_part(engine, pen_network_parameter(a, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        const void *right =
            span_of_part(engine, pen_network_parameter(b, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        if (memcmp(left, right, count * sizeof(float)) != 0)
            fail_msg("%s: gradient %zu differs (%.9g, %.9g, ...)", name, i,
                     (double)*(const float *)left,
                     (double)*(const float *)right);
    }
}

static void recomputing_and_splitting_change_no_bit(void **state)
{
    (void)state;
    static const enum pen_recompute ways[] = {
        PEN_RECOMPUTE_NONE, PEN_RECOMPUTE_SELECTIVE, PEN_RECOMPUTE_FULL};
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    for (int f = 0; f < 2 * FAMILIES; f++) {
        uint32_t pieces = f < FAMILIES ? 1 : 2;
        const struct family *family = &families[f % FAMILIES];
        struct pen_model *model = model_of(family);
        struct pen_network *plain = make_cut(
            engine, model, 0, model->num_layers, PEN_RECOMPUTE_NONE, pieces);
        double loss = run_step(plain, false);
        for (int way = 0; way < 3; way++)
            for (int split = 0; split < 2; split++) {
                struct pen_network *other = make_cut(
                    engine, model, 0, model->num_layers, ways[way], pieces);
                double found = run_step(other, split != 0);
                if (found != loss)
                    fail_msg(
                        "%s, recompute %d, split %d: loss %.17g, not %.17g",
                        family->name, way, split, found, loss);
                expect_same_gradients(plain, other, family->name);
                pen_network_free(other);
            }
        pen_network_free(plain);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

/* One stage per layer, activations and gradients handed on. */
static double run_stages(struct pen_network **stages, uint32_t count)
{
    struct pen_network_sizes sizes;
    void *stashes[8], *x[9], *dx[9];
    double loss = 0;
    for (uint32_t s = 0; s < count; s++) {
        pen_network_sizes(stages[s], &sizes);
        stashes[s] = room(sizes.stash);
        x[s] = s == 0 ? NULL : room(sizes.input);
        dx[s] = s == 0 ? NULL : room(sizes.input);
        pen_network_clear_gradients(stages[s]);
    }
    x[count] = dx[count] = NULL;
    for (int m = 0; m < MICROBATCHES; m++) {
        struct pen_microbatch batch = microbatch_of(m);
        for (uint32_t s = 0; s < count; s++)
            pen_network_forward(stages[s], &batch, stashes[s], x[s], x[s + 1]);
        loss += pen_network_loss(stages[count - 1]);
        for (uint32_t s = count; s-- > 0;)
            pen_network_backward(stages[s], &batch, stashes[s], dx[s + 1],
                                 dx[s]);
    }
    for (uint32_t s = 0; s < count; s++) {
        pen_network_finish_gradients(stages[s]);
        free(stashes[s]);
        free(x[s]);
        free(dx[s]);
    }
    return loss;
}

static void stages_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_model *model = model_of(&families[1]);
    struct pen_network *whole =
        make_network(engine, model, 0, model->num_layers, PEN_RECOMPUTE_NONE);
    double loss = run_step(whole, false);
    struct pen_network *stages[8];
    for (uint32_t s = 0; s < model->num_layers; s++)
        stages[s] = make_network(engine, model, s, 1, PEN_RECOMPUTE_NONE);
    double found = run_stages(stages, model->num_layers);
    if (found != loss)
        fail_msg("loss %.17g in stages, %.17g in one", found, loss);
    size_t index = 0;
    for (uint32_t s = 0; s < model->num_layers; s++) {
        for (size_t i = 0; i < pen_network_num_parameters(stages[s]); i++) {
            size_t count = 0;
            const void *left = span_of_part(
                engine, pen_network_parameter(whole, index++)->parameter,
                PEN_PART_GRADIENT, &count);
            const void *right = span_of_part(
                engine, pen_network_parameter(stages[s], i)->parameter,
                PEN_PART_GRADIENT, &count);
            assert_memory_equal(left, right, count * sizeof(float));
        }
        pen_network_free(stages[s]);
    }
    assert_int_equal(index, pen_network_num_parameters(whole));
    pen_network_free(whole);
    pen_model_free(model);
    pen_engine_free(engine);
}

/* ---- models that are cut ---- */

/* Rows and columns of a piece, out of the whole tensor or into it. */
static void move_piece(const struct pen_tensor_slice *slice, size_t columns,
                       double *whole, double *plain, bool is_out)
{
    const struct pen_tensor_piece *piece = &slice->piece;
    for (size_t r = 0; r < piece->num_rows; r++)
        for (size_t c = 0; c < piece->num_columns; c++) {
            double *in_whole = &whole[(piece->first_row + r) * columns +
                                      piece->first_column + c];
            double *in_piece =
                &plain[slice->first + r * piece->num_columns + c];
            *(is_out ? in_piece : in_whole) = *(is_out ? in_whole : in_piece);
        }
}

/* A part of all parameters out of whole tensors, or into them. */
static void move_parts(const struct pen_network *network,
                       enum pen_parameter_part part, double **wholes,
                       bool is_out)
{
    struct pen_engine *engine = pen_network_engine(network);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        double *plain = calloc(pen_network_count(it), sizeof *plain);
        engine->ops->parameter_export(engine, it->parameter, part, it->order,
                                      plain);
        for (size_t k = 0; k < it->num_slices; k++) {
            struct pen_tensor_info info;
            pen_model_tensor(pen_network_model(network), it->slices[k].tensor,
                             &info);
            struct pen_tensor_piece all =
                pen_tensor_piece_whole(info.form->num_dims, info.form->shape);
            double **whole = &wholes[it->slices[k].tensor];
            if (*whole == NULL)
                *whole = calloc(pen_tensor_piece_count(&all), sizeof **whole);
            move_piece(&it->slices[k], (size_t)all.num_columns, *whole, plain,
                       is_out);
        }
        if (is_out)
            engine->ops->parameter_import(engine, it->parameter, part,
                                          it->order, plain);
        free(plain);
    }
}

static size_t count_of_tensor(const struct pen_model *model, uint32_t tensor)
{
    struct pen_tensor_info info;
    pen_model_tensor(model, tensor, &info);
    struct pen_tensor_piece all =
        pen_tensor_piece_whole(info.form->num_dims, info.form->shape);
    return pen_tensor_piece_count(&all);
}

/* Mixtures that tests cut into pieces. */
static const struct family mixtures[] = {
    {"mixtral", "{\"model_type\":\"mixtral\",\"vocab_size\":11,"
                "\"hidden_size\":8,\"intermediate_size\":12,"
                "\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                "\"num_key_value_heads\":2,\"max_position_embeddings\":8,"
                "\"num_local_experts\":4,\"num_experts_per_tok\":2}"},
    {"qwen3_moe",
     "{\"model_type\":\"qwen3_moe\",\"vocab_size\":11,\"hidden_size\":8,"
     "\"intermediate_size\":12,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
     "\"max_position_embeddings\":8,\"head_dim\":4,\"num_experts\":5,"
     "\"num_experts_per_tok\":3,\"moe_intermediate_size\":4,"
     "\"mlp_only_layers\":[0],\"norm_topk_prob\":true}"},
    {"deepseek_v3",
     "{\"model_type\":\"deepseek_v3\",\"vocab_size\":11,\"hidden_size\":8,"
     "\"intermediate_size\":12,\"num_hidden_layers\":2,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
     "\"max_position_embeddings\":8,\"n_routed_experts\":6,"
     "\"num_experts_per_tok\":2,\"n_group\":3,\"topk_group\":2,"
     "\"moe_intermediate_size\":4,\"n_shared_experts\":2,"
     "\"first_k_dense_replace\":1,\"routed_scaling_factor\":1.7,"
     "\"q_lora_rank\":6,\"kv_lora_rank\":5,\"qk_nope_head_dim\":4,"
     "\"qk_rope_head_dim\":2,\"v_head_dim\":3}"},
    {"gpt_oss", "{\"model_type\":\"gpt_oss\",\"vocab_size\":11,"
                "\"hidden_size\":8,\"intermediate_size\":8,"
                "\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                "\"num_key_value_heads\":2,\"max_position_embeddings\":8,"
                "\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                "\"head_dim\":4,\"sliding_window\":3,\"swiglu_limit\":0.7}"}};
enum { MIXTURES = sizeof mixtures / sizeof mixtures[0] };

/* Loss and gradients of a cut model are those of the whole but for rounding. */
static void expect_cut(struct pen_engine *engine, const struct family *family,
                       uint32_t pieces)
{
    struct pen_model *model = model_of(family);
    struct pen_network *whole =
        make_network(engine, model, 0, model->num_layers, PEN_RECOMPUTE_NONE);
    struct pen_network *cut = make_cut(engine, model, 0, model->num_layers,
                                       PEN_RECOMPUTE_NONE, pieces);
    double **values = calloc(model->num_tensors, sizeof *values);
    double **expected = calloc(model->num_tensors, sizeof *expected);
    double **found = calloc(model->num_tensors, sizeof *found);
    spread(whole);
    move_parts(whole, PEN_PART_VALUE, values, false);
    move_parts(cut, PEN_PART_VALUE, values, true);
    double loss = run_step(whole, false);
    double other = run_step(cut, true);
    if (!(fabs(loss - other) <= 1e-12 * fabs(loss)))
        fail_msg("%s in %u pieces: loss %.17g, not %.17g", family->name, pieces,
                 other, loss);
    move_parts(whole, PEN_PART_GRADIENT, expected, false);
    move_parts(cut, PEN_PART_GRADIENT, found, false);
    for (uint32_t t = 0; t < model->num_tensors; t++) {
        double apart =
            relative_distance(count_of_tensor(model, t), expected[t], found[t]);
        if (!(apart <= 1e-11))
            fail_msg("%s in %u pieces: the gradient of tensor %u is %g off",
                     family->name, pieces, t, apart);
        free(values[t]);
        free(expected[t]);
        free(found[t]);
    }
    free(values);
    free(expected);
    free(found);
    pen_network_free(whole);
    pen_network_free(cut);
    pen_model_free(model);
}

static void pieces_compute_what_the_whole_does(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    for (int f = 0; f < FAMILIES; f++) {
        expect_cut(engine, &families[f], 2);
        if (f > 0) /* four heads, of which two have keys and values */
            expect_cut(engine, &families[f], 4);
    }
    for (int f = 0; f < MIXTURES; f++) {
        expect_cut(engine, &mixtures[f], 2);
        expect_cut(engine, &mixtures[f], 4);
    }
    pen_engine_free(engine);
}

/* Copies are trained alike: all have the gradient of all. */
static void copies_have_one_gradient(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_model *model = model_of(&families[FAMILIES - 1]);
    struct pen_network *cut =
        make_cut(engine, model, 0, model->num_layers, PEN_RECOMPUTE_NONE, 4);
    size_t copies = 0;
    run_step(cut, false);
    for (size_t i = 0; i < pen_network_num_parameters(cut); i++) {
        const struct pen_network_parameter *it = pen_network_parameter(cut, i);
        for (size_t k = i; it->is_copy && k-- > 0;) {
            const struct pen_network_parameter *first =
                pen_network_parameter(cut, k);
            size_t count = 0;
            if (first->slices[0].tensor != it->slices[0].tensor ||
                first->slices[0].piece.first_row !=
                    it->slices[0].piece.first_row ||
                first->is_copy)
                continue;
            copies++;
            const void *left = span_of_part(engine, first->parameter,
                                            PEN_PART_GRADIENT, &count);
            const void *right =
                span_of_part(engine, it->parameter, PEN_PART_GRADIENT, &count);
            assert_memory_equal(left, right, count * sizeof(float));
            break;
        }
    }
    /* Keys and values of two pieces, and two gains of three, in two blocks. */
    assert_int_equal(copies, 2 * (2 * 2 + 2 * 3));
    pen_network_free(cut);
    pen_model_free(model);
    pen_engine_free(engine);
}

static void models_that_cannot_be_cut_are_refused(void **state)
{
    (void)state;
    static const struct {
        const struct family *family;
        uint32_t pieces;
        const char *why;
    } cases[] = {
        {&families[1], 3,
         "the model's 4 attention heads cannot be cut into 3 pieces; use a "
         "number that divides them"},
        {&families[1], 8,
         "the model's 4 attention heads cannot be cut into 8 pieces; use a "
         "number that divides them"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_model *model = model_of(cases[i].family);
        assert_int_equal(pen_network_check_pieces(model, cases[i].pieces, &why),
                         PEN_INVALID);
        assert_string_equal(pen_text_string(&why), cases[i].why);
        pen_text_release(&why);
        pen_model_free(model);
    }
    struct pen_model *model = model_of(&families[1]);
    assert_int_equal(pen_network_check_pieces(model, 4, NULL), PEN_OK);
    pen_model_free(model);
}

/* Each array begins on a cache line, which the count by shapes ignores. */
static void bytes_are_those_the_model_predicts(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    for (int f = 0; f < FAMILIES; f++)
        for (int recompute = 0; recompute < 3; recompute++) {
            struct pen_model *model = model_of(&families[f]);
            struct pen_workload work = {.batch = BATCH,
                                        .sequence = SEQUENCE,
                                        .element_bytes = 4,
                                        .stat_bytes = 4,
                                        .recompute =
                                            (enum pen_recompute)recompute};
            for (uint32_t layer = 0; layer < model->num_layers; layer++) {
                struct pen_network *network =
                    make_network(engine, model, layer, 1, work.recompute);
                struct pen_network_sizes sizes;
                struct pen_layer_cost cost;
                pen_network_sizes(network, &sizes);
                pen_model_layer_cost(model, layer, &work, &cost);
                const size_t most = 20 * 64;
                if (sizes.stash < cost.stash_bytes ||
                    sizes.stash > cost.stash_bytes + most ||
                    sizes.hold < cost.hold_bytes ||
                    sizes.hold > cost.hold_bytes + most)
                    fail_msg("%s, layer %u, recompute %d: stash %zu against "
                             "%zu, hold %zu against %zu",
                             families[f].name, layer, recompute, sizes.stash,
                             (size_t)cost.stash_bytes, sizes.hold,
                             (size_t)cost.hold_bytes);
                pen_network_free(network);
            }
            pen_model_free(model);
        }
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_the_derivative_of_the_loss),
        cmocka_unit_test(recomputing_and_splitting_change_no_bit),
        cmocka_unit_test(stages_have_the_bits_of_the_whole),
        cmocka_unit_test(pieces_compute_what_the_whole_does),
        cmocka_unit_test(copies_have_one_gradient),
        cmocka_unit_test(models_that_cannot_be_cut_are_refused),
        cmocka_unit_test(bytes_are_those_the_model_predicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
