#include "cli/train/ring_member.h"

#include "base/bug.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WHOLE 1024 /* bytes of a contribution that travels as one */
#define LOOK_NS INT64_C(10000000) /* for something new in the box */

/* The header before the values of a contribution. */
struct head {
    char origin[PEN_HASH_SIZE + 7]; /* of round 1: hash of the weights that it
                                       began with; else empty */
};
_Static_assert(sizeof(struct head) % sizeof(float) == 0, "floats follow");

struct contribution {
    uint64_t round; /* 0: there is none */
    uint64_t first;
    uint64_t last;
    bool is_new;
    unsigned char *bytes;
    size_t length;
};

struct pen__ring_member {
    struct pen__ring_member_options options;
    struct pen_ring_member *ring; /* of the thread alone */
    struct pen_islands *rounds;   /* likewise */
    size_t count;
    float *theta; /* before the first round */
    char origin[PEN_HASH_SIZE];
    pthread_t thread;
    bool has_thread;

    /* The box between the two threads. */
    pthread_mutex_t lock;
    uint64_t wanted_round; /* 0: nothing is wanted yet */
    uint64_t wanted_first;
    uint64_t committed;
    float *state; /* after that round: theta first */
    uint64_t epoch;
    uint32_t num_islands; /* that are in it */
    struct contribution given;
    bool is_leaving;
    bool is_ending;
    bool has_ended;
    pen_status status;
    struct pen_text why;
};

static size_t state_bytes(const struct pen__ring_member *member)
{
    return pen_islands_state(member->rounds) * sizeof(float);
}

static size_t most_given(const struct pen__ring_member *member)
{
    return sizeof(struct head) + pen_islands_most(member->rounds);
}

/* ---- what the ring asks, in the thread of the member ---- */

static void train(void *context, uint64_t round, uint64_t first)
{
    struct pen__ring_member *member = context;
    pthread_mutex_lock(&member->lock);
    member->wanted_round = round;
    member->wanted_first = first;
    if (member->given.round == round && member->given.first == first)
        member->given.is_new = true; /* B2 */
    pthread_mutex_unlock(&member->lock);
}

static void commit(void *context, uint64_t round,
                   const struct pen_ring_bytes *state)
{
    struct pen__ring_member *member = context;
    if (state->length != state_bytes(member)) {
        pen_log(PEN_LOG_ERROR,
                "the state of round %" PRIu64 " has %zu bytes, not %zu", round,
                state->length, state_bytes(member));
        return;
    }
    pthread_mutex_lock(&member->lock);
    memcpy(member->state, state->bytes, state->length);
    member->committed = round;
    if (member->ring != NULL) { /* or it is not made yet */
        const struct pen_ring_record *record =
            pen_ring_member_record(member->ring);
        member->epoch = record->round_epoch;
        member->num_islands = pen_ring_count(record->contributors);
    }
    pthread_mutex_unlock(&member->lock);
}

/* Whether a contribution fits: all islands began with the same weights. */
static bool is_fit(const struct pen__ring_member *member,
                   const struct pen_ring_contribution *it, bool is_first_round)
{
    struct head head;
    if (it->length < sizeof head)
        return false;
    memcpy(&head, it->bytes, sizeof head);
    return !is_first_round ||
           strncmp(head.origin, member->origin, PEN_HASH_SIZE) == 0;
}

static pen_status add_up(const struct pen__ring_member *member,
                         const struct pen_ring_contributions *given,
                         float *next)
{
    struct pen_islands_contribution list[PEN_RING_ISLANDS];
    for (size_t i = 0; i < given->count; i++) {
        const struct pen_ring_contribution *it = &given->list[i];
        list[i] = (struct pen_islands_contribution){
            .island = it->island,
            .tokens = (double)it->tokens,
            .bytes = it->bytes + sizeof(struct head),
            .length = it->length - sizeof(struct head)};
    }
    pen_status status = pen_islands_take(member->rounds, given->round, list,
                                         (uint32_t)given->count, next);
    if (status != PEN_OK)
        pen_log(PEN_LOG_ERROR,
                "a contribution to round %" PRIu64 " is not what --sync of "
                "this island makes",
                given->round);
    return status;
}

