/* Makes an MLP of experts: parameters, and places in memory; see experts.h. */
#include "network/experts.h"

#include <stdlib.h>
#include <string.h>

/* Adds one gradient for each source to the parameter that was added last; none
 * for NULL, a part that the model does not have. */
static pen_status add_gradient(struct pen__experts *self,
                               struct pen_network *network,
                               const struct pen_parameter *parameter,
                               struct pen__expert_gradient *out,
                               struct pen_text *why)
{
    struct pen_engine *engine = network->options.engine;
    if (parameter == NULL || self->num_sources == 1)
        return PEN_OK;
    struct pen_network_parameter *added =
        &network->parameters[network->num_parameters - 1];
    out->parameter = added->parameter;
    out->bytes = pen_network_count(added) *
                 pen_precision_bytes(pen_precision_master(engine->dtype));
    out->is_new = calloc(self->num_sources, sizeof *out->is_new);
    out->at = pen_engine_take(engine, PEN_PLACE_ENGINE,
                              self->num_sources * out->bytes);
    if (out->is_new == NULL || out->at == NULL)
        return PEN_NOMEM;
    memset(out->at, 0, self->num_sources * out->bytes);
    added->num_dealt = added->num_sources = self->num_sources;
    added->gradients = out->at;
    network->dealt_bytes += self->num_sources * out->bytes;
    return engine->ops->gradient_place(engine, out->parameter, out->at, why);
}

/* Lists the tensors of a part of an expert that one piece has. Gate and up
 * alternate in a wide one. The first of all pieces has the bias of results. */
static size_t list_parts(const struct pen_network *network, uint32_t piece,
                         enum pen__expert_part part, struct pen__part out[3])
{
    const struct pen_network_options *options = &network->options;
    size_t inner = options->model->expert_intermediate;
    uint32_t number = options->tensor.first + piece;
    uint32_t total = options->tensor.total;
    const struct pen__cut up =
        pen__cut_equally(PEN__OUTPUTS, inner, number, total);
    const struct pen__cut wide =
        pen__cut_equally(PEN__OUTPUTS, 2 * inner, number, total);
    const struct pen__cut down =
        pen__cut_equally(PEN__INPUTS, inner, number, total);
    switch (part) {
    case PEN__EXPERT_UP:
        out[0] = (struct pen__part){PEN_PART_EXPERT_GATE, up};
        out[1] = (struct pen__part){PEN_PART_EXPERT_UP, up};
        out[2] = (struct pen__part){PEN_PART_EXPERT_WIDE, wide};
        return 3;
    case PEN__EXPERT_DOWN:
        out[0] = (struct pen__part){PEN_PART_EXPERT_DOWN, down};
        return 1;
    case PEN__EXPERT_UP_BIAS:
        out[0] = (struct pen__part){PEN_PART_EXPERT_WIDE_BIAS, wide};
        return 1;
    case PEN__EXPERT_DOWN_BIAS:
    case PEN__EXPERT_PARTS:
        break;
    }
    out[0] = (struct pen__part){PEN_PART_EXPERT_DOWN_BIAS, down};
    return number == 0 ? 1 : 0;
}

static pen_status add_part(struct pen__experts *self,
                           struct pen_network *network, uint32_t layer,
                           uint32_t piece, uint32_t expert,
                           enum pen__expert_part part,
                           struct pen_parameter **out, struct pen_text *why)
{
    struct pen__part parts[PEN_MAX_PARAMETER_TENSORS];
    size_t count = list_parts(network, piece, part, parts);
    bool is_bias = part == PEN__EXPERT_UP_BIAS || part == PEN__EXPERT_DOWN_BIAS;
    size_t at = pen__experts_gradient(self, piece, part) + expert;
    network->adding_piece = network->options.tensor.first + piece;
    pen_status status = pen__add_parameter(
        network, layer, is_bias ? PEN_PARAMETER_VECTORS : PEN_PARAMETER_DENSE,
        parts, count, out, why);
    network->adding_piece = 0;
    return status == PEN_OK
               ? add_gradient(self, network, *out, &self->gradients[at], why)
               : status;
}

