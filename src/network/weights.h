#ifndef PEN_NETWORK_WEIGHTS_H
#define PEN_NETWORK_WEIGHTS_H

#include "core/weights.h"
#include "network/network.h"

/*
 * Loads the values of all parameters of the network from weights on disk, of
 * any type that pen_dtype_to_float() reads.
 */
pen_status pen_network_load(struct pen_network *network,
                            const struct pen_weights *weights,
                            struct pen_text *why);

/*
 * INVALID when one of the numbers that were read from this tensor is not
 * finite: whatever is computed from it would be NaN.
 */
pen_status pen_network_check_loaded(const struct pen_safetensor *tensor,
                                    const float *values, size_t count,
                                    struct pen_text *why);

/* The running statistics alone; nothing where the network has none. */
pen_status pen_network_load_statistics(struct pen_network *network,
                                       const struct pen_weights *weights,
                                       struct pen_text *why);

#endif
