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
    uint32_t *ahead;       /* per step: ops that read what AHEAD predicts */
    uint32_t *ahead_left;  /* of those, in this pass */
    uint32_t num_copies;   /* of versions; those of predictions follow them */
    uint32_t *held;        /* per copy: its version */
    uint32_t num_predictions;
    struct prediction *predictions; /* one at least */
    float **averages;               /* per parameter; NULL: none */
    struct pen_mirror mirrors[PEN_CORRECTION_MIRRORS];
    uint64_t first_step;
    uint32_t newest;
    int swapped;     /* the copy that is in use */
    uint32_t step;   /* whose prediction of AHEAD is in use */
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
           pen_op_is_compute(op->kind) && op->version != PEN_OP_CURRENT &&
           pen_correction_distance(&versions->options.correction, op) == 0;
}

static uint32_t step_of(const struct pen_versions *versions,
                        const struct pen_op *op)
{
    return op->microbatch / versions->options.correction.period;
}

/* Ops that read a prediction of AHEAD, which all of a step share. */
static bool is_ahead(const struct pen_versions *versions,
                     const struct pen_op *op)
{
    const struct pen_correction_setup *setup = &versions->options.correction;
    return setup->kind == PEN_CORRECTION_AHEAD &&
           op->stage == versions->options.stage &&
           pen_op_is_compute(op->kind) &&
           pen_correction_distance(setup, op) != 0;
}

static bool is_step_of(const struct pen_versions *versions,
                       const struct pen_op *op)
{
    return op->stage == versions->options.stage && op->kind == PEN_OP_STEP;
}