/* Adds the part of an expert's product that one piece has. */
static pen_status add_product(struct pen__experts *self,
                              struct pen_network *network, uint32_t layer,
                              uint32_t piece, uint32_t expert, bool is_up,
                              struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    struct pen__expert_piece *of = &self->pieces[piece];
    struct pen_linear *out = is_up ? &of->up[expert] : &of->down[expert];
    *out = (struct pen_linear){.rows = self->shape.rows, .is_ragged = true};
    pen_status status =
        add_part(self, network, layer, piece, expert,
                 is_up ? PEN__EXPERT_UP : PEN__EXPERT_DOWN, &out->weight, why);
    if (status == PEN_OK)
        status = add_part(self, network, layer, piece, expert,
                          is_up ? PEN__EXPERT_UP_BIAS : PEN__EXPERT_DOWN_BIAS,
                          is_up ? &out->bias : &of->down_bias[expert], why);
    return status == PEN_OK
               ? options->engine->ops->linear_prepare(options->engine, out, why)
               : status;
}

/*
 * Adds the router. All members of a tensor group route all tokens, with copies
 * of it.
 */
static pen_status add_router(struct pen__experts *self,
                             struct pen_network *network, uint32_t layer,
                             struct pen_text *why)
{
    network->is_adding_copies = network->options.tensor.first > 0;
    pen_status status =
        pen__add_part(network, layer, PEN_PARAMETER_VECTORS, PEN_PART_ROUTER,
                      &self->router.weight, why);
    if (status == PEN_OK)
        status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS,
                               PEN_PART_ROUTER_OFFSET, &self->offset, why);
    self->router.offset = self->offset;
    self->counts_tokens =
        network->options.router.counts_tokens && self->offset != NULL;
    if (status == PEN_OK)
        status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS,
                               PEN_PART_ROUTER_BIAS, &self->router.bias, why);
    network->is_adding_copies = false;
    return status;
}

static pen_status add_parameters(struct pen__experts *self,
                                 struct pen_network *network, uint32_t layer,
                                 struct pen_text *why)
{
    pen_status status = add_router(self, network, layer, why);
    uint32_t first =
        self->num_sources > 1 ? self->group->self * self->num_owned : 0;
    bool had_no_room = network->options.has_no_room;
    network->options.has_no_room |= self->num_sources > 1;
    for (uint32_t e = 0; e < self->num_owned; e++) {
        network->adding_expert = first + e;
        for (uint32_t i = 0; i < self->num_pieces && status == PEN_OK; i++) {
            status = add_product(self, network, layer, i, e, true, why);
            if (status == PEN_OK)
                status = add_product(self, network, layer, i, e, false, why);
        }
    }
    network->options.has_no_room = had_no_room;
    network->adding_expert = 0;
    return status;
}

/* Stash and scratch of several sources, in addition to those of one. */
static void lay_out_sources(struct pen__experts *self)
{
    const struct pen__shape *shape = &self->shape;
    size_t rows = self->num_sources * self->room;
    size_t bytes = rows * shape->hidden * shape->element;
    size_t counts = (size_t)self->num_sources * self->num_owned;
    self->arrivals = pen__take(&self->stash_bytes, counts * sizeof(int32_t));
    self->arrived = pen__take(&self->stash_bytes, bytes);
    self->arrived_gates = pen__take(&self->stash_bytes, rows * shape->stat);
    self->arrived_gradient = pen__take(&self->hold_bytes, bytes);
    self->returning = pen__take(&self->scratch_bytes, bytes);
    self->sorted_gates = pen__take(&self->scratch_bytes,
                                   shape->rows * self->chosen * shape->stat);
    self->returning_gates = pen__take(&self->scratch_bytes, rows * shape->stat);
}

/* Gradients of gates of each piece, and what another member has of them. */
static void lay_out_gates(struct pen__experts *self,
                          const struct pen_tensor_share *tensor)
{
    size_t bytes = self->shape.rows * self->chosen * self->shape.stat;
    uint32_t count = self->num_pieces > 1    ? self->num_pieces
                     : tensor->group != NULL ? 2
                                             : 1;
    self->gate_gradient =
        pen__take(&self->scratch_bytes, count * pen__align(bytes));
}

