#ifndef PEN_RUNTIME_REPLICA_STATISTICS_H
#define PEN_RUNTIME_REPLICA_STATISTICS_H

#include "core/any_model.h"
#include "network/network.h"
#include "sync/peers.h"

/*
 * Running statistics of norms over batches. No method knows of them: every
 * replica gathers its own, and the one model that replicas stand for has their
 * mean.
 */
struct pen_replica_statistics;

/* Takes two channels. All is borrowed. On failure *out is untouched. */
pen_status pen_replica_statistics_create(const struct pen_any_model *model,
                                         struct pen_network *network,
                                         struct pen_peers *peers,
                                         uint32_t channel,
                                         struct pen_replica_statistics **out);
void pen_replica_statistics_free(struct pen_replica_statistics *statistics);

size_t
pen_replica_statistics_bytes(const struct pen_replica_statistics *statistics);

/* By all: the network has the mean; and its own again. */
void pen_replica_statistics_show(struct pen_replica_statistics *statistics);
void pen_replica_statistics_hide(struct pen_replica_statistics *statistics);

/*
 * Between the two: the own numbers of the tensor that the network has there;
 * NULL when they are no mean, as numbers of batches.
 */
const float *
pen_replica_statistics_own(const struct pen_replica_statistics *statistics,
                           const void *shown);

#endif
