/* An MLP of experts; see experts.h. */
#include "network/experts.h"

#include <stdlib.h>
#include <string.h>

/* ---- where things are ---- */

static void *wide_of(const struct pen__experts *self,
                     const struct pen__experts_pass *pass)
{
    if (!self->again.wide)
        return pen__at(pass->stash, self->wide);
    return pass->hold != NULL ? pen__at(pass->hold, self->wide)
                              : pen__at(pass->scratch, self->activated);
}

static void *inner_of(const struct pen__experts *self,
                      const struct pen__experts_pass *pass)
{
    return pen__at(self->again.inner ? pass->scratch : pass->stash,
                   self->inner);
}

/* The second half of each row of `wide`. */
static void *up_half(const struct pen__experts *self, void *wide)
{
    return pen__at(wide, self->swiglu.width * self->shape.element);
}

static struct pen_dispatch dispatch_of(const struct pen__experts *self,
                                       const struct pen__experts_pass *pass,
                                       size_t width)
{
    return (struct pen_dispatch){.rows = self->shape.rows,
                                 .chosen = self->chosen,
                                 .width = width,
                                 .order = pen__at(pass->stash, self->order),
                                 .at = pen__at(pass->stash, self->at)};
}

/* ---- sorting ---- */

/* Slots by expert, those of one expert in the order of rows. */
static void sort_slots(const struct pen__experts *self,
                       const struct pen__experts_pass *pass)
{
    const int32_t *choice = pen__at(pass->stash, self->choice);
    int32_t *order = pen__at(pass->stash, self->order);
    int32_t *at = pen__at(pass->stash, self->at);
    int32_t *tokens = pen__at(pass->stash, self->tokens);
    size_t slots = self->shape.rows * self->chosen;
    memset(tokens, 0, self->num_experts * sizeof *tokens);
    for (size_t slot = 0; slot < slots; slot++)
        tokens[choice[slot]]++;
    int32_t first = 0;
    for (uint32_t e = 0; e < self->num_experts; e++) {
        int32_t count = tokens[e];
        tokens[e] = first;
        first += count;
    }
    for (size_t slot = 0; slot < slots; slot++) {
        at[slot] = tokens[choice[slot]]++;
        order[at[slot]] = (int32_t)slot;
    }
    for (uint32_t e = self->num_experts; e-- > 1;)
        tokens[e] -= tokens[e - 1];
}

/* ---- products ---- */

/* The rows of the next expert that has some, in order. */
struct turn {
    const struct pen__experts *experts;
    const int32_t *tokens;
    uint32_t next;
    uint32_t expert;
    size_t first;
    size_t count;
};

static struct turn turns_of(const struct pen__experts *self,
                            const struct pen__experts_pass *pass)
{
    return (struct turn){.experts = self,
                         .tokens = pen__at(pass->stash, self->tokens)};
}

static bool next_turn(struct turn *turn)
{
    turn->first += turn->count;
    turn->count = 0;
    while (turn->next < turn->experts->num_experts && turn->count == 0) {
        turn->expert = turn->next++;
        turn->count = (size_t)turn->tokens[turn->expert];
    }
    return turn->count > 0;
}

static struct pen_linear linear_of(const struct turn *turn,
                                   const struct pen_linear *linears)
{
    struct pen_linear linear = linears[turn->expert];
    linear.rows = turn->count;
    return linear;
}

static void *rows_of(const struct turn *turn, void *matrix, size_t width)
{
    return pen__at(matrix, turn->first * width * turn->experts->shape.element);
}

/* Copies of the rows of x, one for each slot, sorted. */
static void *copy_rows(const struct pen__experts *self,
                       const struct pen__experts_pass *pass, const void *x)
{
    void *copies = pen__at(pass->scratch, self->copies);
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->shape.hidden);
    pass->engine->ops->dispatch_rows(pass->engine, &dispatch, x, copies);
    return copies;
}

static void compute_wide(const struct pen__experts *self,
                         const struct pen__experts_pass *pass, const void *b)
{
    void *copies = copy_rows(self, pass, b);
    void *wide = wide_of(self, pass);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear up = linear_of(&turn, self->up);
        pass->engine->ops->linear_forward(
            pass->engine, &up, rows_of(&turn, copies, self->shape.hidden), NULL,
            rows_of(&turn, wide, self->swiglu.stride));
    }
}

/* From wide to what the activation gives, without the gates. */
static void activate(const struct pen__experts *self,
                     const struct pen__experts_pass *pass, void *to)
{
    void *wide = wide_of(self, pass);
    pass->engine->ops->swiglu_forward(pass->engine, &self->swiglu, wide,
                                      up_half(self, wide), to);
}

static void compute_inner(const struct pen__experts *self,
                          const struct pen__experts_pass *pass)
{
    void *inner = inner_of(self, pass);
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->swiglu.width);
    activate(self, pass, inner);
    pass->engine->ops->gate_forward(pass->engine, &dispatch,
                                    pen__at(pass->stash, self->gates), inner,
                                    inner);
}

