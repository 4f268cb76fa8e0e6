/* --failures: the goodput of a plan on many devices, or of a ranking. */
#include "cli/plan/failures.h"

#include "base/log.h"
#include "view/chart.h"
#include "view/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

bool pen__failures_are_drawn(const struct pen__plan_args *args)
{
    return pen__failure_args_are_given(&args->failures) &&
           args->output != NULL && pen_timeline_is_picture(args->output);
}

void pen__failures_release(struct pen__failures *failures)
{
    free(failures->rows);
}

/* Makes the common part of all rows, and room for them. */
static pen_status start(const struct pen__failure_args *args, uint64_t devices,
                        uint32_t room, struct pen__failures *out,
                        struct pen_text *why)
{
    *out = (struct pen__failures){.rate_text = args->rate != NULL ? args->rate
                                                                  : args->mtbf,
                                  .rows = calloc(room, sizeof *out->rows)};
    if (out->rows == NULL) {
        pen_why(why, "no memory for the goodput of %u plans", room);
        return PEN_NOMEM;
    }
    return pen__failure_args_read(args, devices, &out->rate, &out->wish, why);
}

static void compare(const struct pen_setting *setting,
                    const struct pen_plan *plan,
                    const struct pen_prediction *prediction,
                    struct pen__failures *out)
{
    struct pen__failure_row *row = &out->rows[out->num_rows++];
    row->tokens_per_sec = prediction->tokens_per_sec;
    row->fits = prediction->fits;
    pen_recovery_compare(setting, plan, prediction, &out->rate, &out->wish,
                         &row->recovery);
}

static pen_status compare_stacks(const struct pen_plan *plan,
                                 const struct pen_prediction *prediction,
                                 struct pen__failures *out,
                                 struct pen__failure_row *row,
                                 struct pen_text *why)
{
    if (out->wish.stacks == 0)
        return PEN_OK;
    pen_status status = pen_recovery_compare_stacks(plan, prediction,
                                                    &out->wish, &row->recovery);
    if (status != PEN_OK)
        pen_why(why, "no memory for %u stacks of shards",
                plan->degrees[PEN_DEGREE_DP]);
    return status;
}

/* ---- many devices ---- */

#define MOST_ROWS 16u

/* Replicas that are added or left out; micro-batches of each stay. */
static pen_status scale(const struct pen__planning *planning, uint64_t ranks,
                        struct pen_plan *plan, struct pen_setting *setting,
                        struct pen_cluster **cluster, struct pen_text *why)
{
    uint64_t replica = pen_plan_num_ranks(plan) / plan->degrees[PEN_DEGREE_DP];
    uint64_t count = ranks / replica;
    uint64_t size = pen_cluster_system_size(planning->cluster);
    uint64_t devices = (count * replica + size - 1) / size * size;
    if (count == 0) {
        pen_why(why,
                "--devices: %" PRIu64 " devices are fewer than one replica of "
                "the plan has, %" PRIu64,
                ranks, replica);
        return PEN_INVALID;
    }
    pen_status status =
        pen_cluster_resize(planning->cluster, devices, cluster, why);
    if (status != PEN_OK)
        return status;
    plan->degrees[PEN_DEGREE_DP] = (uint32_t)count;
    plan->logical_replicas = (uint32_t)count;
    *setting = planning->setting;
    setting->cluster = *cluster;
    setting->global_batch = pen_plan_global_batch(plan);
    return PEN_OK;
}

static pen_status add_row(const struct pen__planning *planning, uint64_t ranks,
                          struct pen_plan *plan, struct pen__failures *out,
                          struct pen_text *why)
{
    uint32_t replicas = plan->degrees[PEN_DEGREE_DP];
    uint32_t logical = plan->logical_replicas;
    struct pen_cluster *cluster = NULL;
    struct pen_setting setting;
    struct pen_prediction prediction = {.step_sec = 0};
    pen_status status = scale(planning, ranks, plan, &setting, &cluster, why);
    if (status == PEN_OK)
        status = pen_predict(&setting, plan, &prediction, why);
    if (status == PEN_OK) {
        compare(&setting, plan, &prediction, out);
        status = compare_stacks(plan, &prediction, out,
                                &out->rows[out->num_rows - 1], why);
    }
    pen_prediction_release(&prediction);
    pen_cluster_free(cluster);
    plan->degrees[PEN_DEGREE_DP] = replicas;
    plan->logical_replicas = logical;
    return status;
}

/* Reads the next number of "128,2048", and moves past it. */
static bool read_number(const char **text, uint64_t *out)
{
    char *end;
    unsigned long long number = strtoull(*text, &end, 10);
    if (end == *text || **text == '-' || number == 0 ||
        number > PEN_CLUSTER_MAX_DEVICES || (*end != '\0' && *end != ','))
        return false;
    *out = number;
    *text = *end == ',' ? end + 1 : NULL;
    return true;
}

