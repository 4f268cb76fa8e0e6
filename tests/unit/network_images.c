/*
 * Networks for images: the gradient is the derivative of the loss, the ways to
 * run a network that may not change it do not change a bit, and evaluation
 * uses the running statistics without moving them.
 */
#include "support/engine.h"

#include "network/images.h"
#include "network_step.h"
#include "support/span.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, MICROBATCHES = 2, SIZE = 9, CHANNELS = 2, LABELS = 5 };
enum { PIXELS = BATCH * CHANNELS * SIZE * SIZE };

static const struct family {
    const char *name;
    const char *config;
} families[] = {
    {"basic resnet",
     "{\"model_type\":\"resnet\",\"num_channels\":2,\"num_labels\":5,"
     "\"embedding_size\":3,\"hidden_sizes\":[3,4],\"depths\":[1,2],"
     "\"layer_type\":\"basic\"}"},
    {"bottleneck resnet",
     "{\"model_type\":\"resnet\",\"num_channels\":2,\"num_labels\":5,"
     "\"embedding_size\":4,\"hidden_sizes\":[8,12],\"depths\":[2,1],"
     "\"downsample_in_first_stage\":true}"},
    {"early bottleneck resnet",
     "{\"model_type\":\"resnet\",\"num_channels\":2,\"num_labels\":5,"
     "\"embedding_size\":4,\"hidden_sizes\":[8,8],\"depths\":[1,1],"
     "\"downsample_in_bottleneck\":true}"},
    {"cnn", "{\"model_type\":\"penstock_cnn\",\"num_channels\":2,"
            "\"num_labels\":5,\"image_size\":9,\"conv_sizes\":[3,4],"
            "\"kernel_size\":3,\"hidden_sizes\":[6]}"},
    {"chain with strides, without pools",
     "{\"model_type\":\"penstock_cnn\",\"num_channels\":2,\"num_labels\":5,"
     "\"image_size\":9,\"layers\":[{\"conv\":3,\"kernel\":4,\"stride\":2,"
     "\"padding\":1},{\"conv\":4,\"kernel\":2,\"padding\":0,\"pool\":2,"
     "\"pool_stride\":1},{\"dense\":6}]}"},
    {"chain with norms and blocks",
     "{\"model_type\":\"penstock_cnn\",\"num_channels\":2,\"num_labels\":5,"
     "\"image_size\":9,\"layers\":[{\"conv\":4,\"norm\":true,\"repeat\":2},"
     "{\"residual\":6,\"inner\":3,\"stride\":2,\"repeat\":2}],"
     "\"global_average\":true}"},
    {"mlp", "{\"model_type\":\"penstock_mlp\",\"num_channels\":2,"
            "\"num_labels\":5,\"image_size\":9,\"hidden_sizes\":[4,6]}"},
    {"only a head", "{\"model_type\":\"penstock_mlp\",\"num_channels\":2,"
                    "\"num_labels\":5,\"image_size\":9,\"hidden_sizes\":[]}"},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static const int32_t targets[MICROBATCHES][BATCH] = {{1, 4, 0},
                                                     {2, PEN_NO_TARGET, 3}};
static const double num_targets = MICROBATCHES * BATCH - 1;

static struct pen_image_model *model_of(const struct family *family)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_image_model *model = NULL;
    if (pen_image_model_parse(family->config, strlen(family->config), &model,
                              &why) != PEN_OK)
        fail_msg("%s: %s", family->name, pen_text_string(&why));
    pen_text_release(&why);
    return model;
}

static struct pen_network *make_network(struct pen_engine *engine,
                                        const struct pen_image_model *model,
                                        uint32_t first, uint32_t count)
{
    struct pen_image_options options = {.engine = engine,
                                        .model = model,
                                        .first_layer = first,
                                        .num_layers = count,
                                        .batch = BATCH,
                                        .height = SIZE,
                                        .width = SIZE};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_network *network = NULL;
    if (pen_network_create_images(&options, &network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    assert_int_equal(pen_network_initialize(network, 7), PEN_OK);
    return network;
}

static struct pen_microbatch microbatch_of(int m, float *pixels)
{
    struct pen_random random = {.state = (uint64_t)m + 1};
    for (size_t i = 0; i < PIXELS; i++)
        pixels[i] = (float)(2 * pen_random_unit(&random) - 1);
    return (struct pen_microbatch){
        .pixels = pixels, .targets = targets[m], .loss_count = num_targets};
}

static double run_step(struct pen_network *network, bool is_split)
{
    struct pen_microbatch batches[MICROBATCHES];
    float pixels[MICROBATCHES][PIXELS];
    for (int m = 0; m < MICROBATCHES; m++)
        batches[m] = microbatch_of(m, pixels[m]);
    return network_step(network, batches, MICROBATCHES, is_split);
}

static double loss_of(struct pen_network *network, bool is_evaluation)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(network, &sizes);
    void *stash = room(sizes.stash);
    double loss = 0;
    for (int m = 0; m < MICROBATCHES; m++) {
        float pixels[PIXELS];
        struct pen_microbatch batch = microbatch_of(m, pixels);
        batch.is_evaluation = is_evaluation;
        pen_network_forward(network, &batch, stash, NULL, NULL);
        loss += pen_network_loss(network);
    }
    free(stash);
    return loss;
}

/* Norms away from one and zero, so that every term shows. */
static void spread(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    struct pen_random random = {.state = 3};
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        struct pen_parameter *it = pen_network_parameter(network, i)->parameter;
        size_t count = 0;
        double *values = span_of_part(engine, it, PEN_PART_VALUE, &count);
        for (size_t k = 0; k < count; k++)
            values[k] += 0.5 * pen_random_unit(&random) - 0.25;
        engine->ops->parameter_value_changed(engine, it);
    }
}

