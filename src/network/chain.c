/*
 * The walk along the layers, the same for every kind of network.
 *
 *   stash of a micro-batch   | x0 | stash0 | x1 | stash1 | ...
 *   hold                     | dy0 | hold0 | dy1 | hold1 | ...
 *
 * dy of layer k is dx of layer k + 1. A block that is computed again has no
 * stash of its own in the micro-batch, but a place in a region:
 *
 *   region of a chunk of 3   | stash0 | x1 | stash1 | x2 | stash2 |
 *
 * The first block of a chunk keeps its input x0; all of the chunk are computed
 * again from there. A whole backward uses one region that all chunks share, the
 * split backward has one for each in the hold. A first forward passes through
 * the shared one and leaves nothing there that is read later.
 */
#include "network/pruned.h"
#include "network/subspace.h"

#include "base/bug.h"
#include "core/dtype.h"

#include <math.h>
#include <stdlib.h>

struct pen__places {
    size_t input;   /* in the stash; of an inner layer, in the region */
    size_t stash;   /* in the stash */
    size_t dy;      /* in the hold */
    size_t hold;    /* in the hold */
    size_t region;  /* in the hold, where the layer is computed again */
    size_t again;   /* in the region: the stash */
    uint32_t first; /* layer of its chunk */
    size_t context;
    size_t slopes;
    bool is_recomputed;
    bool is_inner; /* its input is computed again, too */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

pen_status pen__network_add(struct pen_network *network,
                            enum pen_parameter_use use,
                            struct pen_network_parameter *added,
                            struct pen_parameter **out, struct pen_text *why)
{
    if (network->num_parameters == network->capacity) {
        size_t capacity = 2 * network->capacity + 16;
        struct pen_network_parameter *grown =
            realloc(network->parameters, capacity * sizeof *grown);
        if (grown == NULL)
            return PEN_NOMEM;
        network->parameters = grown;
        network->capacity = capacity;
    }
    struct pen_engine *engine = network->options.engine;
    struct pen_parameter_shape shape = {
        .use = use,
        .rows = added->rows,
        .columns = added->columns,
        .moments = network->options.moments,
        .is_value_only = added->is_value_only,
        .has_no_room = network->options.has_no_room,
        .has_no_value =
            network->options.has_no_values && !added->is_value_only};
    if (added->is_value_only)
        shape.moments = 0;
    added->layer = network->building;
    added->is_copy = network->is_adding_copies;
    added->num_dealt = added->num_sources = 1;
    added->num_sharing =
        network->adding_shared > 0 ? network->adding_shared : 1;
    struct pen_parameter *made = NULL;
    bool is_pruned = pen__is_pruned(network, use, added);
    pen_status status =
        is_pruned ? pen__pruned_create(network, &shape, added, &made, why)
                  : engine->ops->parameter_create(engine, &shape, why, &made);
    if (status != PEN_OK)
        return status;
    if (!is_pruned)
        added->parameter = made;
    network->parameters[network->num_parameters++] = *added;
    *out = made;
    return PEN_OK;
}

/* The ends of a model are cheap to keep and not worth computing again. */
static bool is_end(const struct pen__layer *layer)
{
    return layer->input_bytes == 0 || layer->output_bytes == 0;
}

static bool is_recomputed(const struct pen_network *network, uint32_t layer,
                          uint32_t block)
{
    return network->options.recompute == PEN_RECOMPUTE_FULL &&
           !is_end(network->layers[layer]) &&
           pen_recompute_covers(&network->options.span, block);
}

static bool ends_chunk(const struct pen_network *network, uint32_t k)
{
    return k + 1 == network->options.num_layers ||
           !network->places[k + 1].is_inner;
}

/* The chunks' regions in the hold. Returns the bytes of the largest. */
static size_t lay_out_regions(struct pen_network *network)
{
    size_t size = 0, most = 0;
    for (uint32_t k = 0; k < network->options.num_layers; k++) {
        struct pen__places *places = &network->places[k];
        if (!places->is_recomputed)
            continue;
        if (places->is_inner)
            places->input = pen__take(&size, network->layers[k]->input_bytes);
        else
            size = 0;
        places->again = pen__take(&size, network->layers[k]->stash_bytes);
        if (!ends_chunk(network, k))
            continue;
        most = larger(most, size);
        size_t region = pen__take(&network->sizes.hold, size);
        for (uint32_t j = places->first; j <= k; j++)
            network->places[j].region = region;
    }
    return most;
}

static void lay_out(struct pen_network *network)
{
    struct pen_network_sizes *sizes = &network->sizes;
    uint32_t count = network->options.num_layers;
    uint32_t block = 0; /* that comes next */
    for (uint32_t k = 0; k < count; k++) {
        const struct pen__layer *layer = network->layers[k];
        struct pen__places *places = &network->places[k];
        places->is_recomputed = is_recomputed(network, k, block);
        places->is_inner =
            places->is_recomputed &&
            pen_recompute_is_inner(&network->options.span, block);
        places->first = places->is_inner ? network->places[k - 1].first : k;
        block += is_end(layer) ? 0 : 1;
        if (!places->is_inner)
            places->input = pen__take(&sizes->stash, layer->input_bytes);
        places->dy = pen__take(&sizes->hold,
                               layer->has_own_loss ? 0 : layer->output_bytes);
        places->hold = pen__take(&sizes->hold, layer->hold_bytes);
        places->context = pen__take(&sizes->context, layer->context_bytes);
        places->slopes = pen__take(&sizes->slopes, layer->slopes_bytes);
        if (!places->is_recomputed)
            places->stash = pen__take(&sizes->stash, layer->stash_bytes);
    }
    sizes->input =
        pen__subspace_bytes(network->subspace, network->layers[0]->input_bytes);
    sizes->output = pen__subspace_bytes(
        network->subspace, network->layers[count - 1]->output_bytes);
}

pen_status pen__network_seal(struct pen_network *network, struct pen_text *why)
{
    uint32_t count = network->options.num_layers;
    network->places = calloc(count, sizeof *network->places);
    if (network->places == NULL)
        return PEN_NOMEM;
    lay_out(network);
    size_t region = lay_out_regions(network);
    size_t scratch = pen__subspace_scratch(network->subspace);
    size_t hold = 0, gradient = 0;
    for (uint32_t k = 0; k < count; k++) {
        const struct pen__layer *layer = network->layers[k];
        scratch = larger(scratch, layer->scratch_bytes);
        hold = larger(hold, layer->hold_bytes);
        gradient = larger(gradient, layer->input_bytes);
        if (network->subspace != NULL)
            gradient = larger(gradient, layer->output_bytes);
    }
    if (network->options.is_forward_only) {
        network->sizes.hold = network->sizes.slopes = 0;
        hold = 0;
        gradient = network->subspace == NULL ? 0 : gradient;
    }
    size_t end = 0;
    size_t scratch_at = pen__take(&end, scratch);
    size_t region_at = pen__take(&end, region);
    size_t hold_at = pen__take(&end, hold);
    size_t gradient_at = pen__take(&end, 2 * pen__align(gradient));
    network->block_bytes = larger(end, 64);
    network->block = pen_engine_take(network->options.engine, PEN_PLACE_ENGINE,
                                     network->block_bytes);
    if (network->block == NULL) {
        pen_why(why, "no memory for %zu bytes of scratch",
                network->block_bytes);
        return PEN_NOMEM;
    }
    network->loss = pen_engine_take(network->options.engine, PEN_PLACE_STAGING,
                                    sizeof *network->loss);
    if (network->loss == NULL)
        return PEN_NOMEM;
    network->scratch = pen__at(network->block, scratch_at);
    network->shared_region = pen__at(network->block, region_at);
    network->shared_hold = pen__at(network->block, hold_at);
    for (int i = 0; i < 2; i++)
        network->shared_gradients[i] = pen__at(
            network->block, gradient_at + (size_t)i * pen__align(gradient));
    return pen__pruned_seal(network, why);
}

void pen_network_free(struct pen_network *network)
{
    if (network == NULL)
        return;
    struct pen_engine *engine = network->options.engine;
    if (network->layers != NULL)
        for (uint32_t k = 0; k < network->options.num_layers; k++)
            if (network->layers[k] != NULL)
                network->layers[k]->ops->free(network->layers[k]);
    pen__pruned_free(network);
    for (size_t i = 0; i < network->num_parameters; i++)
        engine->ops->parameter_free(engine, network->parameters[i].parameter);
    pen__copies_free(network->copies);
    pen__subspace_free(network);
    free(network->requests);
    free(network->layers);
    free(network->parameters);
    pen_engine_give(engine, PEN_PLACE_ENGINE, network->tables,
                    network->table_bytes);
    pen_engine_give(engine, PEN_PLACE_STAGING, network->statistics,
                    network->statistic_bytes);
    pen_engine_give(engine, PEN_PLACE_ENGINE, network->block,
                    network->block_bytes);
    pen_engine_give(engine, PEN_PLACE_STAGING, network->loss,
                    sizeof *network->loss);
    free(network->places);
    free(network);
}

void pen_network_sizes(const struct pen_network *network,
                       struct pen_network_sizes *out)
{
    *out = network->sizes;
}

size_t pen_network_scratch_bytes(const struct pen_network *network)
{
    return network->block_bytes + pen__pruned_bytes(network);
}

size_t pen_network_dealt_bytes(const struct pen_network *network)
{
    return network->dealt_bytes;
}

void pen_network_set_progress(struct pen_network *network,
                              pen_network_progress *progress, void *context)
{
    network->progress = progress;
    network->progress_context = context;
}

void pen_network_set_entrance(struct pen_network *network,
                              pen_network_progress *entrance, void *context)
{
    network->entrance = entrance;
    network->entrance_context = context;
}

void pen_network_set_visit(struct pen_network *network,
                           pen_network_visit *visit, void *context)
{
    network->visit = visit;
    network->visit_context = context;
}

void pen_network_set_observer(struct pen_network *network,
                              pen_network_observer *observer, void *context)
{
    network->observer = observer;
    network->observer_context = context;
}

enum pen_dtype pen_network_dtype(const struct pen_network *network)
{
    enum pen_precision dtype = network->options.engine->dtype;
    return dtype == PEN_PRECISION_BF16  ? PEN_DTYPE_BF16
           : dtype == PEN_PRECISION_F32 ? PEN_DTYPE_F32
                                        : PEN_DTYPE_F64;
}

size_t pen_network_num_parameters(const struct pen_network *network)
{
    return network->num_parameters;
}

size_t pen_network_largest(const struct pen_network *network)
{
    size_t most = 0;
    for (size_t i = 0; i < network->num_parameters; i++)
        most = larger(most, pen_network_plain_count(&network->parameters[i]));
    return most;
}

const struct pen_network_parameter *
pen_network_parameter(const struct pen_network *network, size_t index)
{
    PEN_BUG_UNLESS(index < network->num_parameters);
    return &network->parameters[index];
}

struct pen_engine *pen_network_engine(const struct pen_network *network)
{
    return network->options.engine;
}

const struct pen_model *pen_network_model(const struct pen_network *network)
{
    return network->options.model;
}

const void *pen_network_logits(const struct pen_network *network,
                               const void *stash)
{
    if (network->sizes.logits == 0 || network->options.tensor.total > 1)
        return NULL;
    const struct pen__places *head =
        &network->places[network->options.num_layers - 1];
    return (const char *)stash + head->stash + network->logits_at;
}

void *pen_network_input(struct pen_network *network, void *stash)
{
    return pen__at(stash, network->places[0].input);
}

static void report_progress(const struct pen_network *network, uint32_t k)
{
    if (network->progress != NULL)
        network->progress(network->progress_context,
                          network->options.first_layer + k);
}

static void announce(const struct pen_network *network, uint32_t k)
{
    if (network->entrance != NULL)
        network->entrance(network->entrance_context,
                          network->options.first_layer + k);
}

static void visit(const struct pen_network *network, uint32_t k, uint32_t next)
{
    uint32_t first = network->options.first_layer;
    if (network->visit != NULL)
        network->visit(network->visit_context, first + k,
                       next == PEN_NO_LAYER ? next : first + next);
}

/* Ahead of a backward: before it comes to the layer ahead of this one, it may
 * compute the chunk of that one again. */
static void visit_back(const struct pen_network *network, uint32_t k)
{
    const struct pen__places *ahead = k > 0 ? &network->places[k - 1] : NULL;
    visit(network, k,
          ahead == NULL          ? PEN_NO_LAYER
          : ahead->is_recomputed ? ahead->first
                                 : k - 1);
}

static void show_output(const struct pen_network *network, uint32_t k,
                        const void *out)
{
    if (network->observer != NULL && out != NULL)
        network->observer(network->observer_context, false,
                          network->options.first_layer + k, out);
}

/* The gradient of the input of layer k is that of the output before it. */
static void show_gradient(const struct pen_network *network, uint32_t k,
                          const void *in)
{
    if (network->observer != NULL && in != NULL)
        network->observer(network->observer_context, true,
                          network->options.first_layer + k - 1, in);
}

static struct pen__pass pass_of(const struct pen_network *network,
                                struct pen_microbatch *microbatch)
{
    return (struct pen__pass){.engine = network->options.engine,
                              .microbatch = microbatch,
                              .scratch = network->scratch,
                              .loss = network->loss,
                              .tensor = &network->options.tensor,
                              .sequence = &network->options.context,
                              .requests = network->requests,
                              .subspace = network->subspace,
                              .is_forward_only =
                                  network->options.is_forward_only ||
                                  microbatch->is_evaluation,
                              .measures = microbatch->measures};
}

/* Sets the arrays of a layer that slices of the micro-batch share. */
static void open_layer(const struct pen_network *network, uint32_t k,
                       struct pen__pass *pass)
{
    const struct pen__places *places = &network->places[k];
    const struct pen_microbatch *microbatch = pass->microbatch;
    if (microbatch->context != NULL)
        pass->context = pen__at(microbatch->context, places->context);
    if (microbatch->slopes != NULL)
        pass->slopes = pen__at(microbatch->slopes, places->slopes);
}

/* Where the input of a layer lies; of an inner one, in this region. */
static void *input_at(const struct pen_network *network, uint32_t k,
                      void *stash, void *region)
{
    const struct pen__places *places = &network->places[k];
    return pen__at(places->is_inner ? region : stash, places->input);
}

static const void *input_of(const struct pen_network *network, uint32_t k,
                            void *stash, void *region)
{
    return network->layers[k]->input_bytes == 0
               ? NULL
               : input_at(network, k, stash, region);
}

/* The stash of a layer: its own, or that in the region. */
static void *stash_of(const struct pen_network *network, uint32_t k,
                      void *stash, void *region)
{
    const struct pen__places *places = &network->places[k];
    return places->is_recomputed ? pen__at(region, places->again)
                                 : pen__at(stash, places->stash);
}

static void enter(const struct pen_network *network,
                  const struct pen__pass *pass, const void *x, void *first)
{
    if (x == NULL || x == first || network->sizes.input == 0)
        return;
    if (network->subspace != NULL)
        pen__subspace_enter(pass, x, first);
    else
        pass->engine->ops->copy(pass->engine, x, first, network->sizes.input);
}

/* Where the ends of a stage put what is sent: messages may be narrower. */
static void *room_of_message(const struct pen_network *network, void *message)
{
    return network->subspace == NULL || message == NULL
               ? message
               : network->shared_gradients[0];
}

/* Copies the stream from that room to the message. */
static void send(const struct pen_network *network,
                 const struct pen__pass *pass, void *message)
{
    if (network->subspace != NULL && message != NULL)
        pen__subspace_leave(pass, network->shared_gradients[0], message);
}

void pen_network_forward(struct pen_network *network,
                         struct pen_microbatch *microbatch, void *stash,
                         const void *x, void *y)
{
    struct pen__pass pass = pass_of(network, microbatch);
    uint32_t count = network->options.num_layers;
    void *last = room_of_message(network, y);
    enter(network, &pass, x, pen_network_input(network, stash));
    void *region = network->shared_region;
    for (uint32_t k = 0; k < count; k++) {
        visit(network, k, k + 1 < count ? k + 1 : PEN_NO_LAYER);
        open_layer(network, k, &pass);
        pass.stash = stash_of(network, k, stash, region);
        void *out =
            k + 1 < count ? input_at(network, k + 1, stash, region) : last;
        network->layers[k]->ops->forward(network->layers[k], &pass,
                                         input_of(network, k, stash, region),
                                         out);
        show_output(network, k, out);
        report_progress(network, k);
    }
    send(network, &pass, y);
}

double pen_network_loss(const struct pen_network *network)
{
    return *network->loss;
}

/*
 * Whether numbers are finite; without staging memory to look at them they are
 * taken to be.
 */
static bool are_finite(const struct pen_network *network, const void *numbers,
                       size_t bytes)
{
    struct pen_engine *engine = network->options.engine;
    enum pen_dtype dtype = pen_network_dtype(network);
    size_t count = bytes / pen_precision_bytes(engine->dtype);
    if (engine->ops->is_host)
        return pen_dtype_first_nonfinite(dtype, numbers, count) == count;
    void *seen = pen_engine_take(engine, PEN_PLACE_STAGING, bytes);
    if (seen == NULL)
        return true;
    engine->ops->copy(engine, numbers, seen, bytes);
    pen_engine_await(engine);
    bool is_finite = pen_dtype_first_nonfinite(dtype, seen, count) == count;
    pen_engine_give(engine, PEN_PLACE_STAGING, seen, bytes);
    return is_finite;
}

/* The layer with the head has no output but the loss. */
uint32_t pen_network_first_nonfinite(const struct pen_network *network,
                                     const void *stash, const void *y,
                                     double loss)
{
    uint32_t count = network->options.num_layers;
    for (uint32_t k = 0; k < count; k++) {
        bool is_last = k + 1 == count;
        const struct pen__places *next = &network->places[k + 1];
        const char *out =
            is_last ? y
            : next->is_inner
                ? (const char *)network->shared_region + next->input
                : (const char *)stash + next->input;
        size_t bytes = is_last ? network->sizes.output
                               : network->layers[k + 1]->input_bytes;
        if (out == NULL ? !isfinite(loss) : !are_finite(network, out, bytes))
            return network->options.first_layer + k;
    }
    return PEN_NO_LAYER;
}

bool pen_network_is_finite(const struct pen_network *network, const void *y)
{
    struct pen_engine *engine = network->options.engine;
    return y == NULL || !engine->ops->is_host ||
           are_finite(network, y, network->sizes.output);
}

/* Whether the layer ahead needs the gradient of its output. */
static bool goes_on(const struct pen_network *network, uint32_t k)
{
    return k > 0 && !network->layers[k - 1]->has_own_loss;
}

/*
 * Computes the chunk that ends with this layer again, without its output: only
 * what backwards read.
 */
static void compute_again(struct pen_network *network, uint32_t k,
                          const struct pen__pass *pass, void *stash,
                          void *region)
{
    struct pen__pass again = *pass;
    if (!network->places[k].is_recomputed || !ends_chunk(network, k))
        return;
    for (uint32_t j = network->places[k].first; j <= k; j++) {
        visit(network, j, j < k ? j + 1 : PEN_NO_LAYER);
        open_layer(network, j, &again);
        again.stash = stash_of(network, j, stash, region);
        network->layers[j]->ops->forward(
            network->layers[j], &again, input_of(network, j, stash, region),
            j < k ? input_at(network, j + 1, stash, region) : NULL);
    }
}

/*
 * Clears the part of a gradient outside of a subspace, which no weight reads.
 */
static void finish_gradient(const struct pen__pass *pass, void *in)
{
    if (in != NULL)
        pen__subspace_clear(pass, in);
}

void pen_network_backward_input(struct pen_network *network,
                                struct pen_microbatch *microbatch, void *stash,
                                void *hold, const void *dy, void *dx)
{
    struct pen__pass pass = pass_of(network, microbatch);
    uint32_t count = network->options.num_layers;
    void *last = pen__at(hold, network->places[count - 1].dy);
    if (dy != NULL && network->subspace != NULL)
        pen__subspace_widen(&pass, dy, last);
    else if (dy != NULL && network->sizes.output > 0)
        pass.engine->ops->copy(pass.engine, dy, last, network->sizes.output);
    for (uint32_t k = count; k-- > 0;) {
        const struct pen__places *places = &network->places[k];
        open_layer(network, k, &pass);
        void *region = pen__at(hold, places->region);
        pass.hold = pen__at(hold, places->hold);
        compute_again(network, k, &pass, stash, region);
        visit_back(network, k);
        pass.stash = stash_of(network, k, stash, region);
        const void *x = input_of(network, k, stash, region);
        void *in = goes_on(network, k)
                       ? pen__at(hold, network->places[k - 1].dy)
                   : k > 0 ? NULL
                           : room_of_message(network, dx);
        network->layers[k]->ops->backward_input(network->layers[k], &pass, x,
                                                pen__at(hold, places->dy), in);
        finish_gradient(&pass, in);
        show_gradient(network, k, in);
        report_progress(network, k);
    }
    send(network, &pass, dx);
}

void pen_network_backward_weight(struct pen_network *network,
                                 struct pen_microbatch *microbatch, void *stash,
                                 void *hold)
{
    struct pen__pass pass = pass_of(network, microbatch);
    for (uint32_t k = network->options.num_layers; k-- > 0;) {
        const struct pen__places *places = &network->places[k];
        open_layer(network, k, &pass);
        void *region = pen__at(hold, places->region);
        pass.hold = pen__at(hold, places->hold);
        pass.stash = stash_of(network, k, stash, region);
        if (network->options.recompute == PEN_RECOMPUTE_SELECTIVE)
            visit(network, k, k > 0 ? k - 1 : PEN_NO_LAYER);
        announce(network, k);
        pen__pruned_open(network, network->options.first_layer + k);
        network->layers[k]->ops->backward_weight(
            network->layers[k], &pass, input_of(network, k, stash, region),
            pen__at(hold, places->dy));
        pen__pruned_close(network, network->options.first_layer + k);
        report_progress(network, k);
    }
}

void pen_network_backward(struct pen_network *network,
                          struct pen_microbatch *microbatch, void *stash,
                          const void *dy, void *dx)
{
    struct pen__pass pass = pass_of(network, microbatch);
    uint32_t count = network->options.num_layers;
    pass.hold = network->shared_hold;
    if (dy != NULL && network->subspace != NULL) {
        pen__subspace_widen(&pass, dy, network->shared_gradients[count % 2]);
        dy = network->shared_gradients[count % 2];
    }
    for (uint32_t k = count; k-- > 0;) {
        open_layer(network, k, &pass);
        void *region = network->shared_region;
        compute_again(network, k, &pass, stash, region);
        visit_back(network, k);
        pass.stash = stash_of(network, k, stash, region);
        const void *x = input_of(network, k, stash, region);
        void *in = goes_on(network, k) ? network->shared_gradients[k % 2]
                   : k > 0             ? NULL
                                       : room_of_message(network, dx);
        struct pen__layer *layer = network->layers[k];
        layer->ops->backward_input(layer, &pass, x, dy, in);
        finish_gradient(&pass, in);
        show_gradient(network, k, in);
        announce(network, k);
        pen__pruned_open(network, network->options.first_layer + k);
        layer->ops->backward_weight(layer, &pass, x, dy);
        pen__pruned_close(network, network->options.first_layer + k);
        dy = in;
        report_progress(network, k);
    }
    send(network, &pass, dx);
}

void pen_network_finish_gradients(struct pen_network *network)
{
    for (uint32_t k = 0; k < network->options.num_layers; k++)
        if (network->layers[k]->ops->finish_gradients != NULL)
            network->layers[k]->ops->finish_gradients(network->layers[k],
                                                      network->options.engine);
    if (network->copies != NULL)
        pen__copies_sum(network->copies, network->options.first_layer);
}

void pen_network_finish_layer(struct pen_network *network, uint32_t layer)
{
    if (network->copies != NULL)
        pen__copies_sum(network->copies, layer);
}

void pen_network_take_routings(struct pen_network *network,
                               struct pen_routings *sum)
{
    for (uint32_t k = 0; k < network->options.num_layers; k++)
        if (network->layers[k]->ops->take_routings != NULL)
            network->layers[k]->ops->take_routings(network->layers[k], sum);
}

void pen_network_clear_gradients(struct pen_network *network)
{
    struct pen_engine *engine = network->options.engine;
    for (size_t i = 0; i < network->num_parameters; i++)
        if (!network->parameters[i].is_value_only)
            engine->ops->gradient_clear(engine,
                                        network->parameters[i].parameter);
    for (uint32_t k = 0; k < network->options.num_layers; k++)
        if (network->layers[k]->ops->clear_gradients != NULL)
            network->layers[k]->ops->clear_gradients(network->layers[k]);
    if (network->copies != NULL)
        pen__copies_clear(network->copies);
}

const struct pen_network_parameter *
pen_network_tied(const struct pen_network *network)
{
    for (size_t i = 0; i < network->num_parameters && network->tied_end != NULL;
         i++)
        if (network->parameters[i].parameter == network->tied_end)
            return &network->parameters[i];
    return NULL;
}

uint32_t pen_network_num_tied(const struct pen_network *network)
{
    uint32_t count = network->options.tensor.count;
    return network->tied_end == NULL ? 0 : count > 0 ? count : 1;
}

bool pen_network_is_tied(const struct pen_network *network,
                         const struct pen_network_parameter *parameter)
{
    const struct pen_network_parameter *first = pen_network_tied(network);
    return first != NULL && parameter >= first &&
           parameter < first + pen_network_num_tied(network);
}

bool pen_network_is_of_one_layer(const struct pen_network *network,
                                 const struct pen_network_parameter *parameter)
{
    return !parameter->is_value_only && !parameter->is_of_both_ends &&
           !pen_network_is_tied(network, parameter);
}

void pen_network_add_gathered(struct pen_network *network, size_t count,
                              const int32_t *words, const void *rows)
{
    struct pen_engine *engine = network->options.engine;
    const struct pen_network_parameter *tied = pen_network_tied(network);
    PEN_BUG_UNLESS(tied != NULL && network->gathering == NULL);
    for (uint32_t i = 0; i < pen_network_num_tied(network); i++)
        engine->ops->gradient_add_rows(
            engine, tied[i].parameter,
            (int32_t)tied[i].slices[0].piece.first_row, count, words, rows);
}
