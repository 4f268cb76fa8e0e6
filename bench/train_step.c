/*
 * How long a train step takes: forward, backward and AdamW of a whole model in
 * one process, on random tokens. One line of JSON with the times as a list
 * "ms", which the programs that run contenders in turn can read.
 *
 *   train_step --model gpt2 --dtype bf16 --batch 4 --seq 256 --threads 2
 */
#include "measure.h"

#include "base/random.h"
#include "network/network.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *model;
    const char *dtype;
    size_t batch;
    size_t sequence;
    int threads;
    int iterations;
    int warmup;
};

struct run {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_network *network;
    void *stash;
    int32_t *ids;
    int32_t *targets;
};

static void require(pen_status status, const struct pen_text *why)
{
    if (status == PEN_OK)
        return;
    fprintf(stderr, "train_step: %s\n",
            why->length > 0 ? pen_text_string(why) : pen_status_text(status));
    exit(1);
}

static void set_up(const struct settings *settings, struct run *run)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    char source[256];
    snprintf(source, sizeof source, "%s%s",
             strchr(settings->model, '/') == NULL ? "preset:" : "",
             settings->model);
    enum pen_precision dtype = strcmp(settings->dtype, "bf16") == 0
                                   ? PEN_PRECISION_BF16
                                   : PEN_PRECISION_F32;
    require(pen_model_load(source, &run->model, &why), &why);
    require(pen_model_check_trainable(run->model, &why), &why);
    require(
        pen_engine_onednn_create(dtype, settings->threads, &why, &run->engine),
        &why);
    size_t rows = settings->batch * settings->sequence;
    struct pen_network_options options = {.engine = run->engine,
                                          .model = run->model,
                                          .num_layers = run->model->num_layers,
                                          .batch = settings->batch,
                                          .sequence = settings->sequence,
                                          .step_rows = rows,
                                          .moments = 2};
    require(pen_network_create(&options, &run->network, &why), &why);
    require(pen_network_initialize(run->network, 1), &why);
    struct pen_network_sizes sizes;
    pen_network_sizes(run->network, &sizes);
    run->stash = aligned_alloc(64, sizes.stash);
    run->ids = calloc(rows, sizeof *run->ids);
    run->targets = calloc(rows, sizeof *run->targets);
    if (run->stash == NULL || run->ids == NULL || run->targets == NULL)
        require(PEN_NOMEM, &why);
    memset(run->stash, 0, sizes.stash);
    struct pen_random random = {.state = 1};
    for (size_t i = 0; i < rows; i++) {
        run->ids[i] = (int32_t)pen_random_below(&random, run->model->vocab);
        run->targets[i] = (int32_t)pen_random_below(&random, run->model->vocab);
    }
    pen_text_release(&why);
}

static void tear_down(struct run *run)
{
    free(run->stash);
    free(run->ids);
    free(run->targets);
    pen_network_free(run->network);
    pen_engine_free(run->engine);
    pen_model_free(run->model);
}

/* Returns the loss. */
static double step(struct run *run, size_t rows, uint64_t number)
{
    struct pen_microbatch batch = {
        .ids = run->ids, .targets = run->targets, .loss_count = (double)rows};
    pen_network_clear_gradients(run->network);
    pen_network_forward(run->network, &batch, run->stash, NULL, NULL);
    pen_network_backward(run->network, &batch, run->stash, NULL, NULL);
    pen_network_finish_gradients(run->network);
    struct pen_adamw adamw = {.learning_rate = 1e-4,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .step = number,
                              .gradient_scale = 1};
    for (size_t i = 0; i < pen_network_num_parameters(run->network); i++)
        run->engine->ops->adamw_step(
            run->engine, pen_network_parameter(run->network, i)->parameter,
            &adamw);
    return pen_network_loss(run->network);
}

static void parse(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"dtype", required_argument, NULL, 'd'},
        {"batch", required_argument, NULL, 'b'},
        {"seq", required_argument, NULL, 's'},
        {"threads", required_argument, NULL, 't'},
        {"iters", required_argument, NULL, 'i'},
        {"warmup", required_argument, NULL, 'w'},
        {NULL, 0, NULL, 0}};
    for (int key; (key = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (key) {
        case 'm':
            settings->model = optarg;
            break;
        case 'd':
            settings->dtype = optarg;
            break;
        case 'b':
            settings->batch = strtoul(optarg, NULL, 10);
            break;
        case 's':
            settings->sequence = strtoul(optarg, NULL, 10);
            break;
        case 't':
            settings->threads = atoi(optarg);
            break;
        case 'i':
            settings->iterations = atoi(optarg);
            break;
        case 'w':
            settings->warmup = atoi(optarg);
            break;
        default:
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct settings settings = {.model = "gpt2",
                                .dtype = "f32",
                                .batch = 4,
                                .sequence = 256,
                                .iterations = 3,
                                .warmup = 1};
    parse(argc, argv, &settings);
    struct run run = {0};
    set_up(&settings, &run);
    size_t rows = settings.batch * settings.sequence;
    printf("{\"model\":\"%s\",\"dtype\":\"%s\",\"B\":%zu,\"T\":%zu,"
           "\"threads\":%d,\"ms\":[",
           settings.model, settings.dtype, settings.batch, settings.sequence,
           run.engine->threads);
    double loss = 0;
    for (int i = -settings.warmup; i < settings.iterations; i++) {
        double begin = now_ms();
        loss = step(&run, rows, (uint64_t)(i + settings.warmup + 1));
        if (i >= 0)
            printf("%s%.2f", i > 0 ? "," : "", now_ms() - begin);
    }
    printf("],\"loss\":%.6f}\n", loss);
    tear_down(&run);
    return 0;
}
