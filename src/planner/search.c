/*
 * Best first. Three kinds of node wait for their turn, ordered by a value of
 * the objective that nothing below them can beat:
 *
 *   base       degrees, micro-batch, recomputation: the floor of its layers
 *   candidate  with schedule, chunks, sharding: pen_predict_bound()
 *   plan       timed
 *
 * A base that comes out becomes its candidates, and waits again with fewer
 * replicas; a candidate is timed and goes back as a plan, and a plan that comes
 * out is the best of all that are left. Bases are sorted once; the others are
 * in a heap.
 *
 * Plans that differ in recomputation only take one row: the best of them.
 *
 * Afterwards the same search continues with fewer and fewer devices: nodes with
 * more are dropped, all others stay as they are.
 */
#include "planner/search.h"

#include "planner/candidates.h"
#include "planner/measured.h"
#include "planner/memo.h"
#include "planner/target_rules.h"
#include "planner/timings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct node {
    double key;
    uint64_t number;        /* of equal ones the earlier comes out first */
    struct pen__base *base; /* of the list; NULL: a candidate or a plan */
    struct pen_plan_found found;
    bool is_timed;
};

struct heap {
    struct node *items;
    size_t count;
    size_t capacity;
};

#define MOST_GENERATORS 64u

/* The least that ranks hold under a schedule: pen__held_share(). */
struct held {
    const struct pen_generator *generator;
    double share;
};

struct search {
    const struct pen_setting *setting;
    const struct pen_plan_search_options *options;
    struct pen__bases bases;
    size_t next_base;
    struct pen__candidate_list candidates;
    struct heap heap;
    struct pen_plan_ranking *ranking;
    struct held held[MOST_GENERATORS];
    size_t num_held;
    uint64_t num_nodes;
    uint64_t num_ops;
    double most_memory; /* of any device */
    uint64_t limit;     /* devices of a plan, at most */
    double work_sec;    /* of a usual core; counted, not measured */
    double deadline;    /* of the work; 0: none */
    bool has_answer;
    struct pen_candidate dive; /* was timed before its turn */
    bool has_dived;
    bool is_out_of_memory;
};

/* ---- the heap ---- */

static bool is_before(const struct node *a, const struct node *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    if (a->is_timed != b->is_timed)
        return a->is_timed;
    return a->number < b->number;
}

static bool heap_add(struct heap *heap, const struct node *node)
{
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity == 0 ? 256 : 2 * heap->capacity;
        struct node *items = realloc(heap->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        heap->items = items;
        heap->capacity = capacity;
    }
    size_t at = heap->count++;
    while (at > 0 && is_before(node, &heap->items[(at - 1) / 2])) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = *node;
    return true;
}

