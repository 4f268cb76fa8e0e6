/*
 * Predictions of penstock reproduce wap: for k = 1 to 8 devices of one node the
 * fastest layout of k replicas. A number of replicas that does not divide the
 * batch has none.
 */
#include "cli/plan/options.h"
#include "cli/reproduce/wap.h"

#include <math.h>
#include <string.h>

/* Fast links in a node, twice, and 25 Gbit/s between devices. */
#define NETWORK(name, model, sequence, before_bf16, batch)                     \
    {name, model, "v100-32", before_bf16, sequence, batch},                    \
        {name, model, "h100-sxm", "bf16", sequence, batch},                    \
    {                                                                          \
        name, model, "rtx3080", before_bf16, sequence, batch                   \
    }

/*
 * 840 is divided by 1 to 8, 120 and 480 by all of them but 7, 48 by all but 5
 * and 7.
 */
const struct pen__wap_workload pen__wap_workloads[PEN__WAP_WORKLOADS] = {
    NETWORK("AlexNet", "preset:alexnet", 0, "f32", 840),
    NETWORK("AlexNet", "preset:alexnet", 0, "f32", 120),
    NETWORK("VGG-16", "preset:vgg-16", 0, "f32", 840),
    NETWORK("VGG-16", "preset:vgg-16", 0, "f32", 120),
    NETWORK("ResNet-50", "preset:resnet-50", 0, "f32", 840),
    NETWORK("ResNet-50", "preset:resnet-50", 0, "f32", 120),
    NETWORK("GPT-2", "preset:gpt2", 1024, "fp16", 480),
    NETWORK("GPT-2", "preset:gpt2", 1024, "fp16", 48)};

static unsigned number_of(const char *name)
{
    unsigned i = 0;
    while (strcmp(pen_number_names[i], name) != 0)
        i++;
    return i;
}

static pen_status time_devices(const struct pen_setting *setting,
                               uint32_t devices, struct pen__wap_point *out,
                               struct pen_text *why)
{
    struct pen_plan_search_options options = {
        .filter = {.max_devices = devices}, .top = 1};
    struct pen_plan_ranking *ranking = NULL;
    struct pen_text reason = PEN_TEXT_EMPTY;
    *out = (struct pen__wap_point){0};
    if (setting->global_batch % devices != 0)
        return PEN_OK;
    for (int i = 0; i < PEN_DEGREES; i++)
        options.filter.degrees[i] = i == PEN_DEGREE_DP ? devices : 1;
    pen_status status = pen_plan_search(setting, &options, &ranking, &reason);
    if (status == PEN_OK) {
        const struct pen_prediction *found = &ranking->found[0].prediction;
        out->step_sec = found->step_sec;
        out->joules = found->joules / (double)setting->global_batch;
    } else if (status == PEN_INFEASIBLE)
        status = PEN_OK; /* too little memory */
    else
        pen_why(why, "%s", pen_text_string(&reason));
    pen_plan_ranking_free(ranking);
    pen_text_release(&reason);
    return status;
}

static void choose(struct pen__wap_answer *answer)
{
    double fastest = (double)INFINITY;
    double leanest = (double)INFINITY;
    for (uint32_t k = 1; k <= PEN__WAP_DEVICES; k++) {
        const struct pen__wap_point *it = &answer->points[k - 1];
        if (it->step_sec == 0)
            continue;
        if (it->step_sec < fastest) {
            fastest = it->step_sec;
            answer->fastest = k;
        }
        if (it->joules < leanest) {
            leanest = it->joules;
            answer->leanest = k;
        }
    }
    for (uint32_t k = PEN__WAP_DEVICES; k >= 1; k--) {
        double sec = answer->points[k - 1].step_sec;
        if (sec > 0 && sec <= (1 + PEN__WAP_WITHIN) * fastest)
            answer->chosen = k;
    }
}

static pen_status plan_workload(const struct pen__wap_workload *it,
                                struct pen__wap_answer *out,
                                struct pen_text *why)
{
    struct pen_text cluster = PEN_TEXT_EMPTY;
    struct pen__planning planning;
    pen_text_add(&cluster, "preset:%s*%d", it->kind, PEN__WAP_DEVICES);
    const struct pen__plan_args args = {.model = it->model,
                                        .cluster = pen_text_string(&cluster),
                                        .sequence = it->sequence,
                                        .global_batch = it->batch,
                                        .target = PEN_TARGET_DEEPSPEED,
                                        .number = number_of(it->dtype)};
    pen_status status = pen__planning_open(&args, NULL, &planning, why);
    for (uint32_t k = 1; status == PEN_OK && k <= PEN__WAP_DEVICES; k++)
        status = time_devices(&planning.setting, k, &out->points[k - 1], why);
    if (status == PEN_OK)
        choose(out);
    pen__planning_close(&planning);
    pen_text_release(&cluster);
    return status;
}

pen_status pen__wap_plan(struct pen__wap *wap, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < PEN__WAP_WORKLOADS; i++)
        status = plan_workload(&pen__wap_workloads[i], &wap->answers[i], why);
    return status;
}
