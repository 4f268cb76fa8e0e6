#include "sim/timed_engine.h"

#include "engine/host_memory.h"

#include <stdlib.h>

struct pen_timed_engine {
    struct pen_engine engine;
    pen_spend *spend;
    pen_exchange_inside *exchange;
    void *context;
    double factor;
    bool is_fine;
    double owed_sec;
    double step_sec;
};

struct pen_parameter {
    struct pen_parameter_shape shape;
    double step_sec;
};

static struct pen_timed_engine *timed_of(struct pen_engine *engine)
{
    return (struct pen_timed_engine *)(void *)engine;
}

void pen_timed_engine_set_spend(struct pen_timed_engine *timed,
                                pen_spend *spend, void *context)
{
    timed->spend = spend;
    timed->context = context;
}

void pen_timed_engine_set_exchange(struct pen_timed_engine *timed,
                                   pen_exchange_inside *exchange)
{
    timed->exchange = exchange;
}

void pen_timed_engine_exchange(struct pen_timed_engine *timed,
                               const struct pen_message_round *round)
{
    timed->exchange(timed->context, round);
}

void pen_timed_engine_begin(struct pen_timed_engine *timed, double factor,
                            bool is_fine)
{
    timed->factor = factor;
    timed->is_fine = is_fine;
}

void pen_timed_engine_owe(struct pen_timed_engine *timed, double seconds)
{
    timed->owed_sec += seconds * timed->factor;
}

void pen_timed_engine_pay(struct pen_timed_engine *timed, bool is_end)
{
    double seconds = timed->owed_sec;
    if ((!is_end && !timed->is_fine) || seconds <= 0)
        return;
    timed->owed_sec = 0;
    timed->spend(timed->context, seconds);
}

void pen_timed_engine_set_step(struct pen_timed_engine *timed, double seconds)
{
    timed->step_sec = seconds;
}

/* ---- the table ---- */

static void free_engine(struct pen_engine *engine)
{
    free(timed_of(engine));
}

static size_t no_bytes(const struct pen_engine *engine)
{
    (void)engine;
    return 0;
}

static pen_status parameter_create(struct pen_engine *engine,
                                   const struct pen_parameter_shape *shape,
                                   struct pen_text *why,
                                   struct pen_parameter **out)
{
    struct pen_parameter *parameter = malloc(sizeof *parameter);
    if (parameter == NULL) {
        pen_why(why, "no memory for a parameter");
        return PEN_NOMEM;
    }
    *parameter =
        (struct pen_parameter){*shape, .step_sec = timed_of(engine)->step_sec};
    *out = parameter;
    return PEN_OK;
}

static void parameter_free(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    (void)engine;
    free(parameter);
}

static void parameter_shape(const struct pen_parameter *parameter,
                            struct pen_parameter_shape *out)
{
    *out = parameter->shape;
}

static pen_status add_moments(struct pen_engine *engine,
                              struct pen_parameter *parameter, int moments,
                              struct pen_text *why)
{
    (void)engine;
    (void)why;
    parameter->shape.moments = moments;
    return PEN_OK;
}

static pen_status add_copy(struct pen_engine *engine,
                           struct pen_parameter *parameter,
                           struct pen_text *why)
{
    (void)engine;
    (void)parameter;
    (void)why;
    return PEN_OK;
}

static void use_copy(struct pen_engine *engine, struct pen_parameter *parameter,
                     int copy)
{
    (void)engine;
    (void)parameter;
    (void)copy;
}

static void touch(struct pen_engine *engine, struct pen_parameter *parameter)
{
    (void)engine;
    (void)parameter;
}

/* A norm of 0, which gives no reason to clip. */
static void sum_squares(struct pen_engine *engine,
                        struct pen_parameter *parameter, double *sum)
{
    (void)engine;
    (void)parameter;
    *sum = 0;
}

static void adamw_step(struct pen_engine *engine,
                       struct pen_parameter *parameter,
                       const struct pen_adamw *adamw)
{
    struct pen_timed_engine *timed = timed_of(engine);
    (void)adamw;
    pen_timed_engine_owe(timed, parameter->step_sec);
    pen_timed_engine_pay(timed, true);
}

static const struct pen_engine_ops ops = {.name = "timed",
                                          .is_host = true,
                                          .take = pen_host_take,
                                          .give = pen_host_give,
                                          .copy = pen_host_copy,
                                          .mark = pen_host_mark,
                                          .is_reached = pen_host_is_reached,
                                          .fault = pen_host_fault,
                                          .free = free_engine,
                                          .memory_bytes = no_bytes,
                                          .scratch_bytes = no_bytes,
                                          .passing_bytes = no_bytes,
                                          .parameter_create = parameter_create,
                                          .parameter_free = parameter_free,
                                          .parameter_shape = parameter_shape,
                                          .parameter_add_moments = add_moments,
                                          .parameter_add_copy = add_copy,
                                          .parameter_swap = use_copy,
                                          .parameter_put = use_copy,
                                          .parameter_value_changed = touch,
                                          .gradient_clear = touch,
                                          .gradient_add_second = add_copy,
                                          .gradient_swap = touch,
                                          .gradient_sum_squares = sum_squares,
                                          .adamw_step = adamw_step};

pen_status pen_timed_engine_create(struct pen_timed_engine **out)
{
    struct pen_timed_engine *timed = calloc(1, sizeof *timed);
    if (timed == NULL)
        return PEN_NOMEM;
    timed->engine.ops = &ops;
    timed->engine.dtype = PEN_PRECISION_F32;
    timed->engine.threads = 1;
    timed->factor = 1;
    *out = timed;
    return PEN_OK;
}

struct pen_engine *pen_timed_engine(struct pen_timed_engine *timed)
{
    return &timed->engine;
}
