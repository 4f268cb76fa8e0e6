/* An MLP of experts; see experts.h. */
#include "network/experts.h"

#include "base/bug.h"
#include "engine/mirror.h"

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

/* The rows of the next expert that has some, in order, source by source. */
struct turn {
    const struct pen__experts *experts;
    const int32_t *tokens;
    uint32_t source;
    uint32_t next; /* expert */
    uint32_t expert;
    size_t first;
    size_t count;
};

static struct turn turns_of(const struct pen__experts *self,
                            const struct pen__experts_pass *pass)
{
    return (struct turn){.experts = self,
                         .tokens = pen__at(pass->stash, self->arrivals)};
}

static bool next_turn(struct turn *turn)
{
    const struct pen__experts *experts = turn->experts;
    turn->first += turn->count;
    turn->count = 0;
    while (turn->source < experts->num_sources) {
        for (; turn->next < experts->num_owned && turn->count == 0;
             turn->next++) {
            turn->expert = turn->next;
            turn->count =
                (size_t)turn
                    ->tokens[turn->source * experts->num_owned + turn->next];
        }
        if (turn->count > 0)
            return true;
        turn->next = 0;
        turn->first = ++turn->source * experts->room;
    }
    return false;
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

/*
 * The copies of x at their experts, sorted: here, or in `place` after they have
 * travelled, where they stay.
 */
static void *bring_rows(struct pen__experts *self,
                        const struct pen__experts_pass *pass, const void *x,
                        void *place)
{
    void *copies = copy_rows(self, pass, x);
    const struct pen__journey journey = {.local = copies,
                                         .here = place,
                                         .bytes = self->shape.hidden *
                                                  self->shape.element};
    if (self->num_sources == 1)
        return copies;
    pen__experts_travel(self, pass, &journey, 1, false);
    return place;
}

/* Where results of experts go, before they are at the copies of their sources.
 */
static void *results_of(const struct pen__experts *self,
                        const struct pen__experts_pass *pass)
{
    return pen__at(pass->scratch,
                   self->num_sources == 1 ? self->copies : self->returning);
}

/* The bias of the last product, of the rows of one expert: its gate multiplies
 * it, too. No bias where the model has none. */
static bool gated_bias_of(const struct turn *turn,
                          const struct pen__experts_pass *pass,
                          struct pen_gated_bias *out)
{
    const struct pen__experts *self = turn->experts;
    const int32_t *order = pen__at(pass->stash, self->order);
    *out = (struct pen_gated_bias){.dispatch = {.rows = turn->count,
                                                .chosen = 1,
                                                .width = self->shape.hidden,
                                                .order = order + turn->first},
                                   .bias = self->down_bias[turn->expert]};
    return out->bias != NULL;
}

/* Copies of the input with their gates, to their experts. */
static void send_input(struct pen__experts *self,
                       const struct pen__experts_pass *pass, const void *b)
{
    size_t stat = self->shape.stat;
    const int32_t *order = pen__at(pass->stash, self->order);
    const char *gates = pen__at(pass->stash, self->gates);
    char *sorted = pen__at(pass->scratch, self->sorted_gates);
    pen__experts_tell_counts(self, pass);
    for (size_t p = 0; p < self->shape.rows * self->chosen; p++)
        memcpy(sorted + p * stat, gates + (size_t)order[p] * stat, stat);
    const struct pen__journey journeys[] = {
        {.local = copy_rows(self, pass, b),
         .here = pen__at(pass->stash, self->arrived),
         .bytes = self->shape.hidden * self->shape.element},
        {.local = sorted,
         .here = pen__at(pass->stash, self->arrived_gates),
         .bytes = stat}};
    pen__experts_travel(self, pass, journeys, 2, false);
}

/* Results, to the copies that they are for. */
static void *return_results(struct pen__experts *self,
                            const struct pen__experts_pass *pass)
{
    void *copies = pen__at(pass->scratch, self->copies);
    const struct pen__journey journey = {.local = copies,
                                         .here = results_of(self, pass),
                                         .bytes = self->shape.hidden *
                                                  self->shape.element};
    if (self->num_sources > 1)
        pen__experts_travel(self, pass, &journey, 1, true);
    return copies;
}

/* Likewise the gradients of gates, which lie by slot afterwards. */
static void return_gate_gradients(struct pen__experts *self,
                                  const struct pen__experts_pass *pass)
{
    size_t stat = self->shape.stat;
    const int32_t *order = pen__at(pass->stash, self->order);
    char *sorted = pen__at(pass->scratch, self->sorted_gates);
    char *gradients = pen__at(pass->scratch, self->gate_gradient);
    const struct pen__journey journey = {
        .local = sorted,
        .here = pen__at(pass->scratch, self->returning_gates),
        .bytes = stat};
    if (self->num_sources == 1)
        return;
    pen__experts_travel(self, pass, &journey, 1, true);
    for (size_t p = 0; p < self->shape.rows * self->chosen; p++)
        memcpy(gradients + (size_t)order[p] * stat, sorted + p * stat, stat);
}

/* The copies of the input at their experts, made again where they are here. */
static void *input_rows(const struct pen__experts *self,
                        const struct pen__experts_pass *pass, const void *b)
{
    return self->num_sources == 1 ? copy_rows(self, pass, b)
                                  : pen__at(pass->stash, self->arrived);
}

static void compute_wide(const struct pen__experts *self,
                         const struct pen__experts_pass *pass, const void *b)
{
    void *copies = input_rows(self, pass, b);
    void *wide = wide_of(self, pass);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear up = linear_of(&turn, self->up);
        pass->engine->ops->linear_forward(
            pass->engine, &up, rows_of(&turn, copies, self->shape.hidden), NULL,
            rows_of(&turn, wide, self->swiglu.stride));
    }
}

