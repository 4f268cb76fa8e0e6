#include "runtime/corrections.h"

#include "base/bug.h"

#include <math.h>

/* PipeMare: the share of an average that is left after its delay. */
#define AVERAGE_DECAY 0.135

static uint32_t delay_of(const struct pen_correction_setup *setup)
{
    return setup->num_stages - 1 - setup->stage;
}

static double delay_in_steps(const struct pen_correction_setup *setup)
{
    return (double)delay_of(setup) / setup->period;
}

bool pen_correction_averages(const struct pen_correction_setup *setup)
{
    return setup->kind == PEN_CORRECTION_AVERAGE && delay_of(setup) > 0;
}

double pen_correction_distance(const struct pen_correction_setup *setup,
                               const struct pen_op *op)
{
    bool is_forward = op->kind == PEN_OP_FORWARD;
    uint32_t delay = delay_of(setup);
    uint32_t half = setup->stage / 2;
    switch (setup->kind) {
    case PEN_CORRECTION_MOMENTUM:
        return half + (is_forward ? delay : 0);
    case PEN_CORRECTION_ADAM:
        return is_forward && op->version != PEN_OP_CURRENT
                   ? op->microbatch / setup->period - op->version
                   : 0;
    case PEN_CORRECTION_AHEAD:
        return op->version != PEN_OP_CURRENT
                   ? op->microbatch / setup->period - op->version
                   : 0;
    case PEN_CORRECTION_AVERAGE:
        return is_forward ? 0 : delay_in_steps(setup);
    case PEN_CORRECTION_SPIKE:
        return is_forward ? delay : 0;
    case PEN_CORRECTION_NONE:
        break;
    }
    return 0;
}

static float *show(struct pen_mirror *mirror, const struct pen_network *network,
                   size_t parameter, enum pen_parameter_part part)
{
    const struct pen_network_parameter *it =
        pen_network_parameter(network, parameter);
    const struct pen_mirror_piece piece = {.parameter = it->parameter,
                                           .part = part,
                                           .count = pen_network_count(it)};
    return pen_mirror_show(mirror, &piece);
}

/* Writes back a value that was changed in the mirror. */
static void put_value(struct pen_mirror *mirror)
{
    struct pen_engine *engine = mirror->engine;
    pen_mirror_put(mirror);
    engine->ops->parameter_value_changed(engine, mirror->piece.parameter);
}

static void move_along(float *value, const float *direction, size_t count,
                       float far)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        value[i] -= far * direction[i];
}

static void move_along_adam(const struct pen_optimizer *optimizer, float *value,
                            const float *first, const float *second,
                            size_t count, double far, uint64_t steps)
{
    float rate = (float)(far / (1 - pow(optimizer->beta1, (double)steps)));
    float unbias = (float)(1 / sqrt(1 - pow(optimizer->beta2, (double)steps)));
    float epsilon = (float)optimizer->epsilon;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        value[i] -= rate * first[i] / (sqrtf(second[i]) * unbias + epsilon);
}

void pen_correction_predict(const struct pen_correction_setup *setup,
                            struct pen_mirror *mirrors,
                            struct pen_network *network, size_t parameter,
                            double distance, const float *average,
                            const struct pen_correction_moment *at)
{
    size_t count = pen_network_count(pen_network_parameter(network, parameter));
    double far = distance * at->learning_rate;
    float *value = show(&mirrors[0], network, parameter, PEN_PART_VALUE);
    bool is_adam = setup->optimizer->kind == PEN_STEP_RULE_ADAM;
    enum pen_correction kind = setup->kind != PEN_CORRECTION_AHEAD ? setup->kind
                               : is_adam ? PEN_CORRECTION_ADAM
                                         : PEN_CORRECTION_MOMENTUM;
    switch (kind) {
    case PEN_CORRECTION_MOMENTUM:
    case PEN_CORRECTION_SPIKE:
        move_along(value,
                   show(&mirrors[1], network, parameter, PEN_PART_MOMENT1),
                   count, (float)far);
        break;
    case PEN_CORRECTION_ADAM:
        if (at->steps == 0) /* there is no direction yet */
            return;
        move_along_adam(setup->optimizer, value,
                        show(&mirrors[1], network, parameter, PEN_PART_MOMENT1),
                        show(&mirrors[2], network, parameter, PEN_PART_MOMENT2),
                        count, far, at->steps);
        break;
    case PEN_CORRECTION_AVERAGE:
        move_along(value, average, count, (float)distance);
        break;
    case PEN_CORRECTION_AHEAD:
    case PEN_CORRECTION_NONE:
        PEN_BUG_UNLESS(false);
    }
    put_value(&mirrors[0]);
}

