#include "cli/plan/cells.h"

#include "cli/plan/figures.h"
#include "cli/plan/print.h"

#include <inttypes.h>

const char *pen__plan_unit(uint32_t sequence)
{
    return sequence == 1 ? "samples" : "tokens";
}

double pen__gib(uint64_t bytes)
{
    return (double)bytes / 0x1p30;
}

struct pen__plan_spent pen__plan_spent(const struct pen_plan *plan,
                                       const struct pen_prediction *prediction)
{
    double samples = (double)pen_plan_global_batch(plan);
    double devices = (double)pen_plan_num_ranks(plan);
    double device_sec = devices * prediction->step_sec;
    double flops = prediction->model_flops / device_sec;
    return (struct pen__plan_spent){
        .samples_per_sec = samples / prediction->step_sec,
        .tokens_per_device = prediction->tokens_per_sec / devices,
        .flops_per_device = flops,
        .peak_per_device =
            prediction->utilisation > 0 ? flops / prediction->utilisation : 0,
        .device_sec_per_sample = device_sec / samples,
        .busy_share = prediction->busy_sec / device_sec,
        .watts = prediction->joules / prediction->step_sec,
        .joules_per_sample = prediction->joules / samples,
        .price_per_sample = prediction->price / samples};
}

struct pen__plan_run pen__plan_run(const struct pen_plan *plan,
                                   const struct pen_prediction *prediction,
                                   double tokens)
{
    double seconds = tokens / prediction->tokens_per_sec;
    double steps = seconds / prediction->step_sec;
    return (struct pen__plan_run){
        .days = seconds / 86400,
        .device_hours = seconds / 3600 * (double)pen_plan_num_ranks(plan),
        .price = steps * prediction->price,
        .kwh = steps * prediction->joules / 3.6e6};
}

void pen__plan_add_run(const struct pen_plan *plan,
                       const struct pen_prediction *it, double tokens,
                       struct pen_text *out)
{
    struct pen__plan_run run = pen__plan_run(plan, it, tokens);
    pen__add_large(out, tokens);
    pen_text_add(out, " %s: ", pen__plan_unit(plan->sequence));
    pen__add_figure(out, run.days);
    pen_text_add_string(out, " days, ");
    pen__add_figure(out, run.device_hours);
    pen_text_add_string(out, " device-hours");
    if (run.price > 0) {
        pen_text_add_string(out, ", a price of ");
        pen__add_figure(out, run.price);
    }
    if (run.kwh > 0) {
        pen_text_add_string(out, ", ");
        pen__add_figure(out, run.kwh);
        pen_text_add_string(out, " kWh");
    }
    pen_text_add_string(
        out, "; interruptions, checkpoints and evaluations not counted");
}

void pen__plan_print_energy(const struct pen__plan_spent *spent,
                            double joules_per_billion, const char *unit,
                            struct pen_text *out)
{
    pen__add_figure(out, spent->joules_per_sample);
    pen_text_add_string(out, " J a sample at ");
    pen__add_figure(out, spent->watts);
    pen_text_add_string(out, " W; ");
    pen__add_figure(out, joules_per_billion / 3.6e6);
    pen_text_add(out, " kWh for 1 billion %s", unit);
}

static const char *schedule_name(const struct pen_plan *plan)
{
    if (plan->degrees[PEN_DEGREE_PP] == 1)
        return "-";
    return plan->schedule.name != NULL ? plan->schedule.name
                                       : plan->schedule.file;
}

uint32_t pen__plan_recomputed(const struct pen_plan *plan)
{
    uint32_t count = 0;
    while (count < plan->num_stages &&
           plan->stages[count].recompute == plan->stages[0].recompute)
        count++;
    return count;
}

void pen__plan_add_recompute(const struct pen_plan *plan, struct pen_table *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    uint32_t count = pen__plan_recomputed(plan);
    pen_recompute_print(plan->stages[0].recompute, plan->recipe.modules, &text);
    if (count < plan->num_stages)
        pen_text_add(&text, ", %u of %u stages", count, plan->num_stages);
    pen_table_add(out, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

void pen__plan_add_layout(const struct pen_plan *plan, struct pen_table *out)
{
    static const enum pen_degree order[] = {PEN_DEGREE_TP, PEN_DEGREE_CP,
                                            PEN_DEGREE_PP, PEN_DEGREE_VPP,
                                            PEN_DEGREE_EP, PEN_DEGREE_DP};
    bool is_told =
        plan->has_sequence_parallel && plan->target == PEN_TARGET_PENSTOCK;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        pen_table_add(out, i == 0 && is_told ? "sp %u" : "%u",
                      plan->degrees[order[i]]);
    pen_table_add(out, "%u x %u", plan->num_microbatches, plan->micro_batch);
    pen_table_add(out, "%s", schedule_name(plan));
    pen__plan_add_recompute(plan, out);
    pen__plan_add_sharding(plan, out);
}

void pen__plan_add_sharding(const struct pen_plan *plan, struct pen_table *out)
{
    if (plan->sharding_group > 0)
        pen_table_add(out, "%s/%u", pen_sharding_names[plan->sharding],
                      plan->sharding_group);
    else
        pen_table_add(out, "%s", pen_sharding_names[plan->sharding]);
}

void pen__plan_add_memory(const struct pen_prediction *prediction,
                          struct pen_table *out)
{
    for (uint32_t i = 0; i < prediction->num_memory;) {
        const struct pen_plan_memory *memory = &prediction->memory[i];
        uint32_t count = pen__plan_same_ranks(prediction, i);
        if (count > 1)
            pen_table_add(out, "%u to %u", i, i + count - 1);
        else
            pen_table_add(out, "%u", i);
        pen_table_add(out, "%" PRIu64, memory->count * count);
        for (int part = 0; part < PEN_MEMORY_PARTS; part++)
            pen_table_add(out, "%.2f", pen__gib(memory->bytes[part]));
        pen_table_add(out, "%.2f", pen__gib(pen_plan_memory_bytes(memory)));
        i += count;
    }
}

void pen__plan_add_neighbour(const struct pen_neighbour *other,
                             const struct pen_prediction *best,
                             struct pen_table *out)
{
    struct pen_text layout = PEN_TEXT_EMPTY;
    pen_candidate_print(&other->candidate, &layout);
    pen_table_add(out, "%s", other->choice);
    pen_table_add(out, "%s", pen_text_string(&layout));
    pen_text_release(&layout);
    if (!other->is_predicted) {
        pen_table_add(out, "-");
        pen_table_add(out, "-");
        return;
    }
    pen_table_add(out, "%+.1f", 1e3 * (other->step_sec - best->step_sec));
    pen_table_add(out, "%+.1f",
                  pen__gib(other->peak_bytes) - pen__gib(best->peak_bytes));
}
