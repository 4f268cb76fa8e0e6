/*
 * Greedy list scheduling on placements that fold (wave, bidirectional V).
 *
 *   take the (earliest start, lowest rank) op that is ready; on that rank
 *     1. backward, oldest micro-batch first
 *     2. forward, deepest part first, then oldest micro-batch
 *     3. a new micro-batch, while the rank holds less than p of them
 *
 * An op is ready when the one before it has ended and its message has come.
 * Messages of a channel are taken in the order in which they were sent, as the
 * waiting rules want it. Starts never go back in time, so an op once taken is
 * final.
 */
#include "schedule/generators/greedy.h"

#include "schedule/generators/asap.h"
#include "schedule/generators/stage_costs.h"

#include <stdlib.h>

struct item {
    int64_t key; /* the least comes first */
    int64_t ready;
    uint32_t stage;
    uint32_t microbatch;
    bool is_forward;
};

/* Items that came over one channel. */
struct queue {
    struct item *items;
    uint32_t head;
    uint32_t tail;
};

/* Items that were handed over on the rank itself, least key first. */
struct heap {
    struct item *items;
    uint32_t count;
};

static void heap_add(struct heap *heap, struct item item)
{
    uint32_t at = heap->count++;
    for (; at > 0 && item.key < heap->items[(at - 1) / 2].key;
         at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at] = item;
}

static void heap_drop_first(struct heap *heap)
{
    struct item last = heap->items[--heap->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count &&
            heap->items[child + 1].key < heap->items[child].key)
            child++;
        if (last.key <= heap->items[child].key)
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = last;
}

#define NUM_CHANNELS 4u /* from rank-1 and rank+1, forward and backward */
#define NEVER INT64_MAX

struct rank {
    int64_t clock;
    int64_t start; /* of the op it would take next, NEVER when there is none */
    struct queue arrived[NUM_CHANNELS];
    struct heap local;
    uint32_t live;        /* chunks whose backward is to come */
    uint32_t first_stage; /* where new micro-batches enter, or PEN_NO_STAGE */
    uint32_t next_new;    /* micro-batch */
    uint32_t last_new;    /* the one after the last */
};

struct greedy {
    const struct pen_shape *shape;
    const struct pen__stage_cost *costs;
    struct pen__builder *builder;
    uint32_t live_limit; /* new micro-batches wait at this many chunks */
    struct rank *ranks;
    struct item *items; /* what queues and heaps point into */
};

static bool may_begin(const struct greedy *greedy, const struct rank *rank)
{
    return rank->first_stage != PEN_NO_STAGE &&
           rank->next_new < rank->last_new && rank->live < greedy->live_limit;
}

static void find_start(const struct greedy *greedy, struct rank *rank)
{
    int64_t ready = NEVER;
    if (rank->local.count > 0 || may_begin(greedy, rank))
        ready = rank->clock;
    for (unsigned i = 0; i < NUM_CHANNELS; i++) {
        const struct queue *queue = &rank->arrived[i];
        if (queue->head < queue->tail &&
            queue->items[queue->head].ready < ready)
            ready = queue->items[queue->head].ready;
    }
    rank->start = ready > rank->clock ? ready : rank->clock;
}

/* Takes the best of what can start now. */
static struct item take(struct rank *rank)
{
    struct item best = {.key = INT64_MAX};
    struct queue *from = NULL;
    if (rank->local.count > 0)
        best = rank->local.items[0];
    for (unsigned i = 0; i < NUM_CHANNELS; i++) {
        struct queue *queue = &rank->arrived[i];
        const struct item *item = &queue->items[queue->head];
        if (queue->head < queue->tail && item->ready <= rank->start &&
            item->key < best.key) {
            best = *item;
            from = queue;
        }
    }
    if (best.key == INT64_MAX)
        return (struct item){.stage = rank->first_stage,
                             .microbatch = rank->next_new++,
                             .is_forward = true};
    if (from != NULL)
        from->head++;
    else
        heap_drop_first(&rank->local);
    return best;
}

/* Backwards come before all forwards, deep forwards before others. */
static int64_t key_of(const struct pen_shape *shape, const struct item *item)
{
    if (!item->is_forward)
        return item->microbatch;
    uint32_t above =
        pen_shape_parts(shape) - pen_shape_part_of_stage(shape, item->stage);
    return (int64_t)above * shape->num_microbatches + item->microbatch;
}

