#include "runtime/islands.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/islands_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNEL = 0, FIRST = 0 };

#define MOST_SENT ((size_t)1 << 28) /* bytes of a message */

/* A tensor of a member, and where it is. */
struct piece {
    uint64_t key;
    uint64_t count;
    uint32_t member;
    uint32_t number; /* of that member's */
    size_t in_member;
    size_t in_whole;
};

/* What rank 0 says to the others. */
struct word {
    uint64_t status;
    struct pen_island_turn turn;
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    const struct pen_sync_islands *rules;
    const struct pen_island *island;
    struct pen_executor *executor;
    struct pen_island_turn turn;
    pen_status status;
    float *theta;  /* of this rank, as the vector */
    float *vector; /* under way */

    /* Rank 0, of all members; NULL on others. */
    struct piece *pieces; /* by key */
    size_t num_pieces;
    size_t *counts; /* floats of each member */
    float *part;    /* of one member */
    float *whole;
    size_t num_whole;
};

static bool is_first(const struct pen_sync *sync)
{
    return sync->setting->peers->self == FIRST;
}

pen_status pen__island_status(const struct pen_sync *sync)
{
    return sync->setting->peers->has_lost ? PEN_LOST : sync->status;
}

const struct pen_island_turn *pen__island_turn(const struct pen_sync *sync)
{
    return &sync->turn;
}

/* ---- making ---- */

static void release(struct pen_sync *sync)
{
    free(sync->theta);
    free(sync->vector);
    free(sync->pieces);
    free(sync->counts);
    free(sync->part);
    free(sync->whole);
    free(sync);
}

pen_status pen__island_create(const struct pen_sync_setting *setting,
                              const struct pen_sync_method *of,
                              const struct pen_island *island,
                              struct pen_executor *executor,
                              struct pen_sync **out)
{
    struct pen_sync *sync = calloc(1, sizeof *sync);
    if (sync == NULL)
        return PEN_NOMEM;
    sync->setting = setting;
    sync->rules = of->islands;
    sync->island = island;
    sync->executor = executor;
    sync->theta = pen_sync_vector(setting);
    sync->vector = pen_sync_vector(setting);
    if (sync->theta == NULL || sync->vector == NULL) {
        release(sync);
        return PEN_NOMEM;
    }
    pen_sync_read_weights(setting, sync->theta);
    *out = sync;
    return PEN_OK;
}

/* With what the ring holds on rank 0: states, contributions, and copies. */
static size_t bytes(const struct pen_sync *sync)
{
    size_t own = 2 * sync->setting->count;
    size_t ring = 4 + 3 * sync->rules->num_vectors + sync->island->count;
    for (int which = 0; which < 2 && sync->setting->num_tensors > 0; which++)
        if (sync->setting->tensors[0].moments[which] != NULL)
            own += sync->setting->count;
    if (is_first(sync))
        own += ring * sync->num_whole;
    return own * sizeof(float);
}

/* ---- between the ranks of the island ---- */

struct sending {
    struct pen_group *peers;
    struct pen_group_request request;
};

static bool has_arrived(void *context)
{
    struct sending *it = context;
    return pen_group_test(it->peers, &it->request) != PEN_BUSY;
}

static void send_to(struct pen_sync *sync, uint32_t to, const void *from,
                    size_t length)
{
    struct sending it = {.peers = sync->setting->peers};
    for (size_t at = 0; at < length; at += MOST_SENT) {
        size_t left = length - at;
        pen_group_send(it.peers, to, CHANNEL, (const char *)from + at,
                       left < MOST_SENT ? left : MOST_SENT, &it.request);
        pen_group_wait(it.peers, has_arrived, &it);
    }
}

static void receive_from(struct pen_sync *sync, uint32_t from, void *out,
                         size_t length)
{
    struct sending it = {.peers = sync->setting->peers};
    for (size_t at = 0; at < length; at += MOST_SENT) {
        size_t left = length - at;
        pen_group_receive(it.peers, from, CHANNEL, (char *)out + at,
                          left < MOST_SENT ? left : MOST_SENT, &it.request);
        pen_group_wait(it.peers, has_arrived, &it);
    }
}

/* Between the vector of a member and that of all. */
static void place(struct pen_sync *sync, uint32_t member, float *part,
                  bool is_out)
{
    for (size_t i = 0; i < sync->num_pieces; i++) {
        const struct piece *it = &sync->pieces[i];
        float *own = part + it->in_member;
        float *all = sync->whole + it->in_whole;
        if (it->member == member)
            memcpy(is_out ? own : all, is_out ? all : own,
                   it->count * sizeof *own);
    }
}

