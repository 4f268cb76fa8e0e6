/* Passes of an MLP of experts; see experts.h. */
#include "network/experts.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "group/tree.h"
#include "network/stream.h"

#include <string.h>

/* ---- where things are ---- */

static const struct pen__expert_piece *
piece_of(const struct pen__experts *self, const struct pen__experts_pass *pass)
{
    return &self->pieces[pass->piece];
}

static void *wide_of(const struct pen__experts *self,
                     const struct pen__experts_pass *pass)
{
    if (!self->again.wide)
        return pen__at(pass->stash, piece_of(self, pass)->wide);
    return pass->hold != NULL ? pen__at(pass->hold, piece_of(self, pass)->wide)
                              : pen__at(pass->scratch, self->activated);
}

static void *wide_gradient_of(const struct pen__experts *self,
                              const struct pen__experts_pass *pass)
{
    return pen__at(pass->hold, piece_of(self, pass)->wide_gradient);
}

static void *inner_of(const struct pen__experts *self,
                      const struct pen__experts_pass *pass)
{
    return pen__at(self->again.inner ? pass->scratch : pass->stash,
                   piece_of(self, pass)->inner);
}

/* Gradients of the gates of all slots, as a piece has them. */
static void *gate_gradient_of(const struct pen__experts *self,
                              const struct pen__experts_pass *pass,
                              uint32_t piece)
{
    size_t bytes = self->shape.rows * self->chosen * self->shape.stat;
    return pen__at(pass->scratch,
                   self->gate_gradient + piece * pen__align(bytes));
}

/* Where a piece adds to `sum`, which is as wide as the stream. */
static void *result_at(const struct pen__experts *self,
                       const struct pen__experts_pass *pass, void *sum)
{
    size_t bytes = self->shape.rows * self->shape.hidden * self->shape.element;
    return pen__piece_result(pass->tensor, pass->piece, bytes, sum,
                             pass->others);
}

