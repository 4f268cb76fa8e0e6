#include "runtime/versions.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

#define NO_VERSION UINT32_MAX
#define NO_COPY (-1)

/* Weights that were predicted, and what for. */
struct prediction {
    bool is_valid;
    double distance;
    uint32_t version; /* that it starts from */
    uint32_t step;    /* of the pass, that the micro-batch belongs to */
};

struct pen_versions {
    struct pen_versions_options options;
    uint32_t num_versions; /* that the row has, from first to last */
    uint32_t *planned;     /* per version: ops of the row that read it */
    uint32_t *left;        /* of those, in this pass */
    uint32_t num_copies;   /* of versions; the prediction has one behind them */
    uint32_t *held;        /* per copy: its version */
    bool has_prediction;
    struct prediction prediction;
    float **averages; /* per parameter; NULL: none */
    uint64_t first_step;
    uint32_t newest;
    int swapped;     /* the copy that is in use */
    uint32_t in_use; /* version that a stored copy or the value is read at */
    uint32_t most;
};

static size_t num_parameters(const struct pen_versions *versions)
{
    return pen_network_num_parameters(versions->options.network);
}

static struct pen_parameter *parameter_at(const struct pen_versions *versions,
                                          size_t index)
{
    return pen_network_parameter(versions->options.network, index)->parameter;
}

/* ---- what the row asks for ---- */

/* Ops that the executor carries out and that name a version they read. */
static bool reads_stored(const struct pen_versions *versions,
                         const struct pen_op *op)
{
    return op->stage == versions->options.stage &&
           pen_op_is_compute(op->kind) && op->kind != PEN_OP_RECOMPUTE &&
           op->version != PEN_OP_CURRENT &&
           pen_correction_distance(&versions->options.correction, op) == 0;
}

static bool is_step_of(const struct pen_versions *versions,
                       const struct pen_op *op)
{
    return op->stage == versions->options.stage && op->kind == PEN_OP_STEP;
}

/* Of the longest row: a step that nothing overlaps is not late. */
static void note_delay(struct pen_versions *versions, const struct pen_row *row)
{
    struct pen_correction_setup *setup = &versions->options.correction;
    uint32_t step = 0; /* that backwards belong to */
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        bool is_own = op->stage == versions->options.stage;
        step += is_own && op->kind == PEN_OP_SYNC_GRAD;
        if (op->kind != PEN_OP_FORWARD && reads_stored(versions, op) &&
            step - op->version > setup->most_late)
            setup->most_late = step - op->version;
    }
}

static pen_status count_uses(struct pen_versions *versions,
                             const struct pen_row *row)
{
    uint32_t num_versions = 1;
    for (uint32_t i = 0; i < row->count; i++)
        num_versions += is_step_of(versions, &row->ops[i]);
    uint32_t *planned = calloc(num_versions, sizeof *planned);
    uint32_t *left = calloc(num_versions, sizeof *left);
    if (planned == NULL || left == NULL) {
        free(planned);
        free(left);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < row->count; i++)
        if (reads_stored(versions, &row->ops[i]))
            planned[row->ops[i].version]++;
    note_delay(versions, row);
    free(versions->planned);
    free(versions->left);
    versions->planned = planned;
    versions->left = left;
    versions->num_versions = num_versions;
    return PEN_OK;
}

/* Most versions older than the newest that are held at once. */
static uint32_t count_copies(const struct pen_versions *versions,
                             const struct pen_row *row)
{
    uint32_t *left = versions->left;
    uint32_t newest = 0, now = 0, most = 0;
    memcpy(left, versions->planned, versions->num_versions * sizeof *left);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (is_step_of(versions, op))
            now += left[newest++] > 0;
        else if (reads_stored(versions, op) && --left[op->version] == 0)
            now -= op->version != newest;
        most = now > most ? now : most;
    }
    return most;
}

static bool needs_prediction(const struct pen_versions *versions,
                             const struct pen_row *row)
{
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->stage == versions->options.stage &&
            pen_op_is_compute(op->kind) &&
            pen_correction_distance(&versions->options.correction, op) != 0)
            return true;
    }
    return false;
}

/* ---- making ---- */

static pen_status add_copies(struct pen_versions *versions,
                             struct pen_text *why)
{
    struct pen_engine *engine = pen_network_engine(versions->options.network);
    uint32_t count = versions->num_copies + versions->has_prediction;
    versions->held = calloc(count + 1, sizeof *versions->held);
    if (versions->held == NULL)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < versions->num_copies; k++)
        versions->held[k] = NO_VERSION;
    for (size_t i = 0; i < num_parameters(versions); i++)
        for (uint32_t k = 0; k < count; k++) {
            pen_status status = engine->ops->parameter_add_copy(
                engine, parameter_at(versions, i), why);
            if (status != PEN_OK)
                return status;
        }
    return PEN_OK;
}

static float *value_of(const struct pen_versions *versions, size_t parameter,
                       size_t *count)
{
    struct pen_engine *engine = pen_network_engine(versions->options.network);
    return engine->ops->parameter_span(
        engine, parameter_at(versions, parameter), PEN_PART_VALUE, count);
}

