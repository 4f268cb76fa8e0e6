/*
 * Fits constants of devices to the rows that may be fitted.
 *
 *   build/release/bench/fit_constants FOLDER SUBJECT [TRIES [--leave-out]]
 *
 * SUBJECT: a100, h100, blackwell or experts. Prints the constants as
 * src/core/device_constants.c has them. Rows that are held out are never looked
 * at. Search: one parameter at a time, by factors that shrink, from a rough
 * start and then from around the best; seeded.
 *
 * --leave-out fits once for each group of rows without it, and prints for each
 * of its rows: set, row, group, share of messages in the step, logarithm of the
 * measured over the predicted seconds. Intervals are calibrated with that.
 */
#include "validation_nemo.h"

/* Kinds of device whose constants may be fitted together. */
static const char *const kinds[] = {"a100", "h100", "b200", "gb200", "gb300"};

enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

/* A constant of one kind or, as one number, of several. */
struct parameter {
    enum pen_constant constant;
    const char *kinds; /* names with spaces around them */
    double least;
    double most;
    double start;
};

struct fit {
    struct rows *rows;
    const struct subject *subject;
    uint32_t *used; /* rows */
    uint32_t count;
    double values[NUM_KINDS][PEN_CONSTANTS];
    const json_t *one_layer;
};

static const struct parameter a100_parameters[] = {
    {PEN_CONSTANT_PRODUCT_SHARE, " a100 ", 0.5, 0.825,
     0.8}, /* 0.869 at best, less for long */
    {PEN_CONSTANT_TILE_HALF, " a100 ", 0.5, 200, 20},
    {PEN_CONSTANT_DEPTH_HALF, " a100 ", 1, 2000, 200},
    {PEN_CONSTANT_ROUNDING, " a100 ", 0.01, 0.5, 0.5},
    {PEN_CONSTANT_BYTES_SHARE, " a100 ", 0.3, 0.95, 0.8},
    {PEN_CONSTANT_BYTES_HALF, " a100 ", 1e4, 1e8, 4e6},
    {PEN_CONSTANT_LAUNCH, " a100 ", 1e-6, 2e-4, 40e-6},
    {PEN_CONSTANT_LINK_SEC, " a100 ", 1e-6, 3e-4, 30e-6},
    {PEN_CONSTANT_MESSAGE_SHARE, " a100 ", 0.02, 0.7, 0.2},
    {PEN_CONSTANT_STEP_SEC, " a100 ", 1e-5, 0.1, 5e-3},
    {PEN_CONSTANT_MICROBATCH_SEC, " a100 ", 1e-5, 0.05, 2e-3}};

static const struct parameter h100_parameters[] = {
    {PEN_CONSTANT_PRODUCT_SHARE, " h100 ", 0.5, 0.803, 0.7},
    {PEN_CONSTANT_PRODUCT_SHARE_FP8, " h100 ", 0.4, 0.78, 0.6},
    {PEN_CONSTANT_ATTENTION_SHARE, " h100 ", 0.2, 0.7, 0.45},
    {PEN_CONSTANT_BYTES_SHARE, " h100 ", 0.5, 0.95, 0.8},
    {PEN_CONSTANT_STEP_SEC, " h100 ", 1e-5, 0.3, 5e-3}};

/* Few rows for each kind: what the chip has in common is one number. */
#define ALL " b200 gb200 gb300 "

static const struct parameter blackwell_parameters[] = {
    {PEN_CONSTANT_PRODUCT_SHARE_FP8, " b200 gb200 ", 0.3, 0.85, 0.6},
    {PEN_CONSTANT_PRODUCT_SHARE_MXFP8, " b200 gb200 ", 0.3, 0.85, 0.6},
    {PEN_CONSTANT_PRODUCT_SHARE_FP4, " b200 gb200 ", 0.2, 0.85, 0.5},
    {PEN_CONSTANT_PRODUCT_SHARE_FP8, " gb300 ", 0.3, 0.9, 0.7},
    {PEN_CONSTANT_PRODUCT_SHARE_MXFP8, " gb300 ", 0.3, 0.9, 0.7},
    {PEN_CONSTANT_PRODUCT_SHARE_FP4, " gb300 ", 0.2, 0.85, 0.4},
    {PEN_CONSTANT_BYTES_SHARE, ALL, 0.5, 0.9, 0.7},
    {PEN_CONSTANT_STEP_SEC, ALL, 1e-5, 0.05, 5e-3}};

