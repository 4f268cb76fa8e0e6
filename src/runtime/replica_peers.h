#ifndef PEN_RUNTIME_REPLICA_PEERS_H
#define PEN_RUNTIME_REPLICA_PEERS_H

#include "runtime/executor.h"
#include "sync/peers.h"

/*
 * The same rank of all replicas, as a method of synchronisation sees them
 * (sync/peers.h), over the messages of the world. While a method waits, the
 * executor goes on looking after all other messages.
 */
struct pen_replica_peers;

/*
 * Ranks of the world, in the order of the replicas; copied. `executor` waits,
 * if it is not NULL; all are borrowed. On failure *out is untouched.
 */
pen_status pen_replica_peers_create(struct pen_transport *world,
                                    struct pen_executor *executor,
                                    const uint32_t *ranks, uint32_t count,
                                    uint32_t self,
                                    struct pen_replica_peers **out);
void pen_replica_peers_free(struct pen_replica_peers *it);

struct pen_peers *pen_replica_peers_of(struct pen_replica_peers *it);

#endif
