#ifndef PEN_NETWORK_WEIGHTS_H
#define PEN_NETWORK_WEIGHTS_H

#include "core/weights.h"
#include "network/network.h"

/*
 * Tensors of a model in and out of a network, one at a time, in the order and
 * shape they have in files. For engines whose master type is float.
 */

/* Loads the values of all parameters of the network from weights on disk. */
pen_status pen_network_load(struct pen_network *network,
                            const struct pen_weights *weights,
                            struct pen_text *why);

/* One part of one tensor that the network has, as num_elements floats. */
void pen_network_export(struct pen_network *network, uint32_t tensor,
                        enum pen_parameter_part part, float *plain);
void pen_network_import(struct pen_network *network, uint32_t tensor,
                        enum pen_parameter_part part, const float *plain);

/* Whether the network has the tensor; a tied head has the embedding's. */
bool pen_network_has(const struct pen_network *network, uint32_t tensor);

#endif