/* Rows of one source here, of a matrix. */
static void *source_rows(const struct pen__experts *self, uint32_t source,
                         void *matrix, size_t width)
{
    return pen__at(matrix, source * self->room * width * self->shape.element);
}

static struct pen_swiglu swiglu_of(const struct pen__experts *self,
                                   const struct pen__experts_pass *pass,
                                   uint32_t source)
{
    struct pen_swiglu swiglu = self->swiglu;
    swiglu.rows = pen__experts_arrived(self, pass, source);
    return swiglu;
}

/* Gates by slot, or those that came with their rows, and the rows they are for.
 */
static struct pen_dispatch gating_of(const struct pen__experts *self,
                                     const struct pen__experts_pass *pass,
                                     uint32_t source)
{
    if (self->num_sources == 1)
        return dispatch_of(self, pass, self->swiglu.width);
    return (struct pen_dispatch){.rows =
                                     pen__experts_arrived(self, pass, source),
                                 .chosen = 1,
                                 .width = self->swiglu.width,
                                 .order = self->in_order,
                                 .at = self->in_order};
}

static void *gates_of(const struct pen__experts *self,
                      const struct pen__experts_pass *pass, uint32_t source)
{
    return self->num_sources == 1
               ? pen__at(pass->stash, self->gates)
               : pen__at(pass->stash,
                         self->arrived_gates +
                             source * self->room * self->shape.stat);
}

/* From wide to what the activation gives, without the gates. */
static void activate(const struct pen__experts *self,
                     const struct pen__experts_pass *pass, void *to)
{
    const struct pen_engine_ops *ops = pass->engine->ops;
    for (uint32_t source = 0; source < self->num_sources; source++) {
        const struct pen_swiglu swiglu = swiglu_of(self, pass, source);
        void *wide =
            source_rows(self, source, wide_of(self, pass), self->swiglu.stride);
        void *out = source_rows(self, source, to, self->swiglu.width);
        if (self->clamped.limit > 0)
            ops->clamped_gate_forward(pass->engine, &self->clamped, wide, out);
        else
            ops->swiglu_forward(pass->engine, &swiglu, wide,
                                up_half(self, wide), out);
    }
}

static void compute_inner(const struct pen__experts *self,
                          const struct pen__experts_pass *pass)
{
    activate(self, pass, inner_of(self, pass));
    for (uint32_t source = 0; source < self->num_sources; source++) {
        const struct pen_dispatch gating = gating_of(self, pass, source);
        void *inner =
            source_rows(self, source, inner_of(self, pass), self->swiglu.width);
        pass->engine->ops->gate_forward(
            pass->engine, &gating, gates_of(self, pass, source), inner, inner);
    }
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
    self->routings.dropped += (double)self->dropped;
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
    pen__experts_drop_slots(self, pass);
    if (self->num_sources > 1)
        send_input(self, pass, b);
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
    void *results = results_of(self, pass);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear down = linear_of(&turn, self->down);
        engine->ops->linear_forward(
            engine, &down, rows_of(&turn, inner, self->swiglu.width), NULL,
            rows_of(&turn, results, self->shape.hidden));
        struct pen_gated_bias bias;
        if (gated_bias_of(&turn, pass, &bias))
            engine->ops->gated_bias_forward(
                engine, &bias, gates_of(self, pass, turn.source),
                rows_of(&turn, results, self->shape.hidden));
    }
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->shape.hidden);
    engine->ops->collect_rows(engine, &dispatch, return_results(self, pass),
                              middle, y);
}

