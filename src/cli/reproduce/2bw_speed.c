/*
 * Speeds of penstock reproduce 2bw: a GPT of 2.2 billion parameters on eight
 * servers of eight V100 with 16 GB, 25 Gbit/s between servers, as the paper
 * had. For each schedule the predictor times every layout of pipelines and
 * replicas; the fastest that fits is taken.
 */
#include "base/file.h"
#include "cli/plan/options.h"
#include "cli/reproduce/2bw.h"
#include "planner/candidate.h"

#define MODEL                                                                  \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 512, " \
    "\"n_embd\": 1920, \"n_layer\": 48, \"n_head\": 20}\n"

/* A device's share of the 25 Gbit/s of its server. */
#define CLUSTER                                                                \
    "version: 2\n"                                                             \
    "name: \"p3.16xlarge*8\"\n"                                                \
    "devices:\n"                                                               \
    "  - kind: v100-16\n"                                                      \
    "    count: 64\n"                                                          \
    "    flops: {f32: 15.7 TFLOP/s, fp16: 125 TFLOP/s}\n"                      \
    "    memory: 16 GiB\n"                                                     \
    "    bandwidth: 900 GB/s\n"                                                \
    "    watts: 300\n"                                                         \
    "    idle_watts: 53\n"                                                     \
    "links:\n"                                                                 \
    "  - {level: node, size: 8, bandwidth: 150 GB/s, latency: 3 us}\n"         \
    "  - {level: cluster, bandwidth: 0.39 GB/s, latency: 20 us}\n"

enum { DEVICES = 64, SEQUENCE = 512, MOST_MICRO_BATCH = 16, MOST_DEPTH = 32 };

const char *const pen__2bw_speed_names[PEN__2BW_SPEEDS] = {
    "pipedream-2bw",           "the same, sums not hidden",
    "1f1b with flush",         "gpipe",
    "gpipe, as deep as 2bw",   "model parallel, no pipeline",
    "the same, as deep as 2bw"};
const uint32_t pen__2bw_batches[PEN__2BW_BATCHES] = {512, 256, 1024, 2048};

static const char *const generators[PEN__2BW_SPEEDS] = {
    "pipedream-2bw", "pipedream-2bw", "1f1b", "gpipe",
    "gpipe",         "gpipe",         "gpipe"};

/* Returns the seconds after the last backward, which a step has once. */
static double once_sec(const struct pen_prediction *prediction)
{
    return prediction->spent[PEN_SPENDING_REDUCTION] +
           prediction->spent[PEN_SPENDING_GATHER] +
           prediction->spent[PEN_SPENDING_UPDATE];
}

/*
 * Returns the seconds of a whole step. Gradients of 2BW have the time of a
 * batch to be summed in, so the longer of both counts, as in the paper's own
 * planner. Without a pipeline each micro-batch goes forward and back through
 * all stages before the next: the step of one, as often as there are
 * micro-batches.
 */
static double step_of(const struct pen__2bw_layout *layout, uint32_t speed,
                      const struct pen_prediction *prediction)
{
    double sec = prediction->step_sec;
    double sums = prediction->spent[PEN_SPENDING_REDUCTION];
    if (speed == PEN__2BW_SPEED_2BW)
        return sec - sums > sums ? sec - sums : sums;
    if (speed >= PEN__2BW_SPEED_NONE)
        return sec +
               (layout->num_microbatches - 1) * (sec - once_sec(prediction));
    return sec;
}

static void fill_candidate(const struct pen__2bw_layout *layout, uint32_t speed,
                           struct pen_candidate *out)
{
    bool is_alone = speed >= PEN__2BW_SPEED_NONE;
    *out = (struct pen_candidate){
        .micro_batch = layout->micro_batch,
        .num_microbatches = is_alone ? 1 : layout->num_microbatches,
        .recompute =
            layout->recomputes ? PEN_RECOMPUTE_FULL : PEN_RECOMPUTE_NONE,
        .generator = pen_generator_find(generators[speed])};
    for (int i = 0; i < PEN_DEGREES; i++)
        out->degrees[i] = 1;
    out->degrees[PEN_DEGREE_PP] = layout->depth;
    out->degrees[PEN_DEGREE_DP] = layout->replicas;
}

