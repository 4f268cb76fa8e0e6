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
 * memory. This may allocate and take as long as a step: the training ends.
 */
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

/* What one rank has found; numbers that the sum over ranks keeps exactly. */
enum { HAS_FOUND, BATCH, LAYER, TENSOR, FIELDS };

struct search {
    struct pen_trainer *trainer;
    uint32_t rank;
    uint32_t size;
    double *all; /* FIELDS per rank */
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
    search->all = calloc((size_t)search->size * FIELDS, sizeof *search->all);
    if (search->all == NULL)
        return PEN_NOMEM;
    search->own = search->all + (size_t)search->rank * FIELDS;
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
    for (size_t i = 0; i < (size_t)search->size * FIELDS; i++)
        search->all[i] = 0;
}

/* Tells all ranks; returns the one whose find comes first, or `size`. */
static uint32_t share_finds(struct search *search)
{
    struct pen_transport *transport = search->trainer->options.transport;
    struct pen_request request = {.is_active = false};
    uint32_t best = search->size;
    pen_transport_sum(transport, search->all, (size_t)search->size * FIELDS,
                      &request);
    if (pen_transport_wait(transport, &request) != PEN_OK)
        return search->size;
    for (uint32_t i = 0; i < search->size; i++) {
        const double *it = search->all + (size_t)i * FIELDS;
        const double *so_far = search->all + (size_t)best * FIELDS;
        if (it[HAS_FOUND] == 0)
            continue;
        if (best == search->size || it[BATCH] < so_far[BATCH] ||
            (it[BATCH] == so_far[BATCH] && it[LAYER] < so_far[LAYER]))
            best = i;
    }
    return best;
}

/* As the job counts ranks, where this transport is one replica of several. */
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
            if (!is_wanted(search, it) || is_finite(search, it, part))
                continue;
            if (search->own[HAS_FOUND] != 0 && search->own[LAYER] <= it->layer)
                continue;
            search->own[HAS_FOUND] = 1;
            search->own[LAYER] = it->layer;
            search->own[TENSOR] = it->slices[0].tensor;
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

/* Ranks with this tensor whose values are finite, for all to know. */
static uint32_t count_sound(struct search *search, double tensor)
{
    struct pen_trainer *trainer = search->trainer;
    bool is_damaged = search->own[HAS_FOUND] != 0;
    bool has_it = false;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++)
            has_it |= pen_network_parameter(network, i)->slices[0].tensor ==
                      (uint32_t)tensor;
    }
    clear(search);
    search->own[HAS_FOUND] = has_it && !is_damaged;
    (void)share_finds(search);
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->size; i++)
        count += search->all[(size_t)i * FIELDS + HAS_FOUND] != 0;
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
    double tensor = search->all[(size_t)rank * FIELDS + TENSOR];
    name_tensor(search, tensor, name);
    pen_why(why, "the weights were not finite before it: %s on rank %" PRIu32,
            name, job_rank(search, rank));
    uint32_t num_sound = count_sound(search, tensor);
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

static void look_at_outputs(void *context, const struct pen_stage *stage,
                            const void *stash, const void *y, double loss)
{
    struct search *search = context;
    if (stage->network == NULL || search->own[HAS_FOUND] != 0)
        return;
    uint32_t layer =
        pen_network_first_nonfinite(stage->network, stash, y, loss);
    if (layer == PEN_NO_LAYER)
        return;
    search->own[HAS_FOUND] = 1;
    search->own[BATCH] = (double)search->batch;
    search->own[LAYER] = layer;
    search->own[TENSOR] = tensor_of_layer(stage->network, layer);
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
    for (uint64_t i = 0; i * micro < count && status == PEN_OK; i++) {
        if (i % pen_mesh_num_replicas(&layout->mesh) != layout->replica)
            continue;
        search->batch = i;
        pass.number = ++trainer->num_passes;
        pass.first_sample = first + i * micro;
        status = pen_executor_run(trainer->evaluator, &pass, why);
    }
    return status;
}

/* True when it has told a cause, which may be that it could not look. */
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
    const double *found = search->all + (size_t)rank * FIELDS;
    char name[PEN_TENSOR_NAME_SIZE] = "";
    if (found[TENSOR] >= 0)
        name_tensor(search, found[TENSOR], name);
    pen_why(why,
            "the weights are finite, but the output of layer %.0f%s%s%s on "
            "rank %" PRIu32 " is not, in the forward pass of samples %" PRIu64
            " to %" PRIu64,
            found[LAYER], name[0] == '\0' ? "" : " (with ", name,
            name[0] == '\0' ? "" : ")", job_rank(search, rank),
            first + (uint64_t)found[BATCH] * micro,
            first + ((uint64_t)found[BATCH] + 1) * micro - 1);
    return true;
}

/* ---- gradients ---- */

/* The last in the order of the model: the backward pass meets it first. */
static uint32_t last_nonfinite(const struct pen_trainer *trainer)
{
    uint32_t count = pen_any_model_num_tensors(trainer->options.model);
    for (uint32_t i = count; i-- > 0;)
        if (!isfinite(trainer->totals[i]))
            return i;
    return count;
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

pen_status pen__trainer_check_step(struct pen_trainer *trainer,
                                   const struct pen_step *step,
                                   struct pen_batches *batches,
                                   uint64_t first_sample, struct pen_text *why)
{
    struct search search;
    uint64_t count = trainer->options.global_batch;
    bool is_first = trainer->num_sound == 0;
    if (isfinite(step->loss) && isfinite(step->gradient_norm)) {
        trainer->num_sound++;
        return PEN_OK;
    }
    begin_reason(step, why);
    if (trainer->options.sleeps != NULL) {
        pen_why(why, DIVERGED);
        return PEN_INVALID;
    }
    if (init_search(&search, trainer) != PEN_OK) {
        release_search(&search);
        trainer->has_failed_alone = true;
        return PEN_NOMEM;
    }
    if (!explain_weights(&search, step->step, why)) {
        if (explain_activations(&search, batches, first_sample, count, why))
            pen_why(why, ": %s", is_first ? BEGAN : DIVERGED);
        else
            explain_gradients(&search, is_first, why);
    }
    release_search(&search);
    return PEN_INVALID;
}

pen_status pen__trainer_check_overlapping(const struct pen_step *step,
                                          const double *squares,
                                          uint32_t num_parts,
                                          struct pen_text *why)
{
    if (isfinite(step->loss) && isfinite(step->gradient_norm))
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
