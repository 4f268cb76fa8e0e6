/*
 * penstock reproduce wap. The claim: a program that looks at the workload and
 * uses only as many devices as it can use is about as fast as one that uses all
 * of them, and needs less energy.
 *
 * The predictions are wap_plan.c. Here they are put to the test: a
 * small network is profiled and trained on 1 and on 2 ranks of this machine, in
 * turns, so that whatever else the machine does slows down all of them.
 */
#include "cli/reproduce/wap.h"

#include "base/file.h"
#include "base/median.h"
#include "base/random.h"
#include "cli/plan/options.h"
#include "cli/program/cli.h"

#include <stdlib.h>

#define MODEL                                                                  \
    "{\"model_type\": \"penstock_cnn\", \"num_channels\": 3, "                 \
    "\"image_size\": 32, \"conv_sizes\": [32, 64], \"kernel_size\": 5, "       \
    "\"hidden_sizes\": [128]}\n"

enum {
    BATCH = 128,
    MICRO_BATCH = 64,
    NUM_IMAGES = 256,
    IMAGE_BYTES = 3 * 32 * 32,
    LABELS = 10,
    FULL_STEPS = 40,
    BRIEF_STEPS = 6,
    FULL_PROFILES = 20, /* rounds of a profile */
    BRIEF_PROFILES = 5,
    BRIEF_ROUNDS = 2,
    WARM_UP = 3 /* steps that are not counted */
};

static uint32_t steps_of(const struct pen__wap *wap)
{
    return wap->args->is_short ? BRIEF_STEPS : FULL_STEPS;
}

/* ---- files ---- */

/*
 * Writes random images: the seconds of a step do not depend on their contents.
 */
static pen_status write_images(const char *folder, struct pen_text *why)
{
    struct pen_random random = {.state = 1};
    struct pen_text path = PEN_TEXT_EMPTY, bytes = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < NUM_IMAGES * (IMAGE_BYTES + 1); i++) {
        uint32_t most = i % (IMAGE_BYTES + 1) == 0 ? LABELS : 256;
        char byte = (char)pen_random_below(&random, most);
        pen_text_add_bytes(&bytes, &byte, 1);
    }
    pen_text_add(&path, "%s/data_batch_1.bin", folder);
    pen_status status =
        pen_file_write_text(pen_text_string(&path), &bytes, why);
    pen_text_release(&path);
    pen_text_release(&bytes);
    return status;
}

static pen_status prepare(const struct pen__wap *wap, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    const char *folder = wap->args->output;
    pen_status status = pen_file_make_folder(folder, 0777, why);
    pen_text_add(&path, "%s/config.json", folder);
    if (status == PEN_OK)
        status = pen_file_write(pen_text_string(&path), MODEL, sizeof MODEL - 1,
                                why);
    if (status == PEN_OK)
        status = write_images(folder, why);
    pen_text_release(&path);
    return status;
}

/* ---- jobs ---- */

static void add_model(const struct pen__wap *wap, struct pen__words *out)
{
    pen__words_add(out, "--model");
    pen__words_add(out, "%s/config.json", wap->args->output);
    pen__words_split(out, "--threads 1 --micro-batch-size");
    pen__words_add(out, "%d", MICRO_BATCH);
}

static pen_status profile(struct pen__wap *wap, uint32_t ranks, uint32_t round,
                          struct pen_text *path, struct pen_text *why)
{
    struct pen__words words = {0};
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add(&name, "profile-%u-round%u", ranks, round);
    pen_text_add(path, "%s/%s.json", wap->args->output, pen_text_string(&name));
    pen__words_add(&words, "profile");
    add_model(wap, &words);
    pen__words_add(&words, "--rounds");
    pen__words_add(&words, "%d",
                   wap->args->is_short ? BRIEF_PROFILES : FULL_PROFILES);
    pen__words_add(&words, "-o");
    pen__words_add(&words, "%s", pen_text_string(path));
    pen_status status = pen__jobs_run(&wap->jobs, pen_text_string(&name),
                                      ranks > 1 ? ranks : 0, 1, &words, why);
    pen_text_release(&name);
    return status;
}

