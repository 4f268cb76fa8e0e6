#include "runtime/islands.h"

#include "base/clock.h"
#include "base/log.h"
#include "group/sum.h"
#include "runtime/island_ranks.h"
#include "runtime/islands_internal.h"
#include "sync/islands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOMENTS = 2 };

/* The message of rank 0 to the others. */
struct word {
    uint64_t status;
    struct pen_island_turn turn;
};

struct pen_sync {
    struct pen__island_facts facts;
    const struct pen_sync_setting *setting;
    const struct pen_sync_islands *rules;
    const struct pen_island *island;
    struct pen__island_ranks ranks;
    struct pen_sync_island view; /* for the method */
    struct pen__island_kept kept;
    struct pen_sync_states states;
    struct pen_island_turn turn;
    uint64_t position;
    uint64_t given_at; /* steps done when it gave for the turn; 0: not yet */
    bool has_moved;    /* the turn begins elsewhere than the last one ended */
    pen_status status;
    float *vector;       /* under way */
    float *waiting;      /* with is_folding */
    uint32_t *fragments; /* of each tensor */

    /* Rank 0; NULL on others. */
    struct pen_islands *rounds;
    float *whole; /* all weights, and the moments that are shared */
    void *given;
};

pen_status pen__island_status(const struct pen_sync *sync)
{
    return sync->setting->peers->has_lost ? PEN_LOST : sync->status;
}

const struct pen_island_turn *pen__island_turn(const struct pen_sync *sync)
{
    return &sync->turn;
}

uint64_t pen__island_position(const struct pen_sync *sync)
{
    return sync->position;
}

static uint32_t delay_of(const struct pen_sync *sync)
{
    return pen_islands_delay(sync->facts.choice);
}

static bool is_first(const struct pen_sync *sync)
{
    return pen__island_is_first(&sync->ranks);
}

/* ---- making ---- */

static void release(struct pen_sync *sync)
{
    pen__island_ranks_release(&sync->ranks);
    pen_islands_free(sync->rounds);
    free(sync->view.theta);
    for (uint32_t i = 0; i < sync->rules->num_own; i++)
        free(sync->view.own[i]);
    free(sync->vector);
    free(sync->waiting);
    free(sync->fragments);
    free(sync->whole);
    free(sync->given);
}

static bool make_vectors(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    bool is_made = true;
    sync->view.theta = pen_sync_vector(setting);
    sync->vector = pen_sync_vector(setting);
    sync->fragments = calloc(setting->num_tensors + 1, sizeof *sync->fragments);
    for (uint32_t i = 0; i < sync->rules->num_own; i++) {
        sync->view.own[i] = pen_sync_vector(setting);
        is_made = is_made && sync->view.own[i] != NULL;
    }
    if (sync->island->is_folding) {
        sync->waiting = pen_sync_vector(setting);
        is_made = is_made && sync->waiting != NULL;
    }
    return is_made && sync->view.theta != NULL && sync->vector != NULL &&
           sync->fragments != NULL;
}

pen_status pen__island_create(const struct pen__island_facts *facts,
                              struct pen_sync **out)
{
    struct pen_sync *sync = calloc(1, sizeof *sync);
    if (sync == NULL)
        return PEN_NOMEM;
    sync->facts = *facts;
    sync->setting = facts->setting;
    sync->rules = facts->choice->method->islands;
    sync->island = facts->island;
    sync->ranks.setting = facts->setting;
    sync->view =
        (struct pen_sync_island){.setting = facts->setting,
                                 .number = facts->island->number,
                                 .count = facts->island->count,
                                 .gives_changes = pen_islands_gives_changes(
                                     facts->choice, facts->island->is_folding)};
    if (!make_vectors(sync)) {
        release(sync);
        free(sync);
        return PEN_NOMEM;
    }
    sync->kept =
        (struct pen__island_kept){.setting = facts->setting,
                                  .folder = facts->island->folder,
                                  .has_weights = sync->rules->keeps_weights,
                                  .own = sync->view.own,
                                  .num_own = sync->rules->num_kept,
                                  .waiting = sync->waiting};
    pen_sync_read_weights(sync->setting, sync->view.theta);
    *out = sync;
    return PEN_OK;
}

/* Rank 0: what all islands have in common. */
static struct pen_islands_model model_of(const struct pen_sync *sync)
{
    return (struct pen_islands_model){.choice = sync->facts.choice,
                                      .tensors = sync->ranks.tensors,
                                      .num_tensors = sync->ranks.num_tensors,
                                      .count = sync->ranks.num_whole,
                                      .num_moments = sync->facts.num_moments,
                                      .is_folding = sync->island->is_folding,
                                      .seed = sync->setting->seed,
                                      .epoch_steps =
                                          sync->setting->epoch_steps};
}

