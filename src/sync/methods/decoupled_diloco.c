/*
 * Decoupled DiLoCo: DiLoCo whose rounds do not wait for every replica. A round
 * closes when a quorum of replicas has come and a grace window is over
 * (sync/rounds.h). With the contributors C of a round, each of which has moved
 * from weights b_i to x_i,
 *
 *   D = sum_C(w_i (b_i - x_i)) / sum_C(w_i)       w_i: tokens it saw for that
 *   v <- mu v + D        theta <- theta - lr (D + mu v)        x_i <- theta
 *
 * added in the order of replicas (sync/merge.h). A replica that comes when its
 * round is closed is late: with late=0 its change is folded into the next
 * round, and it continues from theta at once; with late=1 the change is
 * discarded, and the replica waits for the next round, so that it is in time
 * from there on.
 *
 * The weight in the paper is tokens times tokens per step. Replicas of one job
 * have equal batches: both are proportional to the steps, which count here.
 * Merging directions and lengths apart, and fragments, which the paper has too,
 * are left out. Not confirmed are the standard grace window and its bounds.
 *
 * With all replicas as the quorum, as is standard within one job, no replica is
 * late, and it is DiLoCo, bit for bit. With fewer, what is computed depends on
 * the speeds of replicas. A change that is late at the end of the run is lost.
 */
#include "base/clock.h"
#include "sync/merge.h"
#include "sync/outer.h"
#include "sync/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUORUM, GRACE, SHORTEST, LONGEST, LATE, LR, MOMENTUM };

static const struct pen_sync_option options[] = {
    [QUORUM] = {"quorum", 0, 0, 1e6, true,
                "replicas in time that close a round; 0: all of them"},
    [GRACE] = {"grace", 0.1, 0, 10, false,
               "wait for further replicas, in median rounds"},
    [SHORTEST] = {"shortest", 0, 0, 1e6, false,
                  "shortest wait for further replicas, seconds"},
    [LONGEST] = {"longest", 60, 0, 1e6, false,
                 "longest wait for further replicas, seconds"},
    [LATE] = {"late", 0, 0, 1, true,
              "late changes: 0: fold into the next round, 1: discard"},
    [LR] = {"lr", 0.7, 0, 10, false, "outer learning rate"},
    [MOMENTUM] = {"momentum", 0.9, 0, 0.9999, false, "outer momentum"},
};

struct pen_sync {
    struct pen_sync_setting setting; /* with merges as the mean */
    struct pen_outer outer;          /* of one part */

    /* Where some may be late; NULL: all are in every round. */
    struct pen_rounds *rounds;
    float *base;    /* b_i */
    float *pending; /* what waits for a round */
    float *counts;  /* per tensor, all alike: steps of what waits, and rounds
                       since b_i */
    size_t *firsts;
    uint64_t num_rounds; /* that have ended here */
    bool is_in_round;
    bool is_released;
    bool has_to_post; /* the leader does not know of what waits */
    bool has_all_left;
    bool is_gone;
};

enum { STEPS, MISSED, NUM_COUNTS };

static bool is_partial(const double *values, uint32_t num_replicas)
{
    return values[QUORUM] > 0 && values[QUORUM] < num_replicas;
}

/*
 * With a quorum below all replicas, a word to the leader and one from it are
 * sent in addition, if no replica is late.
 */
static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    struct pen_mean_cost merge = {0};
    (void)mean;
    pen_average_cost(&pen_merging, of, &merge);
    pen_outer_cost(of, &merge, out);
    if (!is_partial(of->options, of->num_replicas))
        return;
    double others = of->num_replicas - 1.0;
    out->bytes += 2 * others / of->num_replicas * PEN_ROUNDS_BYTES;
    out->is_estimate = true;
    out->legs += 2;
    out->extra += 2 * of->num_weights * sizeof(float);
    out->staleness = INFINITY;
    out->waits_for_slowest = false;
}

static bool is_free(const struct pen_sync_values *values, uint32_t num_replicas)
{
    return is_partial(values->at, num_replicas);
}

/* ---- making ---- */

static void release(struct pen_sync *sync)
{
    pen_outer_release(&sync->outer);
    pen_rounds_free(sync->rounds);
    free(sync->base);
    free(sync->pending);
    free(sync->counts);
    free(sync->firsts);
}

