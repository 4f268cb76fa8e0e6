/*
 * Where the first number that is not finite appeared. Asked when the loss or
 * the gradient norm of a step is infinite or NaN, which all ranks know, before
 * the parameters change. All ranks then look in the order in which numbers are
 * made, and the first that is found is the cause:
 *
 *   weights      the values of all parameters, on every rank that has them
 *   activations  the forward pass again, output by output, of the same samples
 *   gradients    their squares, which are summed tensor by tensor anyway; the
 *                backward pass runs from the last layer to the first
 *
 * Weights that were loaded are checked when they are read (network/weights.c),
 * so weights that are not finite here were made so by an update, or by broken
 * memory. This may allocate and take as long as a step.
 */
#include "base/log.h"
#include "runtime/replicas.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define DIVERGED                                                               \
    "the training has diverged; a lower --lr, a longer --lr-warmup-iters or "  \
    "--clip-grad may help"

/* No update has been made: the learning rate cannot be the cause. */
#define BEGAN                                                                  \
    "the run has not updated its weights yet, so --lr is not the cause: look " \
    "at the weights that it began with"

struct search {
    struct pen_trainer *trainer;
    uint32_t rank;
    uint32_t size;
    double *all; /* PEN__FIND_FIELDS per rank */
    double *own; /* of these, this rank's */
    struct pen_mirror mirror;
    uint64_t batch;
};

static pen_status init_search(struct search *search,
                              struct pen_trainer *trainer)
{
    struct pen_transport *transport = trainer->options.transport;
    *search = (struct search){.trainer = trainer,
                              .rank = pen_transport_rank(transport),
                              .size = pen_transport_size(transport)};
    search->all =
        calloc((size_t)search->size * PEN__FIND_FIELDS, sizeof *search->all);
    if (search->all == NULL)
        return PEN_NOMEM;
    search->own = search->all + (size_t)search->rank * PEN__FIND_FIELDS;
    return pen_mirror_init(&search->mirror, trainer->engine,
                           pen__trainer_largest_parameter(trainer));
}

static void release_search(struct search *search)
{
    pen_mirror_release(&search->mirror);
    free(search->all);
}

static void clear(struct search *search)
{
    for (size_t i = 0; i < (size_t)search->size * PEN__FIND_FIELDS; i++)
        search->all[i] = 0;
}

/* Shares all finds; returns the rank whose find comes first, or `size`. */
static uint32_t share_finds(struct search *search)
{
    struct pen_transport *transport = search->trainer->options.transport;
    struct pen_request request = {.is_active = false};
    uint32_t best = search->size;
    pen_transport_sum(transport, search->all,
                      (size_t)search->size * PEN__FIND_FIELDS, &request);
    if (pen_transport_wait(transport, &request) != PEN_OK)
        return search->size;
    for (uint32_t i = 0; i < search->size; i++) {
        const double *it = search->all + (size_t)i * PEN__FIND_FIELDS;
        const double *so_far = search->all + (size_t)best * PEN__FIND_FIELDS;
        if (it[PEN__HAS_FOUND] == 0)
            continue;
        if (best == search->size || it[PEN__BATCH] < so_far[PEN__BATCH] ||
            (it[PEN__BATCH] == so_far[PEN__BATCH] &&
             it[PEN__LAYER] < so_far[PEN__LAYER]))
            best = i;
    }
    return best;
}

/*
 * The number of a rank in the job, where this transport is one replica of
 * several.
 */
static uint32_t job_rank(const struct search *search, uint32_t rank)
{
    const struct pen_replicas *replicas = search->trainer->replicas;
    return replicas == NULL
               ? rank
               : pen_replicas_number(replicas) * search->size + rank;
}

static void name_tensor(const struct search *search, double tensor,
                        char name[PEN_TENSOR_NAME_SIZE])
{
    struct pen_any_tensor about;
    pen_any_model_tensor(search->trainer->options.model, (uint32_t)tensor,
                         &about);
    for (size_t i = 0; i < PEN_TENSOR_NAME_SIZE; i++)
        name[i] = about.name[i];
}

/* ---- parameters ---- */

typedef bool parameter_test(const struct search *search,
                            const struct pen_network_parameter *it);

