/*
 * penstock reproduce parle. The claim: n = 3 replicas that talk every 25 steps
 * reach SGD's test error 2 to 4 times sooner, and end with a lower one.
 *
 * Each contender trains on the same 2,048 images with batches of 128 per
 * replica. It first tries each learning rate, judged on images that are neither
 * trained on nor tested on, and then runs with every seed. The clock is not
 * this machine's, whose cores the replicas share: a step takes as long as SGD's
 * alone on a core, and as much longer as `sync compare` predicts for a link.
 */
#include "cli/reproduce/parle.h"

#include "base/bug.h"
#include "base/file.h"
#include "base/median.h"
#include "cli/program/cli.h"
#include "core/run_log.h"
#include "data/image_file.h"
#include "planner/replica_sync.h"
#include "sync/registry.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL "{\"model_type\": \"penstock_cnn\", \"conv_sizes\": [8, 16]}\n"

enum { BATCH = 128 }; /* images of a step in one replica */

#define SGD_WORDS "--optimizer sgd --sgd-nesterov"

const struct pen__parle_contender pen__parle_contenders[PEN__PARLE_CONTENDERS] =
    {{"sgd", "SGD", SGD_WORDS, NULL},
     {"parle", "Parle", "--sync parle", "parle"},
     {"sync-sgd", "synchronous SGD", SGD_WORDS, "allreduce"},
     {"local-sgd", "local SGD", SGD_WORDS " --sync local-sgd", "local-sgd"},
     {"easgd", "EASGD", SGD_WORDS " --sync easgd", "easgd"},
     {"parle-code", "Parle, as its authors' code", "--sync parle-code",
      "parle-code"}};

const double pen__parle_rates[PEN__PARLE_RATES] = {0.03, 0.01, 0.1};
const double pen__parle_links[PEN__PARLE_LINKS] = {1, 10, 100};

static const struct pen__parle_scale full = {2048,
                                             2048,
                                             10000,
                                             1024,
                                             PEN__PARLE_RATES,
                                             PEN__PARLE_SEEDS,
                                             PEN__PARLE_POINTS,
                                             0};
static const struct pen__parle_scale brief = {512, 384, 384, 12, 1, 2, 4, 3};

static uint32_t replicas_of(uint32_t contender)
{
    return pen__parle_contenders[contender].method == NULL
               ? 1
               : PEN__PARLE_REPLICAS;
}

/* ---- data ---- */

static void add_word(struct pen_text *out, uint32_t word)
{
    const char bytes[4] = {(char)(word >> 24), (char)(word >> 16),
                           (char)(word >> 8), (char)word};
    pen_text_add_bytes(out, bytes, sizeof bytes);
}

/* Images first to first + count - 1 as a part of a data set. */
static pen_status write_part(const struct pen_image_set *set, uint32_t first,
                             uint32_t count, const char *folder,
                             const char *part, struct pen_text *why)
{
    struct pen_text images = PEN_TEXT_EMPTY, labels = PEN_TEXT_EMPTY;
    struct pen_text path = PEN_TEXT_EMPTY;
    size_t size = (size_t)set->height * set->width;
    add_word(&images, 0x803);
    add_word(&images, count);
    add_word(&images, set->height);
    add_word(&images, set->width);
    pen_text_add_bytes(&images, (const char *)set->pixels + first * size,
                       count * size);
    add_word(&labels, 0x801);
    add_word(&labels, count);
    pen_text_add_bytes(&labels, (const char *)set->labels + first, count);
    pen_text_add(&path, "%s/%s-images-idx3-ubyte", folder, part);
    pen_status status =
        pen_file_write_text(pen_text_string(&path), &images, why);
    pen_text_clear(&path);
    pen_text_add(&path, "%s/%s-labels-idx1-ubyte", folder, part);
    if (status == PEN_OK)
        status = pen_file_write_text(pen_text_string(&path), &labels, why);
    pen_text_release(&path);
    pen_text_release(&labels);
    pen_text_release(&images);
    return status;
}

static pen_status check_size(const struct pen_image_set *set, uint32_t needed,
                             const char *part, const char *data,
                             struct pen_text *why)
{
    if (set->channels != 1) {
        pen_why(why, "%s has colour images; give --data a folder with MNIST",
                data);
        return PEN_INVALID;
    }
    if (set->num_images >= needed)
        return PEN_OK;
    pen_why(why,
            "%s has %" PRIu32 " %s images, and the experiment needs %" PRIu32
            "; give --data a folder with all of MNIST",
            data, set->num_images, part, needed);
    return PEN_INVALID;
}

