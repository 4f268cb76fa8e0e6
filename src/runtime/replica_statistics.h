#ifndef PEN_RUNTIME_REPLICA_STATISTICS_H
#define PEN_RUNTIME_REPLICA_STATISTICS_H

#include "core/any_model.h"
#include "group/group.h"
#include "network/network.h"

/*
 * Running statistics of norms over batches. No method knows of them: every
 * replica gathers its own. The statistics of the one model that replicas stand
 * for are measured anew with its weights, since its activations are not the
 * mean of the replicas'; each replica measures some batches, and the mean is
 * taken.
 */
struct pen_replica_statistics;

/* Runs batches that change the network's statistics; returns how many. */
typedef uint32_t pen_replica_measure(void *context);

/* Takes two channels. All is borrowed. On failure *out is untouched. */
pen_status pen_replica_statistics_create(const struct pen_any_model *model,
                                         struct pen_network *network,
                                         struct pen_group *peers,
                                         uint32_t channel,
                                         struct pen_replica_statistics **out);
void pen_replica_statistics_free(struct pen_replica_statistics *statistics);

size_t
pen_replica_statistics_bytes(const struct pen_replica_statistics *statistics);

/*
 * By all replicas, while the network has the weights of the one model: show()
 * gives it that model's statistics, hide() its own again. All replicas measure
 * the same number of batches; where that is 0 the mean of the own statistics is
 * shown.
 */
pen_status
pen_replica_statistics_show(struct pen_replica_statistics *statistics,
                            pen_replica_measure *measure,
                            void *context) PEN_MUST_CHECK;
void pen_replica_statistics_hide(struct pen_replica_statistics *statistics);

/*
 * Between show() and hide(): the own numbers of the tensor that the network has
 * there; NULL when they are not means, as numbers of batches.
 */
const float *
pen_replica_statistics_own(const struct pen_replica_statistics *statistics,
                           const void *shown);

#endif