static void spike_step(const struct pen_correction_setup *setup,
                       struct pen_mirror *mirrors, struct pen_network *network,
                       size_t parameter, double learning_rate)
{
    const struct pen_optimizer *optimizer = setup->optimizer;
    size_t count = pen_network_count(pen_network_parameter(network, parameter));
    float *value = show(&mirrors[0], network, parameter, PEN_PART_VALUE);
    float *moment = show(&mirrors[1], network, parameter, PEN_PART_MOMENT1);
    const float *gradient =
        show(&mirrors[2], network, parameter, PEN_PART_GRADIENT);
    double left = pow(optimizer->momentum, delay_of(setup));
    float momentum = (float)optimizer->momentum;
    float carried = (float)left;
    float direct = (float)((1 - left) / (1 - optimizer->momentum));
    float rate = (float)learning_rate;
    float decay = (float)pen_optimizer_decay(
        optimizer, pen_network_parameter(network, parameter));
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float slope = gradient[i] + decay * value[i];
        float now = momentum * moment[i] + slope;
        moment[i] = now;
        value[i] -= rate * (carried * now + direct * slope);
    }
    pen_mirror_put(&mirrors[1]);
    put_value(&mirrors[0]);
}

/* The rate with a user's discount: full after K stale steps. */
static double discounted_rate(const struct pen_correction_setup *setup,
                              const struct pen_correction_moment *at)
{
    const struct pen_cures *cures = &setup->cures;
    uint64_t stale = at->steps - cures->stale_after;
    if (stale >= cures->discount_steps)
        return at->learning_rate;
    double power = 1 - (double)stale / (double)cures->discount_steps;
    return at->learning_rate / pow(1.0 + setup->most_late, power);
}

/* A rate that is smaller for longer delays, until the run is well under way. */
static double annealed_rate(const struct pen_correction_setup *setup,
                            const struct pen_correction_moment *at)
{
    double delay = delay_in_steps(setup);
    if (pen_correction_is_flushed(setup, at))
        return at->learning_rate;
    if (setup->kind != PEN_CORRECTION_AVERAGE || delay <= 1 ||
        at->steps >= setup->anneal_steps)
        return discounted_rate(setup, at);
    double power = 1 - (double)at->steps / (double)setup->anneal_steps;
    return at->learning_rate / pow(delay, power);
}

void pen_correction_step(const struct pen_correction_setup *setup,
                         struct pen_mirror *mirrors,
                         struct pen_network *network, size_t parameter,
                         const struct pen_correction_moment *at)
{
    struct pen_update update = {.learning_rate = annealed_rate(setup, at),
                                .step = at->steps + 1,
                                .norm = at->norm};
    if (setup->kind == PEN_CORRECTION_SPIKE && delay_of(setup) > 0 &&
        !pen_correction_is_flushed(setup, at))
        spike_step(setup, mirrors, network, parameter, at->learning_rate);
    else
        pen_optimizer_step(setup->optimizer, network, parameter, &update);
}

void pen_correction_average(const struct pen_correction_setup *setup,
                            size_t count, const float *before,
                            const float *behind, float *average)
{
    float kept = (float)pow(AVERAGE_DECAY, 1 / delay_in_steps(setup));
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        average[i] = kept * average[i] + (1 - kept) * (behind[i] - before[i]);
}