/* Where the gradients of gates are computed, of one source. */
static void *gate_gradients_of(const struct pen__experts *self,
                               const struct pen__experts_pass *pass,
                               uint32_t source)
{
    return self->num_sources == 1
               ? pen__at(pass->scratch, self->gate_gradient)
               : pen__at(pass->scratch,
                         self->returning_gates +
                             source * self->room * self->shape.stat);
}

/* The gradient of what the activation gave, and of the gates. */
static void backward_activation(const struct pen__experts *self,
                                const struct pen__experts_pass *pass,
                                uint32_t source)
{
    struct pen_engine *engine = pass->engine;
    size_t width = self->swiglu.width, stride = self->swiglu.stride;
    const struct pen_dispatch gating = gating_of(self, pass, source);
    const struct pen_swiglu swiglu = swiglu_of(self, pass, source);
    void *wide = source_rows(self, source, wide_of(self, pass), stride);
    void *dwide = source_rows(self, source,
                              pen__at(pass->hold, self->wide_gradient), stride);
    void *activated = source_rows(
        self, source, pen__at(pass->scratch, self->activated), width);
    void *dinner = source_rows(
        self, source, pen__at(pass->scratch, self->inner_gradient), width);
    engine->ops->gate_backward(engine, &gating, gates_of(self, pass, source),
                               activated, dinner,
                               gate_gradients_of(self, pass, source), dinner);
    if (self->clamped.limit > 0)
        engine->ops->clamped_gate_backward(engine, &self->clamped, wide, dinner,
                                           dwide);
    else
        engine->ops->swiglu_backward(engine, &swiglu, wide, up_half(self, wide),
                                     dinner, dwide, up_half(self, dwide));
}

/* From the gradient of the results to that of wide, and of the gates. */
static void backward_results(struct pen__experts *self,
                             const struct pen__experts_pass *pass,
                             const void *dy)
{
    struct pen_engine *engine = pass->engine;
    void *dresults =
        bring_rows(self, pass, dy, pen__at(pass->hold, self->arrived_gradient));
    void *dinner = pen__at(pass->scratch, self->inner_gradient);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear down = linear_of(&turn, self->down);
        engine->ops->linear_backward_input(
            engine, &down, rows_of(&turn, dresults, self->shape.hidden),
            rows_of(&turn, dinner, self->swiglu.width));
    }
    activate(self, pass, pen__at(pass->scratch, self->activated));
    for (uint32_t source = 0; source < self->num_sources; source++)
        backward_activation(self, pass, source);
    struct pen_gated_bias bias;
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);)
        if (gated_bias_of(&turn, pass, &bias))
            engine->ops->gated_bias_backward_input(
                engine, &bias, rows_of(&turn, dresults, self->shape.hidden),
                gate_gradients_of(self, pass, turn.source));
    return_gate_gradients(self, pass);
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
    pen__experts_close_dropped(self, pass);
    pass->engine->ops->route_backward_input(
        pass->engine, &router, &route,
        pen__at(pass->scratch, self->gate_gradient),
        pen__at(pass->hold, self->logit_gradient), db);
}

void pen__experts_backward_input(struct pen__experts *self,
                                 const struct pen__experts_pass *pass,
                                 const void *b, const void *dy, const void *add,
                                 void *db)
{
    struct pen_engine *engine = pass->engine;
    if (self->again.wide)
        compute_wide(self, pass, b);
    backward_results(self, pass, dy);
    void *dwide = pen__at(pass->hold, self->wide_gradient);
    void *dcopies = results_of(self, pass);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear up = linear_of(&turn, self->up);
        engine->ops->linear_backward_input(
            engine, &up, rows_of(&turn, dwide, self->swiglu.stride),
            rows_of(&turn, dcopies, self->shape.hidden));
    }
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->shape.hidden);
    engine->ops->collect_rows(engine, &dispatch, return_results(self, pass),
                              add, db);
    backward_router(self, pass, db);
}

/* The engine adds to the gradient of a source from here on. */
static void open_gradient(const struct pen__experts *self, size_t number,
                          uint32_t source)
{
    const struct pen_engine_ops *ops = self->engine->ops;
    struct pen__expert_gradient *it = &self->gradients[number];
    pen_status status = ops->gradient_place(self->engine, it->parameter,
                                            it->at + source * it->bytes, NULL);
    PEN_BUG_UNLESS(status == PEN_OK);
    if (it->is_new[source])
        ops->gradient_clear(self->engine, it->parameter);
    it->is_new[source] = false;
}