/* The delay in the longest row: a step that nothing overlaps is not late. */
static void note_delay(struct pen_versions *versions, const struct pen_row *row)
{
    struct pen_correction_setup *setup = &versions->options.correction;
    uint32_t step = 0; /* that backwards belong to */
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        bool is_own = op->stage == versions->options.stage;
        step += is_own && op->kind == PEN_OP_SYNC_GRAD;
        if (op->kind != PEN_OP_FORWARD &&
            (reads_stored(versions, op) || is_ahead(versions, op)) &&
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
    uint32_t *planned = calloc((size_t)4 * num_versions, sizeof *planned);
    if (planned == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < row->count; i++)
        if (reads_stored(versions, &row->ops[i]))
            planned[row->ops[i].version]++;
        else if (is_ahead(versions, &row->ops[i]))
            planned[2 * (size_t)num_versions +
                    step_of(versions, &row->ops[i])]++;
    note_delay(versions, row);
    free(versions->planned);
    versions->planned = planned;
    versions->left = planned + num_versions;
    versions->ahead = versions->left + num_versions;
    versions->ahead_left = versions->ahead + num_versions;
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

/*
 * Predictions of AHEAD that are there at once: from the first op that reads
 * one, or the STEP that changes the moments, to the last op that reads it.
 */
static uint32_t count_predictions(const struct pen_versions *versions,
                                  const struct pen_row *row)
{
    uint32_t *left = versions->ahead_left;
    uint32_t newest = 0, most = 0, made = 0, now = 0;
    if (versions->options.correction.kind != PEN_CORRECTION_AHEAD)
        return needs_prediction(versions, row);
    memcpy(left, versions->ahead, versions->num_versions * sizeof *left);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        bool is_step = is_step_of(versions, op);
        uint32_t step = is_step ? ++newest : step_of(versions, op);
        if (!is_step && !is_ahead(versions, op))
            continue;
        if (step > made && step < versions->num_versions && left[step] > 0) {
            made = step;
            now++;
        }
        most = now > most ? now : most;
        if (!is_step && --left[step] == 0)
            now--;
    }
    return most;
}

pen_status pen_versions_count_needs(const struct pen_versions_options *options,
                                    const struct pen_row *row,
                                    struct pen_version_needs *out)
{
    struct pen_versions counted = {.options = *options};
    pen_status status = count_uses(&counted, row);
    if (status != PEN_OK)
        return status;
    *out = (struct pen_version_needs){
        .copies = count_copies(&counted, row),
        .predictions = count_predictions(&counted, row),
        .has_average = pen_correction_averages(&counted.options.correction)};
    free(counted.planned);
    return PEN_OK;
}

/* ---- making ---- */

static pen_status add_copies(struct pen_versions *versions,
                             struct pen_text *why)
{
    struct pen_engine *engine = pen_network_engine(versions->options.network);
    uint32_t count = versions->num_copies + versions->num_predictions;
    versions->held = calloc(count + 1, sizeof *versions->held);
    versions->predictions =
        calloc(versions->num_predictions + 1, sizeof *versions->predictions);
    if (versions->held == NULL || versions->predictions == NULL)
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

static size_t count_of(const struct pen_versions *versions, size_t parameter)
{
    return pen_network_count(
        pen_network_parameter(versions->options.network, parameter));
}

/* Makes mirrors of the arrays that a correction reads and moves. */
static pen_status make_mirrors(struct pen_versions *versions)
{
    struct pen_network *network = versions->options.network;
    bool is_corrected =
        versions->options.correction.kind != PEN_CORRECTION_NONE;
    pen_status status = PEN_OK;
    for (int i = 0; i < PEN_CORRECTION_MIRRORS && status == PEN_OK; i++)
        status =
            pen_mirror_init(&versions->mirrors[i], pen_network_engine(network),
                            is_corrected ? pen_network_largest(network) : 0);
    return status;
}

/* Touched here, so that the memory is there before the first step. */
static void clear_averages(struct pen_versions *versions)
{
    for (size_t i = 0;
         versions->averages != NULL && i < num_parameters(versions); i++)
        memset(versions->averages[i], 0,
               count_of(versions, i) * sizeof **versions->averages);
}

static pen_status add_averages(struct pen_versions *versions)
{
    if (!pen_correction_averages(&versions->options.correction))
        return PEN_OK;
    versions->averages =
        calloc(num_parameters(versions) + 1, sizeof *versions->averages);
    if (versions->averages == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < num_parameters(versions); i++) {
        versions->averages[i] =
            malloc(count_of(versions, i) * sizeof **versions->averages);
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
        versions->num_predictions = count_predictions(versions, row);
        status = add_copies(versions, why);
    }
    if (status == PEN_OK)
        status = add_averages(versions);
    if (status == PEN_OK)
        status = make_mirrors(versions);
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
    for (int i = 0; i < PEN_CORRECTION_MIRRORS; i++)
        pen_mirror_release(&versions->mirrors[i]);
    free(versions->averages);
    free(versions->planned);
    free(versions->held);
    free(versions->predictions);
    free(versions);
}

pen_status pen_versions_set_row(struct pen_versions *versions,
                                const struct pen_row *row)
{
    pen_status status = count_uses(versions, row);
    if (status != PEN_OK)
        return status;
    PEN_BUG_UNLESS(count_copies(versions, row) <= versions->num_copies);
    PEN_BUG_UNLESS(count_predictions(versions, row) <=
                   versions->num_predictions);
    return PEN_OK;
}

size_t pen_versions_bytes(const struct pen_versions *versions)
{
    size_t bytes = 0;
    for (size_t i = 0;
         versions->averages != NULL && i < num_parameters(versions); i++)
        bytes += count_of(versions, i) * sizeof **versions->averages;
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
    return versions->num_predictions > 0;
}

uint32_t pen_versions_newest(const struct pen_versions *versions)
{
    return versions->newest;
}

/* ---- copies ---- */

/* Exchanges the values of all parameters with a copy; again gives them back. */
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

/* Keeps the newest version for ops that are yet to come. */
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

/* Whether a prediction serves. One of ADAM or AHEAD does for its whole step,
 * others while value and distance are the same. */
static bool is_predicted(const struct pen_versions *versions,
                         const struct prediction *have,
                         const struct prediction *wanted)
{
    enum pen_correction kind = versions->options.correction.kind;
    if (!have->is_valid)
        return false;
    if (kind == PEN_CORRECTION_ADAM || kind == PEN_CORRECTION_AHEAD)
        return have->step == wanted->step;
    return have->version == wanted->version &&
           have->distance == wanted->distance;
}

/* The index of a prediction, or of the place for it. */
static uint32_t find_prediction(const struct pen_versions *versions,
                                const struct prediction *wanted, bool *is_there)
{
    uint32_t place = versions->num_predictions;
    for (uint32_t i = 0; i < versions->num_predictions; i++) {
        *is_there = is_predicted(versions, &versions->predictions[i], wanted);
        if (*is_there)
            return i;
        if (!versions->predictions[i].is_valid ||
            versions->options.correction.kind != PEN_CORRECTION_AHEAD)
            place = i;
    }
    PEN_BUG_UNLESS(place < versions->num_predictions);
    return place;
}

/* Leaves the predicted weights in place of the value. */
static void predict(struct pen_versions *versions, uint32_t step,
                    double distance)
{
    const struct pen_versions_options *options = &versions->options;
    struct pen_correction_moment at = now(versions);
    struct prediction wanted = {.is_valid = true,
                                .distance = distance,
                                .version = versions->newest,
                                .step = step};
    bool is_there = false;
    uint32_t place = find_prediction(versions, &wanted, &is_there);
    int copy = (int)(versions->num_copies + place);
    if (!is_there)
        put(versions, copy);
    swap(versions, copy);
    versions->swapped = copy;
    if (is_there)
        return;
    PEN_BUG_UNLESS(options->correction.kind != PEN_CORRECTION_AHEAD ||
                   versions->newest + distance == step);
    for (size_t i = 0; i < num_parameters(versions); i++)
        pen_correction_predict(
            &options->correction, versions->mirrors, options->network, i,
            distance, versions->averages == NULL ? NULL : versions->averages[i],
            &at);
    versions->predictions[place] = wanted;
}

/*
 * Makes, before moments change, the prediction that the next step will read, if
 * no op has yet.
 */
static void predict_ahead(struct pen_versions *versions)
{
    uint32_t step = versions->newest + 1;
    if (versions->options.correction.kind != PEN_CORRECTION_AHEAD ||
        step >= versions->num_versions || versions->ahead_left[step] == 0)
        return;
    predict(versions, step, 1);
    swap(versions, versions->swapped);
    versions->swapped = NO_COPY;
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
    memcpy(versions->ahead_left, versions->ahead,
           versions->num_versions * sizeof *versions->ahead_left);
    for (uint32_t i = 0; i < versions->num_predictions; i++)
        versions->predictions[i].is_valid = false;
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
    versions->step = NO_VERSION;
    if (distance != 0)
        predict(versions, step_of(versions, op), distance);
    else
        use_stored(versions, wanted);
    if (reads_stored(versions, op))
        versions->in_use = wanted;
    else if (is_ahead(versions, op))
        versions->step = step_of(versions, op);
    return wanted;
}

void pen_versions_unuse(struct pen_versions *versions)
{
    uint32_t version = versions->in_use;
    if (versions->swapped != NO_COPY)
        swap(versions, versions->swapped);
    if (versions->step != NO_VERSION &&
        --versions->ahead_left[versions->step] == 0)
        versions->predictions[versions->swapped - (int)versions->num_copies]
            .is_valid = false;
    versions->swapped = NO_COPY;
    if (version == NO_VERSION)
        return;
    PEN_BUG_UNLESS(versions->left[version] > 0);
    if (--versions->left[version] == 0 && version != versions->newest)
        versions->held[find(versions, version)] = NO_VERSION;
}

/*
 * Averages the changes of a step: the value before it is still in the copy of
 * the prediction.
 */
static void average_changes(struct pen_versions *versions)
{
    struct pen_engine *engine = pen_network_engine(versions->options.network);
    int copy = (int)versions->num_copies;
    for (size_t i = 0; i < num_parameters(versions); i++) {
        const struct pen_mirror_piece value = {.parameter =
                                                   parameter_at(versions, i),
                                               .part = PEN_PART_VALUE,
                                               .count = count_of(versions, i)};
        const float *behind = pen_mirror_show(&versions->mirrors[0], &value);
        engine->ops->parameter_swap(engine, parameter_at(versions, i), copy);
        const float *before = pen_mirror_show(&versions->mirrors[1], &value);
        pen_correction_average(&versions->options.correction, value.count,
                               before, behind, versions->averages[i]);
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
    predict_ahead(versions);
    keep_newest(versions);
    if (versions->averages != NULL) {
        put(versions, (int)versions->num_copies);
        versions->predictions[0].is_valid = false;
    }
    for (size_t i = 0; i < num_parameters(versions); i++)
        if (!pen_network_parameter(options->network, i)->is_value_only)
            pen_correction_step(&options->correction, versions->mirrors,
                                options->network, i, &at);
    versions->newest++;
    if (versions->averages != NULL)
        average_changes(versions);
}
