/*
 * The output of --probe: tallies (core/tally.h) of outputs, gradients and
 * weights of a step. Each rank adds the pieces that it computes or keeps, each
 * element of the whole tensor being added by one rank of the transport:
 *
 *   outputs, their gradients   by the rank that computes the micro-batch, the
 *                              first of its tensor group; with sequence
 *                              parallelism each of the group its tokens
 *   weights before and after   by the first member of the part
 *   gradients of weights       by the rank that steps them
 *
 * After the step the first rank joins the tallies of all ranks. Since tallies
 * are exact, neither the pieces nor the order of joining changes the figures.
 * Without a probe nothing of this exists.
 */
#include "base/bug.h"
#include "runtime/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tally on its way to the first rank. */
struct sent {
    uint64_t slot;
    struct pen_tally tally;
};

/*
 * Slots: tensors for each of three passes, then layers for each of two.
 *
 *   | weights | gradients | updated | forward | backward |
 */
struct pen__probing {
    struct pen_tally *tallies; /* by slot */
    size_t num_slots;
    uint32_t num_tensors;
    uint32_t num_layers;
    struct sent *messages; /* room for all slots */
    float *plain;          /* numbers of one piece, for the host */
    void *staging;         /* outputs of a micro-batch; NULL: none needed */
    size_t staging_bytes;
    bool is_on; /* the step under way is probed */
};

static size_t tensor_slot(const struct pen__probing *probing,
                          enum pen_probe_pass pass, uint32_t tensor)
{
    size_t block = pass == PEN_PROBE_WEIGHTS     ? 0
                   : pass == PEN_PROBE_GRADIENTS ? 1
                                                 : 2;
    return block * probing->num_tensors + tensor;
}

static size_t layer_slot(const struct pen__probing *probing,
                         enum pen_probe_pass pass, uint32_t layer)
{
    size_t block = pass == PEN_PROBE_FORWARD ? 0 : 1;
    return 3 * (size_t)probing->num_tensors + block * probing->num_layers +
           layer;
}

/* ---- making ---- */

static size_t output_numbers(const struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    return options->micro_batch * options->sample.num_ids *
           options->model->decoder->hidden;
}

static pen_status refuse(const struct pen_trainer *trainer,
                         struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const char *reason = options->model->decoder == NULL ? "a model of text"
                         : options->sleeps != NULL || options->maker != NULL ||
                                 options->phantom != NULL
                             ? "an engine that computes"
                         : trainer->is_asynchronous ? "a synchronous schedule"
                         : options->world != NULL
                             ? "one set of weights, without --sync"
                             : NULL;
    if (reason == NULL)
        return PEN_OK;
    pen_why(why, "--probe needs %s", reason);
    return PEN_INVALID;
}

static pen_status make_room(struct pen_trainer *trainer,
                            struct pen__probing *probing)
{
    size_t numbers = output_numbers(trainer);
    size_t largest =
        trainer->executor == NULL ? 0 : pen__trainer_largest_parameter(trainer);
    probing->tallies = calloc(probing->num_slots, sizeof *probing->tallies);
    probing->messages = calloc(probing->num_slots, sizeof *probing->messages);
    probing->plain = calloc((numbers > largest ? numbers : largest) + 1,
                            sizeof *probing->plain);
    probing->staging_bytes =
        numbers * pen_precision_bytes(trainer->engine->dtype);
    probing->staging = pen_engine_take(trainer->engine, PEN_PLACE_STAGING,
                                       probing->staging_bytes);
    return probing->tallies == NULL || probing->messages == NULL ||
                   probing->plain == NULL || probing->staging == NULL
               ? PEN_NOMEM
               : PEN_OK;
}

pen_status pen__trainer_make_probing(struct pen_trainer *trainer,
                                     struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    if (options->probe == NULL || options->is_forward_only)
        return PEN_OK;
    pen_status status = refuse(trainer, why);
    if (status != PEN_OK)
        return status;
    struct pen__probing *probing = calloc(1, sizeof *probing);
    if (probing == NULL)
        return PEN_NOMEM;
    trainer->probing = probing;
    probing->num_tensors = pen_any_model_num_tensors(options->model);
    probing->num_layers = pen__trainer_num_layers(options);
    probing->num_slots =
        3 * (size_t)probing->num_tensors + 2 * (size_t)probing->num_layers;
    status = make_room(trainer, probing);
    if (status != PEN_OK)
        pen_why(why, "no memory for --probe");
    return status;
}