static pen_status make_rounds(struct pen_sync *sync)
{
    const struct pen_islands_model model = model_of(sync);
    pen_status status =
        pen_islands_create(&model, &sync->rounds, sync->island->why);
    if (status != PEN_OK)
        return status;
    pen_islands_states(sync->rounds, &sync->states);
    sync->kept.states = &sync->states;
    sync->whole =
        calloc(pen_islands_shared(sync->rounds) + 1, sizeof *sync->whole);
    sync->given = calloc(1, pen_islands_most(sync->rounds) + 1);
    return sync->whole == NULL || sync->given == NULL ? PEN_NOMEM : PEN_OK;
}

/* Shares the fragments of tensors, as numbers in place of their weights. */
static void share_fragments(struct pen_sync *sync)
{
    const struct pen_islands_model model = model_of(sync);
    for (size_t i = 0; i < sync->ranks.num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &sync->ranks.tensors[i];
        uint32_t fragment = pen_islands_fragment_of(&model, tensor);
        for (size_t k = 0; k < tensor->count; k++)
            sync->whole[tensor->first + k] = (float)fragment;
    }
    pen__island_scatter(&sync->ranks, sync->whole, sync->vector);
    for (size_t i = 0; i < sync->setting->num_tensors; i++)
        sync->fragments[i] =
            (uint32_t)sync->vector[sync->setting->tensors[i].first];
}

/* ---- memory ---- */

/* Contributions on rank 0: of all islands, of the trainer, and for the ring. */
static size_t given_bytes(const struct pen_sync *sync)
{
    return (sync->island->count + 2) * pen_islands_most(sync->rounds);
}

/* Bytes in use only between rounds: the kept state, and on rank 0 later the
 * next state, or a contribution that is put together. */
static size_t passing_bytes(const struct pen_sync *sync)
{
    size_t most = pen__island_kept_bytes(&sync->kept);
    if (sync->rounds == NULL)
        return most;
    size_t state = pen_islands_state(sync->rounds) * sizeof(float);
    size_t given = pen_islands_most(sync->rounds);
    most = most > state ? most : state;
    return most > given ? most : given;
}

/*
 * Rank 0 has, in addition to the initial theta, the sum of the ring and the
 * compressor of the trainer: states, of the ring and for the trainer; and
 * contributions.
 */
static size_t ring_bytes(const struct pen_sync *sync)
{
    size_t whole = sync->ranks.num_whole * sizeof(float);
    size_t state = pen_islands_state(sync->rounds) * sizeof(float);
    size_t shared = pen_islands_shared(sync->rounds) * sizeof(float);
    return 2 * state + shared + given_bytes(sync) + whole +
           pen_islands_bytes(sync->rounds);
}

static size_t bytes(const struct pen_sync *sync)
{
    size_t vectors = 2 + sync->rules->num_own + (sync->waiting != NULL);
    size_t own = vectors * sync->setting->count * sizeof(float) +
                 pen__island_ranks_bytes(&sync->ranks);
    if (sync->rounds != NULL)
        own += ring_bytes(sync);
    return own + passing_bytes(sync);
}

/* The bytes of passing_bytes(), and those that come with the first rounds. */
static size_t coming(const struct pen_sync *sync)
{
    size_t coming = passing_bytes(sync);
    if (sync->rounds == NULL)
        return coming;
    if (sync->turn.round == 1)
        coming += 2 * pen_islands_state(sync->rounds) * sizeof(float);
    return coming + given_bytes(sync) + pen_islands_bytes(sync->rounds);
}

/* ---- turns ---- */

static bool has_turn(void *context)
{
    const struct pen_sync *sync = context;
    const struct pen_island_ring *ring = sync->island->ring;
    return ring->has_turn(ring->context);
}

static pen_status ask(struct pen_sync *sync, struct pen_island_turn *turn)
{
    const struct pen_island_ring *ring = sync->island->ring;
    int64_t since = pen_clock_ns();
    pen_status status = pen_executor_wait(sync->facts.executor, has_turn, sync,
                                          PEN_OTHER_ISLANDS);
    if (status == PEN_OK)
        status =
            ring->take(ring->context, turn, sync->whole, sync->island->why);
    turn->waited_sec = 1e-9 * (double)(pen_clock_ns() - since);
    return status;
}

static void warn_of_loss(const struct pen_sync *sync, uint64_t first)
{
    if (is_first(sync))
        pen_log(PEN_LOG_WARN,
                "the moments of the optimizer after step %" PRIu64
                " are not in %s: they begin at 0, so that the next rounds "
                "differ from those of a run without a loss",
                first, sync->island->folder);
}

