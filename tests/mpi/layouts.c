/*
 * All layouts of a model on so many ranks as plan files, with what the profile
 * predicts of them:
 *
 *   mpi_layouts PROFILE MODEL RANKS BATCH LIMIT_MB DIR
 *
 * Writes DIR/layout-N.json for each that can be, and a line of TSV: N, degrees,
 * schedule, micro-batch, recomputation, sharding, milliseconds of a step, MB of
 * the fullest rank, whether it fits. The first line is the one to choose.
 */
#include "support/support.h"

#include "planner/compute.h"
#include "planner/predict.h"
#include "schedule/generators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t vpp;
} schedules[] = {
    {"gpipe", 1}, {"1f1b", 1}, {"zb-h1", 1}, {"interleaved", 2}, {"zb-v", 2}};

enum {
    NUM_SCHEDULES = sizeof schedules / sizeof *schedules,
    MOST_LAYOUTS = 4096
};

struct found {
    struct pen_plan *plan;
    double step_sec;
    uint64_t peak_bytes;
    bool fits;
};

static struct found layouts[MOST_LAYOUTS];
static int num_layouts;

static void require(pen_status status, const struct pen_text *why)
{
    if (status == PEN_OK)
        return;
    fprintf(stderr, "mpi_layouts: %s\n",
            why->length > 0 ? pen_text_string(why) : pen_status_text(status));
    exit(1);
}

static struct pen_cluster *make_cluster(unsigned long ranks)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster;
    pen_text_add(&text,
                 "name: this host\ndevices:\n  - kind: core\n    count: %lu\n"
                 "    flops: {f32: 1 TFLOP/s}\n    memory: 64 GiB\n"
                 "    bandwidth: 10 GB/s\nlinks:\n  - {level: node, "
                 "bandwidth: 10 GB/s, latency: 1 us}\n",
                 ranks);
    require(
        pen_cluster_parse(pen_text_string(&text), text.length, &cluster, &why),
        &why);
    pen_text_release(&text);
    return cluster;
}

/* Cut as `penstock train` cuts; false when there are too few layers. */
static bool cut(const struct pen_setting *setting, struct pen_plan *plan,
                enum pen_recompute recompute)
{
    struct pen_profile profile;
    if (pen_profile_at(setting->profile, plan->micro_batch, &profile, NULL) !=
        PEN_OK)
        return false;
    const struct pen_compute compute = {
        .model = setting->model,
        .profile = &profile,
        .micro_batch = plan->micro_batch,
        .sequence = plan->sequence,
        .tensor_ranks = plan->degrees[PEN_DEGREE_TP],
        .cuts_rows = plan->has_sequence_parallel,
        .context_ranks = plan->degrees[PEN_DEGREE_CP],
        .expert_ranks = plan->degrees[PEN_DEGREE_EP],
        .is_bf16 = profile.is_bf16,
        .optimizer = PEN_UPDATE_ADAM};
    pen_compute_share_layers(&compute, &profile);
    return pen_compute_cut(&compute, recompute, plan->num_microbatches,
                           plan->stages, plan->num_stages, NULL) == PEN_OK;
}

static void try(const struct pen_setting *setting, struct pen_plan *plan)
{
    struct pen_prediction prediction;
    if (num_layouts == MOST_LAYOUTS ||
        pen_predict(setting, plan, &prediction, NULL) != PEN_OK) {
        pen_plan_free(plan);
        return;
    }
    layouts[num_layouts++] = (struct found){
        plan, prediction.step_sec, prediction.peak_bytes, prediction.fits};
    (void)pen_prediction_store(&prediction, plan);
    pen_prediction_release(&prediction);
}

struct degrees {
    uint32_t tp;
    uint32_t cp;
    uint32_t dp;
    uint32_t pp;
    uint32_t ep;
    bool cuts_rows;
};

static void add_layout(const struct pen_setting *setting,
                       const struct degrees *degrees, uint32_t micro_batch,
                       int schedule, enum pen_recompute recompute,
                       enum pen_sharding sharding)
{
    uint32_t dp = degrees->dp, pp = degrees->pp;
    uint32_t vpp = pp == 1 ? 1 : schedules[schedule].vpp;
    struct pen_plan *plan = pen_plan_create(pp, vpp);
    assert_non_null(plan);
    assert_true(pen_plan_set(&plan->model, "random") &&
                pen_plan_set(&plan->schedule.name, schedules[schedule].name));
    require(pen_profile_hash_model(setting->model, plan->model_hash, NULL),
            &(struct pen_text)PEN_TEXT_EMPTY);
    plan->sequence = setting->sequence;
    plan->number = setting->number;
    plan->degrees[PEN_DEGREE_TP] = degrees->tp;
    plan->degrees[PEN_DEGREE_CP] = degrees->cp;
    plan->degrees[PEN_DEGREE_DP] = dp;
    plan->degrees[PEN_DEGREE_EP] = degrees->ep;
    plan->has_sequence_parallel = degrees->cuts_rows;
    plan->logical_replicas = dp;
    plan->micro_batch = micro_batch;
    plan->num_microbatches =
        (uint32_t)(setting->global_batch / (dp * micro_batch));
    plan->sharding = sharding;
    if (cut(setting, plan, recompute))
        try(setting, plan);
    else
        pen_plan_free(plan);
}