/* Touched here, so that the memory is there before the first step. */
static void clear_averages(struct pen_versions *versions)
{
    for (size_t i = 0;
         versions->averages != NULL && i < num_parameters(versions); i++) {
        size_t count;
        value_of(versions, i, &count);
        memset(versions->averages[i], 0, count * sizeof **versions->averages);
    }
}

static pen_status add_averages(struct pen_versions *versions)
{
    size_t count;
    if (!pen_correction_averages(&versions->options.correction))
        return PEN_OK;
    versions->averages =
        calloc(num_parameters(versions) + 1, sizeof *versions->averages);
    if (versions->averages == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < num_parameters(versions); i++) {
        value_of(versions, i, &count);
        versions->averages[i] = malloc(count * sizeof **versions->averages);
        if (versions->averages[i] == NULL)
            return PEN_NOMEM;
    }
    clear_averages(versions);
    return PEN_OK;
}

pen_status pen_versions_create(const struct pen_versions_options *options,
                               const struct pen_row *row,
                               struct pen_versions **out, struct pen_text *why)
{
    struct pen_versions *versions = calloc(1, sizeof *versions);
    if (versions == NULL)
        return PEN_NOMEM;
    versions->options = *options;
    versions->swapped = NO_COPY;
    versions->most = 1;
    pen_status status = count_uses(versions, row);
    if (status == PEN_OK) {
        versions->num_copies = count_copies(versions, row);
        versions->has_prediction = needs_prediction(versions, row);
        status = add_copies(versions, why);
    }
    if (status == PEN_OK)
        status = add_averages(versions);
    if (status == PEN_OK)
        *out = versions;
    else
        pen_versions_free(versions);
    return status;
}

void pen_versions_free(struct pen_versions *versions)
{
    if (versions == NULL)
        return;
    for (size_t i = 0;
         versions->averages != NULL && i < num_parameters(versions); i++)
        free(versions->averages[i]);
    free(versions->averages);
    free(versions->planned);
    free(versions->left);
    free(versions->held);
    free(versions);
}

pen_status pen_versions_set_row(struct pen_versions *versions,
                                const struct pen_row *row)
{
    pen_status status = count_uses(versions, row);
    if (status != PEN_OK)
        return status;
    PEN_BUG_UNLESS(count_copies(versions, row) <= versions->num_copies);
    PEN_BUG_UNLESS(versions->has_prediction ||
                   !needs_prediction(versions, row));
    return PEN_OK;
}

size_t pen_versions_bytes(const struct pen_versions *versions)
{
    size_t bytes = 0, count;
    for (size_t i = 0;
         versions->averages != NULL && i < num_parameters(versions); i++) {
        value_of(versions, i, &count);
        bytes += count * sizeof **versions->averages;
    }
    return bytes;
}

uint32_t pen_versions_count(const struct pen_versions *versions)
{
    return 1 + versions->num_copies;
}

uint32_t pen_versions_most(const struct pen_versions *versions)
{
    return versions->most;
}

bool pen_versions_predicts(const struct pen_versions *versions)
{
    return versions->has_prediction;
}

uint32_t pen_versions_newest(const struct pen_versions *versions)
{
    return versions->newest;
}

/* ---- copies ---- */

/* Of all parameters; again gives the value back. */
static void swap(struct pen_versions *versions, int copy)
{
    struct pen_engine *engine = pen_network_engine(versions->options.network);
    for (size_t i = 0; i < num_parameters(versions); i++)
        engine->ops->parameter_swap(engine, parameter_at(versions, i), copy);
}

static void put(struct pen_versions *versions, int copy)
{
    struct pen_engine *engine = pen_network_engine(versions->options.network);
    for (size_t i = 0; i < num_parameters(versions); i++)
        engine->ops->parameter_put(engine, parameter_at(versions, i), copy);
}

static int find(const struct pen_versions *versions, uint32_t version)
{
    for (uint32_t k = 0; k < versions->num_copies; k++)
        if (versions->held[k] == version)
            return (int)k;
    return NO_COPY;
}

/* For ops that are yet to come. */
static void keep_newest(struct pen_versions *versions)
{
    uint32_t now = 1;
    if (versions->left[versions->newest] == 0)
        return;
    int copy = find(versions, NO_VERSION);
    PEN_BUG_UNLESS(copy != NO_COPY);
    put(versions, copy);
    versions->held[copy] = versions->newest;
    for (uint32_t k = 0; k < versions->num_copies; k++)
        now += versions->held[k] != NO_VERSION;
    versions->most = now > versions->most ? now : versions->most;
}

/* ---- predictions ---- */

static struct pen_correction_moment now(const struct pen_versions *versions)
{
    uint64_t steps = versions->first_step + versions->newest;
    return (struct pen_correction_moment){
        .learning_rate = pen_lr_schedule_rate(versions->options.rates, steps),
        .steps = steps};
}