static pen_status make_rounds(struct pen_sync *sync)
{
    const double *at = sync->setting.options.at;
    const struct pen_rounds_options rules = {.peers = sync->setting.peers,
                                             .channel = PEN_COLLECTIVE_CHANNELS,
                                             .quorum = (uint32_t)at[QUORUM],
                                             .grace = at[GRACE],
                                             .shortest_sec = at[SHORTEST],
                                             .longest_sec = at[LONGEST]};
    size_t num_tensors = sync->setting.num_tensors;
    sync->base = pen_sync_vector(&sync->setting);
    sync->pending = pen_sync_vector(&sync->setting);
    sync->counts = calloc(NUM_COUNTS * num_tensors + NUM_COUNTS, sizeof(float));
    sync->firsts = calloc(num_tensors + 1, sizeof *sync->firsts);
    if (sync->base == NULL || sync->pending == NULL || sync->counts == NULL ||
        sync->firsts == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i <= num_tensors; i++)
        sync->firsts[i] = NUM_COUNTS * i;
    pen_sync_read_weights(&sync->setting, sync->base);
    return pen_rounds_create(&rules, &sync->rounds);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    const double *at = setting->options.at;
    sync->setting = *setting;
    sync->setting.compressor = &pen_merging;
    pen_status status = pen_outer_init(&sync->outer, &sync->setting, 1, at[LR],
                                       at[MOMENTUM], why);
    if (status == PEN_OK && is_partial(at, setting->peers->size))
        status = make_rounds(sync);
    return status;
}

static size_t bytes(const struct pen_sync *sync)
{
    size_t vectors = sync->rounds == NULL ? 0 : 2;
    return pen_outer_bytes(&sync->outer) +
           vectors * sync->setting.count * sizeof(float);
}

/* ---- rounds ---- */

static float get(const struct pen_sync *sync, int which)
{
    return sync->counts[which];
}

static void set(struct pen_sync *sync, int which, float value)
{
    for (size_t i = 0; i <= sync->setting.num_tensors; i++)
        sync->counts[NUM_COUNTS * i + (size_t)which] = value;
}

static void begin_round(struct pen_sync *sync)
{
    struct pen_average *average = sync->outer.parts[0].average;
    size_t length = sync->setting.count * sizeof(float);
    sync->is_in_round = true;
    sync->has_to_post = false;
    memcpy(sync->outer.moved, sync->pending, length);
    if (average != NULL)
        pen_merging_weigh(average, (double)get(sync, STEPS));
    set(sync, STEPS, 0);
    pen_outer_send(&sync->outer, 0, sync->num_rounds + 1);
}

static void end_round(struct pen_sync *sync)
{
    pen_outer_step(&sync->outer, 0);
    sync->is_in_round = false;
    sync->num_rounds++;
    set(sync, MISSED, get(sync, MISSED) + 1);
    pen_rounds_end(sync->rounds);
}

static void go_on(struct pen_sync *sync)
{
    if (sync->setting.peers->has_lost)
        return;
    if (!sync->is_in_round)
        switch (pen_rounds_poll(sync->rounds)) {
        case PEN_ROUNDS_NOTHING:
            break;
        case PEN_ROUNDS_BEGIN:
            begin_round(sync);
            break;
        case PEN_ROUNDS_RELEASED:
            sync->is_released = true;
            break;
        case PEN_ROUNDS_LEFT:
            sync->has_all_left = true;
            break;
        }
    if (sync->is_in_round && pen_outer_has_come(&sync->outer, 0))
        end_round(sync);
}

/*
 * Waits. A grace window ends without a message, so this looks at the clock,
 * too.
 */
static void wait_until(struct pen_sync *sync, bool (*is_done)(void *context))
{
    const int64_t second_ns = 1000000000;
    while (pen_group_wait_until(sync->setting.peers, is_done, sync,
                                pen_clock_ns() + second_ns) == PEN_BUSY)
        continue;
}

static bool is_between_rounds(void *context)
{
    struct pen_sync *sync = context;
    go_on(sync);
    return !sync->is_in_round;
}

/* Adds this replica's move to the change that waits. */
static void add_change(struct pen_sync *sync)
{
    bool is_first = get(sync, STEPS) == 0;
    for (size_t i = 0; i < sync->setting.num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &sync->setting.tensors[i];
        const float *base = sync->base + tensor->first;
        float *pending = sync->pending + tensor->first;
        for (size_t k = 0; k < tensor->count; k++) {
            float moved = base[k] - tensor->value[k];
            pending[k] = is_first ? moved : pending[k] + moved;
        }
    }
    set(sync, STEPS, get(sync, STEPS) + (float)sync->setting.interval);
}

static bool is_over(void *context)
{
    struct pen_sync *sync = context;
    go_on(sync);
    return get(sync, MISSED) > 0 || sync->is_released;
}

static void wait_for_round(struct pen_sync *sync, enum pen_rounds_post post)
{
    set(sync, MISSED, 0);
    sync->is_released = false;
    pen_rounds_post(sync->rounds, post);
    wait_until(sync, is_over);
}

static void take_weights(struct pen_sync *sync)
{
    memcpy(sync->base, sync->outer.theta, sync->setting.count * sizeof(float));
    pen_sync_write_weights(&sync->setting, sync->base);
    set(sync, MISSED, 0);
}