static bool is_finite(struct search *search,
                      const struct pen_network_parameter *it,
                      enum pen_parameter_part part)
{
    const struct pen_mirror_piece piece = {.parameter = it->parameter,
                                           .part = part,
                                           .count = pen_network_count(it)};
    return pen_dtype_first_nonfinite(PEN_DTYPE_F32,
                                     pen_mirror_show(&search->mirror, &piece),
                                     piece.count) == piece.count;
}

/* Whether this part of a parameter is with its owner alone. */
static bool is_dropped(const struct pen_trainer *trainer,
                       enum pen_parameter_part part)
{
    return part == PEN_PART_GRADIENT ? trainer->layout.drops_gradients
                                     : trainer->layout.drops_values;
}

/* Notes the first parameter, in the order of the model, with such a part. */
static void look_at_parameters(struct search *search,
                               enum pen_parameter_part part,
                               parameter_test *is_wanted)
{
    struct pen_trainer *trainer = search->trainer;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
            const struct pen_network_parameter *it =
                pen_network_parameter(network, i);
            bool is_elsewhere = is_dropped(trainer, part) &&
                                !pen_exchange_owns(trainer->exchange, s, i);
            if (!is_wanted(search, it) || is_elsewhere ||
                is_finite(search, it, part))
                continue;
            if (search->own[PEN__HAS_FOUND] != 0 &&
                search->own[PEN__LAYER] <= it->layer)
                continue;
            search->own[PEN__HAS_FOUND] = 1;
            search->own[PEN__LAYER] = it->layer;
            search->own[PEN__TENSOR] = it->slices[0].tensor;
        }
    }
}

static bool is_any(const struct search *search,
                   const struct pen_network_parameter *it)
{
    (void)search;
    (void)it;
    return true;
}

/* Whether this rank has the same pieces of layers as another one. */
static bool has_same_pieces(const struct pen_trainer *trainer, uint32_t rank)
{
    const struct pen_layout *layout = &trainer->layout;
    return pen_mesh_place_of(&layout->mesh, rank).at[PEN_AXIS_TENSOR] ==
           layout->place.at[PEN_AXIS_TENSOR];
}

/* Ranks with this tensor, or the piece of it that `rank` has, whose values are
 * finite, for all to know. */
static uint32_t count_sound(struct search *search, double tensor, uint32_t rank)
{
    struct pen_trainer *trainer = search->trainer;
    bool is_damaged =
        search->own[PEN__HAS_FOUND] != 0 || !has_same_pieces(trainer, rank);
    bool has_it = false;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++)
            has_it |= pen_network_parameter(network, i)->slices[0].tensor ==
                          (uint32_t)tensor &&
                      (!is_dropped(trainer, PEN_PART_VALUE) ||
                       pen_exchange_owns(trainer->exchange, s, i));
    }
    clear(search);
    search->own[PEN__HAS_FOUND] = has_it && !is_damaged;
    (void)share_finds(search);
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->size; i++)
        count +=
            search->all[(size_t)i * PEN__FIND_FIELDS + PEN__HAS_FOUND] != 0;
    return count;
}

static bool explain_weights(struct search *search, uint64_t step,
                            struct pen_text *why)
{
    char name[PEN_TENSOR_NAME_SIZE];
    clear(search);
    look_at_parameters(search, PEN_PART_VALUE, is_any);
    uint32_t rank = share_finds(search);
    if (rank == search->size)
        return false;
    double tensor = search->all[(size_t)rank * PEN__FIND_FIELDS + PEN__TENSOR];
    name_tensor(search, tensor, name);
    pen_why(why, "the weights were not finite before it: %s on rank %" PRIu32,
            name, job_rank(search, rank));
    uint32_t num_sound = count_sound(search, tensor, rank);
    if (num_sound > 0)
        pen_why(why,
                ", while %" PRIu32 " other rank%s with the same tensor %s "
                "finite values: the memory of that rank was damaged. Resume "
                "from a checkpoint (--load), and check its machine",
                num_sound, num_sound == 1 ? "" : "s",
                num_sound == 1 ? "has" : "have");
    else
        pen_why(why, ". The update of step %" PRIu64 " made them so: " DIVERGED,
                step - 1);
    return true;
}

/* ---- activations ---- */

static double tensor_of_layer(const struct pen_network *network, uint32_t layer)
{
    for (size_t i = 0; i < pen_network_num_parameters(network); i++)
        if (pen_network_parameter(network, i)->layer == layer)
            return pen_network_parameter(network, i)->slices[0].tensor;
    return -1;
}

