#ifndef PEN_SYNC_STATE_H
#define PEN_SYNC_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A parameter of the part of the model that each peer has. Weights, and
 * all that is kept per weight, are float, row by row.
 */
struct pen_sync_tensor {
    uint64_t key; /* the same whatever the layout: seeds random choices */
    size_t rows;
    size_t columns;
    size_t count; /* rows * columns */
    size_t first; /* where it begins in a vector of all */
    float *value; /* as below: borrowed for one call of a hook */
    float *gradient;
    float *moments[2]; /* of the optimizer; NULL: it has less */
};

/* A state that a checkpoint has to keep, with its name there. */
enum pen_sync_state_kind {
    PEN_STATE_LIKE_WEIGHTS, /* a vector: one float per weight */
    PEN_STATE_PER_TENSOR,   /* floats of tensor i: firsts[i] to firsts[i+1] */
    PEN_STATE_NUMBERS       /* doubles, the same for any part of the model */
};

struct pen_sync_state {
    const char *name; /* [a-z0-9_]+, another for each of a tensor */
    enum pen_sync_state_kind kind;
    bool is_common;      /* the same bits in all replicas: kept once */
    size_t first_tensor; /* of the first two kinds: for these tensors */
    size_t num_tensors;  /* 0: for all */
    float *floats;       /* of the first two kinds */
    const size_t *firsts;
    double *numbers; /* of the third */
    size_t count;    /* floats or numbers in all */
};

enum { PEN_SYNC_MAX_STATES = 128 };

struct pen_sync_states {
    struct pen_sync_state items[PEN_SYNC_MAX_STATES];
    size_t count;
};

void pen_sync_states_add(struct pen_sync_states *states,
                         const struct pen_sync_state *state);

/* Adds a vector like the weights. */
void pen_sync_states_add_vector(struct pen_sync_states *states,
                                const char *name, bool is_common, float *floats,
                                size_t count);
void pen_sync_states_add_numbers(struct pen_sync_states *states,
                                 const char *name, bool is_common,
                                 double *numbers, size_t count);

#endif