static struct node heap_take(struct heap *heap)
{
    struct node top = heap->items[0];
    struct node last = heap->items[--heap->count];
    size_t at = 0;
    while (2 * at + 1 < heap->count) {
        size_t child = 2 * at + 1;
        if (child + 1 < heap->count &&
            is_before(&heap->items[child + 1], &heap->items[child]))
            child++;
        if (!is_before(&heap->items[child], &last))
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    if (heap->count > 0)
        heap->items[at] = last;
    return top;
}

/* ---- steps of the search ---- */

static void release_found(struct pen_plan_found *found)
{
    pen_plan_free(found->plan);
    found->plan = NULL;
    pen_prediction_release(&found->prediction);
}

/*
 * Seconds of work are counted, so that an answer depends neither on the machine
 * nor on what else runs there: what each kind takes on a usual core.
 */
#define LIST_SEC 0.5e-6   /* one base */
#define NODE_SEC 0.5e-6   /* one node that has its turn */
#define EXPAND_SEC 0.7e-6 /* one candidate: its rules and its room */
#define BOUND_SEC 1.5e-6
#define STAGE_SEC 0.3e-6 /* each stage of a bound */
#define TIME_SEC 20e-6   /* besides the operations of a schedule */
#define RUN_SEC 0.006e-6 /* each of them, in a schedule that was kept */
#define OP_SEC 0.06e-6   /* in one that is made */
#define APART_SEC 0.1e-6 /* the same, with weight gradients of their own */

static void count_bound(struct search *search,
                        const struct pen_candidate *candidate)
{
    const uint32_t *degrees = candidate->degrees;
    search->work_sec += BOUND_SEC + STAGE_SEC * degrees[PEN_DEGREE_PP] *
                                        degrees[PEN_DEGREE_VPP];
}

/* Forwards, backwards and weight gradients of all stages. */
static uint64_t count_ops(const struct pen_candidate *candidate)
{
    return (uint64_t)candidate->degrees[PEN_DEGREE_PP] *
           candidate->degrees[PEN_DEGREE_VPP] * candidate->num_microbatches * 3;
}

static double making_sec(const struct pen_candidate *candidate)
{
    bool is_apart = candidate->generator->splits_backward;
    return (is_apart ? APART_SEC : OP_SEC) * (double)count_ops(candidate);
}

static bool is_base_next(const struct search *search)
{
    if (search->next_base == search->bases.count)
        return false;
    return search->heap.count == 0 ||
           search->bases.items[search->next_base].key <
               search->heap.items[0].key;
}

/* Seconds of the schedule that is made next, if it is too long to be kept. */
static double next_making_sec(const struct search *search)
{
    if (is_base_next(search) || search->heap.count == 0)
        return 0;
    const struct node *node = &search->heap.items[0];
    bool is_next =
        node->base == NULL && !node->is_timed &&
        pen_candidate_num_devices(&node->found.candidate) <= search->limit;
    bool is_long =
        is_next && count_ops(&node->found.candidate) > PEN_TIMINGS_MOST_OPS / 2;
    return is_long ? making_sec(&node->found.candidate) : 0;
}

#define PATIENCE 4.0 /* times the deadline, while there is no answer */

/*
 * Out of work. The order of the work does not depend on the deadline: more
 * seconds look at more candidates, never at others instead, and the answer gets
 * no worse.
 */
static bool is_spent(const struct search *search, double next_sec)
{
    uint64_t max_ops = search->options->max_ops;
    double patience = search->has_answer ? 1 : PATIENCE;
    if (search->deadline > 0 &&
        search->work_sec + next_sec > patience * search->deadline)
        return true;
    return search->has_answer && max_ops != 0 && search->num_ops > max_ops;
}

/* The same, before the next node: a long schedule is not begun in vain. */
static bool is_over(const struct search *search)
{
    return is_spent(search, next_making_sec(search));
}

static void note_bytes(struct search *search, uint64_t bytes)
{
    struct pen_plan_search_counts *counts = &search->ranking->counts;
    if (counts->least_bytes == 0 || bytes < counts->least_bytes)
        counts->least_bytes = bytes;
}

static void add_node(struct search *search, struct node *node)
{
    node->number = search->num_nodes++;
    if (!heap_add(&search->heap, node)) {
        search->is_out_of_memory = true;
        release_found(&node->found);
    }
}

/* Bounds guess what interleaved stages hold, and guess too much. */
#define GUESSED 0.3

/*
 * The bound knows what ranks hold under a plain schedule; for other schedules
 * it may assume too much, and the room for their blocks was checked already.
 */
static bool may_fit(const struct search *search,
                    const struct pen_candidate *candidate,
                    const struct pen_prediction *bound)
{
    if (bound->fits || !pen__is_plain(candidate->generator))
        return true;
    if (candidate->degrees[PEN_DEGREE_VPP] == 1)
        return false;
    const struct pen_plan_memory *fullest = &bound->memory[bound->fullest];
    return (double)bound->peak_bytes -
               GUESSED * (double)fullest->bytes[PEN_MEMORY_ACTIVATIONS] <=
           search->most_memory;
}

/* Operations of one schedule: more would take many seconds to time. */
#define MOST_OPS (1u << 24)

static void leave_out(struct search *search, double least)
{
    struct pen_plan_search_counts *counts = &search->ranking->counts;
    if (counts->left_out++ == 0 || least < counts->least_left)
        counts->least_left = least;
}

/* Bounds a candidate; those that fit wait for their turn. */
static void bound_candidate(struct search *search, const struct pen__base *base,
                            const struct pen_candidate *candidate)
{
    struct pen_plan_search_counts *counts = &search->ranking->counts;
    struct node node = {.found = {.candidate = *candidate}};
    count_bound(search, candidate);
    pen_status status =
        pen_candidate_predict(search->setting, candidate, false,
                              &node.found.plan, &node.found.prediction, NULL);
    if (status != PEN_OK) {
        counts->refused++;
        return;
    }
    counts->bounded++;
    note_bytes(search, node.found.prediction.peak_bytes);
    if (!may_fit(search, candidate, &node.found.prediction)) {
        counts->unfit++;
        release_found(&node.found);
        return;
    }
    double seconds =
        pen__candidate_floor(base, candidate, &node.found.prediction);
    node.key = pen__base_value(&search->bases, base, seconds);
    release_found(&node.found); /* it is made again when it is timed */
    if (count_ops(candidate) > MOST_OPS)
        leave_out(search, node.key);
    else
        add_node(search, &node);
}

/* Found out once for each schedule that is met. */
static double held_share(struct search *search,
                         const struct pen_generator *generator)
{
    size_t at = 0;
    while (at < search->num_held && search->held[at].generator != generator)
        at++;
    if (at < search->num_held)
        return search->held[at].share;
    double share = pen__held_share(generator);
    if (at < MOST_GENERATORS)
        search->held[search->num_held++] = (struct held){generator, share};
    return share;
}

/* `share` is that of the memory that may be full. */
static bool has_room(struct search *search, const struct pen__base *base,
                     const struct pen_candidate *candidate, double share)
{
    double least;
    if (pen__is_measured(search->setting)) /* bounds have its bytes */
        return true;
    bool is_there =
        pen__candidate_has_room(search->setting, base, candidate,
                                held_share(search, candidate->generator),
                                share * search->most_memory, &least);
    note_bytes(search, (uint64_t)least);
    return is_there;
}

static bool list_candidates(struct search *search, const struct pen__base *base)
{
    bool is_done = pen__base_expand(search->setting, &search->options->filter,
                                    base, &search->candidates);
    search->work_sec += EXPAND_SEC * (double)(search->candidates.count + 1);
    return is_done;
}

static void expand_candidates(struct search *search,
                              const struct pen__base *base)
{
    struct pen_plan_search_counts *counts = &search->ranking->counts;
    if (!list_candidates(search, base)) {
        search->is_out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < search->candidates.count; i++) {
        const struct pen_candidate *candidate = &search->candidates.items[i];
        if (search->has_dived &&
            pen_candidate_is_same(candidate, &search->dive))
            continue;
        if (is_spent(search, 0))
            leave_out(search,
                      pen__base_value(&search->bases, base, base->floor_sec));
        else if (has_room(search, base, candidate, 1))
            bound_candidate(search, base, candidate);
        else
            counts->too_large++;
    }
}

/* Then the base waits for its turn with fewer replicas, if they are few enough.
 */
static void expand_base(struct search *search, struct pen__base *base)
{
    if (pen_candidate_num_devices(&base->candidate) <= search->limit)
        expand_candidates(search, base);
    do {
        if (!pen__base_next(&search->bases, base))
            return;
    } while (pen_candidate_num_devices(&base->candidate) > search->limit);
    struct node node = {.key = base->key, .base = base};
    add_node(search, &node);
}

/* Without a place to keep schedules, each is made. */
static uint64_t count_made(const struct search *search)
{
    return search->setting->timings == NULL
               ? search->num_ops
               : pen_timings_made(search->setting->timings);
}

static void time_node(struct search *search, struct node *node)
{
    struct pen_plan_search_counts *counts = &search->ranking->counts;
    struct pen_plan_found *found = &node->found;
    uint64_t before = count_made(search);
    search->work_sec += TIME_SEC;
    if (pen_candidate_predict(search->setting, &found->candidate, true,
                              &found->plan, &found->prediction,
                              NULL) != PEN_OK) {
        counts->refused++;
        return;
    }
    uint64_t ops = count_ops(&found->candidate);
    search->num_ops += ops;
    search->work_sec += count_made(search) == before
                            ? RUN_SEC * (double)ops
                            : making_sec(&found->candidate);
    counts->timed++;
    if (!found->prediction.fits ||
        !pen_prediction_store(&found->prediction, found->plan)) {
        counts->unfit++;
        release_found(found);
        return;
    }
    if (!search->has_answer)
        counts->first_sec = search->work_sec;
    search->has_answer = true;
    found->value = pen_objective_value(search->options->objective,
                                       search->setting->cluster, found->plan,
                                       &found->prediction);
    node->is_timed = true;
    node->key = found->value;
    add_node(search, node);
}

/*
 * Whether the bound fits: it knows the memory of a plain schedule with one
 * stage a rank.
 */
static bool bound_fits(struct search *search,
                       const struct pen_candidate *candidate)
{
    struct pen_plan *plan = NULL;
    struct pen_prediction bound;
    count_bound(search, candidate);
    if (pen_candidate_predict(search->setting, candidate, false, &plan, &bound,
                              NULL) != PEN_OK)
        return false;
    bool fits = bound.fits;
    pen_prediction_release(&bound);
    pen_plan_free(plan);
    return fits;
}

#define EASY 0.7      /* of the memory: then the first cut will fit */
#define DIVE_SEC 0.05 /* of work, whatever the deadline: see is_spent() */
#define DIVE_OPS (1u << 19)

/*
 * A first answer, long before the search is over: of the quickest bases the
 * first whose plainest candidate fits.
 */
static void dive(struct search *search)
{
    double end_sec = search->work_sec + DIVE_SEC;
    for (size_t i = 0; i < search->bases.count && search->work_sec < end_sec;
         i++) {
        const struct pen__base *base = &search->bases.items[i];
        if (!list_candidates(search, base))
            return;
        for (size_t j = search->candidates.count; j-- > 0;) {
            struct node node = {
                .found = {.candidate = search->candidates.items[j]}};
            const struct pen_candidate *candidate = &node.found.candidate;
            if (!pen__is_plain(candidate->generator) ||
                candidate->degrees[PEN_DEGREE_VPP] > 1 ||
                count_ops(candidate) > DIVE_OPS ||
                !has_room(search, base, candidate, EASY) ||
                !bound_fits(search, candidate))
                continue;
            uint64_t before = search->num_nodes;
            time_node(search, &node);
            if (search->num_nodes == before)
                continue;
            search->dive = *candidate;
            search->has_dived = true;
            return;
        }
    }
}

/* No plan that is left has a lower value; infinite: none is left. */
static double next_key(const struct search *search)
{
    if (is_base_next(search))
        return search->bases.items[search->next_base].key;
    return search->heap.count > 0 ? search->heap.items[0].key : INFINITY;
}

/* Whether one of these plans, which are better, has the same layout. */
static bool is_outdone(const struct pen_plan_found *better, uint32_t count,
                       const struct pen_candidate *candidate)
{
    uint32_t at = 0;
    while (at < count &&
           !pen_candidate_is_same_layout(&better[at].candidate, candidate))
        at++;
    return at < count;
}

/* Whether the ranking has the layout already, with other recomputation. */
static bool is_listed(const struct search *search,
                      const struct pen_candidate *candidate)
{
    return is_outdone(search->ranking->found, search->ranking->num_found,
                      candidate);
}

/* Whether a plan came out, the best of those that are left. */
static bool advance(struct search *search, struct pen_plan_found *out)
{
    search->work_sec += NODE_SEC;
    if (is_base_next(search)) {
        expand_base(search, &search->bases.items[search->next_base++]);
        return false;
    }
    struct node node = heap_take(&search->heap);
    if (node.base != NULL) {
        expand_base(search, node.base);
    } else if (pen_candidate_num_devices(&node.found.candidate) >
                   search->limit ||
               is_listed(search, &node.found.candidate)) {
        release_found(&node.found);
    } else if (node.is_timed) {
        *out = node.found;
        return true;
    } else {
        time_node(search, &node);
    }
    return false;
}

/* The best plan that is left, unless it is worse than `most`. */
static bool find_next(struct search *search, double most,
                      struct pen_plan_found *out)
{
    while (isfinite(next_key(search)) && next_key(search) <= most &&
           !search->is_out_of_memory && !is_over(search))
        if (advance(search, out))
            return true;
    return false;
}

static int compare_nodes(const void *left, const void *right)
{
    if (left == right)
        return 0;
    return is_before(left, right) ? -1 : 1;
}

/*
 * The work was cut short: takes the best of the plans that were timed, at most
 * `most` of them. The nodes that stay are sorted, and so still a heap.
 */
static uint32_t take_timed(struct search *search, uint32_t most,
                           struct pen_plan_found *out)
{
    struct heap *heap = &search->heap;
    size_t kept = 0;
    uint32_t taken = 0;
    if (heap->count > 0)
        qsort(heap->items, heap->count, sizeof *heap->items, compare_nodes);
    for (size_t i = 0; i < heap->count; i++) {
        struct node *node = &heap->items[i];
        const struct pen_candidate *candidate = &node->found.candidate;
        if (node->is_timed && taken < most &&
            pen_candidate_num_devices(candidate) <= search->limit &&
            !is_listed(search, candidate) && !is_outdone(out, taken, candidate))
            out[taken++] = node->found;
        else
            heap->items[kept++] = *node;
    }
    heap->count = kept;
    return taken;
}

static void count_left(struct search *search)
{
    for (size_t i = search->next_base; i < search->bases.count; i++)
        leave_out(search, search->bases.items[i].key);
    for (size_t i = 0; i < search->heap.count; i++)
        if (!search->heap.items[i].is_timed)
            leave_out(search, search->heap.items[i].key);
}

/* Moves the last plan before those that are worse. */
static void keep_sorted(struct pen_plan_ranking *ranking)
{
    struct pen_plan_found last = ranking->found[ranking->num_found - 1];
    uint32_t at = ranking->num_found - 1;
    for (; at > 0 && ranking->found[at - 1].value > last.value; at--)
        ranking->found[at] = ranking->found[at - 1];
    ranking->found[at] = last;
}

static void run(struct search *search)
{
    struct pen_plan_ranking *ranking = search->ranking;
    uint32_t top = search->options->top;
    dive(search);
    while (ranking->num_found < top &&
           find_next(search, INFINITY, &ranking->found[ranking->num_found])) {
        ranking->num_found++;
        keep_sorted(ranking);
    }
    if (ranking->num_found < top && is_over(search)) {
        count_left(search);
        ranking->num_found += take_timed(search, top - ranking->num_found,
                                         &ranking->found[ranking->num_found]);
    }
    ranking->is_complete = ranking->counts.left_out == 0;
    for (uint32_t i = 0; i < ranking->num_found; i++)
        ranking->found[i].is_cut_short = !ranking->is_complete;
    ranking->counts.seconds = search->work_sec;
    if (ranking->num_found > 0)
        ranking->best_value = ranking->found[0].value;
}

/* ---- fewer devices ---- */

#define FEW_DEVICES 8u /* up to here each number of them has its turn */

/* Three quarters, a half, three eighths, ... in whole nodes. */
static uint64_t share_of_devices(uint64_t all, uint64_t node, uint32_t step)
{
    uint64_t devices = all >> (step / 2 + 1);
    if (step % 2 == 0)
        devices += devices / 2;
    return devices > node ? devices / node * node : devices;
}

/* The next number of devices to look at, less than `used`. */
static uint64_t fewer_devices(const struct pen_setting *setting, uint64_t used)
{
    uint64_t all = pen_cluster_num_devices(setting->cluster);
    uint64_t node = pen_target_node_size(setting->cluster);
    uint64_t devices = all;
    if (used <= FEW_DEVICES)
        return used - 1;
    for (uint32_t i = 0; devices >= used; i++)
        devices = share_of_devices(all, node, i);
    return devices;
}

static uint64_t devices_of(const struct pen_plan_found *found)
{
    return pen_plan_num_ranks(found->plan);
}

/* A plan of its own for the same candidate. */
static bool copy_found(struct search *search, const struct pen_plan_found *from,
                       struct pen_plan_found *out)
{
    *out = (struct pen_plan_found){.candidate = from->candidate,
                                   .value = from->value,
                                   .is_cut_short = from->is_cut_short};
    if (pen_candidate_predict(search->setting, &out->candidate, true,
                              &out->plan, &out->prediction, NULL) == PEN_OK &&
        pen_prediction_store(&out->prediction, out->plan))
        return true;
    release_found(out);
    search->is_out_of_memory = true;
    return false;
}

/* Share of the search's time for each number of devices. */
#define FEWER_SHARE (1.0 / 20)

/*
 * The best plan with at most `devices` devices, unless it is worse than `most`.
 */
static bool find_fewer(struct search *search, uint64_t devices, double most,
                       struct pen_plan_found *out)
{
    const struct pen_plan_ranking *ranking = search->ranking;
    double seconds = search->options->seconds;
    for (uint32_t i = 0; i < ranking->num_found; i++)
        if (devices_of(&ranking->found[i]) <= devices)
            return ranking->found[i].value <= most &&
                   copy_found(search, &ranking->found[i], out);
    search->limit = devices;
    if (seconds > 0)
        search->deadline = search->work_sec + seconds * FEWER_SHARE;
    bool is_found =
        find_next(search, most, out) ||
        (isinf(most) && is_over(search) && take_timed(search, 1, out) == 1);
    if (is_found)
        out->is_cut_short = !ranking->is_complete || is_over(search);
    return is_found;
}

/* A row of the table; without room it takes the place of the last. */
static void add_fewer(struct search *search, const struct pen_plan_found *found)
{
    struct pen_plan_ranking *ranking = search->ranking;
    if (ranking->num_fewer > search->options->num_fewer)
        release_found(&ranking->fewer[--ranking->num_fewer]);
    ranking->fewer[ranking->num_fewer++] = *found;
}

/*
 * The fewest devices whose value is within the tolerance of the best: a row of
 * the table, or none. The best value of at most k devices never gets less with
 * a smaller k, so the first number that is too slow ends it. (WAP: Shin et al.,
 * arXiv 1811.01532.)
 */
static void run_within(struct search *search)
{
    double most = search->ranking->best_value * (1 + search->options->within);
    uint64_t used = devices_of(&search->ranking->found[0]);
    struct pen_plan_found found;
    while (used > 1 && find_fewer(search, used - 1, most, &found)) {
        used = devices_of(&found);
        add_fewer(search, &found);
    }
}

#define NEAR 1.25 /* times the best value */
#define SAVED 0.9 /* of the joules or the price of the best plan */
#define ROUNDING 1e-9

/*
 * The least rate of all kinds of devices: joules per second of one that waits,
 * or its price.
 */
static double least_rate(const struct pen_cluster *cluster,
                         enum pen_objective objective)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        const struct pen_device *device = &cluster->groups[i].device;
        least = fmin(least, objective == PEN_OBJECTIVE_ENERGY
                                ? pen_device_idle_watts(device)
                                : device->price_per_hour / 3600);
    }
    return least;
}