static void note_outputs(const struct pen_stage *stage, const void *stash,
                         const void *y, double loss, double *found)
{
    if (found[PEN__HAS_FOUND] != 0)
        return;
    uint32_t layer =
        pen_network_first_nonfinite(stage->network, stash, y, loss);
    if (layer == PEN_NO_LAYER)
        return;
    found[PEN__HAS_FOUND] = 1;
    found[PEN__LAYER] = layer;
    found[PEN__TENSOR] = tensor_of_layer(stage->network, layer);
}

static void look_at_outputs(void *context, const struct pen_stage *stage,
                            const void *stash, const void *y, double loss)
{
    struct search *search = context;
    search->own[PEN__BATCH] = search->own[PEN__HAS_FOUND] != 0
                                  ? search->own[PEN__BATCH]
                                  : (double)search->batch;
    if (stage->network != NULL)
        note_outputs(stage, stash, y, loss, search->own);
}

/* Runs the samples through the pipelines of all replicas in turn. */
static pen_status look_at_forwards(struct search *search,
                                   struct pen_batches *batches, uint64_t first,
                                   uint64_t count, struct pen_text *why)
{
    struct pen_trainer *trainer = search->trainer;
    const struct pen_layout *layout = &trainer->layout;
    uint64_t micro = trainer->options.micro_batch;
    double loss = 0;
    struct pen_pass pass = {.batches = batches,
                            .is_evaluation = true,
                            .num_samples = first + count,
                            .num_targets = (double)count *
                                           trainer->options.sample.num_targets,
                            .losses = &loss,
                            .computed = look_at_outputs,
                            .context = search};
    pen_status status = pen__trainer_make_evaluator(trainer, why);
    if (trainer->evaluator == NULL) /* it waits for a move */
        return status;
    uint64_t num_batches = (count + micro - 1) / micro;
    uint64_t num_passes = pen__trainer_fill_groups(trainer, num_batches);
    for (uint64_t i = 0; i < num_passes && status == PEN_OK; i++) {
        if (i % pen_mesh_num_groups(&layout->mesh) != pen_layout_group(layout))
            continue;
        search->batch = i < num_batches ? i : 0;
        pass.number = ++trainer->num_passes;
        pass.first_sample = first + search->batch * micro;
        status = pen__trainer_run_evaluator(trainer, &pass, why);
    }
    return status;
}

static void name_output(const struct search *search, uint32_t rank,
                        struct pen_text *out)
{
    const double *found = search->all + (size_t)rank * PEN__FIND_FIELDS;
    char name[PEN_TENSOR_NAME_SIZE] = "";
    if (found[PEN__TENSOR] >= 0)
        name_tensor(search, found[PEN__TENSOR], name);
    pen_why(out, "the output of layer %.0f%s%s%s on rank %" PRIu32,
            found[PEN__LAYER], name[0] == '\0' ? "" : " (with ", name,
            name[0] == '\0' ? "" : ")", job_rank(search, rank));
}

/*
 * Looks for the cause in activations. True when the reason is complete, even if
 * it is that looking failed.
 */
static bool explain_activations(struct search *search,
                                struct pen_batches *batches, uint64_t first,
                                uint64_t count, struct pen_text *why)
{
    uint64_t micro = search->trainer->options.micro_batch;
    clear(search);
    pen_status status = look_at_forwards(search, batches, first, count, why);
    search->trainer->has_failed_alone = status != PEN_OK && status != PEN_LOST;
    if (status != PEN_OK)
        return true;
    uint32_t rank = share_finds(search);
    if (rank == search->size)
        return false;
    const double *found = search->all + (size_t)rank * PEN__FIND_FIELDS;
    pen_why(why, "the weights are finite, but ");
    name_output(search, rank, why);
    pen_why(why,
            " is not, in the forward pass of samples %" PRIu64 " to %" PRIu64,
            first + (uint64_t)found[PEN__BATCH] * micro,
            first + ((uint64_t)found[PEN__BATCH] + 1) * micro - 1);
    return true;
}

/* ---- gradients ---- */

/*
 * The last tensor in the order of the model whose gradient is not finite: the
 * backward pass meets it first.
 */
static uint32_t last_nonfinite(const struct pen_trainer *trainer)
{
    uint32_t numbers = pen_tensor_numbers(trainer->options.model,
                                          trainer->options.logical_tensor);
    for (size_t i = pen__trainer_num_squares(trainer); i-- > 0;)
        if (!isfinite(trainer->totals[i]))
            return (uint32_t)(i / numbers);
    return pen_any_model_num_tensors(trainer->options.model);
}