static pen_status sum(void *context, const struct pen_ring_bytes *state,
                      const struct pen_ring_contributions *given,
                      struct pen_ring_bytes *out)
{
    const struct pen__ring_member *member = context;
    bool is_first_round = state->length == 0;
    if (!is_first_round && state->length != state_bytes(member))
        return PEN_DAMAGED;
    for (size_t i = 0; i < given->count; i++)
        if (!is_fit(member, &given->list[i], is_first_round)) {
            pen_log(PEN_LOG_ERROR,
                    "island %" PRIu32 " began with other weights than this "
                    "one: give all the same --model and --seed",
                    given->list[i].island);
            return PEN_INVALID;
        }
    float *next = calloc(1, state_bytes(member) + 1);
    if (next == NULL)
        return PEN_NOMEM;
    if (is_first_round)
        memcpy(next, member->theta, member->count * sizeof *next);
    else
        memcpy(next, state->bytes, state->length);
    pen_status status = add_up(member, given, next);
    if (status == PEN_OK)
        *out = (struct pen_ring_bytes){(uint8_t *)next, state_bytes(member)};
    else
        free(next);
    return status;
}

/* ---- the thread ---- */

/*
 * Offers a contribution; its bytes are copied before the ring may want another.
 */
static void offer_given(struct pen__ring_member *member)
{
    struct pen_ring_offer offer = {.num_fragments = 0};
    pthread_mutex_lock(&member->lock);
    uint64_t round = member->given.round;
    bool is_due = member->given.is_new && round == member->wanted_round &&
                  member->given.first == member->wanted_first;
    if (is_due) {
        member->given.is_new = false;
        offer.first = member->given.first;
        offer.last = member->given.last;
        offer.tokens = (offer.last - offer.first) * member->options.step_tokens;
        offer.num_fragments =
            member->given.length < MOST_WHOLE ? 1 : PEN_RING_FRAGMENTS;
    }
    pthread_mutex_unlock(&member->lock);
    if (!is_due)
        return;
    pen_status status = pen_ring_member_offer(
        member->ring, round, &offer, member->given.bytes, member->given.length);
    if (status != PEN_OK)
        pen_log(PEN_LOG_WARN, "round %" PRIu64 " cannot be offered: %s", round,
                pen_status_text(status));
}

static void explain_end(struct pen__ring_member *member)
{
    const struct pen_ring_record *record = pen_ring_member_record(member->ring);
    struct pen_ring_identity own;
    struct pen_text unused = PEN_TEXT_EMPTY;
    bool is_known =
        pen_ring_identify(member->options.ring.key, member->options.ring.keys,
                          NULL, &own, &unused) == PEN_OK;
    pen_text_release(&unused);
    pen_why(&member->why, "%s",
            is_known && pen_ring_has(record->revoked, own.number)
                ? "this island was evicted from the ring"
                : "another start of this island has taken its place in the "
                  "ring");
}

/* Takes a turn of the member; false: the thread ends. */
static bool turn(struct pen__ring_member *member, bool *is_told)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    offer_given(member);
    pthread_mutex_lock(&member->lock);
    bool is_leaving = member->is_leaving;
    bool is_ending = member->is_ending;
    pthread_mutex_unlock(&member->lock);
    if (is_ending)
        return false;
    if (is_leaving && !*is_told)
        pen_ring_member_leave(member->ring);
    *is_told = is_leaving;
    pen_status status =
        pen_ring_member_turn(member->ring, pen_clock_ns() + LOOK_NS, &why);
    bool has_ended = pen_ring_member_has_ended(member->ring) ||
                     (is_leaving && pen_ring_member_is_last(member->ring));
    pthread_mutex_lock(&member->lock);
    if (status != PEN_OK) {
        member->status = status;
        pen_why(&member->why, "%s", pen_text_string(&why));
    } else if (has_ended && !is_leaving) {
        explain_end(member);
    }
    member->has_ended = has_ended || status != PEN_OK;
    pthread_mutex_unlock(&member->lock);
    pen_text_release(&why);
    return status == PEN_OK && !has_ended;
}

static void *run(void *context)
{
    bool is_told = false;
    while (turn(context, &is_told))
        ;
    return NULL;
}

/*
 * Starts the thread with signals blocked: they are for the thread that trains.
 */
static pen_status start(struct pen__ring_member *member)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&member->thread, NULL, run, member);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    member->has_thread = error == 0;
    return error == 0 ? PEN_OK : PEN_NOMEM;
}

