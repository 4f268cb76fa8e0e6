#include "schedule/deadlock.h"

#include "base/bug.h"
#include "schedule/machine.h"

#include <stdlib.h>

/* The wait of one rank when no rank can move. */
struct wait {
    uint32_t on;       /* the rank it waits for */
    uint32_t position; /* of the op in which it waits */
};

/* Returns the op in which a stopped rank waits: the compute op, or its send. */
static struct wait wait_of(const struct pen__run *run, uint32_t rank)
{
    const struct pen__program *program = run->program;
    const struct pen__rank_state *state = &run->ranks[rank];
    const struct pen__instr *instr = pen__run_instr(run, rank);
    struct wait wait = {rank, instr->op};
    if (instr->kind == PEN__STEP) {
        const struct pen_shape *shape = &program->shape;
        uint32_t number = run->step_done[instr->cost];
        for (uint32_t twin = instr->cost % program->stride;
             twin < shape->num_stages; twin += program->stride) {
            if (number < program->syncs[twin] && number >= run->sync_done[twin])
                wait.on = pen_shape_rank_of(shape, twin);
        }
    } else if (state->done == 2) {
        wait.on = program->channels[instr->send].destination;
        wait.position += instr->is_end ? 0 : 1;
    } else {
        wait.on = program->channels[instr->wait].source;
    }
    return wait;
}

static void describe_wait(const struct pen_schedule *schedule,
                          const struct pen__run *run, uint32_t rank,
                          struct wait wait, struct pen_text *out)
{
    const struct pen_op *op = &schedule->rows[rank].ops[wait.position];
    const struct pen_op_info *info = pen_op_info(op->kind);
    const char *cargo =
        info->direction == PEN_DIRECTION_ACT ? "an activation" : "a gradient";
    pen_text_add(out, "rank %u waits in ", rank);
    pen_op_print(op, out);
    if (op->kind == PEN_OP_STEP) {
        pen_text_add(out, " for the SYNC of the other %s on rank %u",
                     schedule->rules.is_joint ? "stage" : "copy", wait.on);
    } else if (info->op_class == PEN_OP_CLASS_SEND) {
        pen_text_add(out,
                     " for rank %u to post a receive: %u %s already in flight",
                     wait.on, run->program->window,
                     run->program->window == 1 ? "send is" : "sends are");
    } else {
        pen_text_add(out, " for %s of micro-batch %u from rank %u", cargo,
                     op->microbatch, wait.on);
    }
}

/* Follows the waits from any stopped rank until one comes twice. */
static pen_status describe_cycle(const struct pen_schedule *schedule,
                                 const struct pen__run *run,
                                 struct pen_finding *at, struct pen_text *out)
{
    uint32_t p = schedule->shape.num_ranks;
    uint8_t *has_seen = calloc(p, sizeof *has_seen);
    if (has_seen == NULL)
        return PEN_NOMEM;
    uint32_t rank = 0;
    while (run->ranks[rank].is_finished)
        rank++;
    while (!has_seen[rank]) {
        has_seen[rank] = 1;
        rank = wait_of(run, rank).on;
        PEN_BUG_UNLESS(!run->ranks[rank].is_finished);
    }
    uint32_t first = rank;
    do {
        struct wait wait = wait_of(run, rank);
        if (rank == first) {
            at->rank = rank;
            at->position = wait.position;
        } else {
            pen_text_add_string(out, "; ");
        }
        describe_wait(schedule, run, rank, wait, out);
        rank = wait.on;
    } while (rank != first);
    free(has_seen);
    return PEN_OK;
}

pen_status pen__explain_deadlock(const struct pen_schedule *schedule,
                                 uint32_t window, struct pen_finding *at,
                                 struct pen_text *out)
{
    struct pen__program *program = NULL;
    struct pen__ticks ticks = {.of = NULL};
    struct pen__run run = {.program = NULL};
    pen_status status =
        pen__program_create(schedule, window, false, &program, NULL);
    if (status == PEN_OK)
        status = pen__ticks_init(&ticks, program, NULL);
    if (status == PEN_OK)
        status = pen__run_init(&run, program, &ticks, NULL);
    if (status == PEN_OK) {
        bool has_finished = pen__run_all(&run);
        PEN_BUG_UNLESS(!has_finished);
        status = describe_cycle(schedule, &run, at, out);
    }
    pen__run_release(&run);
    pen__ticks_release(&ticks);
    pen__program_free(program);
    return status;
}
