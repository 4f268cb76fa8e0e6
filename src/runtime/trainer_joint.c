/*
 * Joint steps (rules.is_joint): stages step at times of their own, but with the
 * norm of the gradients of all of them. A rank has at most one step
 * outstanding:
 *
 *   IDLE -SYNC-> SUMMING -sums whole-> NORMING -norm-> KNOWN -STEP-> IDLE
 *
 * 1. SYNC sets the gradients of the step aside (exchange.h); backwards of the
 *    next step do not touch them.
 * 2. The norm is one sum over all ranks, of squares per tensor, each with one
 *    contributor, as after a synchronous step (trainer_step.c): it is
 *    bit-identical whichever rank has which stage.
 * 3. Every rank adds up steps in their order, and none before the last one is
 *    KNOWN, so that sums of different steps never meet.
 * 4. All of it moves on with polls, between layers and while ranks wait: a rank
 *    that computes holds others up for one layer at most.
 */
#include "base/bug.h"
#include "base/clock.h"
#include "runtime/trainer_internal.h"

#include <math.h>
#include <string.h>

static const struct pen_stage *stage_of(const struct pen_trainer *trainer)
{
    return pen_executor_stage(trainer->executor, 0);
}

/* ---- the norm ---- */

/* A gradient that several members have is counted by the first of them. */
static void add_squares(struct pen_trainer *trainer)
{
    struct pen_engine *engine = trainer->engine;
    const struct pen_stage *stage = stage_of(trainer);
    double *part =
        &trainer->squares[(size_t)trainer->joint.step *
                              pen_shape_parts(&trainer->layout.shape) +
                          stage->part];
    if (pen_layout_member(&trainer->layout, stage->stage) != 0)
        return;
    pen_exchange_lend(trainer->exchange, stage);
    for (size_t i = 0; i < pen_network_num_parameters(stage->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(stage->network, i);
        if (it->is_value_only)
            continue;
        pen__trainer_put_square(trainer, it);
    }
    pen_exchange_give_back(trainer->exchange, stage);
    pen_engine_await(engine);
    for (size_t i = 0; i < pen_network_num_parameters(stage->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(stage->network, i);
        if (!it->is_value_only)
            *part += *pen__trainer_square(trainer, it);
    }
}

static void begin_norm(struct pen_trainer *trainer)
{
    size_t count = pen__trainer_num_squares(trainer);
    memset(trainer->totals, 0, count * sizeof *trainer->totals);
    if (trainer->exchange != NULL)
        add_squares(trainer);
    pen_transport_sum(trainer->options.transport, trainer->totals, count,
                      &trainer->request);
}

void pen__trainer_poll_joint(struct pen_trainer *trainer)
{
    struct pen__joint *joint = &trainer->joint;
    if (joint->state == PEN__JOINT_SUMMING &&
        (trainer->exchange == NULL ||
         pen_exchange_is_summed(trainer->exchange, stage_of(trainer)))) {
        begin_norm(trainer);
        joint->state = PEN__JOINT_NORMING;
    }
    if (joint->state == PEN__JOINT_NORMING &&
        pen_transport_test(trainer->options.transport, &trainer->request) ==
            PEN_OK) {
        trainer->norms[joint->step] = pen__trainer_total_norm(trainer);
        joint->state = PEN__JOINT_KNOWN;
    }
}

/* ---- hooks of the executor ---- */

void pen__trainer_joint_sync(struct pen_trainer *trainer,
                             const struct pen_stage *stage)
{
    PEN_BUG_UNLESS(trainer->joint.state == PEN__JOINT_IDLE);
    if (trainer->exchange != NULL)
        pen_exchange_sync(trainer->exchange, stage);
    trainer->joint.state = PEN__JOINT_SUMMING;
    pen_executor_poll(trainer->executor);
}

static bool is_known(void *context)
{
    struct pen_trainer *trainer = context;
    pen__trainer_poll_joint(trainer);
    return trainer->joint.state == PEN__JOINT_KNOWN;
}

pen_status pen__trainer_joint_step(struct pen_trainer *trainer,
                                   const struct pen_stage *stage,
                                   struct pen_versions *versions,
                                   uint32_t version)
{
    pen_status status =
        pen_executor_wait(trainer->executor, is_known, trainer, PEN_NO_RANK);
    if (status != PEN_OK)
        return status;
    trainer->joint.state = PEN__JOINT_IDLE;
    double norm = trainer->norms[trainer->joint.step++];
    if (versions == NULL) {
        pen__trainer_sleep_step(trainer, stage);
        return PEN_OK;
    }
    status = pen_exchange_before_step(trainer->exchange, stage);
    if (status != PEN_OK)
        return status;
    int64_t begin = pen_clock_ns();
    pen_versions_step(versions, version, norm);
    trainer->step_ns += pen_clock_ns() - begin;
    return pen_exchange_after_step(trainer->exchange, stage);
}