static void add_layouts(const struct pen_setting *setting,
                        const struct degrees *degrees)
{
    uint32_t dp = degrees->dp, pp = degrees->pp;
    for (uint32_t size = 1; size <= setting->global_batch / dp; size++)
        for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
            for (int schedule = 0; schedule < NUM_SCHEDULES; schedule++)
                for (int sharding = 0; sharding <= PEN_SHARDING_ZERO2;
                     sharding++) {
                    bool is_alike =
                        (pp == 1 && schedule > 0) ||
                        (dp * degrees->cp == 1 && sharding > 0) ||
                        (degrees->cuts_rows &&
                         size * setting->sequence % degrees->tp != 0) ||
                        (sharding == PEN_SHARDING_ZERO2 &&
                         setting->global_batch != (uint64_t)dp * size);
                    if (!is_alike && setting->global_batch % (dp * size) == 0)
                        add_layout(setting, degrees, size, schedule,
                                   (enum pen_recompute)mode,
                                   (enum pen_sharding)sharding);
                }
}

/* Tensor groups or context groups of so many ranks, and expert groups. */
static void add_groups(const struct pen_setting *setting, uint32_t cut,
                       uint32_t dp, uint32_t pp)
{
    const struct pen_model *model = setting->model;
    const bool has_experts = model->num_experts > 0;
    const bool shares_heads =
        model->num_heads % cut == 0 && model->num_kv_heads % cut == 0;
    for (uint32_t ep = 1; ep <= (has_experts ? dp : 1); ep *= 2)
        for (uint32_t rows = 0; rows < 2 && dp % ep == 0; rows++)
            if (shares_heads && cut > rows)
                add_layouts(setting,
                            &(struct degrees){cut, 1, dp, pp, ep, rows == 1});
    if (cut > 1 && !has_experts && setting->sequence % (2 * cut) == 0)
        add_layouts(setting, &(struct degrees){1, cut, dp, pp, 1, false});
}

/* Those that fit first, the fastest first. */
static int compare(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;
    if (left->fits != right->fits)
        return left->fits ? -1 : 1;
    return left->step_sec < right->step_sec   ? -1
           : left->step_sec > right->step_sec ? 1
                                              : 0;
}

static void tell(const struct found *it, int number, const char *folder)
{
    const struct pen_plan *plan = it->plan;
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/layout-%d.json", folder, number);
    require(pen_plan_save(plan, pen_text_string(&path), &why), &why);
    printf("%d\ttp%u%s.cp%u.ep%u.dp%u.pp%u.vpp%u\t%s\t%u\t%s\t%s\t%.3f\t%.3f"
           "\t%s\n",
           number, plan->degrees[PEN_DEGREE_TP],
           plan->has_sequence_parallel ? "s" : "", plan->degrees[PEN_DEGREE_CP],
           plan->degrees[PEN_DEGREE_EP], plan->degrees[PEN_DEGREE_DP],
           plan->degrees[PEN_DEGREE_PP], plan->degrees[PEN_DEGREE_VPP],
           plan->schedule.name, plan->micro_batch,
           pen_recompute_names[plan->stages[0].recompute],
           pen_sharding_names[plan->sharding], 1e3 * it->step_sec,
           1e-6 * (double)it->peak_bytes, it->fits ? "fits" : "does not fit");
    pen_text_release(&path);
}

int main(int argc, char **argv)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_profile *profile;
    struct pen_model *model;
    if (argc != 7) {
        fprintf(stderr, "usage: mpi_layouts PROFILE MODEL RANKS BATCH LIMIT_MB "
                        "DIR\n");
        return 2;
    }
    require(pen_profile_load(argv[1], &profile, &why), &why);
    require(pen_model_load(argv[2], &model, &why), &why);
    uint32_t ranks = (uint32_t)strtoul(argv[3], NULL, 10);
    struct pen_cluster *cluster = make_cluster(ranks);
    struct pen_setting setting = {
        .model = model,
        .cluster = cluster,
        .profile = profile,
        .global_batch = strtoul(argv[4], NULL, 10),
        .sequence = profile->sequence,
        .number = profile->is_bf16 ? PEN_NUMBER_BF16 : PEN_NUMBER_F32,
        .target = PEN_TARGET_PENSTOCK,
        .memory_limit = (uint64_t)(1e6 * strtod(argv[5], NULL))};
    pen_practice_init(&setting.practice, setting.target, setting.number);
    for (uint32_t cut = 1; cut <= ranks; cut *= 2)
        for (uint32_t pp = 1; cut * pp <= ranks; pp++) {
            const uint32_t dp = ranks / (cut * pp);
            if (ranks % (cut * pp) != 0 || setting.global_batch % dp != 0)
                continue;
            add_groups(&setting, cut, dp, pp);
        }
    qsort(layouts, (size_t)num_layouts, sizeof *layouts, compare);
    for (int i = 0; i < num_layouts; i++)
        tell(&layouts[i], i, argv[6]);
    for (int i = 0; i < num_layouts; i++)
        pen_plan_free(layouts[i].plan);
    pen_cluster_free(cluster);
    pen_model_free(model);
    pen_profile_free(profile);
    return 0;
}
