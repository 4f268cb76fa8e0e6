#ifndef PEN_TESTS_UNIT_NETWORK_STEP_H
#define PEN_TESTS_UNIT_NETWORK_STEP_H

/* A step of a network that has all layers. */
#include "network/network.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

enum { NETWORK_MOST_BATCHES = 8 };

/* Aligned, and full of what nobody may read; end it with free(). */
static inline void *room(size_t bytes)
{
    void *block = aligned_alloc(64, bytes + 64 - bytes % 64);
    assert_non_null(block);
    memset(block, 0x7f, bytes);
    return block;
}

/*
 * Forward and backward of all micro-batches; the backward whole, or split and
 * late. Returns the loss. The memory of passes is the host's.
 */
static inline double network_step(struct pen_network *network,
                                  struct pen_microbatch *batches, int count,
                                  bool is_split)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(network, &sizes);
    void *stashes[NETWORK_MOST_BATCHES];
    void *holds[NETWORK_MOST_BATCHES];
    double loss = 0;
    assert_true(count <= NETWORK_MOST_BATCHES);
    pen_network_clear_gradients(network);
    for (int m = 0; m < count; m++) {
        stashes[m] = room(sizes.stash);
        holds[m] = room(sizes.hold);
        pen_network_forward(network, &batches[m], stashes[m], NULL, NULL);
        pen_engine_await(pen_network_engine(network));
        loss += pen_network_loss(network);
    }
    for (int m = 0; m < count; m++)
        if (is_split)
            pen_network_backward_input(network, &batches[m], stashes[m],
                                       holds[m], NULL, NULL);
        else
            pen_network_backward(network, &batches[m], stashes[m], NULL, NULL);
    for (int m = 0; m < count; m++) {
        if (is_split)
            pen_network_backward_weight(network, &batches[m], stashes[m],
                                        holds[m]);
        pen_engine_await(pen_network_engine(network));
        free(stashes[m]);
        free(holds[m]);
    }
    pen_network_finish_gradients(network);
    return loss;
}

#endif