void pen__trainer_free_probing(struct pen_trainer *trainer)
{
    struct pen__probing *probing = trainer->probing;
    if (probing == NULL)
        return;
    pen_engine_give(trainer->engine, PEN_PLACE_STAGING, probing->staging,
                    probing->staging_bytes);
    free(probing->tallies);
    free(probing->messages);
    free(probing->plain);
    free(probing);
    trainer->probing = NULL;
}

/* ---- weights ---- */

static void add_parameter(struct pen_trainer *trainer,
                          const struct pen_network *network,
                          const struct pen_network_parameter *it,
                          enum pen_probe_pass pass)
{
    struct pen__probing *probing = trainer->probing;
    pen_network_export(network, it,
                       pass == PEN_PROBE_GRADIENTS ? PEN_PART_GRADIENT
                                                   : PEN_PART_VALUE,
                       probing->plain);
    for (size_t i = 0; i < it->num_slices; i++) {
        const struct pen_tensor_slice *slice = &it->slices[i];
        struct pen_any_tensor about;
        pen_any_model_tensor(trainer->options.model, slice->tensor, &about);
        struct pen_tensor_piece whole =
            pen_tensor_piece_whole(about.num_dims, about.shape);
        size_t slot = tensor_slot(probing, pass, slice->tensor);
        pen_tally_add(&probing->tallies[slot], &whole, &slice->piece,
                      probing->plain + slice->first);
    }
}

/* Whether this rank is the one that adds a parameter. */
static bool adds(const struct pen_trainer *trainer, uint32_t index,
                 const struct pen_stage *stage, size_t parameter,
                 enum pen_probe_pass pass)
{
    const struct pen_network_parameter *it =
        pen_network_parameter(stage->network, parameter);
    bool is_first =
        pen_layout_comes_first(&trainer->layout, stage->stage, it->num_dealt);
    if (it->is_copy)
        return false;
    if (pass == PEN_PROBE_GRADIENTS || trainer->layout.drops_values)
        return (is_first || trainer->options.sharding != PEN_SHARDING_NONE) &&
               pen_exchange_owns(trainer->exchange, index, parameter);
    return is_first && !it->is_value_only;
}

void pen__trainer_probe_parameters(struct pen_trainer *trainer,
                                   enum pen_probe_pass pass)
{
    if (trainer->probing == NULL || !trainer->probing->is_on)
        return;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        const struct pen_stage *stage =
            pen_executor_stage(trainer->executor, s);
        for (size_t i = 0; i < pen_network_num_parameters(stage->network); i++)
            if (adds(trainer, s, stage, i, pass))
                add_parameter(trainer, stage->network,
                              pen_network_parameter(stage->network, i), pass);
    }
}

/* ---- outputs ---- */

static bool has_part_of_rows(const struct pen_trainer *trainer)
{
    return trainer->options.cuts_rows &&
           pen_layout_group_size(&trainer->layout) > 1;
}

/* The rows of this rank: of each chunk of a sample some tokens in a row. */
static void observe_part(struct pen_trainer *trainer,
                         const struct pen_observed *it, const uint32_t *chunks,
                         size_t num_chunks)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen__probing *probing = trainer->probing;
    struct pen_engine *engine = trainer->engine;
    size_t hidden = options->model->decoder->hidden;
    size_t micro = options->micro_batch;
    size_t tokens = options->sample.num_ids /
                    pen_layout_num_parts(&trainer->layout) / num_chunks;
    size_t rows =
        num_chunks * micro * tokens / pen_layout_group_size(&trainer->layout);
    size_t first = rows * trainer->layout.place.at[PEN_AXIS_TENSOR];
    enum pen_probe_pass pass =
        it->is_backward ? PEN_PROBE_BACKWARD : PEN_PROBE_FORWARD;
    struct pen_tensor_piece whole = {0, options->global_batch, 0,
                                     options->sample.num_ids * hidden};
    engine->ops->copy(engine, it->numbers, probing->staging,
                      rows * hidden * pen_precision_bytes(engine->dtype));
    pen_engine_await(engine);
    pen_dtype_to_float(pen_network_dtype(pen_trainer_network(trainer, 0)),
                       probing->staging, rows * hidden, probing->plain);
    for (size_t row = first, next; row < first + rows; row = next) {
        next = (row / tokens + 1) * tokens;
        next = next < first + rows ? next : first + rows;
        size_t line = row / tokens; /* as they follow: [chunk][sample] */
        size_t column = chunks[line / micro] * tokens + row % tokens;
        struct pen_tensor_piece piece = {it->first_sample + line % micro, 1,
                                         column * hidden,
                                         (next - row) * hidden};
        pen_tally_add(&probing->tallies[layer_slot(probing, pass, it->layer)],
                      &whole, &piece, probing->plain + (row - first) * hidden);
    }
}

