/* The results of a simulation, as JSON (docs/formats.md). */
#include "cli/simulate/print.h"

#include "sim/mapping.h"

#include <string.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Prints a missing rank as null. */
static json_t *rank_json(uint32_t rank)
{
    return rank == UINT32_MAX ? json_null() : number(rank);
}

json_t *pen__simulate_head_json(const struct pen__simulate_job *job,
                                const struct pen__simulate_args *args)
{
    const struct pen_plan *plan = job->plan;
    return json_pack(
        "{s:s, s:i, s:s?, s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:b, s:o, s:f}",
        "format", "penstock-simulation", "version", 1, "model", plan->model,
        "cluster", job->planning.cluster->name, "schedule", plan->schedule.name,
        "devices", number(pen_plan_num_ranks(plan)), "ranks",
        number(job->simulation.platform.num_ranks), "replicas",
        number(pen_mesh_num_replicas(&job->simulation.mesh)), "mapping",
        pen_mapping_names[args->mapping], "topology",
        args->topology_text == NULL ? "levels" : args->topology_text,
        "is_uncontended", (int)args->is_uncontended, "seed", number(args->seed),
        "predicted_sec", job->predicted_sec);
}

static json_t *shares_json(const struct pen_sim_result *result)
{
    struct pen__simulate_share shares[PEN__SIM_SPENDINGS];
    json_t *spent = json_object();
    pen__simulate_shares(result, shares);
    for (int i = 0; i < PEN__SIM_SPENDINGS; i++)
        json_object_set_new(spent, shares[i].key,
                            json_pack("{s:f, s:f, s:o}", "mean_sec",
                                      shares[i].mean_sec, "most_sec",
                                      shares[i].most_sec, "rank",
                                      number(shares[i].worst)));
    return spent;
}

static json_t *links_json(const struct pen_sim_result *result)
{
    json_t *links = json_array();
    for (uint32_t i = 0; i < result->num_links; i++) {
        const struct pen_sim_link *link = &result->links[i];
        pen__json_append(&links, json_pack("{s:s, s:f, s:f}", "name",
                                           link->name, "bytes", link->bytes,
                                           "utilisation", link->utilisation));
    }
    return links;
}

/* Makes the seconds of each rank, all steps together. */
static json_t *ranks_json(const struct pen_sim_result *result)
{
    json_t *ranks = json_array();
    for (uint32_t i = 0; i < result->num_ranks; i++) {
        const struct pen_rank_seconds *rank = &result->ranks[i];
        pen__json_append(
            &ranks, json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:f}", "busy_sec",
                              rank->busy_sec, "inside_sec", rank->inside_sec,
                              "pipeline_sec", rank->pipeline_sec, "sums_sec",
                              rank->sums_sec, "all_sec", rank->all_sec,
                              "longest_for", rank_json(rank->longest_for),
                              "longest_sec", rank->longest_sec));
    }
    return ranks;
}

static json_t *steps_json(const struct pen_sim_result *result)
{
    json_t *steps = json_array();
    for (uint32_t i = 0; i < result->num_steps; i++)
        pen__json_append(&steps, json_real(result->step_sec[i]));
    return steps;
}

static json_t *stuck_json(const struct pen_sim_result *result)
{
    json_t *waiting = json_array();
    for (uint32_t i = 0; i < result->num_ranks; i++)
        pen__json_append(&waiting, rank_json(result->waiting_for[i]));
    return waiting;
}

static json_t *result_json(const struct pen_sim_result *result)
{
    json_t *object = json_pack(
        "{s:b, s:o, s:o, s:o, s:f, s:o}", "is_stuck", (int)result->is_stuck,
        "messages", number(result->num_messages), "messages_inside",
        number(result->num_inside), "bytes_inside",
        number((uint64_t)result->inside_bytes), "host_sec", result->host_sec,
        "host_bytes", number(result->peak_bytes));
    if (result->is_stuck) {
        json_object_set_new(object, "waiting_for", stuck_json(result));
        return object;
    }
    json_object_set_new(object, "step_sec",
                        json_real(pen__simulate_step_sec(result)));
    json_object_set_new(object, "steps_sec", steps_json(result));
    json_object_set_new(object, "spent", shares_json(result));
    json_object_set_new(object, "links", links_json(result));
    json_object_set_new(object, "per_rank", ranks_json(result));
    return object;
}

json_t *pen__simulate_json(const struct pen__simulate_report *report)
{
    json_t *object = pen__simulate_head_json(report->job, report->args);
    json_object_set_new(object, "simulated", result_json(report->result));
    if (report->plain == NULL)
        return object;
    json_object_set_new(object, "undisturbed", result_json(report->plain));
    json_object_set_new(
        object, "waited_for",
        json_stringn(report->waited_for, strcspn(report->waited_for, "\n")));
    return object;
}