static pen_status train(struct pen__wap *wap, uint32_t ranks, uint32_t round,
                        double *out, struct pen_text *why)
{
    struct pen__words words = {0};
    struct pen_text name = PEN_TEXT_EMPTY, log = PEN_TEXT_EMPTY;
    struct pen_run *run = NULL;
    pen_text_add(&name, "train-%u-round%u", ranks, round);
    pen_text_add(&log, "%s/%s.jsonl", wap->args->output,
                 pen_text_string(&name));
    pen__words_add(&words, "train");
    add_model(wap, &words);
    pen__words_add(&words, "--data-path");
    pen__words_add(&words, "%s", wap->args->output);
    pen__words_split(&words, "--lr 1e-4 --log-interval 1000000 "
                             "--global-batch-size");
    pen__words_add(&words, "%d", BATCH);
    pen__words_add(&words, "--train-iters");
    pen__words_add(&words, "%u", steps_of(wap));
    pen__words_add(&words, "--log");
    pen__words_add(&words, "%s", pen_text_string(&log));
    pen_status status = pen__jobs_run(&wap->jobs, pen_text_string(&name),
                                      ranks > 1 ? ranks : 0, 1, &words, why);
    if (status == PEN_OK)
        status = pen_run_load(pen_text_string(&log), &run, why);
    if (status == PEN_OK)
        *out = pen__reproduce_median_sec(run, WARM_UP);
    pen_run_free(run);
    pen_text_release(&name);
    pen_text_release(&log);
    return status;
}

/* ---- a prediction from a profile ---- */

static pen_status predict(const struct pen__wap *wap, const char *path,
                          uint32_t ranks, double *out, struct pen_text *why)
{
    struct pen_text model = PEN_TEXT_EMPTY;
    struct pen__planning planning;
    struct pen_prediction prediction;
    struct pen_plan *plan = NULL;
    pen_text_add(&model, "%s/config.json", wap->args->output);
    /* The profile has the times; the cluster gives the number of devices. */
    const struct pen__plan_args args = {.model = pen_text_string(&model),
                                        .cluster = "preset:xeon-amx-core*2",
                                        .profile = path,
                                        .global_batch = BATCH,
                                        .target = PEN_TARGET_PENSTOCK,
                                        .number = PEN_NUMBER_F32};
    struct pen_candidate candidate = {.micro_batch = MICRO_BATCH,
                                      .num_microbatches =
                                          BATCH / MICRO_BATCH / ranks,
                                      .generator = pen_generator_find("1f1b")};
    for (int i = 0; i < PEN_DEGREES; i++)
        candidate.degrees[i] = i == PEN_DEGREE_DP ? ranks : 1;
    pen_status status = pen__planning_open(&args, NULL, &planning, why);
    if (status == PEN_OK)
        status = pen_candidate_predict(&planning.setting, &candidate, true,
                                       &plan, &prediction, why);
    if (status == PEN_OK) {
        *out = prediction.step_sec;
        pen_prediction_release(&prediction);
        pen_plan_free(plan);
    }
    pen__planning_close(&planning);
    pen_text_release(&model);
    return status;
}

static pen_status measure_once(struct pen__wap *wap, uint32_t ranks,
                               uint32_t round, struct pen_text *why)
{
    struct pen__wap_measured *out = &wap->measured;
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_status status = profile(wap, ranks, round, &path, why);
    if (status == PEN_OK)
        status = predict(wap, pen_text_string(&path), ranks,
                         &out->predicted[ranks - 1][round], why);
    if (status == PEN_OK)
        status =
            train(wap, ranks, round, &out->measured[ranks - 1][round], why);
    pen_text_release(&path);
    return status;
}

pen_status pen__wap_measure(struct pen__wap *wap, struct pen_text *why)
{
    struct pen__wap_measured *out = &wap->measured;
    pen_status status = prepare(wap, why);
    for (uint32_t round = 0; round < out->num_rounds; round++)
        for (uint32_t ranks = 1; status == PEN_OK && ranks <= PEN__WAP_RANKS;
             ranks++)
            status = measure_once(wap, ranks, round, why);
    if (getloadavg(&out->load, 1) != 1)
        out->load = 0;
    for (uint32_t i = 0; status == PEN_OK && i < PEN__WAP_RANKS; i++) {
        out->predicted_sec[i] = pen_median(out->predicted[i], out->num_rounds);
        out->measured_sec[i] = pen_median(out->measured[i], out->num_rounds);
        out->error[i] = out->predicted_sec[i] / out->measured_sec[i] - 1;
    }
    return status;
}

/* ---- the command ---- */

pen_status pen__reproduce_wap(const struct pen__reproduce_args *args,
                              struct pen_text *why)
{
    struct pen__wap *wap = calloc(1, sizeof *wap);
    pen_status status = wap == NULL ? PEN_NOMEM : PEN_OK;
    if (wap != NULL) {
        wap->args = args;
        wap->measured.num_rounds =
            args->is_short ? BRIEF_ROUNDS : PEN__WAP_ROUNDS;
        uint32_t num_jobs = 2 * PEN__WAP_RANKS * wap->measured.num_rounds;
        pen__jobs_init(&wap->jobs, args->output, args->launcher, num_jobs,
                       num_jobs);
        status = pen__wap_plan(wap, why);
        if (status == PEN_OK)
            status = pen__wap_measure(wap, why);
        if (status == PEN_OK)
            status = pen__wap_report(wap, why);
        pen__jobs_release(&wap->jobs);
    }
    free(wap);
    return status;
}
