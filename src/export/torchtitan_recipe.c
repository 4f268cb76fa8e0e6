/* The nearest recipe that torchtitan has. */
#include "export/torchtitan.h"

#define DUALPIPEV "dualpipev"

/* ---- experts ---- */

/* 0.3.0 gives an expert to one rank, unless there is no ep at all. */
static pen_status fit_expert_tp(const struct pen__titan *titan,
                                struct pen_plan *plan, struct pen_text *notes,
                                struct pen_text *why)
{
    uint32_t ep = plan->degrees[PEN_DEGREE_EP];
    uint32_t tp = plan->degrees[PEN_DEGREE_TP];
    if (ep == 1 && plan->expert_tp != 0) {
        pen_why(why,
                "%s shares the tensors of experts over tp if ep is 1; plan "
                "without --etp",
                titan->program);
        return PEN_INVALID;
    }
    if (plan->expert_tp > 1) {
        pen_why(why,
                "%s shares the tensors of experts over tp or not at all; plan "
                "with --etp 1",
                titan->program);
        return PEN_INVALID;
    }
    if (titan->is_old || ep == 1 || tp == 1 || plan->expert_tp == 1)
        return PEN_OK;
    plan->expert_tp = 1;
    pen__note(notes, "%s does not share the tensors of experts: expert_tp is 1",
              titan->program);
    return PEN_OK;
}

static pen_status check_dispatcher(const struct pen__titan *titan,
                                   struct pen_plan *plan, struct pen_text *why)
{
    struct pen_recipe *recipe = &plan->recipe;
    if (plan->degrees[PEN_DEGREE_EP] == 1)
        recipe->dispatcher = PEN_DISPATCHER_ALLTOALL;
    switch (recipe->dispatcher) {
    case PEN_DISPATCHER_ALLTOALL:
    case PEN_DISPATCHER_DEEPEP:
        return PEN_OK;
    case PEN_DISPATCHER_HYBRIDEP:
        if (!titan->is_old)
            return PEN_OK;
        break;
    case PEN_DISPATCHER_ALLGATHER:
    case PEN_DISPATCHERS:
        break;
    }
    pen_why(why, "%s has no dispatcher %s; plan with --dispatcher deepep",
            titan->program, pen_dispatcher_names[recipe->dispatcher]);
    return PEN_INVALID;
}

pen_status pen__titan_fit_experts(const struct pen__titan *titan,
                                  struct pen_plan *plan, struct pen_text *notes,
                                  struct pen_text *why)
{
    pen_status status = fit_expert_tp(titan, plan, notes, why);
    return status == PEN_OK ? check_dispatcher(titan, plan, why) : status;
}

/* ---- the rest, when schedule and recomputation are settled ---- */

bool pen__titan_can_overlap(const struct pen_plan *plan)
{
    return plan->degrees[PEN_DEGREE_PP] > 1 &&
           plan->degrees[PEN_DEGREE_EP] > 1 &&
           pen__schedule_is(plan, DUALPIPEV);
}

static pen_status check_overlap(const struct pen__titan *titan,
                                const struct pen_plan *plan,
                                struct pen_text *why)
{
    if (!plan->recipe.overlaps_experts)
        return PEN_OK;
    if (!pen__titan_can_overlap(plan) ||
        plan->stages[0].recompute != PEN_RECOMPUTE_NONE) {
        pen_why(why,
                "%s overlaps messages of experts in the schedule dualpipev "
                "without recomputation only; plan with both, or without "
                "--overlap-moe-expert-parallel-comm",
                titan->program);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_graphs(const struct pen__titan *titan,
                               const struct pen_plan *plan,
                               struct pen_text *why)
{
    bool is_single =
        plan->degrees[PEN_DEGREE_PP] == 1 && plan->degrees[PEN_DEGREE_EP] == 1;
    if (plan->recipe.graphs == PEN_GRAPHS_NONE ||
        (plan->recipe.graphs == PEN_GRAPHS_FULL && is_single))
        return PEN_OK;
    pen_why(why,
            "%s has graphs of a whole step with pp 1 and ep 1 only; plan with "
            "--graphs none",
            titan->program);
    return PEN_INVALID;
}

static pen_status check_moments(const struct pen__titan *titan,
                                const struct pen_plan *plan,
                                struct pen_text *why)
{
    uint32_t bytes = plan->recipe.moment_bytes;
    if (bytes == 0 || bytes == 4)
        return PEN_OK;
    pen_why(why,
            "%s keeps both moments in 8 or 4 bytes; plan with --moment-bytes 4",
            titan->program);
    return PEN_INVALID;
}

pen_status pen__titan_fit_recipe(const struct pen__titan *titan,
                                 struct pen_plan *plan, struct pen_text *notes,
                                 struct pen_text *why)
{
    struct pen_recipe *recipe = &plan->recipe;
    bool is_selective = plan->stages[0].recompute == PEN_RECOMPUTE_SELECTIVE;
    if (recipe->modules != 0 && is_selective)
        pen__note(notes, "%s chooses itself what it recomputes selectively",
                  titan->program);
    recipe->modules = 0;
    pen_status status =
        pen__check_recipe(plan,
                          titan->is_old ? "dispatcher overlap_experts"
                                        : "dispatcher graphs moment_bytes",
                          titan->program, why);
    if (status == PEN_OK)
        status = check_overlap(titan, plan, why);
    if (status == PEN_OK)
        status = check_graphs(titan, plan, why);
    if (status == PEN_OK)
        status = check_moments(titan, plan, why);
    return status;
}
