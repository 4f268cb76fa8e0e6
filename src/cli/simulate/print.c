/* The results of a simulation, in words. */
#include "cli/simulate/print.h"

#include "base/table.h"
#include "sim/mapping.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MOST_LINKS 8u
#define MOST_STUCK 16u
#define SLOWER 0.01 /* than the planner says: worth a word */
#define FULL 0.25   /* of a link: messages meet on it */

void pen__simulate_print_head(const struct pen__simulate_job *job,
                              const struct pen__simulate_args *args,
                              struct pen_text *out)
{
    const struct pen_plan *plan = job->plan;
    uint32_t num_ranks = job->simulation.platform.num_ranks;
    uint64_t num_devices = pen_plan_num_ranks(plan);
    pen_text_add(out, "%s on %" PRIu64 " devices of %s: %u ranks",
                 plan->model == NULL ? "model" : plan->model, num_devices,
                 job->planning.cluster->name, num_ranks);
    if (num_devices > num_ranks)
        pen_text_add(out, " of %" PRIu64 " in lockstep",
                     num_devices / num_ranks);
    pen_text_add(out,
                 ", %u to a pipeline of %u micro-batches under %s; mapping %s, "
                 "links %s%s\n",
                 plan->degrees[PEN_DEGREE_PP], plan->num_microbatches,
                 plan->schedule.name, pen_mapping_names[args->mapping],
                 args->topology_text == NULL ? "levels" : args->topology_text,
                 args->is_uncontended ? ", not shared" : "");
}

/* Seconds of a rank, all steps together: key, words, place. */
static const struct {
    const char *key;
    const char *words;
    size_t offset;
} spendings[PEN__SIM_OTHER] = {
    {"busy", "computing", offsetof(struct pen_rank_seconds, busy_sec)},
    {"inside", "messages inside layers",
     offsetof(struct pen_rank_seconds, inside_sec)},
    {"pipeline", "waiting for the pipeline",
     offsetof(struct pen_rank_seconds, pipeline_sec)},
    {"sums", "waiting for sums", offsetof(struct pen_rank_seconds, sums_sec)},
    {"all", "waiting for all", offsetof(struct pen_rank_seconds, all_sec)}};

static double seconds_at(const struct pen_rank_seconds *rank, int spending)
{
    size_t offset = spendings[spending].offset;
    return *(const double *)(const void *)((const char *)rank + offset);
}

/* Returns the rest of the run's seconds. */
static double other_of(const struct pen_rank_seconds *rank, double all_sec)
{
    for (int i = 0; i < PEN__SIM_OTHER; i++)
        all_sec -= seconds_at(rank, i);
    return fmax(0, all_sec);
}

static void add_share(struct pen__simulate_share *share, double sec,
                      uint32_t rank, uint32_t num_ranks)
{
    share->mean_sec += sec / num_ranks;
    if (sec <= share->most_sec)
        return;
    share->most_sec = sec;
    share->worst = rank;
}

void pen__simulate_shares(const struct pen_sim_result *result,
                          struct pen__simulate_share out[PEN__SIM_SPENDINGS])
{
    double per_step = result->num_steps == 0 ? 0 : 1.0 / result->num_steps;
    double all_sec = 0;
    for (uint32_t i = 0; i < result->num_steps; i++)
        all_sec += result->step_sec[i];
    for (int i = 0; i < PEN__SIM_OTHER; i++)
        out[i] = (struct pen__simulate_share){.key = spendings[i].key,
                                              .words = spendings[i].words};
    out[PEN__SIM_OTHER] =
        (struct pen__simulate_share){.key = "other", .words = "other"};
    for (uint32_t i = 0; i < result->num_ranks; i++) {
        const struct pen_rank_seconds *rank = &result->ranks[i];
        for (int j = 0; j < PEN__SIM_OTHER; j++)
            add_share(&out[j], per_step * seconds_at(rank, j), i,
                      result->num_ranks);
        add_share(&out[PEN__SIM_OTHER], per_step * other_of(rank, all_sec), i,
                  result->num_ranks);
    }
}

static void print_shares(const struct pen__simulate_report *report,
                         struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"parts of a step", false, false},
        {"mean", true, false},
        {"share", true, false},
        {"most", true, false},
        {"rank", true, false}};
    struct pen__simulate_share shares[PEN__SIM_SPENDINGS];
    double all_sec = 0;
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    pen__simulate_shares(report->result, shares);
    for (int i = 0; i < PEN__SIM_SPENDINGS; i++)
        all_sec += shares[i].mean_sec;
    for (int i = 0; i < PEN__SIM_SPENDINGS; i++) {
        const struct pen__simulate_share *share = &shares[i];
        if (report->job->simulated.messages == NULL &&
            strcmp(share->key, "inside") == 0)
            continue;
        pen_table_add(&table, "%s", share->words);
        pen_table_add(&table, "%.4g s", share->mean_sec);
        pen_table_add(&table, "%.1f %%", 100 * share->mean_sec / all_sec);
        pen_table_add(&table, "%.4g s", share->most_sec);
        pen_table_add(&table, "%u", share->worst);
    }
    pen_text_add_string(out, "\n");
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void print_links(const struct pen_sim_result *result,
                        struct pen_text *out)
{
    static const struct pen_column columns[] = {{"fullest links", false, false},
                                                {"bytes", true, false},
                                                {"full", true, false}};
    struct pen_table table;
    if (result->num_links == 0)
        return;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < result->num_links && i < MOST_LINKS; i++) {
        const struct pen_sim_link *link = &result->links[i];
        pen_table_add(&table, "%s", link->name);
        pen_table_add(&table, "%.4g GB", 1e-9 * link->bytes);
        pen_table_add(&table, "%.1f %%", 100 * link->utilisation);
    }
    pen_text_add_string(out, "\n");
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void print_rank(const struct pen__simulate_job *job, uint32_t rank,
                       struct pen_text *out)
{
    const struct pen_mesh *mesh = &job->simulation.mesh;
    pen_text_add(out, "rank %u (row %u of pipeline %u)", rank,
                 pen_mesh_row(mesh, rank), pen_mesh_replica(mesh, rank));
}