/* Whether a plan of some number of replicas can have a lower value. */
static bool may_beat(const struct search *search, enum pen_objective objective,
                     double value)
{
    struct pen__bases bases = search->bases;
    double rate = least_rate(search->setting->cluster, objective);
    bases.objective = objective;
    for (size_t i = 0; i < bases.count; i++) {
        struct pen__base base = bases.items[i];
        const struct pen_candidate *candidate = &base.candidate;
        /* Seconds of all devices together: replicas share them. */
        double seconds = base.seconds * (double)search->setting->global_batch /
                         candidate->micro_batch *
                         candidate->degrees[PEN_DEGREE_TP] *
                         candidate->degrees[PEN_DEGREE_CP];
        double least = seconds * rate * (1 - ROUNDING);
        if (objective == PEN_OBJECTIVE_ENERGY)
            least += base.busy_joules;
        if (least >= value)
            continue;
        pen__base_set_key(&bases, &base);
        if (base.key < value)
            return true;
    }
    return false;
}

/* Whether a plan with fewer replicas can be that much cheaper than the best. */
static bool may_save(const struct search *search)
{
    const struct pen_prediction *best = &search->ranking->found[0].prediction;
    return may_beat(search, PEN_OBJECTIVE_ENERGY, SAVED * best->joules) ||
           may_beat(search, PEN_OBJECTIVE_COST, SAVED * best->price);
}