/* The first failure of a rank becomes that of all, on rank 0. */
static pen_status gather_status(struct pen_sync *sync, pen_status status)
{
    uint64_t word = status;
    if (!is_first(sync)) {
        send_to(sync, FIRST, &word, sizeof word);
        return status;
    }
    for (uint32_t k = 1; k < sync->setting->peers->size; k++) {
        receive_from(sync, k, &word, sizeof word);
        if (status == PEN_OK && pen__island_status(sync) != PEN_LOST)
            status = (pen_status)word;
    }
    return status;
}

static void gather(struct pen_sync *sync, float *vector)
{
    if (!is_first(sync)) {
        send_to(sync, FIRST, vector, sync->setting->count * sizeof *vector);
        return;
    }
    place(sync, FIRST, vector, false);
    for (uint32_t k = 1; k < sync->setting->peers->size; k++) {
        receive_from(sync, k, sync->part, sync->counts[k] * sizeof *sync->part);
        place(sync, k, sync->part, false);
    }
}

static void scatter(struct pen_sync *sync, float *vector)
{
    if (!is_first(sync)) {
        receive_from(sync, FIRST, vector,
                     sync->setting->count * sizeof *vector);
        return;
    }
    place(sync, FIRST, vector, true);
    for (uint32_t k = 1; k < sync->setting->peers->size; k++) {
        place(sync, k, sync->part, true);
        send_to(sync, k, sync->part, sync->counts[k] * sizeof *sync->part);
    }
}

/* ---- which rank has what ---- */

static int by_key(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->member != y->member)
        return x->member < y->member ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static struct piece *own_pieces(const struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    struct piece *list = calloc(setting->num_tensors + 1, sizeof *list);
    for (size_t i = 0; i < setting->num_tensors && list != NULL; i++)
        list[i] = (struct piece){.key = setting->tensors[i].key,
                                 .count = setting->tensors[i].count,
                                 .member = setting->peers->self,
                                 .number = (uint32_t)i,
                                 .in_member = setting->tensors[i].first};
    return list;
}

/* Room for what comes is made before the next rank may send. */
static pen_status take_pieces(struct pen_sync *sync, uint32_t from)
{
    uint64_t count = 0;
    receive_from(sync, from, &count, sizeof count);
    if (pen__island_status(sync) != PEN_OK)
        return pen__island_status(sync);
    struct piece *more = realloc(sync->pieces, (sync->num_pieces + count + 1) *
                                                   sizeof *sync->pieces);
    if (more == NULL)
        return PEN_NOMEM;
    sync->pieces = more;
    receive_from(sync, from, more + sync->num_pieces, count * sizeof *more);
    for (size_t i = 0; i < count; i++)
        sync->counts[from] += more[sync->num_pieces + i].count;
    sync->num_pieces += count;
    return pen__island_status(sync);
}

static pen_status lay_out(struct pen_sync *sync)
{
    size_t most = 0;
    qsort(sync->pieces, sync->num_pieces, sizeof *sync->pieces, by_key);
    for (size_t i = 0; i < sync->num_pieces; i++) {
        sync->pieces[i].in_whole = sync->num_whole;
        sync->num_whole += sync->pieces[i].count;
    }
    for (uint32_t k = 0; k < sync->setting->peers->size; k++)
        most = sync->counts[k] > most ? sync->counts[k] : most;
    sync->part = calloc(most + 1, sizeof *sync->part);
    sync->whole = calloc(sync->num_whole + 1, sizeof *sync->whole);
    return sync->part == NULL || sync->whole == NULL ? PEN_NOMEM : PEN_OK;
}

/* Rank 0 asks one after the other, and stops asking when it fails. */
static pen_status gather_pieces(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    uint64_t count = setting->num_tensors;
    struct piece *own = own_pieces(sync);
    if (!is_first(sync)) {
        count = own == NULL ? 0 : count;
        send_to(sync, FIRST, &count, sizeof count);
        send_to(sync, FIRST, own, count * sizeof *own);
        free(own);
        return own == NULL ? PEN_NOMEM : PEN_OK;
    }
    pen_status status = own == NULL ? PEN_NOMEM : PEN_OK;
    sync->pieces = own;
    sync->num_pieces = count;
    sync->counts = calloc(setting->peers->size, sizeof *sync->counts);
    if (sync->counts == NULL)
        return PEN_NOMEM;
    sync->counts[FIRST] = setting->count;
    for (uint32_t k = 1; k < setting->peers->size && status == PEN_OK; k++)
        status = take_pieces(sync, k);
    return status == PEN_OK ? lay_out(sync) : status;
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
    pen_status status =
        pen_executor_wait(sync->executor, has_turn, sync, PEN_OTHER_ISLANDS);
    if (status == PEN_OK)
        status =
            ring->take(ring->context, turn, sync->whole, sync->island->why);
    turn->waited_sec = 1e-9 * (double)(pen_clock_ns() - since);
    return status;
}