/* A row of the whole tensor is what one sample has; a chunk of the
 * sequence has some of its columns. */
static void observe(void *context, const struct pen_observed *it)
{
    struct pen_trainer *trainer = context;
    struct pen__probing *probing = trainer->probing;
    struct pen_engine *engine = trainer->engine;
    size_t micro = trainer->options.micro_batch;
    uint32_t parts = pen_layout_num_parts(&trainer->layout);
    uint32_t part = pen_layout_part(&trainer->layout);
    const uint32_t chunks[] = {parts > 1 ? part : it->slice,
                               2 * parts - 1 - part};
    size_t cuts = (size_t)trainer->layout.shape.num_slices * parts;
    size_t numbers = output_numbers(trainer) / cuts;
    size_t count = parts > 1 ? 2 : 1;
    size_t width = numbers / micro / count;
    enum pen_probe_pass pass =
        it->is_backward ? PEN_PROBE_BACKWARD : PEN_PROBE_FORWARD;
    struct pen_tensor_piece whole = {0, trainer->options.global_batch, 0,
                                     cuts * count * width};
    if (has_part_of_rows(trainer)) {
        observe_part(trainer, it, chunks, count);
        return;
    }
    if (!pen_layout_is_first(&trainer->layout))
        return;
    engine->ops->copy(engine, it->numbers, probing->staging,
                      probing->staging_bytes / cuts);
    pen_engine_await(engine);
    pen_dtype_to_float(pen_network_dtype(pen_trainer_network(trainer, 0)),
                       probing->staging, numbers, probing->plain);
    for (size_t i = 0; i < count; i++) {
        struct pen_tensor_piece piece = {it->first_sample, micro,
                                         chunks[i] * width, width};
        pen_tally_add(&probing->tallies[layer_slot(probing, pass, it->layer)],
                      &whole, &piece, probing->plain + i * micro * width);
    }
}

void pen__trainer_begin_probing(struct pen_trainer *trainer,
                                const struct pen_step *step,
                                struct pen_pass *pass)
{
    const struct pen_probe_sink *sink = trainer->options.probe;
    struct pen__probing *probing = trainer->probing;
    if (probing == NULL)
        return;
    probing->is_on = sink->wants(sink->context, step->step);
    if (!probing->is_on)
        return;
    memset(probing->tallies, 0, probing->num_slots * sizeof *probing->tallies);
    pen__trainer_probe_parameters(trainer, PEN_PROBE_WEIGHTS);
    pass->observed = observe;
    pass->observer = trainer;
}

/* ---- all ranks ---- */

static pen_status send_all(struct pen_trainer *trainer)
{
    struct pen__probing *probing = trainer->probing;
    struct pen_transport *transport = trainer->options.transport;
    struct pen_request request = {.is_active = false};
    size_t count = 0;
    for (size_t i = 0; i < probing->num_slots; i++)
        if (probing->tallies[i].count > 0)
            probing->messages[count++] = (struct sent){i, probing->tallies[i]};
    uint64_t announced = count;
    pen_transport_send(transport, 0, (struct pen_tag){PEN_TAG_PROBE, 0},
                       &announced, sizeof announced, &request);
    pen_status status = pen_transport_wait(transport, &request);
    if (status != PEN_OK || count == 0)
        return status;
    pen_transport_send(transport, 0, (struct pen_tag){PEN_TAG_PROBE, 0},
                       probing->messages, count * sizeof *probing->messages,
                       &request);
    return pen_transport_wait(transport, &request);
}

static pen_status receive_from(struct pen_trainer *trainer, uint32_t rank)
{
    struct pen__probing *probing = trainer->probing;
    struct pen_transport *transport = trainer->options.transport;
    struct pen_request request = {.is_active = false};
    uint64_t count = 0;
    pen_transport_receive(transport, rank, (struct pen_tag){PEN_TAG_PROBE, 0},
                          &count, sizeof count, &request);
    pen_status status = pen_transport_wait(transport, &request);
    if (status != PEN_OK || count == 0)
        return status;
    PEN_BUG_UNLESS(count <= probing->num_slots);
    pen_transport_receive(transport, rank, (struct pen_tag){PEN_TAG_PROBE, 0},
                          probing->messages, count * sizeof *probing->messages,
                          &request);
    status = pen_transport_wait(transport, &request);
    for (uint64_t i = 0; i < count && status == PEN_OK; i++)
        pen_tally_join(&probing->tallies[probing->messages[i].slot],
                       &probing->messages[i].tally);
    return status;
}