static bool is_last_nonfinite(const struct search *search,
                              const struct pen_network_parameter *it)
{
    return it->slices[0].tensor == last_nonfinite(search->trainer) &&
           !it->is_value_only;
}

static void explain_gradients(struct search *search, bool is_first,
                              struct pen_text *why)
{
    const struct pen_trainer *trainer = search->trainer;
    uint32_t tensor = last_nonfinite(trainer);
    char name[PEN_TENSOR_NAME_SIZE];
    if (tensor == pen_any_model_num_tensors(trainer->options.model)) {
        pen_why(why, DIVERGED);
        return;
    }
    clear(search);
    look_at_parameters(search, PEN_PART_GRADIENT, is_last_nonfinite);
    uint32_t rank = share_finds(search);
    name_tensor(search, tensor, name);
    pen_why(why, "weights and activations are finite, but the gradient of %s",
            name);
    if (rank < search->size)
        pen_why(why, " on rank %" PRIu32, job_rank(search, rank));
    pen_why(why, " is not: %s", is_first ? BEGAN : DIVERGED);
}

/* ---- while a step is computed ---- */

/*
 * A training pass looks at what a stage sends on and at the loss, and where
 * that is not finite at the outputs of all its layers, before they are gone.
 * The first layer of the model that any rank notes is where it began.
 */
static void watch_output(void *context, const struct pen_stage *stage,
                         const void *stash, const void *y, double loss)
{
    struct pen_trainer *trainer = context;
    bool is_right = stage->has_head ? isfinite(loss)
                                    : pen_network_is_finite(stage->network, y);
    if (!is_right)
        note_outputs(stage, stash, y, loss,
                     trainer->found[trainer->num_passes % 2]);
}

void pen__trainer_watch_outputs(struct pen_trainer *trainer,
                                struct pen_pass *pass)
{
    const struct pen_trainer_options *options = &trainer->options;
    double *found = trainer->found[pass->number % 2];
    for (int i = 0; i < PEN__FIND_FIELDS; i++)
        found[i] = 0;
    if (options->sleeps != NULL || options->maker != NULL ||
        options->phantom != NULL)
        return;
    pass->computed = watch_output;
    pass->context = trainer;
}

/* Names all ranks whose gradient of the tensor is not finite. */
static void name_gradients(struct search *search, struct pen_text *out)
{
    uint32_t tensor = last_nonfinite(search->trainer);
    char name[PEN_TENSOR_NAME_SIZE];
    clear(search);
    look_at_parameters(search, PEN_PART_GRADIENT, is_last_nonfinite);
    uint32_t rank = share_finds(search);
    if (rank == search->size) {
        pen_text_add(out, "no layer had such an output");
        return;
    }
    name_tensor(search, tensor, name);
    pen_text_add(out, "the gradient of %s was not, on rank", name);
    for (uint32_t i = rank; i < search->size; i++)
        if (search->all[(size_t)i * PEN__FIND_FIELDS + PEN__HAS_FOUND] != 0)
            pen_text_add(out, " %" PRIu32, job_rank(search, i));
}

pen_status pen__trainer_name_suspect(struct pen_trainer *trainer, uint64_t pass,
                                     struct pen_text *out)
{
    struct search search;
    if (init_search(&search, trainer) != PEN_OK) {
        release_search(&search);
        trainer->has_failed_alone = true;
        return PEN_NOMEM;
    }
    for (int i = 0; i < PEN__FIND_FIELDS; i++)
        search.own[i] = trainer->found[pass % 2][i];
    uint32_t rank = share_finds(&search);
    if (rank < search.size) {
        name_output(&search, rank, out);
        pen_text_add(out, " was not");
    } else {
        name_gradients(&search, out);
    }
    release_search(&search);
    return PEN_OK;
}

/* ---- what the trainer asks ---- */

/* A NaN without the sign that it may have. */
static double unsigned_nan(double value)
{
    return isnan(value) ? (double)NAN : value;
}

static void begin_reason(const struct pen_step *step, struct pen_text *why)
{
    pen_why(why, "step %" PRIu64 " has the loss %g and the gradient norm %g: ",
            step->step, unsigned_nan(step->loss),
            unsigned_nan(step->gradient_norm));
}

