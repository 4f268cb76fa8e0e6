#include "sync/rounds.h"

#include "base/bug.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TO_LEADER, FROM_LEADER }; /* channels */

enum { LEADER = 0, MOST_PAST = 9 };

struct word {
    uint64_t what;  /* a post, or an event */
    uint64_t begun; /* rounds that the sender has begun */
};

_Static_assert(sizeof(struct word) == PEN_ROUNDS_BYTES, "as documented");

/* A member as the leader sees it. */
struct follower {
    struct word word; /* that is received */
    struct pen_group_request receive;
    struct pen_group_request send;
    bool is_heard; /* the receive is posted */
    bool gives;
    bool waits;
    bool has_left;
};

struct pen_rounds {
    struct pen_rounds_options options;
    uint64_t begun;
    bool is_running;

    /* A member. */
    struct word posted;
    struct pen_group_request send;
    struct word told;
    struct pen_group_request receive;
    bool is_heard;

    /* The leader; NULL on others. */
    struct follower *followers;
    struct word telling;
    int64_t quorum_ns; /* when there was one; 0: there is none */
    int64_t ended_ns;  /* the last round */
    double past[MOST_PAST];
    uint64_t num_past;
};

static bool is_leader(const struct pen_rounds *rounds)
{
    return rounds->options.peers->self == LEADER;
}

pen_status pen_rounds_create(const struct pen_rounds_options *options,
                             struct pen_rounds **out)
{
    struct pen_rounds *rounds = calloc(1, sizeof *rounds);
    if (rounds == NULL)
        return PEN_NOMEM;
    rounds->options = *options;
    rounds->ended_ns = pen_clock_ns();
    if (is_leader(rounds)) {
        rounds->followers =
            calloc(options->peers->size, sizeof *rounds->followers);
        if (rounds->followers == NULL) {
            free(rounds);
            return PEN_NOMEM;
        }
    }
    *out = rounds;
    return PEN_OK;
}

void pen_rounds_free(struct pen_rounds *rounds)
{
    if (rounds == NULL)
        return;
    free(rounds->followers);
    free(rounds);
}

/* ---- grace ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double pen_rounds_grace_sec(const struct pen_rounds_options *options,
                            const double *past, size_t count)
{
    double sorted[MOST_PAST], grace = 0;
    PEN_BUG_UNLESS(count <= MOST_PAST);
    memcpy(sorted, past, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    if (count > 0)
        grace =
            options->grace * (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    return fmax(options->shortest_sec, fmin(options->longest_sec, grace));
}

/* ---- the leader ---- */

/*
 * Applies a follower's word (rule 2). A word from before a round that has begun
 * is void: its change went into that round, for which a waiting follower now
 * waits.
 */
static void hear(struct pen_rounds *rounds, struct follower *follower)
{
    const struct word *word = &follower->word;
    follower->is_heard = false;
    if (word->what == PEN_ROUNDS_LEAVE) {
        follower->has_left = true;
        return;
    }
    if (word->begun < rounds->begun)
        return;
    follower->gives |= word->what != PEN_ROUNDS_WAIT;
    follower->waits |= word->what != PEN_ROUNDS_GIVE;
}

static void hear_all(struct pen_rounds *rounds)
{
    struct pen_group *peers = rounds->options.peers;
    for (uint32_t k = 0; k < peers->size; k++) {
        struct follower *it = &rounds->followers[k];
        if (k == LEADER)
            continue;
        if (it->is_heard && pen_group_test(peers, &it->receive) == PEN_OK)
            hear(rounds, it);
        if (!it->is_heard && !it->has_left) {
            it->is_heard = true;
            pen_group_receive(peers, k, rounds->options.channel + TO_LEADER,
                              &it->word, sizeof it->word, &it->receive);
        }
    }
}

struct counts {
    uint32_t in_time; /* give and wait */
    uint32_t give;
    uint32_t wait;
    uint32_t here; /* give, wait or have left */
    uint32_t left;
};

static struct counts tally(const struct pen_rounds *rounds)
{
    struct counts counts = {0};
    for (uint32_t k = 0; k < rounds->options.peers->size; k++) {
        const struct follower *it = &rounds->followers[k];
        counts.in_time += it->gives && it->waits;
        counts.give += it->gives;
        counts.wait += it->waits;
        counts.here += it->gives || it->waits || it->has_left;
        counts.left += it->has_left;
    }
    return counts;
}

static bool is_grace_over(struct pen_rounds *rounds)
{
    int64_t now = pen_clock_ns();
    uint64_t known =
        rounds->num_past < MOST_PAST ? rounds->num_past : MOST_PAST;
    if (rounds->quorum_ns == 0)
        rounds->quorum_ns = now;
    double grace =
        pen_rounds_grace_sec(&rounds->options, rounds->past, (size_t)known);
    return (double)(now - rounds->quorum_ns) * 1e-9 >= grace;
}

