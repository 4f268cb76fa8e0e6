#include "planner/swarm_place.h"

#include "base/random.h"

#include <stdbool.h>

/* Peers by speed, the fastest first; equal ones in their order. */
static void order_peers(const struct pen_swarm_job *job, uint32_t *order)
{
    for (uint32_t i = 0; i < job->num_peers; i++) {
        uint32_t at = i;
        while (at > 0 && job->speeds[order[at - 1]] < job->speeds[i]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

void pen__swarm_place(const struct pen_swarm_job *job, uint32_t *stages)
{
    uint32_t order[PEN_SWARM_MAX_PEERS];
    double speeds[PEN_SWARM_MAX_STAGES] = {0};
    order_peers(job, order);
    for (uint32_t i = 0; i < job->num_peers; i++) {
        uint32_t slowest = 0;
        for (uint32_t k = 1; k < job->num_stages; k++)
            if (speeds[k] < speeds[slowest])
                slowest = k;
        stages[order[i]] = slowest;
        speeds[slowest] += job->speeds[order[i]];
    }
}

static double total_speed(const struct pen_swarm_job *job, const bool *is_lost)
{
    double speed = 0;
    for (uint32_t i = 0; i < job->num_peers; i++)
        speed += is_lost[i] ? 0 : job->speeds[i];
    return speed;
}

/* Micro-batches in a second, of work that all peers share as they like. */
static double pace_of_all(const struct pen_swarm_job *job, const bool *is_lost)
{
    return total_speed(job, is_lost) /
           (job->num_stages * (job->forward_sec + job->backward_sec));
}

void pen__swarm_draw_losses(const struct pen_swarm_job *job, uint64_t seed,
                            struct pen__swarm_loss *losses)
{
    struct pen_random random = {seed};
    bool is_lost[PEN_SWARM_MAX_PEERS] = {false};
    double work = (double)job->num_microbatches * job->num_steps;
    double seconds = work / pace_of_all(job, is_lost);
    for (uint32_t i = 0; i < job->num_lost; i++) {
        uint32_t peer;
        do
            peer = pen_random_below(&random, job->num_peers);
        while (is_lost[peer]);
        is_lost[peer] = true;
        losses[i] = (struct pen__swarm_loss){
            seconds * (i + 1) / (job->num_lost + 1), peer};
    }
}

double pen__swarm_bound(const struct pen_swarm_job *job,
                        const struct pen__swarm_loss *losses)
{
    bool is_lost[PEN_SWARM_MAX_PEERS] = {false};
    double left = (double)job->num_microbatches * job->num_steps;
    double now_sec = 0;
    for (uint32_t i = 0; i < job->num_lost; i++) {
        double done = (losses[i].sec - now_sec) * pace_of_all(job, is_lost);
        if (done >= left)
            break;
        left -= done;
        now_sec = losses[i].sec;
        is_lost[losses[i].peer] = true;
    }
    return now_sec + left / pace_of_all(job, is_lost);
}