/* Constants of experts and of Mamba, and products of Blackwell in 16 bits: only
 * rows with experts tell them. */
#define EVERY " h100 b200 gb200 gb300 "

static const struct parameter expert_parameters[] = {
    {PEN_CONSTANT_PRODUCT_SHARE, " b200 gb200 ", 0.4, 0.85, 0.7},
    {PEN_CONSTANT_PRODUCT_SHARE, " gb300 ", 0.4, 0.9, 0.75},
    {PEN_CONSTANT_RECURRENCE_SHARE, " h100 ", 0.02, 0.5, 0.15},
    {PEN_CONSTANT_RECURRENCE_SHARE, ALL, 0.01, 0.5, 0.08},
    {PEN_CONSTANT_EXPERT_LAUNCH, " h100 b200 ", 2e-6, 2e-4, 5e-5},
    {PEN_CONSTANT_EXPERT_LAUNCH, " gb200 gb300 ", 2e-6, 2e-4, 5e-5},
    {PEN_CONSTANT_EXCHANGE_SHARE, EVERY, 0.1, 0.9, 0.6},
    {PEN_CONSTANT_DISPATCH_SEC, EVERY, 1e-6, 5e-3, 3e-4},
    {PEN_CONSTANT_COUNT_SEC, EVERY, 1e-6, 5e-3, 5e-4}};

/* The subjects of a fit, by name. */
static const struct subject {
    const char *name;
    const char *sets; /* beginning of their names; "": all but NVIDIA's */
    const struct parameter *parameters;
    size_t num_parameters;
    bool has_one_layer; /* of table 4, too */
} subjects[] = {
#define SUBJECT(name, sets, parameters, has_one_layer)                         \
    {                                                                          \
        name, sets, parameters, sizeof parameters / sizeof *parameters,        \
            has_one_layer                                                      \
    }
    SUBJECT("a100", "", a100_parameters, true),
    SUBJECT("h100", "", h100_parameters, false),
    SUBJECT("blackwell", "nemo_dense", blackwell_parameters, false),
    SUBJECT("experts", "nemo_moe", expert_parameters, false)};

/* The place of a device in `kinds`; NUM_KINDS: none of them. */
static int find_kind(const struct pen_device *device)
{
    int kind = 0;
    while (kind < NUM_KINDS &&
           strncmp(device->kind, kinds[kind], strlen(kinds[kind])) != 0)
        kind++;
    return kind;
}

static bool has_kind(const struct parameter *parameter, int kind)
{
    char word[32];
    snprintf(word, sizeof word, " %s ", kinds[kind]);
    return strstr(parameter->kinds, word) != NULL;
}

static void set_parameter(struct fit *fit, const struct parameter *parameter,
                          double value)
{
    value = fmin(parameter->most, fmax(parameter->least, value));
    for (int kind = 0; kind < NUM_KINDS; kind++)
        if (has_kind(parameter, kind))
            fit->values[kind][parameter->constant] = value;
}