/* It sees that of the first source again. */
static void close_gradients(const struct pen__experts *self)
{
    for (size_t i = 0; self->num_sources > 1 && i < 2 * (size_t)self->num_owned;
         i++) {
        pen_status status = self->engine->ops->gradient_place(
            self->engine, self->gradients[i].parameter, self->gradients[i].at,
            NULL);
        PEN_BUG_UNLESS(status == PEN_OK);
    }
}

void pen__experts_clear_gradients(struct pen__experts *self)
{
    for (size_t i = 0; self->num_sources > 1 && i < 2 * (size_t)self->num_owned;
         i++) {
        struct pen__expert_gradient *it = &self->gradients[i];
        memset(it->at, 0, self->num_sources * it->bytes);
        for (uint32_t k = 0; k < self->num_sources; k++)
            it->is_new[k] = true;
    }
}

/* Adds one product of each expert: `number` is the gradient of the first. */
static void add_gradients(const struct pen__experts *self,
                          const struct pen__experts_pass *pass, size_t number,
                          void *x, void *dy)
{
    const struct pen_linear *linears = number == 0 ? self->up : self->down;
    size_t in = number == 0 ? self->shape.hidden : self->swiglu.width;
    size_t out = number == 0 ? self->swiglu.stride : self->shape.hidden;
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear linear = linear_of(&turn, linears);
        if (self->num_sources > 1)
            open_gradient(self, number + turn.expert, turn.source);
        pass->engine->ops->linear_backward_weight(pass->engine, &linear,
                                                  rows_of(&turn, x, in),
                                                  rows_of(&turn, dy, out));
    }
}

/* Whole numbers: their sum over ranks does not depend on its order. */
static void count_tokens(const struct pen__experts *self,
                         const struct pen__experts_pass *pass)
{
    const int32_t *tokens = pen__at(pass->stash, self->tokens);
    if (!self->counts_tokens)
        return;
    struct pen_mirror mirror = {.engine = pass->engine};
    void *counts = pen_mirror_show(
        &mirror, &(struct pen_mirror_piece){.parameter = self->offset,
                                            .part = PEN_PART_GRADIENT,
                                            .count = self->num_experts});
    for (uint32_t e = 0; e < self->num_experts; e++)
        if (self->shape.stat == sizeof(double))
            ((double *)counts)[e] += tokens[e];
        else
            ((float *)counts)[e] += (float)tokens[e];
}

void pen__experts_backward_weight(struct pen__experts *self,
                                  const struct pen__experts_pass *pass,
                                  const void *b, const void *dy)
{
    struct pen_engine *engine = pass->engine;
    if (self->again.inner)
        compute_inner(self, pass);
    void *dresults = self->num_sources == 1
                         ? copy_rows(self, pass, dy)
                         : pen__at(pass->hold, self->arrived_gradient);
    add_gradients(self, pass, self->num_owned, inner_of(self, pass), dresults);
    struct pen_gated_bias bias;
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);)
        if (gated_bias_of(&turn, pass, &bias))
            engine->ops->gated_bias_backward_weight(
                engine, &bias, gates_of(self, pass, turn.source),
                rows_of(&turn, dresults, self->shape.hidden));
    add_gradients(self, pass, 0, input_rows(self, pass, b),
                  pen__at(pass->hold, self->wide_gradient));
    close_gradients(self);
    engine->ops->route_backward_weight(
        engine, &self->router, b, pen__at(pass->hold, self->logit_gradient));
    count_tokens(self, pass);
}

/* ---- making one ---- */