/* Writes two data sets: one to choose rates with, one to test. */
static pen_status write_data(struct pen__parle *parle, struct pen_text *why)
{
    const struct pen__parle_scale *scale = &parle->scale;
    const char *data = parle->args->data;
    const char *tune = pen_text_string(&parle->tune);
    const char *final = pen_text_string(&parle->test);
    struct pen_image_set train = {0}, test = {0};
    pen_status status = pen_file_make_folder(tune, 0777, why);
    if (status == PEN_OK)
        status = pen_file_make_folder(final, 0777, why);
    if (status == PEN_OK)
        status = pen_image_set_load(&train, data, "train", why);
    if (status != PEN_OK)
        return status;
    status = pen_image_set_load(&test, data, "t10k", why);
    if (status == PEN_OK)
        status = check_size(&train, scale->num_train + scale->num_held,
                            "training", data, why);
    if (status == PEN_OK)
        status = check_size(&test, scale->num_test, "test", data, why);
    if (status == PEN_OK)
        status = write_part(&train, 0, scale->num_train, tune, "train", why);
    if (status == PEN_OK)
        status = write_part(&train, scale->num_train, scale->num_held, tune,
                            "t10k", why);
    if (status == PEN_OK)
        status = write_part(&train, 0, scale->num_train, final, "train", why);
    if (status == PEN_OK)
        status = write_part(&test, 0, scale->num_test, final, "t10k", why);
    if (test.num_images > 0)
        pen_image_set_release(&test);
    pen_image_set_release(&train);
    return status;
}

/* ---- trainings ---- */

struct training {
    uint32_t contender;
    uint32_t seed;
    double rate;
    const char *data;
    uint32_t num_images; /* that are evaluated on */
};

/* Synchronises by a method of sync/, not at every step. */
static bool is_rare(uint32_t contender)
{
    return contender != PEN__PARLE_SGD && contender != PEN__PARLE_SYNCHRONOUS;
}

static void fill_words(const struct pen__parle *parle,
                       const struct training *it, struct pen__words *out)
{
    uint32_t replicas = replicas_of(it->contender);
    uint32_t batches = it->num_images / (BATCH * replicas);
    pen__words_add(out, "train");
    pen__words_add(out, "--model");
    pen__words_add(out, "%s", pen_text_string(&parle->model));
    pen__words_add(out, "--data-path");
    pen__words_add(out, "%s", it->data);
    pen__words_split(out, pen__parle_contenders[it->contender].words);
    if (parle->scale.sync_interval > 0 && is_rare(it->contender)) {
        pen__words_add(out, "--sync-interval");
        pen__words_add(out, "%u", parle->scale.sync_interval);
    }
    pen__words_split(out, "--weight-decay 0 --clip-grad 0 --threads 1 "
                          "--lr-decay-style cosine --log-interval 1000000");
    pen__words_split(out, "--micro-batch-size 128 --global-batch-size");
    pen__words_add(out, "%u", BATCH * replicas);
    pen__words_add(out, "--train-iters");
    pen__words_add(out, "%u", parle->scale.num_steps);
    pen__words_add(out, "--eval-interval");
    pen__words_add(out, "%u", parle->scale.num_steps / parle->scale.num_points);
    pen__words_add(out, "--eval-iters");
    pen__words_add(out, "%u", batches > 0 ? batches : 1);
    pen__words_add(out, "--lr");
    pen__words_add(out, "%g", it->rate);
    pen__words_add(out, "--min-lr");
    pen__words_add(out, "%g", it->rate / 100);
    pen__words_add(out, "--seed");
    pen__words_add(out, "%u", it->seed);
}

static pen_status train(struct pen__parle *parle, const struct training *it,
                        struct pen_run **out, struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen__words words = {0};
    uint32_t replicas = replicas_of(it->contender);
    pen_text_add(&name, "%s-lr%g-seed%u",
                 pen__parle_contenders[it->contender].key, it->rate, it->seed);
    fill_words(parle, it, &words);
    const struct pen__reproduce_job job = {.name = pen_text_string(&name),
                                           .num_ranks =
                                               replicas > 1 ? replicas : 0,
                                           .num_steps = parle->scale.num_steps,
                                           .weight = replicas};
    pen_status status =
        pen__reproduce_train(&parle->jobs, &job, &words, out, why);
    pen_text_release(&name);
    return status;
}

/*
 * Reads the errors in percent, at each evaluation; a run that broke is wrong on
 * nine of ten. Returns the last.
 */
static double read_errors(const struct pen__parle *parle,
                          const struct pen_run *run, double *out)
{
    uint32_t count = 0;
    double last = 90;
    for (uint32_t i = 0; i < PEN__PARLE_POINTS; i++)
        out[i] = 90;
    for (size_t i = 0; i < run->num_steps; i++)
        if (!isnan(run->steps[i].val_accuracy) &&
            count < parle->scale.num_points)
            last = out[count++] = 100 * (1 - run->steps[i].val_accuracy);
    return count < parle->scale.num_points ? 90 : last;
}

static pen_status choose_rate(struct pen__parle *parle, uint32_t contender,
                              struct pen_text *why)
{
    double least = (double)INFINITY;
    const uint32_t num_rates = parle->scale.num_rates;
    PEN_BUG_UNLESS(num_rates <= PEN__PARLE_RATES);
    for (uint32_t i = 0; i < num_rates; i++) {
        struct training it = {contender, 0, pen__parle_rates[i],
                              pen_text_string(&parle->tune),
                              parle->scale.num_held};
        double errors[PEN__PARLE_POINTS];
        struct pen_run *run;
        pen_status status = train(parle, &it, &run, why);
        if (status != PEN_OK)
            return status;
        double last = read_errors(parle, run, errors);
        pen_run_free(run);
        if (last < least) {
            least = last;
            parle->rate[contender] = pen__parle_rates[i];
        }
    }
    return PEN_OK;
}