static pen_status add_rows(const struct pen__plan_args *args,
                           const struct pen__planning *planning,
                           struct pen_plan *plan, struct pen__failures *out,
                           struct pen_text *why)
{
    for (const char *at = args->failures.devices; at != NULL;) {
        uint64_t ranks;
        if (!read_number(&at, &ranks) || out->num_rows == MOST_ROWS) {
            pen_why(why,
                    "--devices %s: expected up to %u numbers of devices, as "
                    "128,2048,16384",
                    args->failures.devices, MOST_ROWS);
            return PEN_INVALID;
        }
        pen_status status = add_row(planning, ranks, plan, out, why);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

pen_status pen__failures_find(const struct pen__plan_args *args,
                              const struct pen__planning *planning,
                              struct pen_plan *plan,
                              const struct pen_prediction *prediction,
                              struct pen__failures *out, struct pen_text *why)
{
    pen_status status =
        start(&args->failures, pen_plan_num_ranks(plan), MOST_ROWS, out, why);
    if (status == PEN_OK && args->failures.devices != NULL)
        return add_rows(args, planning, plan, out, why);
    if (status != PEN_OK)
        return status;
    compare(&planning->setting, plan, prediction, out);
    return compare_stacks(plan, prediction, out, &out->rows[0], why);
}

/* ---- a ranking ---- */

static double kept_per_sec(const struct pen__failures *failures,
                           const struct pen__failure_row *row)
{
    return row->tokens_per_sec *
           row->recovery.ways[failures->way].goodput.share;
}

/* Sorts by insertion, so that equal plans keep their order. */
static void sort(struct pen__failures *failures, struct pen_plan_found *found)
{
    struct pen__failure_row *rows = failures->rows;
    for (uint32_t i = 1; i < failures->num_rows; i++)
        for (uint32_t k = i; k > 0 && kept_per_sec(failures, &rows[k - 1]) <
                                          kept_per_sec(failures, &rows[k]);
             k--) {
            struct pen__failure_row row = rows[k];
            struct pen_plan_found plan = found[k];
            rows[k] = rows[k - 1];
            found[k] = found[k - 1];
            rows[k - 1] = row;
            found[k - 1] = plan;
        }
}

pen_status pen__failures_rank(const struct pen__plan_args *args,
                              const struct pen__planning *planning,
                              struct pen_plan_ranking *ranking,
                              struct pen__failures *out, struct pen_text *why)
{
    pen_status status =
        start(&args->failures, pen_cluster_num_devices(planning->cluster),
              ranking->num_found, out, why);
    if (status != PEN_OK)
        return status;
    out->is_ranking = true;
    out->way = (enum pen_recovery_way)args->failures.recovery;
    for (uint32_t i = 0; i < ranking->num_found; i++)
        compare(&planning->setting, ranking->found[i].plan,
                &ranking->found[i].prediction, out);
    sort(out, ranking->found);
    const struct pen_recovery_result *best =
        &out->rows[0].recovery.ways[out->way];
    if (!best->is_there) {
        pen_why(why, "--recovery islands: no plan has replicas that divide "
                     "into islands");
        return PEN_INVALID;
    }
    out->spares = out->wish.spares;
    out->spared = best->goodput;
    if (out->spares == PEN_GOODPUT_NO_LIMIT)
        out->spares = pen_recovery_search_spares(&best->job, out->wish.seed,
                                                 &out->spared);
    return compare_stacks(ranking->found[0].plan, &ranking->found[0].prediction,
                          out, &out->rows[0], why);
}

/* ---- a picture ---- */

pen_status pen__failures_draw(const struct pen__failures *failures,
                              const struct pen__planning *planning,
                              const char *path, struct pen_text *why)
{
    static const char *const names[PEN_RECOVERY_WAYS] = {
        "restart from disk", "holders in memory", "islands"};
    struct pen_chart_point points[PEN_RECOVERY_WAYS][MOST_ROWS];
    struct pen_chart_line lines[PEN_RECOVERY_WAYS];
    struct pen_text title = PEN_TEXT_EMPTY;
    for (int way = 0; way < PEN_RECOVERY_WAYS; way++) {
        for (uint32_t i = 0; i < failures->num_rows; i++) {
            const struct pen_recovery *row = &failures->rows[i].recovery;
            const struct pen_recovery_result *found = &row->ways[way];
            points[way][i] = (struct pen_chart_point){
                (double)row->ranks,
                found->is_there ? 100 * found->goodput.share : NAN};
        }
        lines[way] = (struct pen_chart_line){names[way], points[way],
                                             failures->num_rows};
    }
    pen_text_add(&title, "%s: goodput with failures (%s)",
                 pen_text_string(&planning->model_name), failures->rate_text);
    const struct pen_chart chart = {.title = pen_text_string(&title),
                                    .x_name = "devices",
                                    .y_name = "goodput, % of the wall time",
                                    .lines = lines,
                                    .num_lines = PEN_RECOVERY_WAYS,
                                    .has_log_x = true};
    pen_status status = pen_chart_draw(&chart, path, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO, "wrote %s", path);
    pen_text_release(&title);
    return status;
}