static void run_fewer(struct search *search)
{
    struct pen_plan_ranking *ranking = search->ranking;
    struct pen_plan_found found;
    double most = INFINITY;
    if (search->options->has_near_only && !may_save(search))
        most = NEAR * ranking->best_value;
    while (ranking->num_fewer < search->options->num_fewer) {
        uint64_t used = devices_of(
            ranking->num_fewer == 0 ? &ranking->found[0]
                                    : &ranking->fewer[ranking->num_fewer - 1]);
        if (used == 1 ||
            !find_fewer(search, fewer_devices(search->setting, used), most,
                        &found))
            break;
        add_fewer(search, &found);
    }
}

/* Puts a copy of a row of the table before all plans of the ranking. */
static void choose(struct search *search, const struct pen_plan_found *chosen)
{
    struct pen_plan_ranking *ranking = search->ranking;
    struct pen_plan_found copy;
    uint32_t at = 0;
    if (!copy_found(search, chosen, &copy))
        return;
    while (
        at < ranking->num_found &&
        !pen_candidate_is_same(&ranking->found[at].candidate, &copy.candidate))
        at++;
    if (at < ranking->num_found)
        release_found(&ranking->found[at]);
    else
        ranking->num_found++;
    memmove(&ranking->found[1], &ranking->found[0],
            at * sizeof *ranking->found);
    ranking->found[0] = copy;
}

