#include "runtime/optimizer.h"

#include "base/bug.h"
#include "core/any_model.h"
#include "engine/mirror.h"

#include <math.h>

const char *pen_optimizer_name(const struct pen_optimizer *optimizer)
{
    static const char *const names[] = {"adamw", "sgd", "muon"};
    return names[optimizer->kind];
}

int pen_optimizer_moments(const struct pen_optimizer *optimizer)
{
    if (optimizer->kind != PEN_STEP_RULE_SGD)
        return 2;
    return optimizer->momentum > 0 ? 1 : 0;
}

/* ---- Muon ---- */

static void tensor_of(const struct pen_network *network,
                      const struct pen_tensor_slice *slice,
                      struct pen_any_tensor *out)
{
    const struct pen_any_model model = {
        .decoder = (struct pen_model *)pen_network_model(network)};
    pen_any_model_tensor(&model, slice->tensor, out);
}

/* Whether Muon steps a parameter; tensors that share one are alike. */
static bool is_muon(const struct pen_optimizer *optimizer,
                    const struct pen_network *network, size_t parameter)
{
    struct pen_any_tensor tensor;
    if (optimizer->kind != PEN_STEP_RULE_MUON)
        return false;
    tensor_of(network, &pen_network_parameter(network, parameter)->slices[0],
              &tensor);
    return tensor.is_block_matrix;
}

/* Rows of a parameter that one of its tensors has. */
static struct pen_muon rows_of(const struct pen_network_parameter *it,
                               const struct pen_tensor_slice *slice)
{
    PEN_BUG_UNLESS(it->order == PEN_ORDER_ROWS || it->num_slices == 1);
    return (struct pen_muon){.first_row = slice->first / it->columns,
                             .num_rows = pen_tensor_piece_count(&slice->piece) /
                                         it->columns};
}

/* The rate for a matrix in the shape that files have, which is torch's. */
static double adjusted(const struct pen_optimizer *optimizer, double rate,
                       const struct pen_any_tensor *tensor)
{
    double rows = (double)tensor->shape[tensor->num_dims - 2];
    double columns = (double)tensor->shape[tensor->num_dims - 1];
    switch (optimizer->muon_adjust) {
    case PEN_MUON_MATCH_RMS_ADAMW:
        return rate * 0.2 * sqrt(fmax(rows, columns));
    case PEN_MUON_SPECTRAL_UNCLAMPED:
        return rate * sqrt(rows / columns);
    case PEN_MUON_ORIGINAL:
        break;
    }
    return rate * sqrt(fmax(1, rows / columns));
}

static void step_muon(const struct pen_optimizer *optimizer,
                      struct pen_network *network,
                      const struct pen_network_parameter *it,
                      const struct pen_update *update)
{
    struct pen_engine *engine = pen_network_engine(network);
    double rate = update->learning_rate * optimizer->muon_scale;
    for (size_t i = 0; i < it->num_slices; i++) {
        struct pen_any_tensor tensor;
        tensor_of(network, &it->slices[i], &tensor);
        struct pen_muon muon = rows_of(it, &it->slices[i]);
        muon.learning_rate = rate;
        muon.adjusted_rate = adjusted(optimizer, rate, &tensor);
        muon.momentum = optimizer->muon_momentum;
        muon.is_nesterov = !optimizer->is_muon_plain;
        muon.weight_decay = pen_optimizer_decay(optimizer, it);
        muon.gradient_scale = pen_optimizer_clip(optimizer, update->norm);
        engine->ops->muon_step(engine, it->parameter, &muon);
    }
    engine->ops->parameter_value_changed(engine, it->parameter);
}

int pen_optimizer_moments_of(const struct pen_optimizer *optimizer,
                             const struct pen_network *network,
                             size_t parameter)
{
    return is_muon(optimizer, network, parameter)
               ? 1
               : pen_optimizer_moments(optimizer);
}