/* A step has one prediction of ADAM; others hold as long as the value does. */
static bool is_predicted(const struct pen_versions *versions,
                         const struct prediction *wanted)
{
    const struct prediction *have = &versions->prediction;
    if (!have->is_valid)
        return false;
    if (versions->options.correction.kind == PEN_CORRECTION_ADAM)
        return have->step == wanted->step;
    return have->version == wanted->version &&
           have->distance == wanted->distance;
}

/* Leaves the predicted weights in place of the value. */
static void predict(struct pen_versions *versions, const struct pen_op *op,
                    double distance)
{
    const struct pen_versions_options *options = &versions->options;
    int copy = (int)versions->num_copies;
    struct pen_correction_moment at = now(versions);
    struct prediction wanted = {.is_valid = true,
                                .distance = distance,
                                .version = versions->newest,
                                .step = op->microbatch /
                                        options->correction.period};
    bool is_there = is_predicted(versions, &wanted);
    PEN_BUG_UNLESS(versions->has_prediction);
    if (!is_there)
        put(versions, copy);
    swap(versions, copy);
    versions->swapped = copy;
    if (is_there)
        return;
    for (size_t i = 0; i < num_parameters(versions); i++)
        pen_correction_predict(
            &options->correction, options->network, i, distance,
            versions->averages == NULL ? NULL : versions->averages[i], &at);
    versions->prediction = wanted;
}

/* ---- a pass ---- */

void pen_versions_begin(struct pen_versions *versions, uint64_t steps)
{
    PEN_BUG_UNLESS(versions->swapped == NO_COPY);
    for (uint32_t k = 0; k < versions->num_copies; k++)
        PEN_BUG_UNLESS(versions->held[k] == NO_VERSION);
    memcpy(versions->left, versions->planned,
           versions->num_versions * sizeof *versions->left);
    versions->first_step = steps;
    versions->newest = 0;
    versions->prediction.is_valid = false;
    clear_averages(versions);
}

static void use_stored(struct pen_versions *versions, uint32_t version)
{
    if (version == versions->newest)
        return;
    versions->swapped = find(versions, version);
    PEN_BUG_UNLESS(versions->swapped != NO_COPY);
    swap(versions, versions->swapped);
}

uint32_t pen_versions_use(struct pen_versions *versions,
                          const struct pen_op *op, uint32_t version)
{
    const struct pen_versions_options *options = &versions->options;
    struct pen_correction_moment at = now(versions);
    double distance = pen_correction_is_flushed(&options->correction, &at)
                          ? 0
                          : pen_correction_distance(&options->correction, op);
    uint32_t wanted =
        op->version == PEN_OP_CURRENT ? versions->newest : op->version;
    PEN_BUG_UNLESS(versions->swapped == NO_COPY);
    PEN_BUG_UNLESS(op->kind == PEN_OP_FORWARD || options->is_stale ||
                   wanted == version);
    versions->in_use = NO_VERSION;
    if (distance != 0)
        predict(versions, op, distance);
    else
        use_stored(versions, wanted);
    if (reads_stored(versions, op))
        versions->in_use = wanted;
    return wanted;
}

void pen_versions_unuse(struct pen_versions *versions)
{
    uint32_t version = versions->in_use;
    if (versions->swapped != NO_COPY)
        swap(versions, versions->swapped);
    versions->swapped = NO_COPY;
    if (version == NO_VERSION)
        return;
    PEN_BUG_UNLESS(versions->left[version] > 0);
    if (--versions->left[version] == 0 && version != versions->newest)
        versions->held[find(versions, version)] = NO_VERSION;
}

/* The value before the step is in the copy of the prediction, until then. */
static void average_changes(struct pen_versions *versions)
{
    struct pen_engine *engine = pen_network_engine(versions->options.network);
    int copy = (int)versions->num_copies;
    for (size_t i = 0; i < num_parameters(versions); i++) {
        size_t count;
        const float *behind = value_of(versions, i, &count);
        engine->ops->parameter_swap(engine, parameter_at(versions, i), copy);
        const float *before = value_of(versions, i, &count);
        pen_correction_average(&versions->options.correction, count, before,
                               behind, versions->averages[i]);
        engine->ops->parameter_swap(engine, parameter_at(versions, i), copy);
    }
}

void pen_versions_step(struct pen_versions *versions, uint32_t version,
                       double norm)
{
    const struct pen_versions_options *options = &versions->options;
    struct pen_correction_moment at = now(versions);
    at.norm = norm;
    PEN_BUG_UNLESS(version == PEN_OP_CURRENT ||
                   version == versions->newest + 1);
    PEN_BUG_UNLESS(versions->newest + 1 < versions->num_versions);
    keep_newest(versions);
    if (versions->averages != NULL) {
        put(versions, (int)versions->num_copies);
        versions->prediction.is_valid = false;
    }
    for (size_t i = 0; i < num_parameters(versions); i++)
        if (!pen_network_parameter(options->network, i)->is_value_only)
            pen_correction_step(&options->correction, options->network, i, &at);
    versions->newest++;
    if (versions->averages != NULL)
        average_changes(versions);
}