/*
 * Searches with fewer devices; the counts stay those of the search for the
 * ranking.
 */
static void run_on(struct search *search)
{
    struct pen_plan_ranking *ranking = search->ranking;
    struct pen_plan_search_counts counts = ranking->counts;
    if (search->options->within > 0)
        run_within(search);
    uint32_t chosen = ranking->num_fewer;
    run_fewer(search);
    if (chosen > 0 && !search->is_out_of_memory)
        choose(search, &ranking->fewer[chosen - 1]);
    ranking->counts = counts;
}

static pen_status refuse(const struct search *search, struct pen_text *why)
{
    const struct pen_plan_search_counts *counts = &search->ranking->counts;
    if (search->is_out_of_memory) {
        pen_why(why, "no memory to search among %" PRIu64 " candidates",
                counts->listed);
        return PEN_NOMEM;
    }
    if (counts->listed == 0) {
        pen_why(why,
                "no layout follows the rules of %s: batch size, layers and "
                "number of devices do not fit together",
                pen_target_names[search->setting->target]);
        return PEN_INFEASIBLE;
    }
    if (counts->least_bytes == 0) {
        pen_why(why, "no schedule of %s supports these micro-batches",
                pen_target_names[search->setting->target]);
        return PEN_INFEASIBLE;
    }
    pen_why(why,
            "no layout fits: the smallest of %" PRIu64
            " needs %.1f GiB on its fullest device, plus the prediction's "
            "margin; the device has %.1f GiB",
            counts->listed, (double)counts->least_bytes / 0x1p30,
            search->most_memory / 0x1p30);
    return PEN_INFEASIBLE;
}