/*
 * Returns whether a rank fails by the options, and therefore waits for no
 * other.
 */
static bool is_gone(const struct pen_disturbances *all, uint32_t rank)
{
    char name[sizeof all->failures[0].name];
    snprintf(name, sizeof name, "rank-%u", rank);
    for (uint32_t i = 0; i < all->num_failures; i++)
        if (strcmp(all->failures[i].name, name) == 0)
            return true;
    return false;
}

static void print_failures(const struct pen_disturbances *all,
                           struct pen_text *out)
{
    for (uint32_t i = 0; i < all->num_failures; i++)
        pen_text_add(out, "  %s failed at %.6g s\n", all->failures[i].name,
                     all->failures[i].at_sec);
}

/* Prints what failed, and which rank waits for which, one line each. */
static void print_stuck(const struct pen__simulate_report *report,
                        struct pen_text *out)
{
    const struct pen_sim_result *result = report->result;
    uint32_t told = 0;
    uint32_t waiting = 0;
    uint32_t others = 0;
    pen_text_add_string(out, "the simulation got stuck:\n");
    print_failures(&report->args->disturbances, out);
    for (uint32_t i = 0; i < result->num_ranks; i++) {
        if (is_gone(&report->args->disturbances, i))
            continue;
        if (result->waiting_for[i] == UINT32_MAX) {
            others++;
            continue;
        }
        waiting++;
        if (told == MOST_STUCK)
            continue;
        told++;
        pen_text_add_string(out, "  ");
        print_rank(report->job, i, out);
        pen_text_add_string(out, " waits for ");
        print_rank(report->job, result->waiting_for[i], out);
        if (is_gone(&report->args->disturbances, result->waiting_for[i]))
            pen_text_add_string(out, ", which failed");
        pen_text_add_string(out, "\n");
    }
    if (waiting > told)
        pen_text_add(out, "  and %u more\n", waiting - told);
    if (others > 0)
        pen_text_add(out, "  %u wait for sums with all ranks, or are done\n",
                     others);
}

/*
 * Prints contention, which the planner leaves out: there no message waits for
 * another.
 */
static void print_contention(const struct pen__simulate_report *report,
                             const struct pen_sim_result *plain,
                             struct pen_text *out)
{
    const struct pen_sim_link *fullest = &plain->links[0];
    double longer =
        pen__simulate_step_sec(plain) / report->job->predicted_sec - 1;
    if (report->args->is_uncontended || longer < SLOWER ||
        plain->num_links == 0 || fullest->utilisation < FULL)
        return;
    pen_text_add(out,
                 "%s is %.0f %% full: messages wait for each other; "
                 "--no-contention shows the step without that\n",
                 fullest->name, 100 * fullest->utilisation);
}

/*
 * Prints the step. The planner does not predict disturbances, so its figure is
 * compared with the undisturbed run.
 */
static void print_step(const struct pen__simulate_report *report,
                       struct pen_text *out)
{
    const struct pen__simulate_job *job = report->job;
    const struct pen_sim_result *plain =
        report->plain == NULL ? report->result : report->plain;
    double plain_sec = pen__simulate_step_sec(plain);
    double sec = pen__simulate_step_sec(report->result);
    pen_text_add(out,
                 "a step takes %.4g s in the simulation, %.4g s predicted by "
                 "the planner: %+.1f %%\n",
                 plain_sec, job->predicted_sec,
                 100 * (plain_sec / job->predicted_sec - 1));
    print_contention(report, plain, out);
    if (report->plain != NULL)
        pen_text_add(
            out,
            "with the disturbance it takes %.4g s: %.3g times as long\n"
            "%s",
            sec, sec / plain_sec, report->waited_for);
}

static void print_effort(const struct pen_sim_result *result,
                         struct pen_text *out)
{
    pen_text_add(out, "\n%u step%s simulated in %.3g s and %.3g GB",
                 result->num_steps, result->num_steps == 1 ? "" : "s",
                 result->host_sec, 1e-9 * (double)result->peak_bytes);
    if (result->num_messages > 0)
        pen_text_add(out, ", %" PRIu64 " messages", result->num_messages);
    if (result->num_inside > 0)
        pen_text_add(out, ", %" PRIu64 " of them inside layers with %.0f bytes",
                     result->num_inside, result->inside_bytes);
    pen_text_add_string(out, "\n");
}

void pen__simulate_print(const struct pen__simulate_report *report,
                         struct pen_text *out)
{
    const struct pen_sim_result *result = report->result;
    pen__simulate_print_head(report->job, report->args, out);
    if (result->is_stuck) {
        print_stuck(report, out);
        return;
    }
    print_step(report, out);
    print_shares(report, out);
    print_links(result, out);
    print_effort(result, out);
}
