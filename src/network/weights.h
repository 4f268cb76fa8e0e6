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
 * Reads the piece of a slice out of its whole tensor, densely. INVALID when one
 * of the numbers is not finite: whatever is computed from it would be NaN.
 */
pen_status pen_network_read_slice(const struct pen_tensor_slice *slice,
                                  const struct pen_safetensor *tensor,
                                  float *values, struct pen_text *why);

/*
 * Whether the values of a slice stay in the subspace that the network's blocks
 * write to; INVALID where they do not.
 */
pen_status pen_network_check_slice(const struct pen_network *network,
                                   const struct pen_tensor_slice *slice,
                                   const float *values, struct pen_text *why);

/*
 * Loads the running statistics alone; does nothing where the network has none.
 */
pen_status pen_network_load_statistics(struct pen_network *network,
                                       const struct pen_weights *weights,
                                       struct pen_text *why);

#endif