/* Of a large parameter some elements; all would take long. */
static void expect_derivative(struct pen_network *network,
                              const struct family *family, size_t index)
{
    enum { MOST = 40 };
    struct pen_engine *engine = pen_network_engine(network);
    struct pen_parameter *it = pen_network_parameter(network, index)->parameter;
    size_t count = 0;
    double *values = span_of_part(engine, it, PEN_PART_VALUE, &count);
    double *gradient = span_of_part(engine, it, PEN_PART_GRADIENT, &count);
    size_t every = count / MOST + 1;
    double quotients[MOST], found[MOST];
    size_t num = 0;
    /* Small, for a ReLU or a maximum between the two has no derivative. */
    const double step = 1e-7;
    for (size_t k = 0; k < count; k += every, num++) {
        double value = values[k];
        values[k] = value + step;
        engine->ops->parameter_value_changed(engine, it);
        double above = loss_of(network, false);
        values[k] = value - step;
        engine->ops->parameter_value_changed(engine, it);
        quotients[num] = (above - loss_of(network, false)) / (2 * step);
        found[num] = gradient[k];
        values[k] = value;
        engine->ops->parameter_value_changed(engine, it);
    }
    double apart = relative_distance(num, quotients, found);
    if (!(apart <= 1e-6))
        fail_msg("%s, parameter %zu: %g from the difference quotient "
                 "(expected %.12g, found %.12g)",
                 family->name, index, apart, quotients[0], found[0]);
}

static void gradient_is_the_derivative_of_the_loss(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    for (size_t f = 0; f < FAMILIES; f++) {
        struct pen_image_model *model = model_of(&families[f]);
        struct pen_network *network =
            make_network(engine, model, 0, model->num_layers);
        spread(network);
        run_step(network, false);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++)
            expect_derivative(network, &families[f], i);
        pen_network_free(network);
        pen_image_model_free(model);
    }
    pen_engine_free(engine);
}

