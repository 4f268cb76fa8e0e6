#ifndef PEN_SIM_TIMED_NETWORK_H
#define PEN_SIM_TIMED_NETWORK_H

#include "core/layer_messages.h"
#include "network/network.h"
#include "sim/timed_engine.h"

/*
 * A network whose layers take their time and do nothing: the chain, its
 * progress and its parameters are those of any other, so that the runtime sees
 * no difference. Stashes and holds have no bytes.
 */
struct pen_timed_part {
    double forward_sec; /* of all layers together, as the others */
    double input_sec;
    double weight_sec;
    double step_sec;
    uint32_t first_layer; /* as the model counts them */
    uint32_t num_layers;
    uint64_t num_parameters; /* without experts that are dealt out */
    uint64_t num_experts;    /* parameters of those that are here */
    uint32_t expert_ranks;   /* over which they are dealt out */
    /* one number per layer, instead of num_parameters; NULL: equal shares */
    const uint64_t *layer_parameters;
    /*
     * The messages of each layer, in addition to its seconds, borrowed for as
     * long as the network lives; NULL: none has any.
     */
    const struct pen_layer_messages *messages;
};

pen_status pen_timed_network_create(struct pen_timed_engine *timed,
                                    const struct pen_model *model,
                                    const struct pen_timed_part *part,
                                    struct pen_network **out,
                                    struct pen_text *why);

#endif