/* One gradient for each source, of the parameter that was added last. */
static pen_status add_gradient(struct pen__experts *self,
                               struct pen_network *network,
                               struct pen__expert_gradient *out,
                               struct pen_text *why)
{
    struct pen_engine *engine = network->options.engine;
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

/* The number of the gradient says which product of which expert. */
static pen_status add_product(struct pen__experts *self,
                              struct pen_network *network, uint32_t layer,
                              size_t number, struct pen_text *why)
{
    static const struct pen__part up[] = {{.part = PEN_PART_EXPERT_GATE},
                                          {.part = PEN_PART_EXPERT_UP},
                                          {.part = PEN_PART_EXPERT_WIDE}};
    static const struct pen__part down[] = {{.part = PEN_PART_EXPERT_DOWN}};
    struct pen_engine *engine = network->options.engine;
    bool is_up = number < self->num_owned;
    struct pen_linear *out =
        is_up ? &self->up[number] : &self->down[number - self->num_owned];
    *out = (struct pen_linear){.rows = network->options.batch *
                                       network->options.sequence,
                               .is_ragged = true};
    pen_status status =
        pen__add_parameter(network, layer, PEN_PARAMETER_DENSE,
                           is_up ? up : down, is_up ? 3 : 1, &out->weight, why);
    if (status == PEN_OK && self->num_sources > 1)
        status = add_gradient(self, network, &self->gradients[number], why);
    if (status == PEN_OK)
        status = pen__add_part(
            network, layer, PEN_PARAMETER_VECTORS,
            is_up ? PEN_PART_EXPERT_WIDE_BIAS : PEN_PART_EXPERT_DOWN_BIAS,
            is_up ? &out->bias : &self->down_bias[number - self->num_owned],
            why);
    return status == PEN_OK ? engine->ops->linear_prepare(engine, out, why)
                            : status;
}

static pen_status add_parameters(struct pen__experts *self,
                                 struct pen_network *network, uint32_t layer,
                                 struct pen_text *why)
{
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
    uint32_t first =
        self->num_sources > 1 ? self->group->self * self->num_owned : 0;
    bool had_no_room = network->options.has_no_room;
    network->options.has_no_room |= self->num_sources > 1;
    for (uint32_t e = 0; e < self->num_owned && status == PEN_OK; e++) {
        network->adding_expert = first + e;
        status = add_product(self, network, layer, e, why);
        if (status == PEN_OK)
            status =
                add_product(self, network, layer, self->num_owned + e, why);
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

static void lay_out(struct pen__experts *self)
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
    self->wide =
        pen__take(self->again.wide ? hold : stash, row * self->swiglu.stride);
    self->inner = pen__take(self->again.inner ? scratch : stash,
                            row * self->swiglu.width);
    self->wide_gradient = pen__take(hold, row * self->swiglu.stride);
    self->logit_gradient = pen__take(hold, logits);
    self->copies = pen__take(scratch, slots * shape->element * shape->hidden);
    /* In a forward both are one, for a wide that is computed again. */
    self->activated = pen__take(scratch, row * self->swiglu.width);
    self->inner_gradient = pen__take(scratch, row * self->swiglu.width);
    self->gate_gradient = pen__take(scratch, slots * shape->stat);
    if (self->num_sources > 1)
        lay_out_sources(self);
}

static pen_status check(const struct pen_network *network, struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    const struct pen_engine *engine = options->engine;
    size_t most = INT32_MAX / options->model->experts_per_token;
    uint32_t share = options->experts.total;
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
    if (share > 1 && options->model->has_expert_bias) {
        pen_why(why,
                "experts of model_type \"%s\" cannot be dealt out: one "
                "tensor has all of a block; drop "
                "--expert-model-parallel-size",
                pen_model_type(options->model));
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

/* Arrays that do not depend on parameters. */
static pen_status make_arrays(struct pen__experts *self)
{
    self->up = calloc(self->num_owned, sizeof *self->up);
    self->down = calloc(self->num_owned, sizeof *self->down);
    self->down_bias = calloc(self->num_owned, sizeof *self->down_bias);
    if (self->up == NULL || self->down == NULL || self->down_bias == NULL)
        return PEN_NOMEM;
    if (self->num_sources == 1)
        return PEN_OK;
    self->gradients =
        calloc(2 * (size_t)self->num_owned, sizeof *self->gradients);
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
    self->chosen = model->experts_per_token;
    self->num_sources = options->experts.total > 1 ? options->experts.total : 1;
    self->group = options->experts.group;
    self->num_owned = self->num_experts / self->num_sources;
    self->room =
        self->shape.rows *
        (self->num_owned < self->chosen ? self->num_owned : self->chosen);
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
    self->swiglu =
        (struct pen_swiglu){.rows = self->shape.rows * self->chosen,
                            .width = model->expert_intermediate,
                            .stride = 2 * (size_t)model->expert_intermediate};
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
    lay_out(self);
    *out = self;
    return PEN_OK;
}

void pen__experts_free(struct pen__experts *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0;
         self->gradients != NULL && i < 2 * (size_t)self->num_owned; i++) {
        struct pen__expert_gradient *it = &self->gradients[i];
        free(it->is_new);
        pen_engine_give(self->engine, PEN_PLACE_ENGINE, it->at,
                        self->num_sources * it->bytes);
    }
    free(self->gradients);
    free(self->requests);
    free(self->in_order);
    free(self->up);
    free(self->down);
    free(self->down_bias);
    free(self);
}
