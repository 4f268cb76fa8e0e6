#ifndef PEN_PLANNER_ROUTE_H
#define PEN_PLANNER_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Which of the peers of a stage takes the next micro-batch (SWARM: Ryabinin et
 * al., ICML 2023, arXiv 2301.11913). Each peer has a key, the time that was
 * given to it so far:
 *
 *   take the peer with the smallest key;  key += work / speed
 *
 * so peers take work in proportion to their speeds, interleaved. The speed is a
 * running mean of what was measured. A new peer begins at the smallest key; one
 * that fails is banned. Equal peers take micro-batches in turn. Nothing is
 * drawn at random.
 */

/* How much a new measurement counts. The paper's figure is not confirmed. */
#define PEN_ROUTE_GAIN 0.2

struct pen_route_peer {
    double key;
    double speed;
    bool is_there;
};

#define PEN_ROUTE_NONE UINT32_MAX

/* Peers are borrowed, num_peers of them, and all zeros at first. */
struct pen_route {
    struct pen_route_peer *peers;
    uint32_t num_peers;
};

void pen_route_add(struct pen_route *route, uint32_t peer, double speed);
void pen_route_ban(struct pen_route *route, uint32_t peer);

/* Gives this much work, in seconds of speed 1, to a peer; the first one of
 * those with the smallest key. NONE if there is no peer. */
uint32_t pen_route_take(struct pen_route *route, double work);

/* The peer took `seconds` for this work, until it could take the next. */
void pen_route_learn(struct pen_route *route, uint32_t peer, double work,
                     double seconds);

#endif