static double get_parameter(const struct fit *fit,
                            const struct parameter *parameter)
{
    int kind = 0;
    while (!has_kind(parameter, kind))
        kind++;
    return fit->values[kind][parameter->constant];
}

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
    memcpy(group.device.constants, fit->values[0],
           sizeof group.device.constants);
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
        memcpy(row->group.device.constants,
               fit->values[find_kind(&row->group.device)],
               sizeof row->group.device.constants);
        if (pen_predict(&row->setting, row->plan, &prediction, &why) != PEN_OK)
            die(row->set, pen_text_string(&why));
        sum += fabs(log(prediction.step_sec / row->measured_sec));
        pen_prediction_release(&prediction);
    }
    sum /= fit->count;
    /* Five layer times weigh as much as a fifth of all rows. */
    if (fit->subject->has_one_layer)
        sum += 0.5 * one_layer_error(fit);
    return sum;
}

static double improve(struct fit *fit, const struct parameter *parameter,
                      double factor, double best)
{
    double old = get_parameter(fit, parameter);
    double tries[] = {old * factor, old / factor};
    for (int i = 0; i < 2; i++) {
        set_parameter(fit, parameter, tries[i]);
        double error = error_of(fit);
        if (error < best)
            return error;
    }
    set_parameter(fit, parameter, old);
    return best;
}

