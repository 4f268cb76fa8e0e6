#ifndef PEN_SYNC_METHOD_H
#define PEN_SYNC_METHOD_H

#include "sync/average.h"

/*
 * A method: how replicas of the same weights stay together. One file of
 * methods/ each, with its equations at its head; registry.c has their list,
 * and no other file has a method's name.
 *
 * The trainer calls the hooks, on all members in the same order:
 *
 *   pass over the micro-batches      the gradient of this replica's own samples
 *   before_step   gradients are there: change them, send them
 *   local_step    changes the weights; NULL: the optimizer of the run does
 *   after_step    change the weights, begin to send, wait for what is needed
 *
 * Between two hooks `poll` is called now and then. An exchange that a hook
 * begins may continue after it returns: the next passes hide its time. Weights
 * are changed in hooks only.
 */
struct pen_sync;

/* The arguments of a hook. */
struct pen_sync_step {
    uint64_t step; /* 1 for the first */
    double learning_rate;
};

/* The numbers of the run's optimizer, for methods with a step of their own. */
struct pen_sync_optimizer {
    double beta1;
    double beta2;
    double epsilon;
    double momentum;
    bool is_nesterov;
    double weight_decay;
};

/*
 * The setting from which a method is made. All of it must stay in place until
 * the method is freed, the pointers in tensors[] for one hook only.
 */
struct pen_sync_setting {
    struct pen_group *peers;
    struct pen_sync_tensor *tensors;
    size_t num_tensors;
    size_t count; /* floats of all tensors */

    uint32_t interval;              /* steps between synchronisations */
    struct pen_sync_values options; /* of the method */
    const struct pen_compressor *compressor; /* NULL: none */
    struct pen_sync_values compressor_options;

    uint64_t seed;
    uint64_t epoch_steps;   /* steps of an epoch; at least 1 */
    uint64_t epoch_batches; /* steps in which one member alone passes over all
                               samples; at least 1 */
    uint64_t total_steps;   /* of the run */
    struct pen_sync_optimizer optimizer;

    /* The step of the run's optimizer with the gradients as they are. */
    void (*step)(void *context, const struct pen_sync_step *step);
    void *context;
};

/* The properties of a method, in addition to its functions. */
enum {
    PEN_SYNC_COMPRESSES = 1,     /* takes a compressor */
    PEN_SYNC_IS_NATIVE = 2,      /* without one the trainer itself does it */
    PEN_SYNC_IS_SHARDED = 4,     /* native, with a sharded optimizer */
    PEN_SYNC_OWN_STEP = 8,       /* the optimizer of the run is not used */
    PEN_SYNC_IS_FREE = 16,       /* members do not wait for each other: what is
                                    computed depends on their speeds */
    PEN_SYNC_NEEDS_SGD = 32,     /* the optimizer of the run must be SGD */
    PEN_SYNC_NEEDS_ADAM = 64,    /* or AdamW */
    PEN_SYNC_ONLY_WHEN_DUE = 128 /* after_step() changes weights only in steps
                                    that pen_sync_is_due() */
};

enum { PEN_SYNC_ISLAND_VECTORS = 3 };

/* An island as its method sees it. Vectors are like the weights of this rank.
 */
struct pen_sync_island {
    const struct pen_sync_setting *setting; /* its peers are of the island */
    uint32_t number;                        /* of this island */
    uint32_t count;                         /* of islands */
    bool gives_changes; /* what it gives can be added up: to what it gives next,
                           or to what a compressor left out */
    float *theta;
    float *own[PEN_SYNC_ISLAND_VECTORS]; /* 0 at first; others do not see it */
};

/*
 * A method between islands (ring/ring.h), round by round. All islands have a
 * state, vectors like all weights: theta, the means of moments that are shared,
 * and `num_vectors` in all without these. At first all but theta are 0. In a
 * round each island gives a vector and the moments that are due; the mean by
 * tokens of what was given leads to the next state. Functions may be NULL
 * unless it says otherwise.
 */
struct pen_sync_islands {
    uint32_t num_vectors;
    uint32_t num_own;  /* vectors of an island */
    uint32_t num_kept; /* the first of them, needed when a round begins */
    /* An island continues with weights of its own; otherwise with theta. */
    bool keeps_weights;
    /* The compressor that it always has, with the method's options. */
    const struct pen_compressor *compressor;

    /* Rounds from one mean of first (0) or second (1) moments to the next; 0:
     * moments stay with their island. NULL: 0. */
    uint32_t (*moment_rounds)(const struct pen_sync_values *options,
                              uint32_t interval, int which);
    /* Parts of the weights that take turns: a round has one. NULL: one. */
    uint32_t (*num_fragments)(const struct pen_sync_values *options);
    /* Steps from giving to needing the state. NULL: 0. */
    uint32_t (*delay)(const struct pen_sync_values *options);

    /* Weights are those that a round begins with. */
    void (*begin)(struct pen_sync_island *it);
    /* Replaces the run's optimizer. */
    void (*local_step)(struct pen_sync_island *it,
                       const struct pen_sync_step *at);
    /*
     * Writes the vector that this island contributes. May change its weights.
     * Never NULL.
     */
    void (*give)(struct pen_sync_island *it, const struct pen_sync_step *at,
                 float *out);
    /* `state` has the vectors, from the fragment of the round on, and `merged`
     * is the mean of what was given of it, as changes or not. Never NULL. */
    void (*take)(const struct pen_sync_values *options, bool are_changes,
                 const float *merged, size_t count, float *const *state);
    /*
     * Computes weights of the fragment from the new theta. NULL: they are
     * theta, or stay where the island keeps its own.
     */
    void (*mix)(const struct pen_sync_values *options, const float *theta,
                size_t count, float *weights);
    /*
     * Returns a reason, as a sentence for users, why islands cannot have these
     * options; NULL: they can.
     */
    const char *(*refuse)(const struct pen_sync_values *options,
                          uint32_t interval);
};

