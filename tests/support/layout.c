#include "support/layout.h"

#include "support/models.h"
#include "support/support.h"

#include <string.h>

static void load_cluster(const char *source, struct pen_cluster **out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status =
        strncmp(source, "preset:", 7) == 0
            ? pen_cluster_load(source, out, &why)
            : pen_cluster_parse(source, strlen(source), out, &why);
    if (status != PEN_OK)
        fail_msg("%s: %s", source, pen_text_string(&why));
}

void layout_cut(struct layout *layout, const uint32_t *counts)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < layout->plan->num_stages; i++) {
        layout->plan->stages[i].first = next;
        layout->plan->stages[i].count = counts[i];
        next += counts[i];
    }
}

static void cut_equally(struct layout *layout)
{
    uint32_t stages = layout->plan->num_stages;
    uint32_t blocks = layout->model->num_blocks;
    uint32_t counts[256];
    assert_true(stages <= 256);
    for (uint32_t i = 0; i < stages; i++)
        counts[i] = blocks / stages + (i < blocks % stages ? 1u : 0u);
    counts[0]++;
    counts[stages - 1]++;
    layout_cut(layout, counts);
}

void layout_recompute(struct layout *layout, enum pen_recompute recompute)
{
    for (uint32_t i = 0; i < layout->plan->num_stages; i++)
        layout->plan->stages[i].recompute = recompute;
}

void layout_init(struct layout *out, const char *model, const char *cluster,
                 uint32_t pp, uint32_t vpp)
{
    *out = (struct layout){.model = NULL};
    out->model = model[0] == '{' ? parse_model(model) : load_model(model);
    load_cluster(cluster, &out->cluster);
    out->plan = pen_plan_create(pp, vpp);
    assert_non_null(out->plan);
    out->plan->sequence = 2048;
    out->plan->number = PEN_NUMBER_BF16;
    out->plan->target = PEN_TARGET_MEGATRON;
    out->plan->micro_batch = 1;
    out->plan->num_microbatches = 2 * pp;
    if (vpp > 1)
        assert_true(pen_plan_set(&out->plan->schedule.name, "interleaved"));
    cut_equally(out);
    out->setting =
        (struct pen_setting){.model = out->model,
                             .cluster = out->cluster,
                             .global_batch = pen_plan_global_batch(out->plan),
                             .sequence = out->plan->sequence,
                             .number = out->plan->number,
                             .target = out->plan->target};
    pen_practice_init(&out->setting.practice, out->setting.target,
                      out->setting.number);
}

void layout_release(struct layout *layout)
{
    pen_plan_free(layout->plan);
    pen_cluster_free(layout->cluster);
    pen_model_free(layout->model);
}

void layout_predict(const struct layout *layout, struct pen_prediction *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_predict(&layout->setting, layout->plan, out, &why) != PEN_OK)
        fail_msg("not predicted: %s", pen_text_string(&why));
    pen_text_release(&why);
}

void layout_bound(const struct layout *layout, struct pen_prediction *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_predict_bound(&layout->setting, layout->plan, out, &why) != PEN_OK)
        fail_msg("no bound: %s", pen_text_string(&why));
    pen_text_release(&why);
}

double layout_step(const struct layout *layout)
{
    struct pen_prediction found;
    layout_predict(layout, &found);
    double step_sec = found.step_sec;
    pen_prediction_release(&found);
    return step_sec;
}

uint64_t layout_peak(const struct layout *layout)
{
    struct pen_prediction found;
    layout_predict(layout, &found);
    uint64_t peak_bytes = found.peak_bytes;
    pen_prediction_release(&found);
    return peak_bytes;
}