bool pen__trainer_is_finite(const struct pen_step *step)
{
    return isfinite(step->loss) && isfinite(step->gradient_norm);
}

/* Why the step is not finite. True where the next one may be. */
static bool explain_step(struct search *search, const struct pen_step *step,
                         struct pen_batches *batches, uint64_t first_sample,
                         struct pen_text *why)
{
    struct pen_trainer *trainer = search->trainer;
    bool is_first = trainer->num_sound == 0;
    if (explain_weights(search, step->step, why))
        return false;
    if (explain_activations(search, batches, first_sample,
                            trainer->options.global_batch, why))
        pen_why(why, ": %s", is_first ? BEGAN : DIVERGED);
    else
        explain_gradients(search, is_first, why);
    return !trainer->has_failed_alone &&
           !pen_transport_has_lost(trainer->options.transport);
}

/* Applies the policy to a step whose reason is known; completes `reason`. */
static pen_status judge(struct pen_trainer *trainer, struct pen_step *step,
                        bool can_go_on, struct pen_text *reason)
{
    const struct pen_trainer_options *options = &trainer->options;
    bool is_over = trainer->num_skipped == PEN_MOST_SKIPPED;
    if (step->is_repeated)
        pen_text_add(reason,
                     ". The step was computed twice, with the same result");
    if (options->on_nan != PEN_ON_NAN_SKIP)
        return PEN_INVALID;
    if (can_go_on && !is_over) {
        trainer->num_skipped++;
        step->is_skipped = true;
        if (pen_transport_rank(options->transport) == 0)
            pen_log(PEN_LOG_WARN, "%s. Its batch is left out (--on-nan skip)",
                    pen_text_string(reason));
        return PEN_OK;
    }
    if (is_over)
        pen_text_add(reason,
                     ", after %d steps in a row that were left out "
                     "(--on-nan skip)",
                     PEN_MOST_SKIPPED);
    else
        pen_text_add(reason, "; to leave out its batch (--on-nan skip) would "
                             "not help");
    return PEN_INVALID;
}

pen_status pen__trainer_check_step(struct pen_trainer *trainer,
                                   struct pen_step *step,
                                   struct pen_batches *batches,
                                   uint64_t first_sample, struct pen_text *why)
{
    struct search search;
    struct pen_text reason = PEN_TEXT_EMPTY;
    if (pen__trainer_is_finite(step)) {
        trainer->num_sound++;
        trainer->num_skipped = 0;
        return PEN_OK;
    }
    if (trainer->options.sleeps != NULL) {
        begin_reason(step, why);
        pen_why(why, DIVERGED);
        return PEN_INVALID;
    }
    if (init_search(&search, trainer) != PEN_OK) {
        release_search(&search);
        trainer->has_failed_alone = true;
        return PEN_NOMEM;
    }
    begin_reason(step, &reason);
    bool can_go_on =
        explain_step(&search, step, batches, first_sample, &reason);
    release_search(&search);
    pen_status status = judge(trainer, step, can_go_on, &reason);
    if (status != PEN_OK)
        pen_why(why, "%s", pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

pen_status pen__trainer_check_overlapping(const struct pen_step *step,
                                          const double *squares,
                                          uint32_t num_parts,
                                          struct pen_text *why)
{
    if (pen__trainer_is_finite(step))
        return PEN_OK;
    begin_reason(step, why);
    for (uint32_t i = num_parts; i-- > 0;) {
        if (isfinite(squares[i]))
            continue;
        pen_why(why, "the gradient of stage %" PRIu32 " is not finite; ", i);
        break;
    }
    pen_why(why, DIVERGED);
    return PEN_INVALID;
}

pen_status pen__trainer_check_evaluation(struct pen_trainer *trainer,
                                         double loss,
                                         struct pen_batches *batches,
                                         uint64_t count, struct pen_text *why)
{
    struct search search;
    if (isfinite(loss))
        return PEN_OK;
    if (init_search(&search, trainer) != PEN_OK) {
        release_search(&search);
        return PEN_NOMEM;
    }
    pen_why(why, "the loss of the evaluation is %g: ", unsigned_nan(loss));
    if (!explain_activations(&search, batches, 0, count, why))
        pen_why(why, "no layer has an output that is not finite, so their sum "
                     "is too large");
    release_search(&search);
    return PEN_INVALID;
}