/* One parameter after the other, by factors that shrink. */
static double descend(struct fit *fit, double best)
{
    double factor = 1.3;
    while (factor > 1.002) {
        double before = best;
        for (size_t i = 0; i < fit->subject->num_parameters; i++)
            best = improve(fit, &fit->subject->parameters[i], factor, best);
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

/* Rows that may be fitted, of the sets and kinds of the subject. */
static void choose_rows(struct fit *fit)
{
    const struct subject *subject = fit->subject;
    fit->used = calloc(fit->rows->count, sizeof *fit->used);
    if (fit->used == NULL)
        die("rows", "no memory");
    for (uint32_t i = 0; i < fit->rows->count; i++) {
        const struct row *row = &fit->rows->items[i];
        int kind = find_kind(&row->group.device);
        bool is_ours = false;
        for (size_t k = 0; kind < NUM_KINDS && k < subject->num_parameters; k++)
            is_ours = is_ours || has_kind(&subject->parameters[k], kind);
        bool is_old = subject->sets[0] == '\0';
        if (!is_ours || row->is_held_out || row->is_left_out ||
            (is_old && strncmp(row->set, "nemo", 4) == 0) ||
            strncmp(row->set, subject->sets, strlen(subject->sets)) != 0)
            continue;
        memcpy(fit->values[kind], row->group.device.constants,
               sizeof fit->values[kind]);
        fit->used[fit->count++] = i;
    }
}

/* The group of a row: its model, its number of devices, or its set. */
static void name_group(const struct row *row, char *out, size_t size)
{
    if (strncmp(row->set, "nemo", 4) == 0)
        snprintf(out, size, "%s", word_of(row->facts, "model"));
    else if (strncmp(row->set, "vtrain", 6) == 0)
        snprintf(out, size, "%.0f-devices", number_of(row->facts, "gpus", 0));
    else
        snprintf(out, size, "%s", row->set);
}

/* From around what is best so far. */
static double try_again(const struct fit *fit, uint64_t *seed,
                        struct fit *other)
{
    *other = *fit;
    for (size_t i = 0; i < fit->subject->num_parameters; i++) {
        const struct parameter *parameter = &fit->subject->parameters[i];
        set_parameter(other, parameter,
                      get_parameter(other, parameter) *
                          pow(2, 2 * next_share(seed) - 1));
    }
    return descend(other, error_of(other));
}

static void print_fit(const struct fit *fit)
{
    static const char *const names[] = {
#define CONSTANT_NAME(name, key) #name,
        PEN_CONSTANT_TABLE(CONSTANT_NAME)};
    for (size_t i = 0; i < fit->subject->num_parameters; i++) {
        const struct parameter *parameter = &fit->subject->parameters[i];
        printf("%-20s[PEN_CONSTANT_%s] = %.4g,\n", parameter->kinds,
               names[parameter->constant], get_parameter(fit, parameter));
    }
}

/* Fits to the rows that are used. */
static void search(struct fit *fit, int tries)
{
    uint64_t seed = 1;
    for (size_t i = 0; i < fit->subject->num_parameters; i++)
        set_parameter(fit, &fit->subject->parameters[i],
                      fit->subject->parameters[i].start);
    double best = error_of(fit);
    fprintf(stderr, "%u rows, error %.4f\n", fit->count, best);
    best = descend(fit, best);
    for (int i = 0; i < tries; i++) {
        struct fit other;
        double error = try_again(fit, &seed, &other);
        if (error < best) {
            best = error;
            *fit = other;
        }
        fprintf(stderr, "try %d of %d, error %.4f, best %.4f\n", i + 1, tries,
                error, best);
    }
}

static void print_left_out(const struct fit *fit, const struct row *row,
                           const char *group)
{
    struct row copy = *row;
    struct pen_prediction prediction;
    memcpy(copy.group.device.constants,
           fit->values[find_kind(&copy.group.device)],
           sizeof copy.group.device.constants);
    copy.cluster.groups = &copy.group;
    copy.setting.cluster = &copy.cluster;
    if (pen_predict(&copy.setting, copy.plan, &prediction, NULL) != PEN_OK)
        die(row->set, "cannot be predicted");
    double messages = prediction.spent[PEN_SPENDING_TENSOR] +
                      prediction.spent[PEN_SPENDING_EXPERT];
    printf("%s\t%u\t%s\t%.4f\t%+.4f\n", row->set, row->index, group,
           messages / prediction.step_sec,
           log(row->measured_sec / prediction.step_sec));
    pen_prediction_release(&prediction);
}

/* One group after the other, in the order of their first rows. */
static void leave_out(const struct fit *all, int tries)
{
    for (uint32_t i = 0; i < all->count; i++) {
        struct fit fit = *all;
        char group[64];
        char other[64];
        bool is_first = true;
        name_group(&all->rows->items[all->used[i]], group, sizeof group);
        fit.used = calloc(all->count, sizeof *fit.used);
        fit.count = 0;
        if (fit.used == NULL)
            die("rows", "no memory");
        for (uint32_t k = 0; k < all->count; k++) {
            name_group(&all->rows->items[all->used[k]], other, sizeof other);
            bool is_out = strcmp(group, other) == 0;
            is_first = is_first && !(is_out && k < i);
            if (!is_out)
                fit.used[fit.count++] = all->used[k];
        }
        if (is_first && fit.count > 0)
            search(&fit, tries);
        for (uint32_t k = i; is_first && fit.count > 0 && k < all->count; k++) {
            const struct row *row = &all->rows->items[all->used[k]];
            name_group(row, other, sizeof other);
            if (strcmp(group, other) == 0)
                print_left_out(&fit, row, group);
        }
        free(fit.used);
    }
}

int main(int argc, char **argv)
{
    struct rows rows;
    if (argc < 3 || argc > 5 ||
        (argc == 5 && strcmp(argv[4], "--leave-out") != 0)) {
        fprintf(stderr, "usage: fit_constants FOLDER SUBJECT [TRIES "
                        "[--leave-out]]\n");
        return 2;
    }
    load_all_rows(&rows, argv[1]);
    struct fit fit = {.rows = &rows};
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i].name, argv[2]) == 0)
            fit.subject = &subjects[i];
    if (fit.subject == NULL)
        die(argv[2], "nothing of this name is fitted");
    fit.one_layer =
        json_object_get(load_facts(&rows, "megatron_recompute_2205_05198.json"),
                        "table4_one_layer_22B");
    choose_rows(&fit);
    int tries = argc > 3 ? atoi(argv[3]) : 20;
    if (argc == 5) {
        leave_out(&fit, tries);
        return 0;
    }
    search(&fit, tries);
    print_fit(&fit);
    if (fit.subject->has_one_layer) {
        setenv("PEN_VERBOSE", "1", 1);
        one_layer_error(&fit);
    }
    free(fit.used);
    return 0;
}
