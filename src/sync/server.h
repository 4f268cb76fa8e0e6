#ifndef PEN_SYNC_SERVER_H
#define PEN_SYNC_SERVER_H

#include "sync/method.h"

/*
 * A parameter server that is cut into shares: member k keeps share k of the
 * weights (pen_sum_share()), and all members are workers, too.
 *
 *   worker    computes a gradient, pushes share k of it to member k, gets share
 *             k of the weights back, and computes the next with these
 *   server    takes a push, changes its share, answers; while its own passes
 *             run, whenever poll is called
 *
 * Pushes of a worker are its clock. A push applies SGD with the momentum of the
 * run, v <- mu v + g, w <- w - eta v (Nesterov's: eta (g + mu v)), where eta
 * comes with the push; weight decay, of all tensors, is added to the gradient
 * by the worker.
 *
 * A method on a server is its rules: the server is the object of the method,
 * and PEN_SERVER_HOOKS its hooks.
 */
struct pen_server_rules {
    /* The factor of every gradient: 1, or 1/N where N pushes are a step. */
    float scale;

    /* Gradients of a clock are added in the order of members and change the
     * weights together: allow() has to be 0 then. */
    bool is_together;

    /*
     * Returns how many clocks the worker that has just pushed may be ahead of
     * the slowest when it gets its answer; NULL: any number.
     */
    uint64_t (*allow)(void *context, const struct pen_sync *server,
                      uint32_t worker);

    /* Changes a gradient of the share before it is applied. May be NULL. */
    void (*correct)(void *context, uint32_t worker, float *gradient,
                    const float *weights);

    /* The worker has these weights of the share now. May be NULL. */
    void (*told)(void *context, uint32_t worker, const float *weights);

    /* A further vector that the server keeps, 0 at first, under this name in
     * checkpoints; NULL: none. */
    const char *kept;

    /* One block of memory, freed with the server; NULL: none. */
    void *context;
    size_t context_bytes;
};

/* of a push, in addition to the gradient */
enum { PEN_SERVER_HEAD_BYTES = 16 };

/*
 * The vectors that a server keeps of its share; of all shares after settling.
 */
enum {
    PEN_SERVER_WEIGHTS,
    PEN_SERVER_MOMENTUM,
    PEN_SERVER_KEPT,
    PEN_SERVER_VECTORS
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_server_rules rules;
    size_t share;                       /* floats of this member's */
    float *vectors[PEN_SERVER_VECTORS]; /* of the share; NULL: not needed */
    float *all[PEN_SERVER_VECTORS];     /* of all, the first also for pushes */
    struct pen_server_worker *workers;
    struct pen_server_link *links;
    unsigned char *messages; /* received and sent */
    float *answers;
    bool is_open; /* workers are heard */
    bool has_left;
    bool has_to_tell; /* the servers do not know what this worker has */
};

/* Takes the context. To be released in any case. */
pen_status pen_server_init(struct pen_sync *server,
                           const struct pen_sync_setting *setting,
                           const struct pen_server_rules *rules);

/* ---- for rules ---- */

const struct pen_sync_setting *
pen_server_setting(const struct pen_sync *server);

/* Return the weights of this member's share, and the vectors kept with them. */
const float *pen_server_weights(const struct pen_sync *server);
float *pen_server_kept(struct pen_sync *server);

uint64_t pen_server_clock(const struct pen_sync *server, uint32_t worker);
uint64_t pen_server_slowest(const struct pen_sync *server);
uint64_t pen_server_fastest(const struct pen_sync *server);

/* ---- hooks ---- */

void pen_server_release(struct pen_sync *server);
size_t pen_server_bytes(const struct pen_sync *server);

/* Pushes the gradients, waits for the answers, writes them as weights. */
void pen_server_step(struct pen_sync *server, const struct pen_sync_step *at);

void pen_server_poll(struct pen_sync *server);

/* Serves until all members have come here; then nothing is under way, and all
 * know all shares. */
void pen_server_settle(struct pen_sync *server);

/* Does the same, after which poll() does not begin to serve again. */
void pen_server_leave(struct pen_sync *server);

void pen_server_states(struct pen_sync *server, struct pen_sync_states *out);
void pen_server_restored(struct pen_sync *server, uint64_t steps);

/* Settles, and copies the servers' weights. */
void pen_server_model(struct pen_sync *server, float *out);

#define PEN_SERVER_HOOKS                                                       \
    .size = sizeof(struct pen_sync), .release = pen_server_release,            \
    .bytes = pen_server_bytes, .local_step = pen_server_step,                  \
    .poll = pen_server_poll, .settle = pen_server_settle,                      \
    .states = pen_server_states, .restored = pen_server_restored,              \
    .consistent = pen_server_model, .leave = pen_server_leave

/* Computes bytes, legs and memory; the method adds the rest. */
void pen_server_cost(const struct pen_sync_case *of, struct pen_sync_cost *out);

#endif
