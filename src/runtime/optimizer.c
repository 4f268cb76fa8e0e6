#include "runtime/optimizer.h"

#include <math.h>

int pen_optimizer_moments(const struct pen_optimizer *optimizer)
{
    if (optimizer->kind == PEN_OPTIMIZER_ADAM)
        return 2;
    return optimizer->momentum > 0 ? 1 : 0;
}

double pen_gradient_norm(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    double sum = 0;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++)
        sum += engine->ops->gradient_sum_squares(
            engine, pen_network_parameter(network, i)->parameter);
    return sqrt(sum);
}

/* The small term is that of torch.nn.utils.clip_grad_norm_ and Megatron-LM. */
static double gradient_scale(const struct pen_optimizer *optimizer, double norm)
{
    if (optimizer->clip_norm == 0)
        return 1;
    double scale = optimizer->clip_norm / (norm + 1e-6);
    return scale < 1 ? scale : 1;
}

static double decay_of(const struct pen_optimizer *optimizer,
                       enum pen_role role)
{
    bool decays =
        optimizer->decay_group == PEN_DECAY_ALL || role == PEN_ROLE_MATRIX;
    return decays ? optimizer->weight_decay : 0;
}

void pen_optimizer_step(const struct pen_optimizer *optimizer,
                        struct pen_network *network, double learning_rate,
                        uint64_t step, double norm)
{
    struct pen_engine *engine = pen_network_engine(network);
    double scale = gradient_scale(optimizer, norm);
    struct pen_adamw adamw = {.learning_rate = learning_rate,
                              .beta1 = optimizer->beta1,
                              .beta2 = optimizer->beta2,
                              .epsilon = optimizer->epsilon,
                              .step = step,
                              .gradient_scale = scale};
    struct pen_sgd sgd = {.learning_rate = learning_rate,
                          .momentum = optimizer->momentum,
                          .is_nesterov = optimizer->is_nesterov,
                          .gradient_scale = scale};
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *parameter =
            pen_network_parameter(network, i);
        double decay = decay_of(optimizer, parameter->role);
        if (optimizer->kind == PEN_OPTIMIZER_ADAM) {
            adamw.weight_decay = decay;
            engine->ops->adamw_step(engine, parameter->parameter, &adamw);
        } else {
            sgd.weight_decay = decay;
            engine->ops->sgd_step(engine, parameter->parameter, &sgd);
        }
    }
}