static void lay_out(struct pen__experts *self,
                    const struct pen_tensor_share *tensor)
{
    const struct pen__shape *shape = &self->shape;
    size_t slots = shape->rows * self->chosen;
    size_t row = self->num_sources * self->room * shape->element;
    size_t logits = shape->rows * self->num_experts * shape->stat;
    size_t *stash = &self->stash_bytes;
    size_t *hold = &self->hold_bytes;
    size_t *scratch = &self->scratch_bytes;
    self->logits = pen__take(stash, logits);
    self->gates = pen__take(stash, slots * shape->stat);
    self->choice = pen__take(stash, slots * sizeof(int32_t));
    self->order = pen__take(stash, slots * sizeof(int32_t));
    self->at = pen__take(stash, slots * sizeof(int32_t));
    self->tokens = pen__take(stash, self->num_experts * sizeof(int32_t));
    self->arrivals = self->tokens;
    self->routing_bytes = *stash - self->gates;
    self->view_bytes = self->routing_bytes + slots * shape->stat;
    for (uint32_t i = 0; i < self->num_pieces; i++) {
        struct pen__expert_piece *piece = &self->pieces[i];
        piece->wide = pen__take(self->again.wide ? hold : stash,
                                row * self->swiglu.stride);
        piece->inner = pen__take(self->again.inner ? scratch : stash,
                                 row * self->swiglu.width);
        piece->wide_gradient = pen__take(hold, row * self->swiglu.stride);
    }
    self->logit_gradient = pen__take(hold, logits);
    self->copies = pen__take(scratch, slots * shape->element * shape->hidden);
    /* In a forward both are one, for a wide that is computed again. */
    self->activated = pen__take(scratch, row * self->swiglu.width);
    self->inner_gradient = pen__take(scratch, row * self->swiglu.width);
    lay_out_gates(self, tensor);
    size_t counts = self->num_cuts > 1 ? (size_t)self->num_cuts *
                                             self->num_experts * sizeof(int32_t)
                                       : 0;
    self->all_counts = pen__take(scratch, counts);
    if (self->num_sources > 1)
        lay_out_sources(self);
}

/* The option that needs the memory of experts to be the host's, or NULL. */
static const char *beyond_devices(const struct pen_network_options *options)
{
    if (options->experts.total > 1)
        return "--expert-model-parallel-size";
    if (options->tensor.total > 1)
        return "--logical-tensor";
    return options->router.counts_tokens ? "--moe-router-bias-update-rate"
                                         : NULL;
}

/* Passes that share the tokens of a micro-batch. */
static uint32_t num_cuts(const struct pen_network_options *options)
{
    return options->num_slices * options->context.total;
}

