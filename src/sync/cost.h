#ifndef PEN_SYNC_COST_H
#define PEN_SYNC_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The case for which the cost of a method is asked. */
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
    double legs;       /* consecutive messages, each with a latency */
    double extra;      /* bytes of memory that it keeps */
    double encode_sec; /* of a core; it is not hidden */
};

/* The cost of a method for one replica. */
struct pen_sync_cost {
    double bytes;      /* per synchronisation, sent; received are as many */
    bool is_estimate;  /* bytes depend on the training */
    double legs;       /* consecutive messages of a synchronisation */
    double interval;   /* steps from one to the next */
    double hidden;     /* steps that may hide it; 0: all wait for it */
    double encode_sec; /* per synchronisation */
    double extra;     /* bytes of memory in addition to weights and optimizer */
    double staleness; /* steps by which what is used may be old; INFINITY */
    bool waits_for_slowest;
};

#endif