/* I1: those that it has at `steps`, where these are not the first of the turn,
 * give way to those that were kept. */
static void set_moments(struct pen_sync *sync, uint64_t steps)
{
    uint64_t first = sync->turn.first;
    if (sync->turn.is_over || (first == steps && steps > 0))
        return;
    if (pen__island_recall_moments(sync->setting, sync->island, first))
        return;
    pen__island_clear_moments(sync->setting);
    if (is_first(sync))
        pen_log(PEN_LOG_WARN,
                "the moments of the optimizer after step %" PRIu64
                " are not in %s: they begin at 0, so that the next rounds "
                "differ from those of a run without a loss",
                first, sync->island->folder);
}

/* I3. `steps` are done here. */
static void take_turn(struct pen_sync *sync, uint64_t steps, pen_status status)
{
    struct word word = {.status = status};
    if (is_first(sync)) {
        if (status == PEN_OK)
            word.status = ask(sync, &word.turn);
        for (uint32_t k = 1; k < sync->setting->peers->size; k++)
            send_to(sync, k, &word, sizeof word);
    } else {
        receive_from(sync, FIRST, &word, sizeof word);
    }
    if (sync->setting->peers->has_lost)
        return;
    sync->status = (pen_status)word.status;
    sync->turn.is_ending = word.turn.is_ending;
    if (sync->status != PEN_OK || word.turn.is_ending)
        return;
    sync->turn = word.turn;
    scatter(sync, sync->theta);
    set_moments(sync, steps);
    pen_sync_write_weights(sync->setting, sync->theta);
}

/* Behind the start, or behind a load: all ranks come here together. */
static void restored(struct pen_sync *sync, uint64_t steps)
{
    const struct pen_island_ring *ring = sync->island->ring;
    pen_status status = gather_pieces(sync);
    status = gather_status(sync, status);
    uint64_t word = status;
    for (uint32_t k = 1; k < sync->setting->peers->size; k++)
        if (is_first(sync))
            send_to(sync, k, &word, sizeof word);
    if (!is_first(sync))
        receive_from(sync, FIRST, &word, sizeof word);
    sync->status = (pen_status)word;
    if (pen__island_status(sync) != PEN_OK)
        return;
    gather(sync, sync->theta);
    if (is_first(sync))
        status = ring->open(ring->context, sync->whole, sync->num_whole,
                            sync->island->why);
    take_turn(sync, steps, status);
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    const struct pen_island_ring *ring = sync->island->ring;
    if (!pen_sync_is_due(at, setting->interval) || sync->turn.is_ending)
        return;
    pen_sync_read_weights(setting, sync->vector);
    sync->rules->give(sync->theta, sync->vector, setting->count, sync->vector);
    gather(sync, sync->vector);
    pen_status status = gather_status(
        sync, pen__island_keep_moments(setting, sync->island, at->step,
                                       sync->island->why)); /* I2 */
    if (is_first(sync) && status == PEN_OK && !setting->peers->has_lost)
        ring->offer(ring->context, &sync->turn, sync->whole);
    take_turn(sync, at->step, status);
}

/* ---- what others ask ---- */

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    pen_sync_states_add_vector(out, "theta", true, sync->theta,
                               sync->setting->count);
}

static void consistent(struct pen_sync *sync, float *out)
{
    memcpy(out, sync->theta, sync->setting->count * sizeof *out);
}

struct pen_sync_method pen__island_method(const struct pen_sync_method *of)
{
    return (struct pen_sync_method){.name = of->name,
                                    .title = of->title,
                                    .paper = of->paper,
                                    .is = PEN_SYNC_ONLY_WHEN_DUE,
                                    .interval = of->interval,
                                    .options = of->options,
                                    .num_options = of->num_options,
                                    .cost = of->cost,
                                    .free = release,
                                    .bytes = bytes,
                                    .after_step = after_step,
                                    .states = states,
                                    .restored = restored,
                                    .consistent = consistent,
                                    .islands = of->islands};
}