/* Whether this island was in all rounds so far. */
static bool is_in_all(const struct pen_sync *sync, uint64_t first)
{
    return (first + delay_of(sync)) / sync->setting->interval ==
           sync->turn.round - 1;
}

/* Whether the last contribution was too late and waits for the next round. */
static bool folds(struct pen_sync *sync, const struct pen_island_turn *before)
{
    struct pen__island_moment at;
    const struct pen_island_turn *turn = &sync->turn;
    if (sync->waiting == NULL)
        return false;
    if (sync->given_at > 0 && turn->first == before->first &&
        turn->round > before->round)
        return true;
    if (!pen__island_recall_late(&sync->kept, turn->first, turn->round, &at))
        return false;
    sync->given_at = at.steps;
    return true;
}

/*
 * I1: the state after `steps` gives way to the kept one, where the turn begins
 * elsewhere. Sets the position.
 */
static void set_own(struct pen_sync *sync, const struct pen_island_turn *before,
                    uint64_t steps)
{
    uint64_t first = sync->turn.first;
    sync->has_moved = false;
    sync->position = sync->turn.is_over ? sync->setting->total_steps : steps;
    if (sync->turn.is_over)
        return;
    if (sync->given_at > 0 && first == sync->given_at &&
        (delay_of(sync) == 0 || sync->turn.round == before->round + 1)) {
        if (sync->waiting != NULL)
            memset(sync->waiting, 0, sync->setting->count * sizeof(float));
        return;
    }
    if (folds(sync, before)) {
        sync->position = sync->given_at;
        return;
    }
    sync->position = first;
    sync->has_moved = true;
    bool is_there = pen__island_recall(&sync->kept, first);
    if (!is_there && (first != steps || sync->rules->keeps_weights)) {
        pen__island_clear(&sync->kept);
        warn_of_loss(sync, first);
    }
    if (sync->rules->keeps_weights &&
        (!is_there || first == 0 ||
         (delay_of(sync) > 0 && !is_in_all(sync, first))))
        pen_sync_write_weights(sync->setting, sync->view.theta);
}

/* On rank 0, where the mean of a moment is; NULL on others. */
static float *mean_of(const struct pen_sync *sync, int which)
{
    return sync->rounds == NULL
               ? NULL
               : sync->whole + pen_islands_moment(sync->rounds, which);
}

static void set_moment(struct pen_sync *sync, int which)
{
    pen__island_scatter(&sync->ranks, mean_of(sync, which), sync->vector);
    for (size_t i = 0; i < sync->setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &sync->setting->tensors[i];
        memcpy(it->moments[which], sync->vector + it->first,
               it->count * sizeof(float));
    }
}

static bool has_moment(const struct pen_sync *sync, int which, uint64_t round)
{
    return which < (int)sync->facts.num_moments &&
           pen_islands_shares_moment(sync->facts.choice, which, round);
}

/* Sets the weights by the new theta, where the steps of a round end. */
static void set_weights(struct pen_sync *sync)
{
    uint64_t committed = sync->turn.round - 1;
    uint32_t fragment = pen_islands_fragment(sync->facts.choice, committed);
    if (!sync->rules->keeps_weights)
        pen_sync_write_weights(sync->setting, sync->view.theta);
    for (size_t i = 0; sync->rules->mix != NULL && committed > 0 &&
                       i < sync->setting->num_tensors;
         i++) {
        const struct pen_sync_tensor *it = &sync->setting->tensors[i];
        if (sync->fragments[i] == fragment)
            sync->rules->mix(&sync->setting->options,
                             sync->view.theta + it->first, it->count,
                             it->value);
    }
}

/* Takes the next turn on all ranks (I3), after `steps` steps. */
static void take_turn(struct pen_sync *sync, uint64_t steps, pen_status status)
{
    struct pen_island_turn before = sync->turn;
    struct word word = {.status = status};
    if (is_first(sync) && status == PEN_OK)
        word.status = ask(sync, &word.turn);
    pen__island_share(&sync->ranks, &word, sizeof word);
    if (sync->setting->peers->has_lost)
        return;
    sync->status = (pen_status)word.status;
    sync->turn.is_ending = word.turn.is_ending;
    if (sync->status != PEN_OK || word.turn.is_ending)
        return;
    sync->turn = word.turn;
    pen__island_scatter(&sync->ranks, sync->whole, sync->view.theta);
    set_own(sync, &before, steps);
    for (int which = 0; which < MOMENTS; which++)
        if (has_moment(sync, which, sync->turn.round - 1))
            set_moment(sync, which);
    sync->given_at = 0;
}

