/*
 * Fits the constants of a kind of device to the rows that may be fitted.
 *
 *   build/release/bench/fit_constants FOLDER a100|h100 [TRIES]
 *
 * Prints the constants as src/core/device_constants.c has them. Rows that are
 * held out are never looked at. Search: one constant at a time, by factors that
 * shrink, from a rough start and then from around the best; seeded.
 */
#include "validation_rows.h"

struct fit {
    struct rows *rows;
    const char *kind;
    uint32_t *used; /* rows */
    uint32_t count;
    double values[PEN_CONSTANTS];
    const json_t *one_layer;
};

/* What is fitted, and how far it may go; the others stay. */
struct range {
    enum pen_constant constant;
    double least;
    double most;
    double start;
};

static const struct range a100_ranges[] = {
    {PEN_CONSTANT_PRODUCT_SHARE, 0.5, 0.825,
     0.8}, /* 0.869 at best, less for long */
    {PEN_CONSTANT_TILE_HALF, 0.5, 200, 20},
    {PEN_CONSTANT_DEPTH_HALF, 1, 2000, 200},
    {PEN_CONSTANT_ROUNDING, 0.01, 0.5, 0.5},
    {PEN_CONSTANT_BYTES_SHARE, 0.3, 0.95, 0.8},
    {PEN_CONSTANT_BYTES_HALF, 1e4, 1e8, 4e6},
    {PEN_CONSTANT_LAUNCH, 1e-6, 2e-4, 40e-6},
    {PEN_CONSTANT_LINK_SEC, 1e-6, 3e-4, 30e-6},
    {PEN_CONSTANT_MESSAGE_SHARE, 0.02, 0.7, 0.2},
    {PEN_CONSTANT_STEP_SEC, 1e-5, 0.1, 5e-3},
    {PEN_CONSTANT_MICROBATCH_SEC, 1e-5, 0.05, 2e-3}};

static const struct range h100_ranges[] = {
    {PEN_CONSTANT_PRODUCT_SHARE, 0.5, 0.803, 0.7},
    {PEN_CONSTANT_PRODUCT_SHARE_FP8, 0.4, 0.78, 0.6},
    {PEN_CONSTANT_ATTENTION_SHARE, 0.2, 0.7, 0.45},
    {PEN_CONSTANT_BYTES_SHARE, 0.5, 0.95, 0.8},
    {PEN_CONSTANT_STEP_SEC, 1e-5, 0.3, 5e-3}};

/* The layer of table 4: 22 B, tp 8, micro-batch 4; forward and backward. */
static double one_layer_error(const struct fit *fit)
{
    double sum = 0;
    const struct row *row = NULL;
    for (uint32_t i = 0; i < fit->rows->count; i++)
        if (strncmp(fit->rows->items[i].set, "recompute_full", 14) == 0) {
            row = &fit->rows->items[i];
            break;
        }
    struct pen_device_group group = row->group;
    struct pen_cluster cluster = row->cluster;
    struct pen_setting setting = row->setting;
    memcpy(group.device.constants, fit->values, sizeof fit->values);
    cluster.groups = &group;
    setting.cluster = &cluster;
    for (size_t i = 0; i < json_array_size(fit->one_layer); i++) {
        const json_t *facts = json_array_get(fit->one_layer, i);
        const char *name = word_of(facts, "experiment");
        struct pen_plan plan = *row->plan;
        struct pen_layer_time time;
        struct pen_layer_bytes bytes;
        enum pen_recompute mode = PEN_RECOMPUTE_NONE;
        if (strstr(name, "with recompute") != NULL)
            mode = PEN_RECOMPUTE_FULL;
        if (strstr(name, "selective") != NULL)
            mode = PEN_RECOMPUTE_SELECTIVE;
        plan.has_sequence_parallel = strstr(name, "sequence") != NULL;
        pen_predict_layer(&setting, &plan, 0, 1, mode, &time, &bytes);
        double backward = time.input_sec + time.weight_sec + time.recompute_sec;
        sum += fabs(log(time.forward_sec /
                        (number_of(facts, "forward_ms", 0) / 1e3))) +
               fabs(log(backward / (number_of(facts, "backward_ms", 0) / 1e3)));
        if (getenv("PEN_VERBOSE") != NULL)
            fprintf(stderr, "%s: forward %.1f of %s, backward %.1f of %.1f\n",
                    name, 1e3 * time.forward_sec, "7.7/7.2", 1e3 * backward,
                    number_of(facts, "backward_ms", 0));
    }
    return sum / 2 / (double)json_array_size(fit->one_layer);
}

