#ifndef PEN_TESTS_THREAD_PEERS_H
#define PEN_TESTS_THREAD_PEERS_H

#include "sync/peers.h"

/*
 * Replicas as threads of one process, joined by queues: what a send costs is
 * nothing, but it is complete only when its receive is posted. What is put
 * into a window arrives when its owner looks after messages.
 */
struct thread_world;

struct thread_world *thread_world_create(uint32_t num_members);
void thread_world_free(struct thread_world *world);

/* The peers of a member; borrowed until the world is freed. */
struct pen_peers *thread_world_peers(struct thread_world *world,
                                     uint32_t member);

#endif