/* The same pass, of the first piece; for a loop over all of them. */
static struct pen__experts_pass pieces_of(const struct pen__experts_pass *pass)
{
    struct pen__experts_pass first = *pass;
    first.piece = 0;
    return first;
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

/* ---- what the host sees ---- */

/* Waits for the routing that the engine has. */
static void show_routing(const struct pen__experts *self,
                         const struct pen__experts_pass *pass)
{
    struct pen_engine *engine = pass->engine;
    if (self->view == NULL)
        return;
    engine->ops->copy(engine, pen__at(pass->stash, self->gates), self->view,
                      self->routing_bytes);
    pen_engine_await(engine);
}

/*
 * Gives the engine the routing as the host changed it. The view is not written
 * before the next show_routing().
 */
static void keep_routing(const struct pen__experts *self,
                         const struct pen__experts_pass *pass)
{
    struct pen_engine *engine = pass->engine;
    if (self->view != NULL)
        engine->ops->copy(engine, self->view, pen__at(pass->stash, self->gates),
                          self->routing_bytes);
}

/* ---- sorting ---- */

/* Slots by expert, those of one expert in the order of rows. */
static void sort_slots(const struct pen__experts *self,
                       const struct pen__experts_pass *pass)
{
    const int32_t *choice = pen__experts_seen(self, pass, self->choice);
    int32_t *order = pen__experts_seen(self, pass, self->order);
    int32_t *at = pen__experts_seen(self, pass, self->at);
    int32_t *tokens = pen__experts_seen(self, pass, self->tokens);
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
                         .tokens =
                             pen__experts_seen(self, pass, self->arrivals)};
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

/* The slot of each sorted row of a source; gates of several sources came
 * sorted.
 */
static const int32_t *slots_of(const struct turn *turn,
                               const struct pen__experts_pass *pass)
{
    const struct pen__experts *self = turn->experts;
    if (self->num_sources > 1)
        return self->in_order + (turn->first - turn->source * self->room);
    return (const int32_t *)pen__at(pass->stash, self->order) + turn->first;
}

/* The bias of the last product, of the rows of one expert: its gate multiplies
 * it, too. Finds the next expert that has one, from `turn` on. */
static bool next_gated_bias(struct turn *turn,
                            const struct pen__experts_pass *pass,
                            struct pen_gated_bias *out)
{
    const struct pen__experts *self = turn->experts;
    struct pen_parameter **biases = piece_of(self, pass)->down_bias;
    while (next_turn(turn)) {
        *out =
            (struct pen_gated_bias){.dispatch = {.rows = turn->count,
                                                 .chosen = 1,
                                                 .width = self->shape.hidden,
                                                 .order = slots_of(turn, pass)},
                                    .bias = biases[turn->expert]};
        if (out->bias != NULL)
            return true;
    }
    return false;
}

/* Copies the input with its gates to its experts. */
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

/* Sends results back to the copies that they are for. */
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

/* Sends the gradients of gates back, which lie by slot afterwards. */
static void return_gate_gradients(struct pen__experts *self,
                                  const struct pen__experts_pass *pass)
{
    size_t stat = self->shape.stat;
    const int32_t *order = pen__at(pass->stash, self->order);
    char *sorted = pen__at(pass->scratch, self->sorted_gates);
    char *gradients = gate_gradient_of(self, pass, pass->piece);
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
                         const struct pen__experts_pass *pass, void *copies)
{
    void *wide = wide_of(self, pass);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear up = linear_of(&turn, piece_of(self, pass)->up);
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

static struct pen_clamped_gate clamped_of(const struct pen__experts *self,
                                          const struct pen__experts_pass *pass,
                                          uint32_t source)
{
    struct pen_clamped_gate clamped = self->clamped;
    clamped.rows = pen__experts_arrived(self, pass, source);
    return clamped;
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

/* Turns wide into the output of the activation, without the gates. */
static void activate(const struct pen__experts *self,
                     const struct pen__experts_pass *pass, void *to)
{
    const struct pen_engine_ops *ops = pass->engine->ops;
    for (uint32_t source = 0; source < self->num_sources; source++) {
        const struct pen_swiglu swiglu = swiglu_of(self, pass, source);
        const struct pen_clamped_gate clamped = clamped_of(self, pass, source);
        void *wide =
            source_rows(self, source, wide_of(self, pass), self->swiglu.stride);
        void *out = source_rows(self, source, to, self->swiglu.width);
        if (self->clamped.limit > 0)
            ops->clamped_gate_forward(pass->engine, &clamped, wide, out);
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

/*
 * Counts the tokens of each expert in a forward, but not when it is computed
 * again.
 */
static void count_routing(struct pen__experts *self,
                          const struct pen__experts_pass *pass)
{
    const int32_t *tokens = pen__experts_seen(self, pass, self->tokens);
    double mean =
        (double)(self->shape.rows * self->chosen) / (double)self->num_experts;
    int32_t most = 0;
    for (uint32_t e = 0; e < self->num_experts; e++)
        most = tokens[e] > most ? tokens[e] : most;
    self->routings.imbalance += most / mean;
    self->routings.count += 1;
    self->routings.dropped += (double)self->dropped;
}

/* Turns inner into the results of all experts. */
static void compute_results(const struct pen__experts *self,
                            const struct pen__experts_pass *pass)
{
    const struct pen_engine_ops *ops = pass->engine->ops;
    void *inner = inner_of(self, pass);
    void *results = results_of(self, pass);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear down =
            linear_of(&turn, piece_of(self, pass)->down);
        ops->linear_forward(pass->engine, &down,
                            rows_of(&turn, inner, self->swiglu.width), NULL,
                            rows_of(&turn, results, self->shape.hidden));
    }
    struct turn turn = turns_of(self, pass);
    for (struct pen_gated_bias bias; next_gated_bias(&turn, pass, &bias);)
        ops->gated_bias_forward(pass->engine, &bias,
                                gates_of(self, pass, turn.source),
                                rows_of(&turn, results, self->shape.hidden));
}

/* Results at the tokens that they are for, in what a piece adds to `sum`. */
static void collect(struct pen__experts *self,
                    const struct pen__experts_pass *pass, const void *residual,
                    void *sum)
{
    const struct pen_dispatch dispatch =
        dispatch_of(self, pass, self->shape.hidden);
    void *to = result_at(self, pass, sum);
    const void *add = pass->adds ? to : pass->piece == 0 ? residual : NULL;
    pass->engine->ops->collect_rows(pass->engine, &dispatch,
                                    return_results(self, pass), add, to);
}

void pen__experts_forward(struct pen__experts *self,
                          const struct pen__experts_pass *pass, const void *b,
                          const void *residual, void *y)
{
    struct pen_engine *engine = pass->engine;
    struct pen__experts_pass at = pieces_of(pass);
    engine->ops->route_forward(
        engine, &self->router, b, pen__at(pass->stash, self->logits),
        pen__at(pass->stash, self->gates), pen__at(pass->stash, self->choice));
    show_routing(self, pass);
    sort_slots(self, pass);
    pen__experts_drop_slots(self, pass);
    keep_routing(self, pass);
    pen__experts_keep_counts(self, pass);
    if (self->num_sources > 1)
        send_input(self, pass, b);
    if (y != NULL && !pass->is_forward_only)
        count_routing(self, pass);
    if (y == NULL && self->again.wide)
        return;
    void *copies = input_rows(self, pass, b);
    for (at.piece = 0; at.piece < self->num_pieces; at.piece++) {
        compute_wide(self, &at, copies);
        if (y != NULL || !self->again.inner)
            compute_inner(self, &at);
    }
    for (at.piece = 0; at.piece < self->num_pieces && y != NULL; at.piece++) {
        compute_results(self, &at);
        collect(self, &at, residual, y);
    }
}

/* Where the gradients of gates are computed, of one source. */
static void *gate_gradients_of(const struct pen__experts *self,
                               const struct pen__experts_pass *pass,
                               uint32_t source)
{
    return self->num_sources == 1
               ? gate_gradient_of(self, pass, pass->piece)
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
    const struct pen_clamped_gate clamped = clamped_of(self, pass, source);
    void *wide = source_rows(self, source, wide_of(self, pass), stride);
    void *dwide =
        source_rows(self, source, wide_gradient_of(self, pass), stride);
    void *activated = source_rows(
        self, source, pen__at(pass->scratch, self->activated), width);
    void *dinner = source_rows(
        self, source, pen__at(pass->scratch, self->inner_gradient), width);
    engine->ops->gate_backward(engine, &gating, gates_of(self, pass, source),
                               activated, dinner,
                               gate_gradients_of(self, pass, source), dinner);
    if (self->clamped.limit > 0)
        engine->ops->clamped_gate_backward(engine, &clamped, wide, dinner,
                                           dwide);
    else
        engine->ops->swiglu_backward(engine, &swiglu, wide, up_half(self, wide),
                                     dinner, dwide, up_half(self, dwide));
}

/* Turns the gradient of the results into that of wide, and of the gates. */
static void backward_results(struct pen__experts *self,
                             const struct pen__experts_pass *pass,
                             void *dresults)
{
    const struct pen_engine_ops *ops = pass->engine->ops;
    void *dinner = pen__at(pass->scratch, self->inner_gradient);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear down =
            linear_of(&turn, piece_of(self, pass)->down);
        ops->linear_backward_input(pass->engine, &down,
                                   rows_of(&turn, dresults, self->shape.hidden),
                                   rows_of(&turn, dinner, self->swiglu.width));
    }
    activate(self, pass, pen__at(pass->scratch, self->activated));
    for (uint32_t source = 0; source < self->num_sources; source++)
        backward_activation(self, pass, source);
    struct turn turn = turns_of(self, pass);
    for (struct pen_gated_bias bias; next_gated_bias(&turn, pass, &bias);)
        ops->gated_bias_backward_input(
            pass->engine, &bias, rows_of(&turn, dresults, self->shape.hidden),
            gate_gradients_of(self, pass, turn.source));
    return_gate_gradients(self, pass);
}

/* Sums the gradients of gates in the tree, on all members: a gate multiplies
 * features of all pieces. */
static void join_gate_gradients(const struct pen__experts *self,
                                const struct pen__experts_pass *pass)
{
    struct pen_group *group = pass->tensor->group;
    size_t stat = self->shape.stat, count = self->shape.rows * self->chosen;
    void *sum = gate_gradient_of(self, pass, 0);
    for (struct pen_tree at = {.size = self->num_pieces};
         self->num_pieces > 1 && pen_tree_next(&at);)
        pen__add_masters(stat, gate_gradient_of(self, pass, at.to),
                         gate_gradient_of(self, pass, at.from), count);
    for (uint32_t apart = 1; group != NULL && apart < group->size; apart *= 2) {
        void *theirs = gate_gradient_of(self, pass, 1);
        pen__exchange(group, group->self ^ apart, sum, theirs, count * stat);
        pen__add_masters(stat, sum, theirs, count);
    }
}

/* Adds the gradient of the logits to db; the first of all pieces does. */
static void backward_router(const struct pen__experts *self,
                            const struct pen__experts_pass *pass, void *db)
{
    struct pen_router router = self->router;
    router.aux *= pass->share / self->num_cuts;
    router.z *= pass->share;
    const struct pen_route route = {
        .logits = pen__at(pass->stash, self->logits),
        .gates = pen__at(pass->stash, self->gates),
        .choice = pen__at(pass->stash, self->choice),
        .tokens = pen__experts_all_counts(self, pass)};
    pen__experts_close_dropped(self, pass);
    pass->engine->ops->route_backward_input(
        pass->engine, &router, &route, gate_gradient_of(self, pass, 0),
        pen__at(pass->hold, self->logit_gradient),
        pass->tensor->first == 0 ? result_at(self, pass, db) : NULL);
}

/* Turns the gradient of wide into the part of that of b that a piece adds. */
static void backward_copies(struct pen__experts *self,
                            const struct pen__experts_pass *pass, void *db)
{
    void *dwide = wide_gradient_of(self, pass);
    void *dcopies = results_of(self, pass);
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear up = linear_of(&turn, piece_of(self, pass)->up);
        pass->engine->ops->linear_backward_input(
            pass->engine, &up, rows_of(&turn, dwide, self->swiglu.stride),
            rows_of(&turn, dcopies, self->shape.hidden));
    }
    collect(self, pass, NULL, db);
}

void pen__experts_backward_input(struct pen__experts *self,
                                 const struct pen__experts_pass *pass,
                                 const void *b, const void *dy, void *db)
{
    struct pen__experts_pass at = pieces_of(pass);
    show_routing(self, pass);
    void *copies = self->again.wide ? input_rows(self, pass, b) : NULL;
    for (at.piece = 0; at.piece < self->num_pieces && self->again.wide;
         at.piece++)
        compute_wide(self, &at, copies);
    void *dresults =
        bring_rows(self, pass, dy, pen__at(pass->hold, self->arrived_gradient));
    for (at.piece = 0; at.piece < self->num_pieces; at.piece++)
        backward_results(self, &at, dresults);
    join_gate_gradients(self, pass);
    for (at.piece = 0; at.piece < self->num_pieces; at.piece++)
        backward_copies(self, &at, db);
    at.piece = 0;
    backward_router(self, &at, db);
}

/* The engine adds to the gradient of a source from here on. */
static void open_gradient(const struct pen__experts *self,
                          const struct pen__experts_pass *pass,
                          enum pen__expert_part part, const struct turn *turn)
{
    const struct pen_engine_ops *ops = self->engine->ops;
    uint32_t source = turn->source;
    struct pen__expert_gradient *it =
        &self->gradients[pen__experts_gradient(self, pass->piece, part) +
                         turn->expert];
    if (it->parameter == NULL)
        return;
    pen_status status = ops->gradient_place(self->engine, it->parameter,
                                            it->at + source * it->bytes, NULL);
    PEN_BUG_UNLESS(status == PEN_OK);
    if (it->is_new[source])
        ops->gradient_clear(self->engine, it->parameter);
    it->is_new[source] = false;
}

/* The engine adds to the gradient of the first source again. */
static void close_gradients(const struct pen__experts *self)
{
    for (size_t i = 0; i < pen__experts_num_gradients(self); i++) {
        const struct pen__expert_gradient *it = &self->gradients[i];
        pen_status status =
            it->parameter == NULL
                ? PEN_OK
                : self->engine->ops->gradient_place(self->engine, it->parameter,
                                                    it->at, NULL);
        PEN_BUG_UNLESS(status == PEN_OK);
    }
}

void pen__experts_clear_gradients(struct pen__experts *self)
{
    for (size_t i = 0; i < pen__experts_num_gradients(self); i++) {
        struct pen__expert_gradient *it = &self->gradients[i];
        if (it->parameter == NULL)
            continue;
        memset(it->at, 0, self->num_sources * it->bytes);
        for (uint32_t k = 0; k < self->num_sources; k++)
            it->is_new[k] = true;
    }
}

/* Adds one product of each expert. */
static void add_gradients(const struct pen__experts *self,
                          const struct pen__experts_pass *pass, bool is_up,
                          void *x, void *dy)
{
    const struct pen__expert_piece *piece = piece_of(self, pass);
    const struct pen_linear *linears = is_up ? piece->up : piece->down;
    size_t in = is_up ? self->shape.hidden : self->swiglu.width;
    size_t out = is_up ? self->swiglu.stride : self->shape.hidden;
    for (struct turn turn = turns_of(self, pass); next_turn(&turn);) {
        const struct pen_linear linear = linear_of(&turn, linears);
        open_gradient(self, pass, is_up ? PEN__EXPERT_UP : PEN__EXPERT_DOWN,
                      &turn);
        if (is_up)
            open_gradient(self, pass, PEN__EXPERT_UP_BIAS, &turn);
        pass->engine->ops->linear_backward_weight(pass->engine, &linear,
                                                  rows_of(&turn, x, in),
                                                  rows_of(&turn, dy, out));
    }
}

/*
 * Counts tokens. These are whole numbers: their sum over ranks does not depend
 * on its order.
 */
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

/* Adds the gradients of the last product and of its bias. */
static void weigh_results(const struct pen__experts *self,
                          const struct pen__experts_pass *pass, void *dresults)
{
    if (self->again.inner)
        compute_inner(self, pass);
    add_gradients(self, pass, false, inner_of(self, pass), dresults);
    struct turn turn = turns_of(self, pass);
    for (struct pen_gated_bias bias; next_gated_bias(&turn, pass, &bias);) {
        open_gradient(self, pass, PEN__EXPERT_DOWN_BIAS, &turn);
        pass->engine->ops->gated_bias_backward_weight(
            pass->engine, &bias, gates_of(self, pass, turn.source),
            rows_of(&turn, dresults, self->shape.hidden));
    }
}

void pen__experts_backward_weight(struct pen__experts *self,
                                  const struct pen__experts_pass *pass,
                                  const void *b, const void *dy)
{
    struct pen_engine *engine = pass->engine;
    struct pen__experts_pass at = pieces_of(pass);
    show_routing(self, pass);
    void *dresults = self->num_sources == 1
                         ? copy_rows(self, pass, dy)
                         : pen__at(pass->hold, self->arrived_gradient);
    for (at.piece = 0; at.piece < self->num_pieces; at.piece++)
        weigh_results(self, &at, dresults);
    void *copies = input_rows(self, pass, b);
    for (at.piece = 0; at.piece < self->num_pieces; at.piece++)
        add_gradients(self, &at, true, copies, wide_gradient_of(self, &at));
    close_gradients(self);
    engine->ops->route_backward_weight(
        engine, &self->router, b, pen__at(pass->hold, self->logit_gradient));
    count_tokens(self, pass);
}
