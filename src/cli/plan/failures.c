/* predict --failures: the goodput of a plan on many devices. */
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

/* ---- many devices ---- */

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
        out->fits[out->num_rows] = prediction.fits;
        pen_recovery_compare(&setting, plan, &prediction, &out->rate,
                             &out->wish, &out->rows[out->num_rows++]);
        pen_prediction_release(&prediction);
    }
    pen_cluster_free(cluster);
    plan->degrees[PEN_DEGREE_DP] = replicas;
    plan->logical_replicas = logical;
    return status;
}

/* Reads "128,2048": the next number, and what is behind it. */
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
        if (!read_number(&at, &ranks) ||
            out->num_rows == PEN__FAILURES_MAX_ROWS) {
            pen_why(why,
                    "--devices %s: expected up to %u numbers of devices, as "
                    "128,2048,16384",
                    args->failures.devices, PEN__FAILURES_MAX_ROWS);
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
    *out = (struct pen__failures){.rate_text = args->failures.rate};
    if (out->rate_text == NULL)
        out->rate_text = args->failures.mtbf;
    pen_status status = pen__failure_args_read(
        &args->failures, pen_plan_num_ranks(plan), &out->rate, &out->wish, why);
    if (status != PEN_OK)
        return status;
    if (args->failures.devices != NULL)
        return add_rows(args, planning, plan, out, why);
    out->fits[0] = prediction->fits;
    pen_recovery_compare(&planning->setting, plan, prediction, &out->rate,
                         &out->wish, &out->rows[0]);
    out->num_rows = 1;
    return PEN_OK;
}

/* ---- a picture ---- */

pen_status pen__failures_draw(const struct pen__failures *failures,
                              const struct pen__planning *planning,
                              const char *path, struct pen_text *why)
{
    static const char *const names[PEN_RECOVERY_WAYS] = {
        "restart from disk", "holders in memory", "islands"};
    struct pen_chart_point points[PEN_RECOVERY_WAYS][PEN__FAILURES_MAX_ROWS];
    struct pen_chart_line lines[PEN_RECOVERY_WAYS];
    struct pen_text title = PEN_TEXT_EMPTY;
    for (int way = 0; way < PEN_RECOVERY_WAYS; way++) {
        for (uint32_t i = 0; i < failures->num_rows; i++) {
            const struct pen_recovery_result *found =
                &failures->rows[i].ways[way];
            points[way][i] = (struct pen_chart_point){
                (double)failures->rows[i].ranks,
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
