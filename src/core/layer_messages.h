#ifndef PEN_CORE_LAYER_MESSAGES_H
#define PEN_CORE_LAYER_MESSAGES_H

#include <stdint.h>

/*
 * Messages of ranks that compute a layer together, as a simulation sends them.
 * A rank computes an equal share of the pass ahead of each of them and waits
 * for each where it stands.
 */
struct pen_pass_messages {
    uint32_t count;   /* one after another */
    double bytes;     /* of one, to each partner of the rank */
    double after_sec; /* computing with what came, of one and all partners */
};

struct pen_layer_messages {
    struct pen_pass_messages forward;
    struct pen_pass_messages input; /* recomputation included */
};

#endif
