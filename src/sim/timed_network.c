#include "sim/timed_network.h"

#include "network/chain.h"

#include <stdlib.h>

/* One micro-batch through one layer. */
struct timed_layer {
    struct pen__layer layer;
    struct pen_timed_engine *timed;
    double forward_sec;
    double input_sec;
    double weight_sec;
    const struct pen_layer_messages *messages;
    bool is_first; /* of its network */
    bool is_last;
};

static struct timed_layer *layer_of(struct pen__layer *layer)
{
    return (struct timed_layer *)(void *)layer;
}

static void free_layer(struct pen__layer *layer)
{
    free(layer_of(layer));
}

/* Spends the seconds of a pass in equal shares, with a round after each. */
static void compute(const struct timed_layer *it, double seconds,
                    const struct pen_pass_messages *sent, bool is_end)
{
    for (uint32_t i = 0; i < sent->count; i++) {
        pen_timed_engine_owe(it->timed, seconds / sent->count);
        pen_timed_engine_pay(it->timed, true);
        pen_timed_engine_exchange(it->timed, &sent->rounds[i]);
        pen_timed_engine_owe(it->timed, sent->rounds[i].after_sec);
    }
    if (sent->count == 0)
        pen_timed_engine_owe(it->timed, seconds);
    pen_timed_engine_pay(it->timed, is_end);
}

static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    const struct timed_layer *it = layer_of(layer);
    (void)x;
    (void)y;
    (void)pass;
    compute(it, it->forward_sec, &it->messages->forward, it->is_last);
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    const struct timed_layer *it = layer_of(layer);
    (void)pass;
    (void)x;
    (void)dy;
    (void)dx;
    compute(it, it->input_sec, &it->messages->input, it->is_first);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    const struct timed_layer *it = layer_of(layer);
    (void)pass;
    (void)x;
    (void)dy;
    compute(it, it->weight_sec, &it->messages->weight, it->is_first);
}

/* Sums gradients of which other ranks of the group have copies. */
static void finish_gradients(struct pen__layer *layer,
                             struct pen_engine *engine)
{
    const struct timed_layer *it = layer_of(layer);
    (void)engine;
    if (it->messages->copies.count > 0)
        compute(it, 0, &it->messages->copies, true);
}

static const struct pen__layer_ops ops = {.free = free_layer,
                                          .forward = forward,
                                          .backward_input = backward_input,
                                          .backward_weight = backward_weight,
                                          .finish_gradients = finish_gradients};

static const struct pen_layer_messages no_messages;

/* Returns a layer's share of `all` elements. */
static uint64_t share_of(const struct pen_timed_part *part, uint64_t all,
                         uint32_t index)
{
    return all * (index + 1) / part->num_layers -
           all * index / part->num_layers;
}

static pen_status add_elements(struct pen_network *network, uint64_t count,
                               struct pen_text *why)
{
    struct pen_network_parameter parameter = {
        .role = PEN_ROLE_MATRIX,
        .rows = 1,
        .columns = count,
        .num_slices = 1,
        .slices = {
            {.tensor = 0, .piece = {.num_rows = 1, .num_columns = count}}}};
    struct pen_parameter *same; /* nothing is pruned here */
    return pen__network_add(network, PEN_PARAMETER_VECTORS, &parameter, &same,
                            why);
}

static pen_status add_experts(struct pen_network *network,
                              const struct pen_timed_part *part, uint32_t index,
                              struct pen_text *why)
{
    pen_status status =
        add_elements(network, share_of(part, part->num_experts, index), why);
    if (status != PEN_OK)
        return status;
    struct pen_network_parameter *added =
        &network->parameters[network->num_parameters - 1];
    added->num_dealt = part->expert_ranks;
    network->dealt_bytes += pen_network_count(added) * sizeof(float);
    return PEN_OK;
}

static pen_status add_layer(struct pen_network *network,
                            struct pen_timed_engine *timed,
                            const struct pen_timed_part *part, uint32_t index,
                            struct pen_text *why)
{
    double share = 1.0 / part->num_layers;
    struct timed_layer *layer = calloc(1, sizeof *layer);
    if (layer == NULL)
        return PEN_NOMEM;
    *layer = (struct timed_layer){.layer = {.ops = &ops},
                                  .timed = timed,
                                  .messages = part->messages == NULL
                                                  ? &no_messages
                                                  : &part->messages[index],
                                  .forward_sec = share * part->forward_sec,
                                  .input_sec = share * part->input_sec,
                                  .weight_sec = share * part->weight_sec,
                                  .is_first = index == 0,
                                  .is_last = index + 1 == part->num_layers};
    network->layers[index] = &layer->layer;
    network->building = part->first_layer + index;
    pen_timed_engine_set_step(timed, share * part->step_sec);
    uint64_t count = part->layer_parameters != NULL
                         ? part->layer_parameters[index]
                         : share_of(part, part->num_parameters, index);
    pen_status status = add_elements(network, count, why);
    pen_timed_engine_set_step(timed, 0); /* the first has all seconds */
    if (status == PEN_OK && part->num_experts > 0)
        status = add_experts(network, part, index, why);
    return status;
}

pen_status pen_timed_network_create(struct pen_timed_engine *timed,
                                    const struct pen_model *model,
                                    const struct pen_timed_part *part,
                                    struct pen_network **out,
                                    struct pen_text *why)
{
    struct pen_network *network = calloc(1, sizeof *network);
    if (network == NULL)
        return PEN_NOMEM;
    network->options =
        (struct pen_network_options){.engine = pen_timed_engine(timed),
                                     .model = model,
                                     .first_layer = part->first_layer,
                                     .num_layers = part->num_layers};
    network->layers = calloc(part->num_layers, sizeof *network->layers);
    pen_status status = network->layers == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t i = 0; i < part->num_layers && status == PEN_OK; i++)
        status = add_layer(network, timed, part, i, why);
    if (status == PEN_OK)
        status = pen__network_seal(network, why);
    if (status == PEN_OK)
        *out = network;
    else
        pen_network_free(network);
    return status;
}