static double most_memory(const struct pen_setting *setting)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < setting->cluster->num_groups; i++) {
        uint64_t bytes = setting->cluster->groups[i].device.memory_bytes;
        most = bytes > most ? bytes : most;
    }
    if (setting->memory_limit != 0 && setting->memory_limit < most)
        most = setting->memory_limit;
    return (double)most;
}

static struct pen_plan_ranking *create_ranking(uint32_t top, uint32_t num_fewer)
{
    struct pen_plan_ranking *ranking = calloc(1, sizeof *ranking);
    if (ranking == NULL)
        return NULL;
    ranking->found = calloc((size_t)top + 1, sizeof *ranking->found);
    ranking->fewer = calloc((size_t)num_fewer + 1, sizeof *ranking->fewer);
    if (ranking->found == NULL || ranking->fewer == NULL) {
        pen_plan_ranking_free(ranking);
        return NULL;
    }
    return ranking;
}

void pen_plan_ranking_free(struct pen_plan_ranking *ranking)
{
    if (ranking == NULL)
        return;
    for (uint32_t i = 0; i < ranking->num_found; i++)
        release_found(&ranking->found[i]);
    for (uint32_t i = 0; i < ranking->num_fewer; i++)
        release_found(&ranking->fewer[i]);
    free(ranking->found);
    free(ranking->fewer);
    free(ranking);
}

