#ifndef PEN_SYNC_COST_H
#define PEN_SYNC_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For whom the cost of a method is asked. */
struct pen_sync_case {
    uint32_t num_replicas;
    uint32_t interval;         /* steps between synchronisations */
    const size_t (*shapes)[2]; /* rows and columns of every parameter */
    size_t num_shapes;
    double num_weights;
    double num_moments;        /* vectors like the weights of the optimizer */
    const double *options;     /* of the method or the compressor */
    double core_bytes_per_sec; /* that a compressor works through */
};

/*
 * One mean of a vector like the weights over all replicas: what a compressor,
 * or none, sends for it.
 */
struct pen_mean_cost {
    double bytes;      /* that a replica sends, and receives */
    double legs;       /* messages behind one another, each a latency */
    double extra;      /* bytes of memory that it keeps */
    double encode_sec; /* of a core; it is not hidden */
};

/* What a method costs a replica. */
struct pen_sync_cost {
    double bytes;      /* per synchronisation, sent; received are as many */
    bool is_estimate;  /* bytes depend on the training */
    double legs;       /* of a synchronisation, behind one another */
    double interval;   /* steps from one to the next */
    double hidden;     /* steps behind which it may hide; 0: all wait */
    double encode_sec; /* per synchronisation */
    double extra;      /* bytes of memory beside weights and optimizer */
    double staleness;  /* steps by which what is used may be old; INFINITY */
    bool waits_for_slowest;
};

#endif