static pen_status run_all(struct pen__parle *parle, struct pen_text *why)
{
    pen_status status = PEN_OK;
    double seconds[PEN__PARLE_SEEDS] = {0};
    PEN_BUG_UNLESS(parle->scale.num_seeds <= PEN__PARLE_SEEDS);
    for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS && status == PEN_OK; i++)
        status = choose_rate(parle, i, why);
    for (uint32_t seed = 0; seed < parle->scale.num_seeds; seed++)
        for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS && status == PEN_OK;
             i++) {
            struct training it = {i, seed + 1, parle->rate[i],
                                  pen_text_string(&parle->test),
                                  parle->scale.num_test};
            struct pen_run *run;
            status = train(parle, &it, &run, why);
            if (status != PEN_OK)
                break;
            read_errors(parle, run, parle->errors[i][seed]);
            if (i == PEN__PARLE_SGD) /* alone on a core */
                seconds[seed] = pen__reproduce_median_sec(run, 0);
            pen_run_free(run);
        }
    if (status == PEN_OK)
        parle->compute_sec = pen_median(seconds, parle->scale.num_seeds);
    return status;
}

/* ---- the clock ---- */

static pen_status time_steps(struct pen__parle *parle, struct pen_text *why)
{
    struct pen_any_model model;
    struct pen_replica_shapes shapes;
    pen_status status =
        pen_any_model_load(&model, pen_text_string(&parle->model), why);
    if (status != PEN_OK)
        return status;
    status = pen_replica_shapes_of(&model, &shapes, why);
    pen_any_model_release(&model);
    for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS && status == PEN_OK; i++)
        for (uint32_t k = 0; k < PEN__PARLE_LINKS && status == PEN_OK; k++) {
            struct pen_replica_setting setting = {
                .shapes = (const size_t(*)[2])shapes.at,
                .num_shapes = shapes.count,
                .num_weights = shapes.num_weights,
                .last_share = shapes.last_share,
                .num_moments = 1,
                .num_replicas = PEN__PARLE_REPLICAS,
                .bytes_per_sec = pen__parle_links[k] * 1e9 / 8,
                .latency_sec = PEN_REPLICA_LATENCY_SEC,
                .eager_bytes = PEN_REPLICA_EAGER_BYTES,
                .compute_sec = parle->compute_sec,
                .overlap_sec = PEN_REPLICA_BACKWARD_SHARE * parle->compute_sec,
                .samples = PEN__PARLE_REPLICAS * BATCH,
                .encode_bytes_per_sec = PEN_REPLICA_CORE_RATE};
            struct pen_sync_choice choice;
            struct pen_replica_time time;
            parle->step_sec[i][k] = parle->compute_sec;
            if (pen__parle_contenders[i].method == NULL)
                continue;
            status = pen_sync_choose(pen__parle_contenders[i].method, 0, NULL,
                                     0, NULL, &choice, why);
            if (status != PEN_OK)
                break;
            pen_replica_predict(&setting, &choice, &time);
            parle->step_sec[i][k] = time.step_sec;
        }
    free(shapes.at);
    return status;
}

/* ---- the command ---- */

static pen_status prepare(struct pen__parle *parle, struct pen_text *why)
{
    const char *folder = parle->args->output;
    uint32_t runs = parle->scale.num_rates + parle->scale.num_seeds;
    uint32_t replicas = 0;
    for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS; i++)
        replicas += replicas_of(i);
    pen__jobs_init(&parle->jobs, folder, parle->args->launcher,
                   runs * PEN__PARLE_CONTENDERS, runs * replicas);
    pen_text_add(&parle->model, "%s/config.json", folder);
    pen_text_add(&parle->tune, "%s/held", folder);
    pen_text_add(&parle->test, "%s/test", folder);
    pen_status status = pen_file_make_folder(folder, 0777, why);
    if (status == PEN_OK)
        status = pen_file_write(pen_text_string(&parle->model), MODEL,
                                sizeof MODEL - 1, why);
    return status == PEN_OK ? write_data(parle, why) : status;
}

pen_status pen__reproduce_parle(const struct pen__reproduce_args *args,
                                struct pen_text *why)
{
    struct pen__parle *parle = calloc(1, sizeof *parle);
    pen_status status = parle == NULL ? PEN_NOMEM : PEN_OK;
    if (parle != NULL) {
        parle->args = args;
        parle->scale = args->is_short ? brief : full;
        status = prepare(parle, why);
        if (status == PEN_OK)
            status = run_all(parle, why);
        if (status == PEN_OK)
            status = time_steps(parle, why);
        if (status == PEN_OK)
            status = pen__parle_report(parle, why);
        pen__jobs_release(&parle->jobs);
        pen_text_release(&parle->model);
        pen_text_release(&parle->tune);
        pen_text_release(&parle->test);
    }
    free(parle);
    return status;
}