static void release(struct search *search)
{
    while (search->heap.count > 0) {
        struct node node = heap_take(&search->heap);
        release_found(&node.found);
    }
    free(search->heap.items);
    free(search->candidates.items);
    free(search->bases.items);
}

/* Searches in a setting with a memo of its own. */
static pen_status search_in(const struct pen_setting *setting,
                            const struct pen_plan_search_options *options,
                            struct pen_plan_ranking *ranking,
                            struct pen_text *why)
{
    struct search search = {.setting = setting,
                            .options = options,
                            .ranking = ranking,
                            .most_memory = most_memory(setting),
                            .limit = UINT64_MAX,
                            .deadline = options->seconds};
    if (!pen__bases_list(setting, &options->filter, options->objective,
                         &search.bases)) {
        pen_why(why, "no memory for the candidates");
        return PEN_NOMEM;
    }
    ranking->counts.listed = search.bases.num_choices;
    search.work_sec = LIST_SEC * (double)search.bases.count;
    run(&search);
    if (ranking->num_found > 0)
        run_on(&search);
    pen_status status = PEN_OK;
    if (search.is_out_of_memory || ranking->num_found == 0)
        status = refuse(&search, why);
    release(&search);
    return status;
}

pen_status pen_plan_search(const struct pen_setting *setting,
                           const struct pen_plan_search_options *options,
                           struct pen_plan_ranking **out, struct pen_text *why)
{
    struct pen_setting own = *setting;
    pen_status status =
        pen_objective_check(options->objective, setting->cluster, why);
    if (status != PEN_OK)
        return status;
    struct pen_plan_ranking *ranking =
        create_ranking(options->top, options->num_fewer);
    if (ranking == NULL) {
        pen_why(why, "no memory for the candidates");
        return PEN_NOMEM;
    }
    own.memo = pen__is_measured(setting) ? NULL : pen__memo_create();
    status = search_in(&own, options, ranking, why);
    pen__memo_free(own.memo);
    if (status != PEN_OK) {
        pen_plan_ranking_free(ranking);
        return status;
    }
    *out = ranking;
    return PEN_OK;
}