static pen_status check(const struct pen_network *network, struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    const struct pen_engine *engine = options->engine;
    size_t most = INT32_MAX / options->model->experts_per_token;
    uint32_t share = options->experts.total;
    if (engine->ops->route_forward == NULL) {
        pen_why(why,
                "the engine %s does not compute experts; use --engine onednn "
                "or --engine reference",
                engine->ops->name);
        return PEN_INVALID;
    }
    const char *lacking = engine->ops->is_host ? NULL : beyond_devices(options);
    if (lacking != NULL) {
        pen_why(why,
                "the engine %s has memory of its own, which %s does not reach; "
                "use --engine onednn, or drop the option",
                engine->ops->name, lacking);
        return PEN_INVALID;
    }
    if (options->batch * options->sequence > most) {
        pen_why(why,
                "a micro-batch of %zu tokens is too large for %u experts per "
                "token; use at most %zu tokens",
                options->batch * options->sequence,
                options->model->experts_per_token, most);
        return PEN_INVALID;
    }
    if (num_cuts(options) > 1 && options->router.capacity > 0) {
        pen_why(why,
                "--moe-expert-capacity-factor chooses among all tokens of a "
                "micro-batch, of which %s has some. Drop one of them",
                options->num_slices > 1
                    ? "a pass with --slices"
                    : "a rank with --context-parallel-size");
        return PEN_INVALID;
    }
    if (share > 1 && options->model->num_experts % share != 0) {
        pen_why(why,
                "the %u experts of the model cannot be dealt out evenly over "
                "%u ranks; use an --expert-model-parallel-size that divides "
                "them",
                options->model->num_experts, share);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* Makes the arrays that do not depend on parameters. */
static pen_status make_arrays(struct pen__experts *self)
{
    self->pieces = calloc(self->num_pieces, sizeof *self->pieces);
    if (self->pieces == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < self->num_pieces; i++) {
        struct pen__expert_piece *piece = &self->pieces[i];
        piece->up = calloc(self->num_owned, sizeof *piece->up);
        piece->down = calloc(self->num_owned, sizeof *piece->down);
        piece->down_bias = calloc(self->num_owned, sizeof *piece->down_bias);
        if (piece->up == NULL || piece->down == NULL ||
            piece->down_bias == NULL)
            return PEN_NOMEM;
    }
    self->gradients =
        calloc(pen__experts_num_gradients(self), sizeof *self->gradients);
    if (self->num_sources == 1)
        return self->gradients == NULL ? PEN_NOMEM : PEN_OK;
    self->requests = calloc(2 * (size_t)PEN__MOST_JOURNEYS * self->num_sources,
                            sizeof *self->requests);
    self->in_order = calloc(self->room, sizeof *self->in_order);
    if (self->gradients == NULL || self->requests == NULL ||
        self->in_order == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < self->room; i++)
        self->in_order[i] = (int32_t)i;
    return PEN_OK;
}

pen_status pen__experts_create(struct pen_network *network, uint32_t layer,
                               struct pen__experts **out, struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    const struct pen_model *model = options->model;
    pen_status status = check(network, why);
    if (status != PEN_OK)
        return status;
    struct pen__experts *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->engine = options->engine;
    self->shape = pen__shape_of(options);
    self->again = pen_recomputed_of(options->recompute, options->modules);
    self->num_experts = model->num_experts;
    self->num_cuts = num_cuts(options);
    if (options->num_slices > 1)
        pen__take(&self->counts_bytes,
                  (size_t)self->num_cuts * self->num_experts * sizeof(int32_t));
    self->chosen = model->experts_per_token;
    self->num_sources = options->experts.total > 1 ? options->experts.total : 1;
    self->group = options->experts.group;
    self->num_owned = self->num_experts / self->num_sources;
    self->num_pieces = options->tensor.count;
    self->room =
        self->shape.rows *
        (self->num_owned < self->chosen ? self->num_owned : self->chosen);
    size_t width = model->expert_intermediate / options->tensor.total;
    self->router = (struct pen_router){.rows = self->shape.rows,
                                       .chosen = self->chosen,
                                       .is_normal = !model->has_plain_gates,
                                       .is_sigmoid = model->has_sigmoid_gates,
                                       .groups = model->num_expert_groups,
                                       .chosen_groups = model->chosen_groups,
                                       .scale = model->gate_scale,
                                       .aux = options->router.aux,
                                       .z = options->router.z};
    self->capacity =
        pen__experts_room(self->shape.rows * self->chosen, self->num_experts,
                          options->router.capacity);
    self->swiglu = (struct pen_swiglu){.rows = self->shape.rows * self->chosen,
                                       .width = width,
                                       .stride = 2 * width};
    self->clamped = (struct pen_clamped_gate){.rows = self->swiglu.rows,
                                              .width = self->swiglu.width,
                                              .alpha = model->gate_alpha,
                                              .limit = model->gate_limit};
    status = make_arrays(self);
    if (status == PEN_OK)
        status = add_parameters(self, network, layer, why);
    if (status != PEN_OK) {
        pen__experts_free(self);
        return status;
    }
    lay_out(self, &options->tensor);
    if (!self->engine->ops->is_host) {
        self->view =
            pen_engine_take(self->engine, PEN_PLACE_STAGING, self->view_bytes);
        if (self->view == NULL) {
            pen__experts_free(self);
            return PEN_NOMEM;
        }
    }
    *out = self;
    return PEN_OK;
}

void pen__experts_free(struct pen__experts *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0;
         self->gradients != NULL && i < pen__experts_num_gradients(self); i++) {
        struct pen__expert_gradient *it = &self->gradients[i];
        free(it->is_new);
        pen_engine_give(self->engine, PEN_PLACE_ENGINE, it->at,
                        self->num_sources * it->bytes);
    }
    if (self->view != NULL)
        pen_engine_await(self->engine);
    pen_engine_give(self->engine, PEN_PLACE_STAGING, self->view,
                    self->view_bytes);
    free(self->gradients);
    free(self->requests);
    free(self->in_order);
    for (uint32_t i = 0; self->pieces != NULL && i < self->num_pieces; i++) {
        free(self->pieces[i].up);
        free(self->pieces[i].down);
        free(self->pieces[i].down_bias);
    }
    free(self->pieces);
    free(self);
}
