#ifndef PEN_CLI_PLAN_PEERS_H
#define PEN_CLI_PLAN_PEERS_H

#include "cli/plan/options.h"
#include "planner/swarm.h"

/*
 * --peers of `penstock predict`: the stages of a plan on peers of uneven speed
 * that may be lost, with micro-batches that choose their peers (SWARM), and
 * with two plans that do not.
 */

#define PEN__PEERS_POLICIES 3u

struct pen__peers_way {
    double samples_per_sec; /* 0: no draw was completed */
    double moves;           /* in the mean */
    double again;           /* passes through a stage */
    uint32_t completed;     /* draws, of those below */
};

struct pen__peers {
    uint32_t num_peers;
    uint32_t num_lost;
    uint32_t num_stages;
    uint32_t num_microbatches;
    uint32_t num_draws;
    double spread; /* of speeds */
    double link;   /* bytes per second */
    double message_bytes;
    double message_sec;
    double state_sec;
    double pass_sec; /* forward and backward of a micro-batch on a stage */
    double bound_per_sec;
    struct pen__peers_way ways[PEN__PEERS_POLICIES]; /* by policy */
};

pen_status pen__peers_find(const struct pen__plan_args *args,
                           const struct pen__planning *planning,
                           const struct pen_plan *plan,
                           const struct pen_prediction *prediction,
                           struct pen__peers *out, struct pen_text *why);

void pen__peers_print(const struct pen__peers *peers, struct pen_text *out);
json_t *pen__peers_json(const struct pen__peers *peers);

#endif