/* ---- several searches ---- */

/* Moves the best of one ranking to the end of another. */
static void append_best(struct pen_plan_ranking *all,
                        struct pen_plan_ranking *one)
{
    all->found[all->num_found] = one->found[0];
    all->found[all->num_found++].is_cut_short = !one->is_complete;
    all->is_complete = all->is_complete && one->is_complete;
    all->counts.seconds += one->counts.seconds;
    one->found[0].plan = NULL;
    one->found[0].prediction.memory = NULL;
}

static pen_status start_ranking(uint32_t top, struct pen_plan_ranking **out,
                                struct pen_text *why)
{
    *out = create_ranking(top, 0);
    if (*out == NULL) {
        pen_why(why, "no memory for %u plans", top);
        return PEN_NOMEM;
    }
    (*out)->is_complete = true;
    return PEN_OK;
}

/* Drops points that are too slow because their search was cut short. */
static void drop_slower(struct pen_plan_ranking *all,
                        const struct pen_plan_found *leaner)
{
    while (all->num_found > 0 &&
           all->found[all->num_found - 1].value >= leaner->value)
        release_found(&all->found[--all->num_found]);
}

/* Copies a plan that was found for its time. */
static bool copy_point(const struct pen_setting *setting,
                       const struct pen_plan_found *from,
                       struct pen_plan_found *out)
{
    struct pen_plan *plan = NULL;
    *out = (struct pen_plan_found){.candidate = from->candidate,
                                   .value = from->prediction.step_sec,
                                   .is_cut_short = from->is_cut_short};
    if (pen_candidate_plan(setting, &from->candidate, &plan, NULL) != PEN_OK)
        return false;
    memcpy(plan->stages, from->plan->stages,
           plan->num_stages * sizeof *plan->stages);
    out->plan = plan;
    if (pen_predict(setting, plan, &out->prediction, NULL) == PEN_OK &&
        pen_prediction_store(&out->prediction, plan))
        return true;
    release_found(out);
    return false;
}

#define FRONT_STEP 0.93 /* of the memory of the point before */

/* The most memory that the next point may have. */
static uint64_t next_limit(const struct pen_plan_ranking *all)
{
    const struct pen_plan_found *last = &all->found[all->num_found - 1];
    return (uint64_t)((double)last->prediction.peak_bytes * FRONT_STEP);
}

pen_status pen_plan_search_front(const struct pen_setting *setting,
                                 const struct pen_plan_search_options *options,
                                 const struct pen_plan_found *first,
                                 struct pen_plan_ranking **out,
                                 struct pen_text *why)
{
    struct pen_plan_ranking *all = NULL;
    struct pen_setting limited = *setting;
    struct pen_plan_search_options single = *options;
    single.top = 1;
    pen_status status = start_ranking(options->top, &all, why);
    if (status == PEN_OK && first != NULL &&
        copy_point(setting, first, &all->found[0])) {
        all->num_found = 1;
        limited.memory_limit = next_limit(all);
    }
    while (status == PEN_OK && all->num_found < options->top) {
        struct pen_plan_ranking *one = NULL;
        status = pen_plan_search(&limited, &single, &one, why);
        if (status != PEN_OK)
            break;
        drop_slower(all, &one->found[0]);
        append_best(all, one);
        pen_plan_ranking_free(one);
        limited.memory_limit = next_limit(all);
    }
    if (all != NULL && all->num_found > 0) {
        *out = all;
        return PEN_OK;
    }
    pen_plan_ranking_free(all);
    return status;
}