static double error_of(const struct fit *fit)
{
    double sum = 0;
    for (uint32_t i = 0; i < fit->count; i++) {
        struct row *row = &fit->rows->items[fit->used[i]];
        struct pen_prediction prediction;
        struct pen_text why = PEN_TEXT_EMPTY;
        memcpy(row->group.device.constants, fit->values, sizeof fit->values);
        if (pen_predict(&row->setting, row->plan, &prediction, &why) != PEN_OK)
            die(row->set, pen_text_string(&why));
        sum += fabs(log(prediction.step_sec / row->measured_sec));
        pen_prediction_release(&prediction);
    }
    sum /= fit->count;
    /* Five layer times weigh as much as a fifth of all rows. */
    if (strcmp(fit->kind, "a100") == 0)
        sum += 0.5 * one_layer_error(fit);
    return sum;
}

static double improve(struct fit *fit, const struct range *range, double factor,
                      double best)
{
    double old = fit->values[range->constant];
    double tries[] = {old * factor, old / factor};
    for (int i = 0; i < 2; i++) {
        fit->values[range->constant] =
            fmin(range->most, fmax(range->least, tries[i]));
        double error = error_of(fit);
        if (error < best)
            return error;
    }
    fit->values[range->constant] = old;
    return best;
}

/* One constant after the other, by factors that shrink. */
static double descend(struct fit *fit, const struct range *ranges, size_t count,
                      double best)
{
    double factor = 1.3;
    while (factor > 1.002) {
        double before = best;
        for (size_t i = 0; i < count; i++)
            best = improve(fit, &ranges[i], factor, best);
        if (before - best < 1e-4)
            factor = 1 + (factor - 1) / 2;
    }
    return best;
}

/* 0 to 1, the same ones in every run. */
static double next_share(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
#define CONSTANT_NAME(name, key) #name,
        PEN_CONSTANT_TABLE(CONSTANT_NAME)};
    struct rows rows;
    if (argc < 3) {
        fprintf(stderr, "usage: fit_constants FOLDER a100|h100 [TRIES]\n");
        return 2;
    }
    load_rows(&rows, argv[1]);
    struct fit fit = {.rows = &rows, .kind = argv[2]};
    bool is_a100 = strcmp(fit.kind, "a100") == 0;
    const struct range *ranges = is_a100 ? a100_ranges : h100_ranges;
    size_t num_ranges = is_a100 ? sizeof a100_ranges / sizeof *a100_ranges
                                : sizeof h100_ranges / sizeof *h100_ranges;
    fit.one_layer =
        json_object_get(load_facts(&rows, "megatron_recompute_2205_05198.json"),
                        "table4_one_layer_22B");
    fit.used = calloc(rows.count, sizeof *fit.used);
    for (uint32_t i = 0; fit.used != NULL && i < rows.count; i++) {
        const struct row *row = &rows.items[i];
        if (strncmp(row->group.device.kind, fit.kind, strlen(fit.kind)) == 0 &&
            !row->is_held_out) {
            memcpy(fit.values, row->group.device.constants, sizeof fit.values);
            fit.used[fit.count++] = i;
        }
    }
    for (size_t i = 0; i < num_ranges; i++)
        fit.values[ranges[i].constant] = ranges[i].start;
    double best = error_of(&fit);
    fprintf(stderr, "%u rows, error %.4f\n", fit.count, best);
    int tries = argc > 3 ? atoi(argv[3]) : 20;
    uint64_t seed = 1;
    best = descend(&fit, ranges, num_ranges, best);
    for (int i = 0; i < tries; i++) {
        struct fit other = fit;
        for (size_t k = 0; k < num_ranges; k++) {
            double *value = &other.values[ranges[k].constant];
            *value *= pow(2, 2 * next_share(&seed) - 1);
            *value = fmin(ranges[k].most, fmax(ranges[k].least, *value));
        }
        double error = descend(&other, ranges, num_ranges, error_of(&other));
        if (error < best) {
            best = error;
            memcpy(fit.values, other.values, sizeof fit.values);
        }
        fprintf(stderr, "try %d of %d, error %.4f, best %.4f\n", i + 1, tries,
                error, best);
    }
    for (size_t i = 0; i < num_ranges; i++)
        printf("    [PEN_CONSTANT_%s] = %.4g,\n", names[ranges[i].constant],
               fit.values[ranges[i].constant]);
    if (is_a100) {
        setenv("PEN_VERBOSE", "1", 1);
        one_layer_error(&fit);
    }
    free(fit.used);
    return 0;
}
