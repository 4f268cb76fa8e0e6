#ifndef PEN_SYNC_COMPRESSOR_H
#define PEN_SYNC_COMPRESSOR_H

#include "base/text.h"
#include "sync/collective.h"
#include "sync/cost.h"
#include "sync/option.h"
#include "sync/state.h"

/*
 * A compressor finds the mean of a vector over all peers, or an approximation,
 * with fewer bytes. It keeps the part that it leaves out, and adds it to the
 * next vector (error feedback): the sum of all delivered vectors plus the kept
 * part is the sum of all given vectors.
 *
 * It works in rounds. In each it fills in the exchange; when that has ended it
 * reads the received bytes. After the last round the vector is the mean,
 * bit-identical on all members.
 */
struct pen_compression {
    struct pen_group *peers; /* for the number of members and the own one */
    const struct pen_sync_tensor *tensors; /* of the vector, in order */
    size_t num_tensors;
    size_t first_tensor; /* of them, among all of the model */
    size_t base;  /* tensors[i].first - base is its place in the vector */
    size_t count; /* floats of the vector */
    uint64_t seed;
    uint64_t epoch_steps; /* steps of an epoch; 0: all are of the first */
    struct pen_sync_values options;
};

enum pen_round_kind {
    PEN_ROUND_SUM,    /* floats, in place: pen_collective_sum() */
    PEN_ROUND_GATHER, /* bytes of each to all */
    PEN_ROUND_SCATTER /* piece k to member k */
};

struct pen_round {
    enum pen_round_kind kind;
    float *floats; /* of a sum */
    size_t count;
    const void *bytes; /* of a gather */
    size_t length;
    const void *const *pieces; /* of a scatter, per member, as the lengths */
    const size_t *lengths;
};

struct pen_compressor {
    const char *name;
    const char *title;                     /* one line for lists */
    const char *paper;                     /* authors, title, year, id */
    const struct pen_sync_option *options; /* "name:4" sets the first */
    size_t num_options;
    uint32_t num_rounds;

    void (*cost)(const struct pen_sync_case *of, struct pen_mean_cost *out);

    /* Floats of the compressor's largest sum, bytes of its longest message. */
    void (*sizes)(const struct pen_compression *setting, size_t *sum,
                  size_t *gathered);

    /*
     * Makes a state, which free() frees; `setting` is copied if it is needed
     * later.
     */
    pen_status (*create)(const struct pen_compression *setting, void **out,
                         struct pen_text *why);
    void (*free)(void *state);
    size_t (*bytes)(const void *state);

    /* `step` is of the training, 1 for the first. */
    void (*encode)(void *state, uint32_t round, uint64_t step, float *vector,
                   struct pen_round *out);
    void (*decode)(void *state, uint32_t round, uint64_t step,
                   const struct pen_collective *received, float *vector);

    /* Adds the states that a checkpoint keeps; may be NULL. */
    void (*states)(void *state, struct pen_sync_states *out);

    /*
     * For a compressor with a single gather, as islands use it
     * (sync/islands.h); else NULL. `sent` returns the bytes that it sends at a
     * step; `add` adds `share` times the vector that one message encodes, and
     * returns false for a malformed message.
     */
    size_t (*sent)(const void *state, uint64_t step);
    bool (*add)(void *state, uint64_t step, const void *message, float share,
                float *vector);
};

/* Adds a vector that a compressor keeps, with a float per compressed float. */
void pen_sync_compression_state(const struct pen_compression *setting,
                                const char *name, float *floats,
                                struct pen_sync_states *out);

#endif