/*
 * Finds the op that becomes possible when an op has run; false at the end of
 * the model.
 */
static bool follow(const struct pen_shape *shape, const struct item *done,
                   struct item *out)
{
    *out = *done;
    if (!done->is_forward) {
        out->stage = pen_shape_previous_stage(shape, done->stage);
        return out->stage != PEN_NO_STAGE;
    }
    out->stage = pen_shape_next_stage(shape, done->stage);
    if (out->stage == PEN_NO_STAGE) {
        out->stage = done->stage;
        out->is_forward = false;
    }
    return true;
}

/* Hands the result of an op of rank `from` to the rank that needs it. */
static void hand_over(struct greedy *greedy, uint32_t from,
                      const struct item *done)
{
    const struct pen_shape *shape = greedy->shape;
    const struct pen__stage_cost *cost = &greedy->costs[done->stage];
    struct item item;
    if (!follow(shape, done, &item))
        return;
    uint32_t to = pen_shape_rank_of(shape, item.stage);
    struct rank *rank = &greedy->ranks[to];
    item.key = key_of(shape, &item);
    item.ready = greedy->ranks[from].clock;
    if (to == from) {
        heap_add(&rank->local, item);
    } else {
        unsigned channel = (to > from ? 0u : 1u) + (item.is_forward ? 0u : 2u);
        struct queue *queue = &rank->arrived[channel];
        item.ready += item.is_forward ? cost->ahead : cost->back;
        queue->items[queue->tail++] = item;
    }
    find_start(greedy, rank);
}

static void run_next(struct greedy *greedy, uint32_t r)
{
    struct rank *rank = &greedy->ranks[r];
    struct item item = take(rank);
    const struct pen__stage_cost *cost = &greedy->costs[item.stage];
    pen__put(greedy->builder, r,
             item.is_forward ? PEN_OP_FORWARD : PEN_OP_BACKWARD, item.stage,
             item.microbatch);
    rank->clock = rank->start + (item.is_forward ? cost->forward
                                                 : cost->input + cost->weight);
    if (item.is_forward)
        rank->live++;
    else
        rank->live--;
    find_start(greedy, rank);
    hand_over(greedy, r, &item);
}

static uint32_t earliest_rank(const struct greedy *greedy)
{
    uint32_t earliest = 0;
    for (uint32_t rank = 1; rank < greedy->shape->num_ranks; rank++) {
        if (greedy->ranks[rank].start < greedy->ranks[earliest].start)
            earliest = rank;
    }
    return earliest;
}

/* Schedules micro-batches first..last-1 of every copy, from time 0 on. */
static void run(struct greedy *greedy, uint32_t first, uint32_t last)
{
    const struct pen_shape *shape = greedy->shape;
    uint32_t each = shape->num_microbatches / shape->num_copies;
    for (uint32_t r = 0; r < shape->num_ranks; r++) {
        struct rank *rank = &greedy->ranks[r];
        rank->clock = 0;
        rank->first_stage = PEN_NO_STAGE;
    }
    for (uint32_t copy = 0; copy < shape->num_copies; copy++) {
        uint32_t stage = copy * pen_shape_parts(shape);
        struct rank *rank = &greedy->ranks[pen_shape_rank_of(shape, stage)];
        rank->first_stage = stage;
        rank->next_new = copy * each + first;
        rank->last_new = copy * each + last;
    }
    for (uint32_t r = 0; r < shape->num_ranks; r++)
        find_start(greedy, &greedy->ranks[r]);
    uint32_t r = earliest_rank(greedy);
    for (; greedy->ranks[r].start != NEVER; r = earliest_rank(greedy))
        run_next(greedy, r);
}