struct pen_sync_method {
    const char *name;
    const char *title; /* one line for lists */
    const char *paper; /* authors, title, year, id */
    unsigned is;       /* PEN_SYNC_... */
    uint32_t interval; /* default; 1: every step */
    const struct pen_sync_option *options;
    size_t num_options;

    /* `mean` is what the mean of a vector like the weights costs. */
    void (*cost)(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out);

    /* Returns whether it IS_FREE with these options; NULL: as `is` says. */
    bool (*is_free)(const struct pen_sync_values *options,
                    uint32_t num_replicas);

    /*
     * Fills in a struct pen_sync of `size` bytes, which is all zeros. Weights
     * are there, the same on all members. On failure why says what is wrong;
     * release() is called in any case. NULL where the trainer does it.
     */
    size_t size;
    pen_status (*init)(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why);
    void (*release)(struct pen_sync *sync);

    /* Bytes of memory that it keeps. */
    size_t (*bytes)(const struct pen_sync *sync);

    /* May be NULL, all of them. */
    size_t (*coming)(const struct pen_sync *sync); /* of bytes(): not yet there,
                                                      before the first step */
    void (*before_step)(struct pen_sync *sync, const struct pen_sync_step *at);
    void (*local_step)(struct pen_sync *sync, const struct pen_sync_step *at);
    void (*after_step)(struct pen_sync *sync, const struct pen_sync_step *at);
    void (*poll)(struct pen_sync *sync);

    /*
     * Called between two steps, by all members: waits until nothing is under
     * way, so that states() is complete; applies nothing. May be NULL.
     */
    void (*settle)(struct pen_sync *sync);

    /*
     * Adds the states that a checkpoint keeps in addition to each replica's
     * weights and moments. NULL: there are none.
     */
    void (*states)(struct pen_sync *sync, struct pen_sync_states *out);

    /*
     * Called after states were loaded: rebuilds the rest of the method's state
     * from them and from the number of steps done. May be NULL.
     */
    void (*restored)(struct pen_sync *sync, uint64_t steps);

    /*
     * Called between two steps, by all members: writes the one model that they
     * represent, `count` floats, bit-identical on all. Weights do not change.
     */
    void (*consistent)(struct pen_sync *sync, float *out);

    /*
     * Called by all after the last step: serves the members that still need
     * something. May be NULL.
     */
    void (*leave)(struct pen_sync *sync);

    const struct pen_sync_islands *islands; /* NULL: not between islands */
};

/* On failure *out is untouched and why says what is wrong. */
pen_status pen_sync_create(const struct pen_sync_method *method,
                           const struct pen_sync_setting *setting,
                           struct pen_sync **out, struct pen_text *why);

/* NULL is fine. */
void pen_sync_free(const struct pen_sync_method *method, struct pen_sync *sync);

/* Returns whether members do not wait for each other. */
bool pen_sync_is_free(const struct pen_sync_method *method,
                      const struct pen_sync_values *options,
                      uint32_t num_replicas);

/* ---- what many of them need ---- */

/* Returns a compression of all tensors, for pen_average_create(). */
struct pen_compression
pen_sync_compression(const struct pen_sync_setting *setting);

/* Creates an average of all tensors, with the compressor of the setting. */
pen_status pen_sync_average(const struct pen_sync_setting *setting,
                            uint32_t channel, struct pen_average **out,
                            struct pen_text *why);

/* Creates such an average without a compressor, for consistent(). */
pen_status pen_sync_plain_average(const struct pen_sync_setting *setting,
                                  uint32_t channel, struct pen_average **out,
                                  struct pen_text *why);

/* Copy all weights, or gradients, into one vector, and back. */
void pen_sync_read_weights(const struct pen_sync_setting *setting, float *out);
void pen_sync_write_weights(const struct pen_sync_setting *setting,
                            const float *from);
void pen_sync_read_gradients(const struct pen_sync_setting *setting,
                             float *out);
void pen_sync_write_gradients(const struct pen_sync_setting *setting,
                              const float *from);

/* Runs the optimizer of the run. */
void pen_sync_local_step(const struct pen_sync_setting *setting,
                         const struct pen_sync_step *at);

/*
 * Allocates a vector of zeros like the weights; NULL when there is no memory.
 */
float *pen_sync_vector(const struct pen_sync_setting *setting);

/* Allocates such a vector at each place; the last place is NULL. */
pen_status pen_sync_vectors(const struct pen_sync_setting *setting,
                            float **const *places);
#define PEN_SYNC_VECTORS(...) ((float **const[]){__VA_ARGS__, NULL})

/* Computes the mean of the weights of all members into `out`; waits for it. */
void pen_sync_mean_weights(const struct pen_sync_setting *setting,
                           struct pen_average *plain, float *out);

static inline bool pen_sync_is_due(const struct pen_sync_step *at,
                                   uint64_t interval)
{
    return at->step % interval == 0;
}

#endif