static pen_status prepare(struct pen__ring_member *member, const float *theta,
                          struct pen_text *why)
{
    struct pen_ring_member_options ring = member->options.ring;
    size_t bytes = member->count * sizeof *theta;
    member->theta = malloc(bytes + 1);
    member->state = malloc(state_bytes(member) + 1);
    member->given.bytes = malloc(most_given(member));
    if (member->theta == NULL || member->state == NULL ||
        member->given.bytes == NULL)
        return PEN_NOMEM;
    memcpy(member->theta, theta, bytes);
    ring.most_bytes = state_bytes(member) > most_given(member)
                          ? state_bytes(member)
                          : most_given(member);
    ring.context = member;
    ring.train = train;
    ring.sum = sum;
    ring.commit = commit;
    pen_status status = pen_hash_bytes(theta, bytes, member->origin, why);
    return status == PEN_OK ? pen_ring_member_create(&ring, &member->ring, why)
                            : status;
}

pen_status
pen__ring_member_create(const struct pen__ring_member_options *options,
                        const struct pen_islands_model *model,
                        const float *theta, struct pen__ring_member **out,
                        struct pen_text *why)
{
    struct pen__ring_member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return PEN_NOMEM;
    member->options = *options;
    member->count = model->count;
    pthread_mutex_init(&member->lock, NULL);
    pen_status status = pen_islands_create(model, &member->rounds, why);
    if (status == PEN_OK)
        status = prepare(member, theta, why);
    if (status == PEN_OK)
        status = start(member);
    if (status == PEN_OK)
        *out = member;
    else
        pen__ring_member_free(member);
    return status;
}

void pen__ring_member_free(struct pen__ring_member *member)
{
    if (member == NULL)
        return;
    pthread_mutex_lock(&member->lock);
    member->is_ending = true;
    pthread_mutex_unlock(&member->lock);
    if (member->has_thread)
        pthread_join(member->thread, NULL);
    pen_ring_member_free(member->ring);
    pen_islands_free(member->rounds);
    pthread_mutex_destroy(&member->lock);
    pen_text_release(&member->why);
    free(member->theta);
    free(member->state);
    free(member->given.bytes);
    free(member);
}

/* ---- for the thread that trains ---- */

void pen__ring_member_offer(struct pen__ring_member *member,
                            const struct pen_island_turn *of, const void *bytes,
                            size_t length)
{
    struct head head = {.origin = ""};
    if (of->round == 1)
        memcpy(head.origin, member->origin, sizeof member->origin);
    pthread_mutex_lock(&member->lock);
    member->given.round = of->round;
    member->given.first = of->first;
    member->given.last = of->last;
    member->given.is_new = true;
    member->given.length = sizeof head + length;
    memcpy(member->given.bytes, &head, sizeof head);
    memcpy(member->given.bytes + sizeof head, bytes, length);
    pthread_mutex_unlock(&member->lock);
}

static bool is_over(const struct pen__ring_member *member)
{
    return member->committed >= member->options.num_rounds;
}

bool pen__ring_member_has_turn(struct pen__ring_member *member)
{
    pthread_mutex_lock(&member->lock);
    bool is_wanted = member->wanted_round == member->committed + 1 && /* B1 */
                     (member->wanted_round != member->given.round ||
                      member->wanted_first != member->given.first);
    bool has_turn = is_wanted || is_over(member) || member->has_ended;
    pthread_mutex_unlock(&member->lock);
    return has_turn;
}

pen_status pen__ring_member_take(struct pen__ring_member *member,
                                 struct pen_island_turn *out, float *state,
                                 struct pen_text *why)
{
    pen_status status = PEN_OK;
    pthread_mutex_lock(&member->lock);
    *out = (struct pen_island_turn){.round = member->committed + 1,
                                    .first = member->wanted_first,
                                    .epoch = member->epoch,
                                    .num_islands = member->num_islands,
                                    .is_over = is_over(member)};
    if (!out->is_over && member->has_ended) {
        status = member->status == PEN_OK ? PEN_INVALID : member->status;
        pen_why(why, "%s", pen_text_string(&member->why));
    }
    size_t shared = pen_islands_shared(member->rounds) * sizeof *state;
    if (member->committed > 0) {
        memcpy(state, member->state, shared);
    } else {
        memset(state, 0, shared);
        memcpy(state, member->theta, member->count * sizeof *state);
    }
    pthread_mutex_unlock(&member->lock);
    return status;
}

bool pen__ring_member_has_left(struct pen__ring_member *member)
{
    pthread_mutex_lock(&member->lock);
    member->is_leaving = true;
    bool has_ended = member->has_ended;
    pthread_mutex_unlock(&member->lock);
    return has_ended;
}