static void expect_equal_gradients(const struct family *family,
                                   struct pen_network *a, struct pen_network *b)
{
    struct pen_engine *engine = pen_network_engine(a);
    assert_int_equal(pen_network_num_parameters(a),
                     pen_network_num_parameters(b));
    for (size_t i = 0; i < pen_network_num_parameters(a); i++) {
        size_t count = 0;
        float *first =
            span_of_part(engine, pen_network_parameter(a, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        float *second =
            span_of_part(engine, pen_network_parameter(b, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        for (size_t k = 0; k < count; k++)
            if (first[k] != second[k])
                fail_msg("%s, parameter %zu, element %zu: %.9g and %.9g",
                         family->name, i, k, (double)first[k],
                         (double)second[k]);
    }
}

static void a_split_backward_has_the_same_bits(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    for (size_t f = 0; f < FAMILIES; f++) {
        struct pen_image_model *model = model_of(&families[f]);
        struct pen_network *whole =
            make_network(engine, model, 0, model->num_layers);
        struct pen_network *split =
            make_network(engine, model, 0, model->num_layers);
        assert_true(run_step(whole, false) == run_step(split, true));
        expect_equal_gradients(&families[f], whole, split);
        pen_network_free(whole);
        pen_network_free(split);
        pen_image_model_free(model);
    }
    pen_engine_free(engine);
}

/* One micro-batch through two networks that have a part of the layers each. */
static double run_in_two(struct pen_network *head_stage,
                         struct pen_network *pixel_stage)
{
    struct pen_network_sizes first, last;
    float pixels[PIXELS];
    struct pen_microbatch batch = microbatch_of(0, pixels);
    pen_network_sizes(pixel_stage, &first);
    pen_network_sizes(head_stage, &last);
    assert_int_equal(first.output, last.input);
    void *stashes[] = {room(first.stash), room(last.stash)};
    void *between = room(first.output);
    pen_network_forward(pixel_stage, &batch, stashes[0], NULL, between);
    pen_network_forward(head_stage, &batch, stashes[1], between, NULL);
    pen_network_backward(head_stage, &batch, stashes[1], NULL, between);
    pen_network_backward(pixel_stage, &batch, stashes[0], between, NULL);
    free(stashes[0]);
    free(stashes[1]);
    free(between);
    return pen_network_loss(head_stage);
}

static double sum_of_squares(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    double sum = 0;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        double squares;
        engine->ops->gradient_sum_squares(
            engine, pen_network_parameter(network, i)->parameter, &squares);
        sum += squares;
    }
    return sum;
}

static void two_stages_compute_what_one_network_does(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    for (size_t f = 0; f < FAMILIES - 1; f++) {
        struct pen_image_model *model = model_of(&families[f]);
        uint32_t count = model->num_layers;
        struct pen_network *whole = make_network(engine, model, 0, count);
        struct pen_network_sizes sizes;
        float pixels[PIXELS];
        struct pen_microbatch batch = microbatch_of(0, pixels);
        pen_network_sizes(whole, &sizes);
        void *stash = room(sizes.stash);
        pen_network_forward(whole, &batch, stash, NULL, NULL);
        pen_network_backward(whole, &batch, stash, NULL, NULL);
        struct pen_network *pixel_stage = make_network(engine, model, 0, 2);
        struct pen_network *head_stage =
            make_network(engine, model, 2, count - 2);
        assert_true(pen_network_loss(whole) ==
                    run_in_two(head_stage, pixel_stage));
        expect_close(sum_of_squares(whole),
                     sum_of_squares(pixel_stage) + sum_of_squares(head_stage),
                     families[f].name);
        free(stash);
        pen_network_free(whole);
        pen_network_free(pixel_stage);
        pen_network_free(head_stage);
        pen_image_model_free(model);
    }
    pen_engine_free(engine);
}

static void evaluation_leaves_the_running_statistics_alone(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_image_model *model = model_of(&families[0]);
    struct pen_network *network =
        make_network(engine, model, 0, model->num_layers);
    float *mean = pen_network_statistic(network, PEN_IMAGE_RUNNING_MEAN);
    float *variance =
        pen_network_statistic(network, PEN_IMAGE_RUNNING_VARIANCE);
    uint64_t *batches = pen_network_statistic(network, PEN_IMAGE_NUM_BATCHES);
    assert_true(mean[0] == 0 && variance[0] == 1 && *batches == 0);
    double fresh = loss_of(network, true);
    assert_true(mean[0] == 0 && variance[0] == 1 && *batches == 0);
    run_step(network, false);
    assert_true(mean[0] != 0 && variance[0] != 1);
    assert_int_equal(MICROBATCHES, *batches);
    double moved = loss_of(network, true);
    assert_true(fresh != moved);
    assert_true(moved == loss_of(network, true));
    pen_network_free(network);
    pen_image_model_free(model);
    pen_engine_free(engine);
}

static void what_cannot_be_made_is_refused(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    static const struct {
        size_t family, batch, height;
        uint32_t num_layers;
        const char *reason;
    } cases[] = {
        {0, 0, SIZE, 1, "a micro-batch needs at least one image"},
        {0, 1, 0, 1, "the model takes images of any size; give the size"},
        {0, 1, SIZE, 9, "layers 0 to 9 are beyond the model's 5 layers"},
        {0, 1, 1, 1,
         "layer 0 has one value per channel, too few for the variance "
         "of a norm in training; use a larger batch or larger images"},
        {3, 1, 8, 1, "the model is for images of 9 x 9, not of 8 x 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pen_image_model *model = model_of(&families[cases[i].family]);
        struct pen_image_options options = {.engine = engine,
                                            .model = model,
                                            .num_layers = cases[i].num_layers,
                                            .batch = cases[i].batch,
                                            .height = cases[i].height,
                                            .width = cases[i].height};
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_network *network = NULL;
        assert_int_equal(PEN_INVALID,
                         pen_network_create_images(&options, &network, &why));
        assert_null(network);
        assert_string_equal(cases[i].reason, pen_text_string(&why));
        pen_text_release(&why);
        pen_image_model_free(model);
    }
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_the_derivative_of_the_loss),
        cmocka_unit_test(a_split_backward_has_the_same_bits),
        cmocka_unit_test(two_stages_compute_what_one_network_does),
        cmocka_unit_test(evaluation_leaves_the_running_statistics_alone),
        cmocka_unit_test(what_cannot_be_made_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