/* ---- passes ---- */

/* Of a forward that is not made again. */
static void count_routing(struct pen__experts *self,
                          const struct pen__experts_pass *pass)
{
    const int32_t *tokens = pen__at(pass->stash, self->tokens);
    double mean =
        (double)(self->shape.rows * self->chosen) / (double)self->num_experts;
    int32_t most = 0;
    for (uint32_t e = 0; e < self->num_experts; e++)
        most = tokens[e] > most ? tokens[e] : most;
    self->routings.imbalance += most / mean;
    self->routings.count += 1;
}

void pen__experts_forward(struct pen__experts *self,
                          const struct pen__experts_pass *pass, const void *b,
                          const void *middle, void *y)
{
    struct pen_engine *engine = pass->engine;
    engine->ops->route_forward(
        engine, &self->router, b, pen__at(pass->stash, self->logits),
        pen__at(pass->stash, self->gates), pen__at(pass->stash, self->choice));
    sort_slots(self, pass);
    if (y != NULL && !pass->is_forward_only)
        count_routing(self, pass);
    if (y == NULL && self->again.wide)
        return;
    compute_wide(self, pass, b);
    if (y == NULL && self->again.inner)
        return;
    compute_inner(self, pass);
    if (y == NULL)
        return;
    void *inner = inner_of(self, pass);
    void *results = pen__at(pass->scratch, self->copies);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear down = linear_of(&turn, self->down);
        engine->ops->linear_forward(
            engine, &down, rows_of(&turn, inner, self->swiglu.width), NULL,
            rows_of(&turn, results, self->shape.hidden));
    }
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->shape.hidden);
    engine->ops->collect_rows(engine, &dispatch, results, middle, y);
}

/* From the gradient of the results to that of wide, and of the gates. */
static void backward_results(const struct pen__experts *self,
                             const struct pen__experts_pass *pass,
                             const void *dy)
{
    struct pen_engine *engine = pass->engine;
    void *dresults = copy_rows(self, pass, dy);
    void *activated = pen__at(pass->scratch, self->activated);
    void *dinner = pen__at(pass->scratch, self->inner_gradient);
    void *wide = wide_of(self, pass);
    void *dwide = pen__at(pass->hold, self->wide_gradient);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear down = linear_of(&turn, self->down);
        engine->ops->linear_backward_input(
            engine, &down, rows_of(&turn, dresults, self->shape.hidden),
            rows_of(&turn, dinner, self->swiglu.width));
    }
    activate(self, pass, activated);
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->swiglu.width);
    engine->ops->gate_backward(
        engine, &dispatch, pen__at(pass->stash, self->gates), activated, dinner,
        pen__at(pass->scratch, self->gate_gradient), dinner);
    engine->ops->swiglu_backward(engine, &self->swiglu, wide,
                                 up_half(self, wide), dinner, dwide,
                                 up_half(self, dwide));
}

/* Adds what comes through the logits. */
static void backward_router(const struct pen__experts *self,
                            const struct pen__experts_pass *pass, void *db)
{
    struct pen_router router = self->router;
    router.aux *= pass->share;
    router.z *= pass->share;
    const struct pen_route route = {
        .logits = pen__at(pass->stash, self->logits),
        .gates = pen__at(pass->stash, self->gates),
        .choice = pen__at(pass->stash, self->choice),
        .tokens = pen__at(pass->stash, self->tokens)};
    pass->engine->ops->route_backward_input(
        pass->engine, &router, &route,
        pen__at(pass->scratch, self->gate_gradient),
        pen__at(pass->hold, self->logit_gradient), db);
}

void pen__experts_backward_input(const struct pen__experts *self,
                                 const struct pen__experts_pass *pass,
                                 const void *b, const void *dy, const void *add,
                                 void *db)
{
    struct pen_engine *engine = pass->engine;
    if (self->again.wide)
        compute_wide(self, pass, b);
    backward_results(self, pass, dy);
    void *dwide = pen__at(pass->hold, self->wide_gradient);
    void *dcopies = pen__at(pass->scratch, self->copies);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear up = linear_of(&turn, self->up);
        engine->ops->linear_backward_input(
            engine, &up, rows_of(&turn, dwide, self->swiglu.stride),
            rows_of(&turn, dcopies, self->shape.hidden));
    }
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->shape.hidden);
    engine->ops->collect_rows(engine, &dispatch, dcopies, add, db);
    backward_router(self, pass, db);
}

void pen__experts_backward_weight(const struct pen__experts *self,
                                  const struct pen__experts_pass *pass,
                                  const void *b, const void *dy)
{
    struct pen_engine *engine = pass->engine;
    if (self->again.inner)
        compute_inner(self, pass);
    void *inner = inner_of(self, pass);
    void *dresults = copy_rows(self, pass, dy);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear down = linear_of(&turn, self->down);
        engine->ops->linear_backward_weight(
            engine, &down, rows_of(&turn, inner, self->swiglu.width),
            rows_of(&turn, dresults, self->shape.hidden));
    }
    void *copies = copy_rows(self, pass, b);
    void *dwide = pen__at(pass->hold, self->wide_gradient);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear up = linear_of(&turn, self->up);
        engine->ops->linear_backward_weight(
            engine, &up, rows_of(&turn, copies, self->shape.hidden),
            rows_of(&turn, dwide, self->swiglu.stride));
    }
    engine->ops->route_backward_weight(
        engine, &self->router, b, pen__at(pass->hold, self->logit_gradient));
}