static pen_status time_layout(struct pen_setting *setting, uint32_t speed,
                              struct pen__2bw_layout *layout)
{
    struct pen_candidate candidate;
    struct pen_prediction prediction;
    struct pen_plan *plan;
    struct pen_text why = PEN_TEXT_EMPTY;
    fill_candidate(layout, speed, &candidate);
    setting->practice.overlaps_gradients = speed != PEN__2BW_SPEED_2BW;
    setting->global_batch = (uint64_t)layout->replicas * layout->micro_batch *
                            candidate.num_microbatches;
    pen_status status = pen_candidate_predict(setting, &candidate, true, &plan,
                                              &prediction, &why);
    pen_text_release(&why);
    layout->step_sec = 0;
    if (status != PEN_OK) /* it needs more micro-batches: no layout */
        return status == PEN_NOMEM ? status : PEN_OK;
    if (prediction.fits)
        layout->step_sec = step_of(layout, speed, &prediction);
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
    return PEN_OK;
}

/* Finds the best layout of `only` stages; 0: of any number. */
static pen_status find_best(struct pen_setting *setting, uint32_t speed,
                            uint32_t batch, uint32_t only,
                            struct pen__2bw_layout *best)
{
    *best = (struct pen__2bw_layout){0};
    for (uint32_t depth = 2; depth <= MOST_DEPTH; depth *= 2)
        for (uint32_t micro = 1; micro <= MOST_MICRO_BATCH; micro *= 2)
            for (int recomputes = 0; recomputes < 2; recomputes++) {
                uint32_t replicas = DEVICES / depth;
                struct pen__2bw_layout layout = {.depth = depth,
                                                 .replicas = replicas,
                                                 .micro_batch = micro,
                                                 .num_microbatches =
                                                     batch / (replicas * micro),
                                                 .recomputes = recomputes != 0};
                if (layout.num_microbatches == 0 ||
                    (only != 0 && only != depth))
                    continue;
                pen_status status = time_layout(setting, speed, &layout);
                if (status != PEN_OK)
                    return status;
                if (layout.step_sec > 0 &&
                    (best->step_sec == 0 || layout.step_sec < best->step_sec))
                    *best = layout;
            }
    return PEN_OK;
}

static pen_status find_all(struct pen_setting *setting, uint32_t batch,
                           struct pen__2bw_layout best[PEN__2BW_SPEEDS])
{
    pen_status status = PEN_OK;
    for (uint32_t k = 0; k < PEN__2BW_SPEEDS && status == PEN_OK; k++) {
        bool is_deep =
            k == PEN__2BW_SPEED_DEEP_GPIPE || k == PEN__2BW_SPEED_DEEP_NONE;
        status =
            find_best(setting, k, pen__2bw_batches[batch],
                      is_deep ? best[PEN__2BW_SPEED_2BW].depth : 0, &best[k]);
    }
    return status;
}

static pen_status write_files(const struct pen__2bw *it, struct pen_text *model,
                              struct pen_text *cluster, struct pen_text *why)
{
    pen_text_add(model, "%s/gpt-2.2b.json", it->args->output);
    pen_text_add(cluster, "%s/v100.yaml", it->args->output);
    pen_status status =
        pen_file_write(pen_text_string(model), MODEL, sizeof MODEL - 1, why);
    if (status == PEN_OK)
        status = pen_file_write(pen_text_string(cluster), CLUSTER,
                                sizeof CLUSTER - 1, why);
    return status;
}

pen_status pen__2bw_predict(struct pen__2bw *it, struct pen_text *why)
{
    struct pen_text model = PEN_TEXT_EMPTY, cluster = PEN_TEXT_EMPTY;
    struct pen__planning planning = {.model = NULL};
    pen_status status = write_files(it, &model, &cluster, why);
    if (status == PEN_OK) {
        const struct pen__plan_args args = {.model = pen_text_string(&model),
                                            .cluster =
                                                pen_text_string(&cluster),
                                            .sequence = SEQUENCE,
                                            .global_batch = pen__2bw_batches[0],
                                            .target = PEN_TARGET_MEGATRON,
                                            .number = PEN_NUMBER_FP16};
        status = pen__planning_open(&args, NULL, &planning, why);
        for (uint32_t b = 0; b < it->scale.num_layouts && status == PEN_OK; b++)
            status = find_all(&planning.setting, b, it->speed[b]);
        pen__planning_close(&planning);
    }
    pen_text_release(&model);
    pen_text_release(&cluster);
    return status;
}