static pen_status greedy_init(struct greedy *greedy,
                              const struct pen_shape *shape,
                              const struct pen__stage_cost *costs,
                              struct pen__builder *builder)
{
    /* More than come over one channel, or are handed over, on one rank. */
    size_t chunks = (size_t)shape->num_stages / shape->num_ranks;
    size_t size = chunks * shape->num_microbatches / shape->num_copies;
    size_t each = (NUM_CHANNELS + 1) * size;
    *greedy = (struct greedy){
        .shape = shape,
        .costs = costs,
        .builder = builder,
        .live_limit = pen_shape_chunks(shape) * shape->num_ranks,
        .ranks = calloc(shape->num_ranks, sizeof *greedy->ranks),
        .items = malloc(shape->num_ranks * each * sizeof *greedy->items)};
    if (greedy->ranks == NULL || greedy->items == NULL)
        return PEN_NOMEM;
    for (uint32_t r = 0; r < shape->num_ranks; r++) {
        struct item *items = greedy->items + each * r;
        for (unsigned i = 0; i < NUM_CHANNELS; i++)
            greedy->ranks[r].arrived[i].items = items + size * i;
        greedy->ranks[r].local.items = items + size * NUM_CHANNELS;
    }
    return PEN_OK;
}

/* One form: units of `unit` micro-batches of every copy. */
struct form {
    struct pen__builder builder;
    int64_t makespan;
    int64_t peak;
};

static int64_t peak_of(const struct pen_schedule *schedule,
                       const struct pen__stage_cost *costs)
{
    int64_t peak = 0;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        int64_t level = 0;
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen__stage_cost *cost = &costs[row->ops[i].stage];
            level += row->ops[i].kind == PEN_OP_FORWARD
                         ? cost->forward_memory
                         : cost->input_memory + cost->weight_memory;
            peak = level > peak ? level : peak;
        }
    }
    return peak;
}

static void make_form(struct form *form, const char *name,
                      const struct pen_shape *shape,
                      const struct pen__stage_cost *costs, uint32_t unit,
                      struct pen_text *why)
{
    uint32_t each = shape->num_microbatches / shape->num_copies;
    *form = (struct form){.makespan = 0};
    pen__builder_init(&form->builder, name, shape, why);
    if (form->builder.status != PEN_OK)
        return;
    struct greedy greedy;
    pen_status status = greedy_init(&greedy, shape, costs, &form->builder);
    if (status == PEN_OK) {
        for (uint32_t first = 0; first < each; first += unit)
            run(&greedy, first, first + pen__min(unit, each - first));
    } else {
        form->builder.status = status;
    }
    free(greedy.ranks);
    free(greedy.items);
    form->makespan = pen__run_asap(&form->builder, costs);
    if (form->builder.status == PEN_OK)
        form->peak = peak_of(form->builder.schedule, costs);
}

/*
 * Chooses the fastest form that fits, the first of equals; NULL when none does.
 */
static struct form *choose_form(struct form *forms, size_t count, int64_t limit)
{
    struct form *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (forms[i].builder.status != PEN_OK)
            return &forms[i]; /* to report it */
        if (forms[i].peak <= limit &&
            (best == NULL || forms[i].makespan < best->makespan))
            best = &forms[i];
    }
    return best;
}

static pen_status finish(struct form *forms, size_t count,
                         const struct pen_generator_args *args,
                         const char *name, struct pen_schedule **out,
                         struct pen_text *why)
{
    int64_t limit = args->memory_limit > 0
                        ? pen__memory_units(args->memory_limit)
                        : INT64_MAX;
    struct form *best = choose_form(forms, count, limit);
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        least = forms[i].peak < least ? forms[i].peak : least;
        if (best != &forms[i])
            pen_schedule_free(forms[i].builder.schedule);
    }
    if (best != NULL)
        return pen__builder_finish(&best->builder, out, why);
    pen_why(why,
            "%s does not fit in a memory limit of %g; the smallest that works "
            "is %g",
            name, args->memory_limit, (double)least / PEN__MEMORY_PER_A);
    return PEN_INFEASIBLE;
}

pen_status pen__greedy_generate(const struct pen_generator_args *args,
                                const char *name, const struct pen_shape *shape,
                                struct pen_schedule **out, struct pen_text *why)
{
    struct pen__stage_cost *costs = NULL;
    pen_status status =
        pen__stage_costs_create(args, shape, &args->costs->memory, &costs, why);
    if (status != PEN_OK)
        return status;
    uint32_t each = shape->num_microbatches / shape->num_copies;
    uint32_t unit = shape->num_ranks / shape->num_copies;
    struct form forms[2];
    size_t count = 0;
    make_form(&forms[count++], name, shape, costs, unit, why);
    if (each > unit)
        make_form(&forms[count++], name, shape, costs, each, why);
    free(costs);
    return finish(forms, count, args, name, out, why);
}