static enum pen_rounds_event decide(struct pen_rounds *rounds)
{
    struct counts counts = tally(rounds);
    uint32_t size = rounds->options.peers->size;
    bool are_here = counts.here == size;
    if (counts.in_time >= rounds->options.quorum &&
        (is_grace_over(rounds) || are_here))
        return PEN_ROUNDS_BEGIN;
    if (are_here && counts.wait > 0)
        return counts.give > 0 ? PEN_ROUNDS_BEGIN : PEN_ROUNDS_RELEASED;
    return counts.left == size ? PEN_ROUNDS_LEFT : PEN_ROUNDS_NOTHING;
}

static bool has_told(struct pen_rounds *rounds)
{
    bool is_done = true;
    for (uint32_t k = 0; k < rounds->options.peers->size; k++)
        if (pen_group_test(rounds->options.peers, &rounds->followers[k].send) !=
            PEN_OK)
            is_done = false;
    return is_done;
}

static void tell_all(struct pen_rounds *rounds, enum pen_rounds_event event)
{
    struct pen_group *peers = rounds->options.peers;
    rounds->telling = (struct word){event, rounds->begun};
    for (uint32_t k = 0; k < peers->size; k++) {
        struct follower *it = &rounds->followers[k];
        if (event != PEN_ROUNDS_RELEASED)
            it->gives = false;
        it->waits = false;
        if (event == PEN_ROUNDS_LEFT)
            it->has_left = false;
        if (k != LEADER)
            pen_group_send(peers, k, rounds->options.channel + FROM_LEADER,
                           &rounds->telling, sizeof rounds->telling, &it->send);
    }
}

/* Remembers how long it took until there was a quorum. */
static void remember(struct pen_rounds *rounds)
{
    int64_t until = rounds->quorum_ns > 0 ? rounds->quorum_ns : pen_clock_ns();
    rounds->past[rounds->num_past++ % MOST_PAST] =
        (double)(until - rounds->ended_ns) * 1e-9;
    rounds->quorum_ns = 0;
}

static enum pen_rounds_event lead(struct pen_rounds *rounds)
{
    if (!has_told(rounds))
        return PEN_ROUNDS_NOTHING;
    hear_all(rounds);
    enum pen_rounds_event event = decide(rounds);
    if (event != PEN_ROUNDS_NOTHING)
        tell_all(rounds, event);
    if (event == PEN_ROUNDS_BEGIN)
        remember(rounds);
    return event;
}

/* ---- members ---- */

static void listen(struct pen_rounds *rounds)
{
    if (rounds->is_heard || rounds->is_running)
        return;
    rounds->is_heard = true;
    pen_group_receive(rounds->options.peers, LEADER,
                      rounds->options.channel + FROM_LEADER, &rounds->told,
                      sizeof rounds->told, &rounds->receive);
}

static enum pen_rounds_event follow(struct pen_rounds *rounds)
{
    struct pen_group *peers = rounds->options.peers;
    listen(rounds);
    if (pen_group_test(peers, &rounds->receive) != PEN_OK)
        return PEN_ROUNDS_NOTHING;
    rounds->is_heard = false;
    PEN_BUG_UNLESS(rounds->told.begun == rounds->begun); /* rule 1 */
    return (enum pen_rounds_event)rounds->told.what;
}

enum pen_rounds_event pen_rounds_poll(struct pen_rounds *rounds)
{
    if (rounds->options.peers->has_lost || rounds->is_running)
        return PEN_ROUNDS_NOTHING;
    enum pen_rounds_event event =
        is_leader(rounds) ? lead(rounds) : follow(rounds);
    if (event == PEN_ROUNDS_BEGIN) {
        rounds->begun++;
        rounds->is_running = true;
    }
    return event;
}

void pen_rounds_end(struct pen_rounds *rounds)
{
    rounds->is_running = false;
    rounds->ended_ns = pen_clock_ns();
}

bool pen_rounds_are_quiet(struct pen_rounds *rounds)
{
    return is_leader(rounds)
               ? has_told(rounds)
               : pen_group_test(rounds->options.peers, &rounds->send) == PEN_OK;
}

/* Listens, and returns whether the leader's own words have arrived. */
static bool has_sent(void *context)
{
    struct pen_rounds *rounds = context;
    listen(rounds);
    return pen_group_test(rounds->options.peers, &rounds->send) == PEN_OK;
}

void pen_rounds_post(struct pen_rounds *rounds, enum pen_rounds_post post)
{
    struct pen_group *peers = rounds->options.peers;
    struct word word = {post, rounds->begun};
    if (is_leader(rounds)) {
        rounds->followers[LEADER].word = word;
        hear(rounds, &rounds->followers[LEADER]);
        return;
    }
    pen_group_wait(peers, has_sent, rounds);
    rounds->posted = word;
    pen_group_send(peers, LEADER, rounds->options.channel + TO_LEADER,
                   &rounds->posted, sizeof rounds->posted, &rounds->send);
}