static void begin(struct pen_sync *sync)
{
    if (delay_of(sync) == 0 || !sync->has_moved)
        set_weights(sync);
    if (sync->rules->begin != NULL)
        sync->rules->begin(&sync->view);
}

/* ---- giving ---- */

static void gather(struct pen_sync *sync, const struct pen_sync_step *at)
{
    sync->rules->give(&sync->view, at, sync->vector);
    if (sync->waiting != NULL) {
        pen_add_floats(sync->vector, sync->waiting, sync->setting->count);
        memcpy(sync->waiting, sync->vector,
               sync->setting->count * sizeof(float));
    }
    pen__island_gather(&sync->ranks, sync->vector, sync->whole);
    for (int which = 0; which < MOMENTS; which++) {
        if (!has_moment(sync, which, sync->turn.round))
            continue;
        for (size_t i = 0; i < sync->setting->num_tensors; i++) {
            const struct pen_sync_tensor *it = &sync->setting->tensors[i];
            memcpy(sync->vector + it->first, it->moments[which],
                   it->count * sizeof(float));
        }
        pen__island_gather(&sync->ranks, sync->vector, mean_of(sync, which));
    }
}

/* Offers a contribution after all ranks have kept their state (I2). */
static pen_status give(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_island_ring *ring = sync->island->ring;
    const struct pen__island_moment now = {at->step, sync->turn.first,
                                           sync->turn.round};
    gather(sync, at);
    if (is_first(sync) && !sync->setting->peers->has_lost)
        pen_islands_write(sync->rounds, sync->turn.round, sync->whole,
                          sync->given);
    pen_status status = pen__island_gather_status(
        &sync->ranks, pen__island_keep(&sync->kept, &now, sync->island->why));
    sync->turn.last = at->step;
    if (is_first(sync) && status == PEN_OK && !sync->setting->peers->has_lost)
        ring->offer(ring->context, &sync->turn, sync->given,
                    pen_islands_length(sync->rounds, sync->turn.round));
    sync->given_at = at->step;
    return status;
}

/* Offers at the end of a round, and takes the next turn. With a delay there are
 * steps between the two, and after a restart the turn may be there before. */
static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_step ahead = {at->step + delay_of(sync), 0};
    uint64_t interval = sync->setting->interval;
    if (sync->turn.is_ending)
        return;
    if (pen_sync_is_due(&ahead, interval))
        sync->status = give(sync, at);
    if (!pen_sync_is_due(at, interval))
        return;
    sync->position = at->step;
    sync->has_moved = false;
    if (sync->given_at > 0)
        take_turn(sync, at->step, sync->status);
    if (pen__island_status(sync) == PEN_OK && !sync->turn.is_ending)
        begin(sync);
}

/* After the start, or after a load: all ranks come here together. */
static void restored(struct pen_sync *sync, uint64_t steps)
{
    const struct pen_island_ring *ring = sync->island->ring;
    pen_status status = pen__island_ranks_init(&sync->ranks, sync->setting);
    if (status == PEN_OK && is_first(sync))
        status = make_rounds(sync);
    status = pen__island_gather_status(&sync->ranks, status);
    uint64_t word = status;
    pen__island_share(&sync->ranks, &word, sizeof word);
    sync->status = (pen_status)word;
    if (pen__island_status(sync) != PEN_OK)
        return;
    share_fragments(sync);
    pen__island_gather(&sync->ranks, sync->view.theta, sync->whole);
    if (is_first(sync)) {
        const struct pen_islands_model model = model_of(sync);
        status =
            ring->open(ring->context, &model, sync->whole, sync->island->why);
    }
    take_turn(sync, steps, status);
    if (pen__island_status(sync) == PEN_OK && !sync->turn.is_ending)
        begin(sync);
}

/* ---- what others ask ---- */

static void local_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    sync->rules->local_step(&sync->view, at);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    pen_sync_states_add_vector(out, "theta", true, sync->view.theta,
                               sync->setting->count);
}

static void consistent(struct pen_sync *sync, float *out)
{
    memcpy(out, sync->view.theta, sync->setting->count * sizeof *out);
}

struct pen_sync_method pen__island_method(const struct pen_sync_method *of)
{
    return (struct pen_sync_method){
        .name = of->name,
        .title = of->title,
        .paper = of->paper,
        .is = PEN_SYNC_ONLY_WHEN_DUE | (of->is & PEN_SYNC_OWN_STEP),
        .interval = of->interval,
        .options = of->options,
        .num_options = of->num_options,
        .cost = of->cost,
        .release = release,
        .bytes = bytes,
        .coming = coming,
        .local_step = of->islands->local_step != NULL ? local_step : NULL,
        .after_step = after_step,
        .states = states,
        .restored = restored,
        .consistent = consistent,
        .islands = of->islands};
}