pen_status pen_optimizer_prepare(const struct pen_optimizer *optimizer,
                                 struct pen_network *network, size_t parameter,
                                 struct pen_text *why)
{
    struct pen_engine *engine = pen_network_engine(network);
    const struct pen_network_parameter *it =
        pen_network_parameter(network, parameter);
    pen_status status = PEN_OK;
    if (!is_muon(optimizer, network, parameter))
        return PEN_OK;
    if (engine->ops->muon_prepare == NULL) {
        pen_why(why, "this --engine has no Muon. Use --engine onednn, or "
                     "--optimizer adam");
        return PEN_INVALID;
    }
    for (size_t i = 0; i < it->num_slices && status == PEN_OK; i++)
        status = engine->ops->muon_prepare(
            engine, rows_of(it, &it->slices[i]).num_rows, it->columns, why);
    return status;
}

/* ---- offsets of routers ---- */

/* A balancing bias moves where memory is the host's, so nothing is staged. */
static float *part_of(struct pen_engine *engine,
                      const struct pen_network_parameter *it,
                      enum pen_parameter_part part)
{
    struct pen_mirror mirror = {.engine = engine};
    PEN_BUG_UNLESS(engine->ops->is_host &&
                   pen_precision_master(engine->dtype) == PEN_PRECISION_F32);
    return pen_mirror_show(
        &mirror, &(struct pen_mirror_piece){.parameter = it->parameter,
                                            .part = part,
                                            .count = pen_network_count(it)});
}

/*
 * Moves offsets up where an expert took fewer tokens than the mean, and down
 * where it took more.
 */
static void step_offset(const struct pen_optimizer *optimizer,
                        struct pen_engine *engine,
                        const struct pen_network_parameter *it)
{
    size_t count = pen_network_count(it);
    double sum = 0;
    if (optimizer->router_bias_rate <= 0)
        return;
    const float *tokens = part_of(engine, it, PEN_PART_GRADIENT);
    float *value = part_of(engine, it, PEN_PART_VALUE);
    for (size_t e = 0; e < count; e++)
        sum += (double)tokens[e];
    for (size_t e = 0; e < count; e++) {
        double lacking = sum - (double)count * (double)tokens[e];
        double way = (lacking > 0) - (lacking < 0);
        value[e] =
            (float)((double)value[e] + optimizer->router_bias_rate * way);
    }
    engine->ops->parameter_value_changed(engine, it->parameter);
}

/* ---- all of them ---- */

/* The small term is that of torch.nn.utils.clip_grad_norm_ and Megatron-LM. */
double pen_optimizer_clip(const struct pen_optimizer *optimizer, double norm)
{
    if (optimizer->clip_norm == 0)
        return 1;
    double scale = optimizer->clip_norm / (norm + 1e-6);
    return scale < 1 ? scale : 1;
}

double pen_optimizer_decay(const struct pen_optimizer *optimizer,
                           const struct pen_network_parameter *parameter)
{
    bool decays = optimizer->decay_group == PEN_DECAY_ALL ||
                  parameter->role == PEN_ROLE_MATRIX;
    return decays && !parameter->has_anchor ? optimizer->weight_decay : 0;
}

void pen_optimizer_step(const struct pen_optimizer *optimizer,
                        struct pen_network *network, size_t parameter,
                        const struct pen_update *update)
{
    struct pen_engine *engine = pen_network_engine(network);
    const struct pen_network_parameter *it =
        pen_network_parameter(network, parameter);
    double scale = pen_optimizer_clip(optimizer, update->norm);
    double decay = pen_optimizer_decay(optimizer, it);
    if (it->role == PEN_ROLE_FIXED) {
        step_offset(optimizer, engine, it);
        return;
    }
    if (is_muon(optimizer, network, parameter)) {
        step_muon(optimizer, network, it, update);
    } else if (optimizer->kind != PEN_STEP_RULE_SGD) {
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
    pen_network_spread(network, parameter);
}