/* ---- making one ---- */

static pen_status add_product(struct pen_network *network, uint32_t layer,
                              const enum pen_part *weights, size_t count,
                              struct pen_linear *out, struct pen_text *why)
{
    struct pen_engine *engine = network->options.engine;
    struct pen__part parts[PEN_MAX_PARAMETER_TENSORS];
    for (size_t i = 0; i < count; i++)
        parts[i] = (struct pen__part){.part = weights[i]};
    *out = (struct pen_linear){.rows = network->options.batch *
                                       network->options.sequence,
                               .is_ragged = true};
    pen_status status = pen__add_parameter(network, layer, PEN_PARAMETER_DENSE,
                                           parts, count, &out->weight, why);
    return status == PEN_OK ? engine->ops->linear_prepare(engine, out, why)
                            : status;
}

static pen_status add_parameters(struct pen__experts *self,
                                 struct pen_network *network, uint32_t layer,
                                 struct pen_text *why)
{
    static const enum pen_part up[] = {PEN_PART_EXPERT_GATE,
                                       PEN_PART_EXPERT_UP};
    static const enum pen_part down[] = {PEN_PART_EXPERT_DOWN};
    pen_status status =
        pen__add_part(network, layer, PEN_PARAMETER_VECTORS, PEN_PART_ROUTER,
                      &self->router.weight, why);
    struct pen_parameter *offset = NULL;
    if (status == PEN_OK)
        status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS,
                               PEN_PART_ROUTER_OFFSET, &offset, why);
    self->router.offset = offset;
    for (uint32_t e = 0; e < self->num_experts && status == PEN_OK; e++) {
        network->adding_expert = e;
        status = add_product(network, layer, up, 2, &self->up[e], why);
        if (status == PEN_OK)
            status = add_product(network, layer, down, 1, &self->down[e], why);
    }
    network->adding_expert = 0;
    return status;
}

static void lay_out(struct pen__experts *self)
{
    const struct pen__shape *shape = &self->shape;
    size_t slots = shape->rows * self->chosen;
    size_t row = slots * shape->element;
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
    self->wide =
        pen__take(self->again.wide ? hold : stash, row * self->swiglu.stride);
    self->inner = pen__take(self->again.inner ? scratch : stash,
                            row * self->swiglu.width);
    self->wide_gradient = pen__take(hold, row * self->swiglu.stride);
    self->logit_gradient = pen__take(hold, logits);
    self->copies = pen__take(scratch, row * shape->hidden);
    /* In a forward both are one, for a wide that is computed again. */
    self->activated = pen__take(scratch, row * self->swiglu.width);
    self->inner_gradient = pen__take(scratch, row * self->swiglu.width);
    self->gate_gradient = pen__take(scratch, slots * shape->stat);
}

static pen_status check(const struct pen_network *network, struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    const struct pen_engine *engine = options->engine;
    size_t most = INT32_MAX / options->model->experts_per_token;
    if (engine->ops->route_forward == NULL || !engine->ops->is_host) {
        pen_why(why,
                "the engine %s does not compute experts; use --engine onednn "
                "or --engine reference",
                engine->ops->name);
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
    self->up = calloc(model->num_experts, sizeof *self->up);
    self->down = calloc(model->num_experts, sizeof *self->down);
    self->shape = pen__shape_of(options);
    self->again = pen_recomputed_of(options->recompute, options->modules);
    self->num_experts = model->num_experts;
    self->chosen = model->experts_per_token;
    self->router = (struct pen_router){.rows = self->shape.rows,
                                       .chosen = self->chosen,
                                       .is_normal = !model->has_plain_gates,
                                       .is_sigmoid = model->has_sigmoid_gates,
                                       .groups = model->num_expert_groups,
                                       .chosen_groups = model->chosen_groups,
                                       .scale = model->gate_scale,
                                       .aux = options->router.aux,
                                       .z = options->router.z};
    self->swiglu =
        (struct pen_swiglu){.rows = self->shape.rows * self->chosen,
                            .width = model->expert_intermediate,
                            .stride = 2 * (size_t)model->expert_intermediate};
    status = self->up == NULL || self->down == NULL
                 ? PEN_NOMEM
                 : add_parameters(self, network, layer, why);
    if (status != PEN_OK) {
        pen__experts_free(self);
        return status;
    }
    lay_out(self);
    *out = self;
    return PEN_OK;
}

void pen__experts_free(struct pen__experts *self)
{
    if (self == NULL)
        return;
    free(self->up);
    free(self->down);
    free(self);
}
