#ifndef PEN_PLANNER_REPLICA_SYNC_H
#define PEN_PLANNER_REPLICA_SYNC_H

#include "core/any_model.h"
#include "core/cluster.h"
#include "core/model_cost.h"
#include "sync/registry.h"

/*
 * How long a step takes when replicas stay together by one of the methods of
 * src/sync over a link. One synchronisation takes
 *
 *   sync = legs * latency + bytes / bandwidth
 *
 * on the link, where a leg of messages that are too long to be sent unasked
 * costs three latencies: it is announced, asked for, and sent. The next
 * `hidden` steps of computing hide as much of it as they can; the bytes of one
 * synchronisation have to be sent before those of the next come. The rest, and
 * encoding, which computes on the same device, are spread over the interval:
 *
 *   stall = max(0, sync - hidden * compute,
 *               bytes / bandwidth - interval * compute) / interval
 *   step  = compute + stall + encode / interval
 *
 * Sums that the trainer does itself begin while the last backward of their step
 * still runs, all but the gradients that come last:
 *
 *   stall = last * sync + max(0, (1 - last) * sync - overlap)
 */

/* Replicas, the link of each, and what they compute. */
struct pen_replica_setting {
    const size_t (*shapes)[2]; /* rows and columns of every parameter */
    size_t num_shapes;
    double num_weights;
    double num_moments; /* vectors like the weights that the optimizer keeps */
    uint32_t num_replicas;
    double bytes_per_sec; /* that a replica sends, while it receives as many */
    double latency_sec;
    double eager_bytes; /* of a message that is sent unasked; 0: any */
    double compute_sec; /* of a step of one replica, alone */
    double overlap_sec; /* of it, the backward of the last micro-batch */
    double last_share;  /* of the weights: gradients that come last, at once */
    bool has_stall;     /* the plan knows better what the trainer waits: */
    double stall_sec;
    double link_sec; /* and what it takes on the link, hidden or not */
    double samples;  /* of a step, of all replicas */
    double encode_bytes_per_sec; /* of gradients that a compressor passes */
};

/* Moments of AdamW, where the caller does not say otherwise. */
#define PEN_REPLICA_NUM_MOMENTS 2.0

/* Bytes up to which Open MPI sends a message over TCP unasked. */
#define PEN_REPLICA_EAGER_BYTES 65536.0

/* Latency of a link that was not measured. */
#define PEN_REPLICA_LATENCY_SEC 1e-4

/* Without a measurement, a backward computes twice as long as a forward. */
#define PEN_REPLICA_BACKWARD_SHARE (2.0 / 3.0)

/*
 * Bytes per second of compressors of src/sync on a core that was not measured.
 */
#define PEN_REPLICA_CORE_RATE 2e9

/*
 * The same of a device. A processor encodes on one core, as the trainer does.
 * Others pass over gradients in their own memory, with a read and a write of
 * each, at the share of its bandwidth that such operations reach.
 */
double pen_replica_device_rate(const struct pen_device *device);

/* The cost of a step with one choice. */
struct pen_replica_time {
    struct pen_sync_choice choice;
    struct pen_sync_cost cost;
    double step_bytes; /* that a replica sends, in the mean over steps */
    double sync_sec;   /* of one synchronisation on the link */
    double stall_sec;  /* of a step: waiting for the link */
    double encode_sec; /* of a step */
    double step_sec;
    double samples_per_sec;
    double factor;  /* steps to a loss, in those of the reference; 0: unknown */
    double goodput; /* share of the time whose steps stay; 1: nothing fails */
    uint32_t islands; /* that fail one by one; 0: all is one job */
};

/* Seconds for a step that stays. */
double pen_replica_kept_sec(const struct pen_replica_time *time);

/* Seconds of one synchronisation if bytes took no time. */
double pen_replica_latency(const struct pen_replica_setting *setting,
                           const struct pen_sync_cost *cost);

void pen_replica_predict(const struct pen_replica_setting *setting,
                         const struct pen_sync_choice *choice,
                         struct pen_replica_time *out);

/*
 * The same between `islands` of a ring, in place: each island sends all of what
 * it gives to each of the others, and a round has five ways to the coordinator
 * and back. Messages between replicas of one island are not in it.
 */
void pen_replica_use_ring(const struct pen_replica_setting *setting,
                          uint32_t islands, struct pen_replica_time *time);

/* ---- what is between replicas ---- */

/* Owned by the caller; free `at`. */
struct pen_replica_shapes {
    size_t (*at)[2];
    size_t count;
    double num_weights;
    double last_share;
};

/*
 * Parameters of all of a model. In families that can only be planned, which
 * have no list of tensors, each layer counts as one matrix. On failure *out is
 * untouched.
 */
pen_status pen_replica_shapes_of(const struct pen_any_model *model,
                                 struct pen_replica_shapes *out,
                                 struct pen_text *why);

/*
 * Parameters of some ranges of layers, of which `share` devices have a part
 * each.
 */
pen_status pen_replica_shapes_of_layers(const struct pen_model *model,
                                        const struct pen_layer_range *ranges,
                                        size_t num_ranges, uint32_t share,
                                        struct pen_replica_shapes *out,
                                        struct pen_text *why);

#endif