/* Announces again a change that waited when all others had left. */
static void return_to_rounds(struct pen_sync *sync)
{
    if (sync->has_to_post)
        pen_rounds_post(sync->rounds, PEN_ROUNDS_GIVE);
    sync->has_to_post = false;
}

static void arrive(struct pen_sync *sync)
{
    bool discards = sync->setting.options.at[LATE] > 0;
    return_to_rounds(sync);
    wait_until(sync, is_between_rounds);
    bool is_late = get(sync, MISSED) > 0;
    if (!is_late || !discards)
        add_change(sync);
    if (!is_late)
        wait_for_round(sync, PEN_ROUNDS_GIVE_AND_WAIT);
    else if (discards)
        wait_for_round(sync, PEN_ROUNDS_WAIT);
    else
        pen_rounds_post(sync->rounds, PEN_ROUNDS_GIVE);
    take_weights(sync);
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    if (!pen_sync_is_due(at, sync->setting.interval))
        return;
    if (sync->rounds != NULL) {
        arrive(sync);
        return;
    }
    pen_outer_start(&sync->outer, 0, at->step);
    pen_outer_apply(&sync->outer, 0, 0);
}

static void poll(struct pen_sync *sync)
{
    if (sync->rounds == NULL || sync->is_gone)
        return;
    return_to_rounds(sync);
    go_on(sync);
}

/* ---- what others ask ---- */

static bool have_all_left(void *context)
{
    struct pen_sync *sync = context;
    if (!sync->has_all_left)
        go_on(sync);
    return sync->has_all_left && pen_rounds_are_quiet(sync->rounds);
}

static void settle(struct pen_sync *sync)
{
    if (sync->rounds == NULL)
        return;
    sync->has_all_left = false;
    wait_until(sync, is_between_rounds);
    pen_rounds_post(sync->rounds, PEN_ROUNDS_LEAVE);
    wait_until(sync, have_all_left);
    sync->has_to_post = get(sync, STEPS) > 0;
}

static void leave(struct pen_sync *sync)
{
    settle(sync);
    sync->is_gone = true;
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting.count;
    pen_outer_states(&sync->outer, out);
    if (sync->rounds == NULL)
        return;
    struct pen_sync_state counts = {.name = "counts",
                                    .kind = PEN_STATE_PER_TENSOR,
                                    .floats = sync->counts,
                                    .firsts = sync->firsts,
                                    .count =
                                        NUM_COUNTS * sync->setting.num_tensors};
    pen_sync_states_add_vector(out, "base", false, sync->base, count);
    pen_sync_states_add_vector(out, "pending", false, sync->pending, count);
    pen_sync_states_add(out, &counts);
}

/* Tensors of other replicas of stages may have counted apart. */
static void restored(struct pen_sync *sync, uint64_t steps)
{
    (void)steps;
    if (sync->rounds == NULL)
        return;
    for (int which = 0; which < NUM_COUNTS; which++) {
        float most = 0;
        for (size_t i = 0; i < sync->setting.num_tensors; i++)
            most = fmaxf(most, sync->counts[NUM_COUNTS * i + (size_t)which]);
        set(sync, which, most);
    }
    sync->has_to_post = get(sync, STEPS) > 0;
}

static void consistent(struct pen_sync *sync, float *out)
{
    settle(sync);
    pen_outer_consistent(&sync->outer, out);
}

static void take(const struct pen_sync_values *values, bool are_changes,
                 const float *merged, size_t count, float *const *state)
{
    (void)are_changes;
    pen_outer_take((float)values->at[LR], (float)values->at[MOMENTUM], merged,
                   count, state[0], state[1]);
}

/*
 * Refuses options about lateness: between islands the coordinator decides which
 * island is in time.
 */
static const char *refuse(const struct pen_sync_values *values,
                          uint32_t interval)
{
    (void)interval;
    for (int i = QUORUM; i <= LATE; i++)
        if (values->at[i] < options[i].standard ||
            values->at[i] > options[i].standard)
            return "quorum, grace, shortest, longest and late are matters of "
                   "penstock ring coordinate";
    return NULL;
}

static const struct pen_sync_islands islands = {.num_vectors = 2, /* theta, v */
                                                .give = pen_outer_island_give,
                                                .take = take,
                                                .refuse = refuse};

const struct pen_sync_method pen_sync_decoupled_diloco = {
    .name = "decoupled-diloco",
    .title = "DiLoCo whose rounds close at a quorum, weighted by tokens",
    .paper = "Douillard et al., Decoupled DiLoCo for Resilient Distributed "
             "Pre-training, 2026, arXiv:2604.21428",
    .is = PEN_SYNC_ONLY_WHEN_DUE,
    .interval = 500,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .is_free = is_free,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .after_step = after_step,
    .poll = poll,
    .settle = settle,
    .states = states,
    .restored = restored,
    .consistent = consistent,
    .leave = leave,
    .islands = &islands,
};