static pen_status collect(struct pen_trainer *trainer)
{
    struct pen_transport *transport = trainer->options.transport;
    uint32_t size = pen_transport_size(transport);
    pen_status status = PEN_OK;
    if (pen_transport_rank(transport) != 0)
        return send_all(trainer);
    for (uint32_t rank = 1; rank < size && status == PEN_OK; rank++)
        status = receive_from(trainer, rank);
    return status;
}

/* ---- records ---- */

static void tell_tensor(const struct pen_trainer *trainer, uint64_t step,
                        enum pen_probe_pass pass, uint32_t tensor)
{
    const struct pen_probe_sink *sink = trainer->options.probe;
    const struct pen__probing *probing = trainer->probing;
    struct pen_probe_record record = {.step = step, .pass = pass};
    struct pen_tensor_info info;
    struct pen_any_tensor about;
    pen_model_tensor(trainer->options.model->decoder, tensor, &info);
    pen_any_model_tensor(trainer->options.model, tensor, &about);
    record.layer = info.layer;
    snprintf(record.name, sizeof record.name, "%s", info.name);
    pen_tally_read(&probing->tallies[tensor_slot(probing, pass, tensor)],
                   &record.is);
    PEN_BUG_UNLESS(record.is.count == about.num_elements);
    sink->take(sink->context, &record);
}

static void tell_layer(const struct pen_trainer *trainer, uint64_t step,
                       enum pen_probe_pass pass, uint32_t layer)
{
    const struct pen_probe_sink *sink = trainer->options.probe;
    const struct pen__probing *probing = trainer->probing;
    size_t samples = trainer->options.global_batch;
    struct pen_probe_record record = {
        .step = step, .pass = pass, .layer = layer, .name = PEN_PROBE_OUTPUT};
    pen_tally_read(&probing->tallies[layer_slot(probing, pass, layer)],
                   &record.is);
    PEN_BUG_UNLESS(record.is.count == output_numbers(trainer) /
                                          trainer->options.micro_batch *
                                          samples);
    sink->take(sink->context, &record);
}

/* Records the loss, which is one double. */
static void tell_loss(const struct pen_trainer *trainer,
                      const struct pen_step *step)
{
    const struct pen_probe_sink *sink = trainer->options.probe;
    struct pen_probe_record record = {.step = step->step,
                                      .pass = PEN_PROBE_LOSS,
                                      .layer = trainer->probing->num_layers - 1,
                                      .name = PEN_PROBE_LOSS_NAME,
                                      .is = {.count = 1}};
    double loss = step->loss;
    memcpy(&record.is.hash, &loss, sizeof record.is.hash);
    if (isfinite(loss)) {
        record.is.norm = record.is.max = fabs(loss);
        record.is.sum = loss;
        for (int i = 0; i < PEN_TALLY_SKETCHES; i++)
            record.is.sketch[i] = loss;
    } else {
        record.is.nonfinite = 1;
    }
    sink->take(sink->context, &record);
}

static void tell_pass(const struct pen_trainer *trainer,
                      const struct pen_step *step, enum pen_probe_pass pass)
{
    const struct pen__probing *probing = trainer->probing;
    bool is_output = pass == PEN_PROBE_FORWARD || pass == PEN_PROBE_BACKWARD;
    /* The head has no output but the loss. */
    uint32_t count = is_output ? probing->num_layers - 1 : probing->num_tensors;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = pen_probe_goes_back(pass) ? count - 1 - i : i;
        (is_output ? tell_layer : tell_tensor)(trainer, step->step, pass, at);
    }
}

pen_status pen__trainer_end_probing(struct pen_trainer *trainer,
                                    const struct pen_step *step)
{
    struct pen__probing *probing = trainer->probing;
    if (probing == NULL || !probing->is_on)
        return PEN_OK;
    pen__trainer_probe_parameters(trainer, PEN_PROBE_UPDATED);
    probing->is_on = false;
    pen_status status = collect(trainer);
    if (status != PEN_OK || pen_transport_rank(trainer->options.transport) != 0)
        return status;
    for (int pass = 0; pass < PEN_PROBE_PASSES; pass++)
        if (pass == PEN_PROBE_LOSS)
            tell_loss(trainer, step);
        else
            tell_pass(trainer, step, (enum pen_probe_pass)pass);
    return PEN_OK;
}
