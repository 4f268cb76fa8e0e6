#include "runtime/optimizer.h"

#include <math.h>

const char *pen_optimizer_name(const struct pen_optimizer *optimizer)
{
    return optimizer->kind == PEN_STEP_RULE_ADAM ? "adamw" : "sgd";
}

int pen_optimizer_moments(const struct pen_optimizer *optimizer)
{
    if (optimizer->kind == PEN_STEP_RULE_ADAM)
        return 2;
    return optimizer->momentum > 0 ? 1 : 0;
}

/* The small term is that of torch.nn.utils.clip_grad_norm_ and Megatron-LM. */
double pen_optimizer_clip(const struct pen_optimizer *optimizer, double norm)
{
    if (optimizer->clip_norm == 0)
        return 1;
    double scale = optimizer->clip_norm / (norm + 1e-6);
    return scale < 1 ? scale : 1;
}

double pen_optimizer_decay(const struct pen_optimizer *optimizer,
                           enum pen_role role)
{
    bool decays =
        optimizer->decay_group == PEN_DECAY_ALL || role == PEN_ROLE_MATRIX;
    return decays ? optimizer->weight_decay : 0;
}

void pen_optimizer_step(const struct pen_optimizer *optimizer,
                        struct pen_network *network, size_t parameter,
                        const struct pen_update *update)
{
    struct pen_engine *engine = pen_network_engine(network);
    const struct pen_network_parameter *it =
        pen_network_parameter(network, parameter);
    double scale = pen_optimizer_clip(optimizer, update->norm);
    double decay = pen_optimizer_decay(optimizer, it->role);
    if (optimizer->kind == PEN_STEP_RULE_ADAM) {
        struct pen_adamw adamw = {.learning_rate = update->learning_rate,
                                  .beta1 = optimizer->beta1,
                                  .beta2 = optimizer->beta2,
                                  .epsilon = optimizer->epsilon,
                                  .weight_decay = decay,
                                  .step = update->step,
                                  .gradient_scale = scale};
        engine->ops->adamw_step(engine, it->parameter, &adamw);
    } else {
        struct pen_sgd sgd = {.learning_rate = update->learning_rate,
                              .momentum = optimizer->momentum,
                              .is_nesterov = optimizer->is_nesterov,
                              .weight_decay = decay,
                              .gradient_scale = scale};
        engine->ops->sgd_step(engine, it->parameter, &sgd);
    }
}
