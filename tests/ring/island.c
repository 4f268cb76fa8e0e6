/*
 * island KEY KEYS FOLDER CONFIG PATIENCE [WEIGHTS [MORE [MS]]]: an island whose
 * weights are a vector of numbers, with MORE numbers of state beside them that
 * no contribution has. Trains MS for a round. Prints a line for each state that
 * it holds; leaves on SIGUSR1.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "ring/net/member.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAGMENTS = 3 };

struct trainer {
    size_t weights;
    size_t all; /* numbers of a state */
    int64_t train_ns;
    uint64_t round;
    uint64_t first;
    int64_t done_at; /* 0: nothing is trained */
    uint64_t seed;
    uint8_t *state; /* as the member holds it */
};

static volatile sig_atomic_t is_leaving;
static volatile sig_atomic_t is_damaged;

static void damage(int number)
{
    (void)number;
    is_damaged = 1;
}

static void leave(int number)
{
    (void)number;
    is_leaving = 1;
}

static void train(void *context, uint64_t round, uint64_t first)
{
    struct trainer *trainer = context;
    trainer->round = round;
    trainer->first = first;
    trainer->done_at = pen_clock_ns() + trainer->train_ns;
}

static pen_status sum(void *context, const struct pen_ring_bytes *state,
                      const struct pen_ring_contributions *given,
                      struct pen_ring_bytes *out)
{
    const struct pen_ring_contribution *contributions = given->list;
    size_t count = given->count;
    const struct trainer *trainer = context;
    size_t weights = trainer->weights;
    double *next = calloc(trainer->all, sizeof *next);
    double *change = malloc(weights * sizeof *change);
    double tokens = 0;
    if (next == NULL || change == NULL)
        abort();
    if (state->length == trainer->all * sizeof *next)
        memcpy(next, state->bytes, state->length);
    for (size_t i = 0; i < count; i++)
        tokens += (double)contributions[i].tokens;
    for (size_t i = 0; i < count; i++) {
        if (contributions[i].length != weights * sizeof *change)
            abort();
        memcpy(change, contributions[i].bytes, contributions[i].length);
        for (size_t j = 0; j < weights; j++)
            next[j] += change[j] * (double)contributions[i].tokens / tokens;
    }
    for (size_t j = weights; j < trainer->all; j++)
        next[j] = next[j] / 2 + next[j % weights];
    free(change);
    *out =
        (struct pen_ring_bytes){(uint8_t *)next, trainer->all * sizeof *next};
    return PEN_OK;
}

static void commit(void *context, uint64_t round,
                   const struct pen_ring_bytes *state)
{
    struct trainer *trainer = context;
    char hash[PEN_HASH_SIZE];
    trainer->state = state->bytes;
    if (pen_hash_bytes(state->bytes, state->length, hash, NULL) != PEN_OK)
        abort();
    printf("round %" PRIu64 " %s\n", round, hash);
    fflush(stdout);
}

static void offer(struct trainer *trainer, struct pen_ring_member *member)
{
    double *change = malloc(trainer->weights * sizeof *change);
    if (change == NULL)
        abort();
    for (size_t i = 0; i < trainer->weights; i++)
        change[i] =
            1.0 / (double)(1 + (trainer->seed + trainer->first + i) % 97);
    trainer->done_at = 0;
    const struct pen_ring_offer made = {.first = trainer->first,
                                        .last = trainer->first + 4,
                                        .tokens = 100 + trainer->seed % 7,
                                        .num_fragments = FRAGMENTS};
    if (pen_ring_member_offer(member, trainer->round, &made, change,
                              trainer->weights * sizeof *change) != PEN_OK)
        abort();
    free(change);
}

int main(int argc, char **argv)
{
    uint8_t config[32] = {0};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_ring_member *member;
    if (argc < 6)
        return 2;
    struct trainer trainer = {
        .weights = argc > 6 ? (size_t)atol(argv[6]) : 40000,
        .train_ns = 1000000 * (argc > 8 ? atol(argv[8]) : 60),
        .seed = (uint64_t)strlen(argv[1]) * 31 +
                (uint64_t)argv[1][strlen(argv[1]) - 5]};
    trainer.all = trainer.weights + (argc > 7 ? (size_t)atol(argv[7]) : 0);
    config[0] = (uint8_t)atoi(argv[4]);
    const struct pen_ring_member_options options = {
        .key = argv[1],
        .keys = argv[2],
        .folder = argv[3],
        .config = config,
        .patience = (int64_t)(atof(argv[5]) * 1e9),
        .most_bytes = trainer.all * sizeof(double),
        .context = &trainer,
        .train = train,
        .sum = sum,
        .commit = commit};
    pen_status status = pen_ring_member_create(&options, &member, &why);
    signal(SIGUSR1, leave);
    signal(SIGUSR2, damage);
    bool has_left = false;
    while (status == PEN_OK && !pen_ring_member_has_ended(member)) {
        int64_t now = pen_clock_ns();
        if (trainer.done_at != 0 && now >= trainer.done_at)
            offer(&trainer, member);
        if (is_leaving && !has_left)
            pen_ring_member_leave(member);
        has_left = is_leaving;
        if (is_damaged && trainer.state != NULL) {
            trainer.state[6] ^= 16;
            is_damaged = 0;
        }
        status = pen_ring_member_turn(
            member,
            trainer.done_at != 0 ? trainer.done_at : now + trainer.train_ns,
            &why);
    }
    if (status != PEN_OK) {
        pen_log(PEN_LOG_ERROR, "%s", pen_text_string(&why));
        pen_text_release(&why);
        return 1;
    }
    puts("ended");
    pen_ring_member_free(member);
    return 0;
}
