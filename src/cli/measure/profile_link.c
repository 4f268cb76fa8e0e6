/* The link between two ranks: half the time of a way to and fro. */
#include "cli/measure/profile_link.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHORT_BYTES = 8,
    WARM_TRIPS = 5,
    TRIPS = 51,
    ROUNDS = 5, /* so that a disturbance that lasts does not hit all of one */
    TRIES = 6,  /* where it did all the same */
    ALIGNMENT = 64
};

struct ball {
    struct pen_transport *transport;
    uint32_t peer;
    size_t bytes;
    char *out;
    char *in;
    struct pen_request receive;
};

/* Finishes a request. The loss of a rank shows when all meet. */
static void finish(const struct ball *ball, struct pen_request *request)
{
    while (pen_transport_test(ball->transport, request) == PEN_BUSY)
        continue;
}

static void post(struct ball *ball)
{
    const struct pen_tag tag = {.kind = PEN_TAG_STATE};
    pen_transport_receive(ball->transport, ball->peer, tag, ball->in,
                          ball->bytes, &ball->receive);
}

static void throw_ball(struct ball *ball)
{
    const struct pen_tag tag = {.kind = PEN_TAG_STATE};
    struct pen_request request = {.is_active = false};
    pen_transport_send(ball->transport, ball->peer, tag, ball->out, ball->bytes,
                       &request);
    finish(ball, &request);
}

/*
 * Measures the shortest of all trips, one way: disturbances are not the link's.
 */
static pen_status measure_way(struct ball *ball, size_t bytes, double *out)
{
    int64_t least = INT64_MAX;
    bool is_first = pen_transport_rank(ball->transport) < ball->peer;
    ball->bytes = bytes;
    post(ball);
    pen_status status = pen_transport_meet(ball->transport);
    for (int i = -WARM_TRIPS; i < TRIPS && status == PEN_OK; i++) {
        int64_t begin = pen_clock_ns();
        if (is_first)
            throw_ball(ball);
        finish(ball, &ball->receive);
        if (i + 1 < TRIPS)
            post(ball);
        if (!is_first)
            throw_ball(ball);
        int64_t taken = pen_clock_ns() - begin;
        if (i >= 0 && taken < least)
            least = taken;
    }
    *out = 0.5e-9 * (double)least;
    return status;
}

/*
 * Plays: seconds[0] is that of a short message, seconds[1] of one of `bytes`.
 */
static pen_status play(struct ball *ball, size_t bytes, double seconds[2])
{
    pen_status status = PEN_OK;
    bool is_player = pen_transport_rank(ball->transport) != ball->peer;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2 && status == PEN_OK; i++) {
            double taken = 0;
            if (!is_player) {
                status = pen_transport_meet(ball->transport);
                continue;
            }
            status = measure_way(ball, i == 0 ? SHORT_BYTES : bytes, &taken);
            if (round == 0 || taken < seconds[i])
                seconds[i] = taken;
        }
    return status == PEN_OK ? pen_transport_share(ball->transport, seconds,
                                                  2 * sizeof *seconds)
                            : status;
}

pen_status pen__profile_link(struct pen_transport *transport, uint32_t peer,
                             size_t bytes, struct pen_profile_link *out,
                             struct pen_text *why)
{
    double seconds[2] = {0, 0};
    size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *block = aligned_alloc(ALIGNMENT, 2 * room);
    if (block == NULL) {
        pen_why(why, "no memory for messages of %zu bytes", bytes);
        return PEN_NOMEM;
    }
    memset(block, 1, 2 * room);
    struct ball ball = {
        .transport = transport, .peer = peer, .out = block, .in = block + room};
    pen_status status = PEN_OK;
    for (int i = 0; i < TRIES && seconds[1] <= seconds[0] && status == PEN_OK;
         i++)
        status = play(&ball, room, seconds);
    free(block);
    if (status != PEN_OK)
        return status;
    if (seconds[1] <= seconds[0]) {
        pen_why(why,
                "a message of %zu bytes takes %g s, one of %d bytes %g s: the "
                "ranks disturb each other or share a core; give each rank its "
                "own core",
                room, seconds[1], SHORT_BYTES, seconds[0]);
        return PEN_INFEASIBLE;
    }
    *out = (struct pen_profile_link){
        .is_there = true,
        .latency_sec = seconds[0],
        .bytes_per_sec = (double)room / (seconds[1] - seconds[0])};
    return PEN_OK;
}
