/*
 * Optima and times of the partitioners beside those of their authors' programs.
 *
 *   partition_reference ../shared/validation
 *
 * One line per run: what was found over what the reference found (1 is equal),
 * our milliseconds of CPU, theirs, and how many times faster. Where the
 * reference was stopped, the best that it had otherwise is taken: PipeDream's
 * mode. Files of Piper have no published result; their lines have our figures
 * alone. Fails when anything is worse than its reference.
 */
#include "measure.h"

#include "planner/max_load.h"
#include "planner/pipedream.h"
#include "planner/piper.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool has_worse;

/* Of this process: others may be busy on the same cores. */
static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void report(const char *name, double ratio, double ms, double reference)
{
    printf("%-52s %.9f %10.2f", name, ratio, ms);
    if (reference > 0)
        printf(" %10.0f %8.0fx\n", reference, reference / ms);
    else
        printf(" %10s %9s\n", "stopped", "");
    has_worse = has_worse || ratio > 1 + 1e-9;
}

static json_t *load(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *root = json_load_file(path, 0, NULL);
    stop_unless(root != NULL, "the folder has no reference results");
    return root;
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void run_pipedream(const char *folder, const json_t *run)
{
    char path[4096];
    char name[256];
    struct pen_pipedream_level levels[PEN_PIPEDREAM_MAX_LEVELS];
    const json_t *machines = json_object_get(run, "num_machines");
    const json_t *rates = json_object_get(run, "bandwidths_Bps");
    const char *model = json_string_value(json_object_get(run, "model"));
    struct pen_pipedream_profile *profile = NULL;
    struct pen_pipedream_plan *plan = NULL;
    snprintf(path, sizeof path, "%s/pipedream/profiles/%s.graph.txt", folder,
             model);
    for (size_t i = 0; i < json_array_size(machines); i++)
        levels[i] = (struct pen_pipedream_level){
            (uint32_t)json_integer_value(json_array_get(machines, i)),
            json_number_value(json_array_get(rates, i))};
    stop_unless(pen_pipedream_profile_load(path, &profile, NULL) == PEN_OK,
                path);
    const struct pen_pipedream_problem problem = {
        .profile = profile,
        .levels = levels,
        .num_levels = (uint32_t)json_array_size(machines),
        .has_transfers = true};
    double begin = cpu_ms();
    stop_unless(pen_pipedream_solve(&problem, &plan, NULL) == PEN_OK, path);
    double ms = cpu_ms() - begin;
    snprintf(name, sizeof name, "%s %s", model,
             json_string_value(json_object_get(run, "setting")));
    /* One run has five digits only. */
    bool is_whole = json_object_get(run, "levels") != NULL;
    double ratio = plan->stage_sec / number_of(run, "time_per_stage_s");
    if (is_whole)
        report(name, ratio, ms, number_of(run, "wall_s") * 1e3);
    pen_pipedream_plan_free(plan);
    pen_pipedream_profile_free(profile);
}

static void run_placement(const char *folder, const json_t *row)
{
    char path[4096];
    const char *name = json_string_value(json_object_get(row, "workload"));
    const json_t *optimum = json_object_get(row, "dp");
    struct pen_placement_graph *graph = NULL;
    struct pen_max_load_plan *plan = NULL;
    snprintf(path, sizeof path, "%s/piper/dnn_partitioning/%s", folder, name);
    stop_unless(pen_placement_graph_load(path, &graph, NULL) == PEN_OK, path);
    const struct pen_max_load_problem problem = {.graph = graph};
    double begin = cpu_ms();
    stop_unless(pen_max_load_solve(&problem, &plan, NULL) == PEN_OK, path);
    double ms = cpu_ms() - begin;
    double expected = json_is_number(optimum)
                          ? json_number_value(optimum)
                          : number_of(row, "pipedream_baseline");
    report(strchr(name, '/') + 1, plan->load / expected, ms,
           number_of(row, "dp_wall_s") * 1e3);
    pen_max_load_plan_free(plan);
    pen_placement_graph_free(graph);
}

static void run_piper(const char *folder, const char *name)
{
    char path[4096];
    struct pen_piper_profile *profile = NULL;
    struct pen_piper_plan *plan = NULL;
    snprintf(path, sizeof path, "%s/piper/piper_inputs/%s.json", folder, name);
    stop_unless(pen_piper_profile_load(path, &profile, NULL) == PEN_OK, path);
    const struct pen_piper_problem problem = {.profile = profile};
    double begin = cpu_ms();
    stop_unless(pen_piper_solve(&problem, &plan, NULL) == PEN_OK, path);
    printf("%-52s %.6g s %u stages %10.2f%s%s\n", name, plan->stage_sec,
           plan->num_stages, cpu_ms() - begin,
           plan->left_out == NULL ? "" : "\n    ",
           plan->left_out == NULL ? "" : plan->left_out);
    pen_piper_plan_free(plan);
    pen_piper_profile_free(profile);
}

int main(int argc, char **argv)
{
    static const char *const piper[] = {"bert32a100", "resnet", "gnmt"};
    stop_unless(argc == 2, "usage: partition_reference VALIDATION");
    printf("%-52s %-11s %10s %10s %9s\n", "input", "found/ref", "ms",
           "reference", "faster");
    json_t *root = load(argv[1], "pipedream_results.json");
    const json_t *runs = json_object_get(
        json_object_get(root, "reference_optimizer_runs"), "runs");
    for (size_t i = 0; i < json_array_size(runs); i++)
        run_pipedream(argv[1], json_array_get(runs, i));
    json_decref(root);
    root = load(argv[1], "piper_dnn_partitioning_reference.json");
    const json_t *rows = json_object_get(
        json_object_get(json_object_get(root, "dnn_partitioning"),
                        "reference_runs"),
        "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        run_placement(argv[1], json_array_get(rows, i));
    json_decref(root);
    for (size_t i = 0; i < sizeof piper / sizeof *piper; i++)
        run_piper(argv[1], piper[i]);
    return has_worse ? 1 : 0;
}
