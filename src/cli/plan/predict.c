/*
 * penstock predict: time and memory of one layout.
 */
#include "cli/plan/print.h"

#include "cli/plan/failures.h"
#include "cli/plan/import.h"
#include "cli/plan/peers.h"
#include "cli/program/answer.h"
#include "export/megatron_layout.h"
#include "planner/target_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- a layout of options ---- */

static uint32_t or_one(uint64_t value)
{
    return value == 0 ? 1 : (uint32_t)value;
}

static pen_status find_schedule(const struct pen__plan_args *args, uint32_t vpp,
                                const struct pen_generator **out,
                                struct pen_text *why)
{
    const char *name = args->schedule;
    if (name == NULL)
        name = vpp > 1 ? "interleaved" : "1f1b";
    *out = pen_generator_find(name);
    if (*out != NULL)
        return PEN_OK;
    pen_why(why,
            "there is no schedule %s; `penstock schedule list` prints all "
            "names",
            name);
    return PEN_INVALID;
}

/* The batch over replicas and micro-batches, which must come out even. */
static pen_status share_batch(const struct pen_setting *setting,
                              struct pen_candidate *candidate,
                              struct pen_text *why)
{
    uint64_t share =
        (uint64_t)candidate->degrees[PEN_DEGREE_DP] * candidate->micro_batch;
    uint64_t count = setting->global_batch / share;
    if (count * share != setting->global_batch || count > PEN_PLAN_MAX_COUNT) {
        pen_why(why,
                "%u replicas with micro-batches of %u do not divide the batch "
                "of %" PRIu64,
                candidate->degrees[PEN_DEGREE_DP], candidate->micro_batch,
                setting->global_batch);
        return PEN_INVALID;
    }
    candidate->num_microbatches = (uint32_t)count;
    return PEN_OK;
}

static pen_status choose_replicas(const struct pen__plan_args *args,
                                  const struct pen_setting *setting,
                                  struct pen_candidate *candidate,
                                  struct pen_text *why)
{
    uint64_t devices = pen_cluster_num_devices(setting->cluster);
    uint64_t share = pen_candidate_num_devices(candidate);
    if (args->degrees[PEN_DEGREE_DP] != 0)
        return PEN_OK;
    if (devices < share) {
        pen_why(why,
                "tp, cp and pp need %" PRIu64
                " devices, but there are %" PRIu64,
                share, devices);
        return PEN_INVALID;
    }
    candidate->degrees[PEN_DEGREE_DP] = (uint32_t)(devices / share);
    return PEN_OK;
}

/* Stages of an option that lists them say how many a rank has. */
static pen_status count_chunks(uint32_t num_stages,
                               struct pen_candidate *candidate,
                               struct pen_text *why)
{
    uint32_t pp = candidate->degrees[PEN_DEGREE_PP];
    if (num_stages % pp != 0) {
        pen_why(why, "%u stages cannot be divided evenly among %u ranks",
                num_stages, pp);
        return PEN_INVALID;
    }
    candidate->degrees[PEN_DEGREE_VPP] = num_stages / pp;
    return PEN_OK;
}

/* Reads "1,2,2,3". */
static pen_status read_stages(const char *text, struct pen_megatron_layout *out,
                              struct pen_text *why)
{
    size_t room = strlen(text) / 2 + 1;
    uint32_t *blocks = calloc(room, sizeof *blocks);
    if (blocks == NULL) {
        pen_why(why, "no memory for %zu stages", room);
        return PEN_NOMEM;
    }
    struct pen_megatron_layout layout = {.num_blocks = blocks};
    for (const char *at = text; at != NULL;) {
        char *end;
        unsigned long number = strtoul(at, &end, 10);
        if (end == at || *at == '-' || number > PEN_PLAN_MAX_COUNT ||
            (*end != '\0' && *end != ',')) {
            pen_why(why, "--blocks %s: expected numbers as 1,2,2,3", text);
            free(blocks);
            return PEN_INVALID;
        }
        blocks[layout.num_stages++] = (uint32_t)number;
        layout.num_all_blocks += (uint32_t)number;
        at = *end == ',' ? end + 1 : NULL;
    }
    *out = layout;
    return PEN_OK;
}

static pen_status read_layout(const struct pen__plan_args *args,
                              const struct pen_model *model,
                              struct pen_megatron_layout *out,
                              struct pen_text *why)
{
    struct pen_megatron_layout layout = {.num_blocks = NULL};
    pen_status status =
        args->stages != NULL
            ? read_stages(args->stages, &layout, why)
            : pen_megatron_layout_parse(args->layout, &layout, why);
    if (status != PEN_OK)
        return status;
    if (layout.num_all_blocks != model->num_blocks) {
        pen_why(why, "the stages have %u blocks, but the model has %u",
                layout.num_all_blocks, model->num_blocks);
        pen_megatron_layout_release(&layout);
        return PEN_INVALID;
    }
    *out = layout;
    return PEN_OK;
}

/* The embedding goes with the first stage, the head with the last. */
static void store_layout(const struct pen_megatron_layout *layout,
                         struct pen_plan *plan)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        uint32_t count = layout->num_blocks[i];
        count += i == 0 ? 1 : 0;
        count += i == plan->num_stages - 1 ? 1 : 0;
        plan->stages[i].first = first;
        plan->stages[i].count = count;
        first += count;
    }
}

/*
 * Chooses as `plan` mostly does: the optimizer's state is cut where it can be.
 */
static void choose_sharding(const struct pen__plan_args *args,
                            const struct pen_setting *setting,
                            struct pen_candidate *candidate)
{
    static const enum pen_sharding usual[] = {PEN_SHARDING_ZERO1,
                                              PEN_SHARDING_ZERO2};
    uint32_t replicas =
        candidate->degrees[PEN_DEGREE_DP] * candidate->degrees[PEN_DEGREE_CP];
    if (args->is_sharded && args->sharding == PEN_SHARDING_NONE)
        candidate->sharding = PEN_SHARDING_ZERO1;
    if (args->sharding != PEN_SHARDINGS)
        return;
    candidate->sharding =
        args->is_sharded ? PEN_SHARDING_ZERO1 : PEN_SHARDING_NONE;
    for (size_t i = 0; replicas > 1 && i < sizeof usual / sizeof *usual; i++) {
        struct pen_candidate other = *candidate;
        other.sharding = usual[i];
        if (candidate->sharding == PEN_SHARDING_NONE &&
            pen_target_check(setting, &other, NULL) == PEN_OK)
            candidate->sharding = usual[i];
    }
}

static pen_status make_candidate(const struct pen__plan_args *args,
                                 const struct pen_setting *setting,
                                 const struct pen_megatron_layout *layout,
                                 struct pen_candidate *out,
                                 struct pen_text *why)
{
    *out = (struct pen_candidate){
        .micro_batch = or_one(args->micro_batch),
        .recompute = (enum pen_recompute)args->recompute,
        .sharding = (enum pen_sharding)args->sharding,
        .sharding_group = (uint32_t)args->sharding_group,
        .cuts_rows = args->is_sequence_parallel &&
                     setting->target == PEN_TARGET_PENSTOCK,
        .expert_tp = args->expert_tp,
        .recipe = args->recipe};
    for (int i = 0; i < PEN_DEGREES; i++)
        out->degrees[i] = or_one(args->degrees[i]);
    if (out->expert_tp == 0)
        out->expert_tp =
            pen_target_expert_tp(setting->target, out->degrees[PEN_DEGREE_TP],
                                 out->degrees[PEN_DEGREE_EP]);
    if (layout->num_further > 0)
        out->recipe.mtp_blocks = layout->num_further;
    pen_status status = choose_replicas(args, setting, out, why);
    if (status == PEN_OK && layout->num_stages > 0)
        status = count_chunks(layout->num_stages, out, why);
    if (status == PEN_OK)
        status = find_schedule(args, out->degrees[PEN_DEGREE_VPP],
                               &out->generator, why);
    if (status == PEN_OK && args->degrees[PEN_DEGREE_VPP] == 0 &&
        layout->num_stages == 0 && !pen_target_has_chunks(out->generator, 1))
        out->degrees[PEN_DEGREE_VPP] = 2;
    if (status == PEN_OK)
        status = share_batch(setting, out, why);
    if (status == PEN_OK)
        choose_sharding(args, setting, out);
    if (status == PEN_OK)
        status = pen_target_check(setting, out, why);
    return status;
}

static pen_status make_plan(const struct pen__plan_args *args,
                            const struct pen__planning *planning,
                            struct pen_plan **out, struct pen_text *why)
{
    struct pen_megatron_layout layout = {.num_blocks = NULL};
    struct pen_candidate candidate;
    pen_status status = PEN_OK;
    if (args->stages != NULL || args->layout != NULL)
        status = read_layout(args, planning->model, &layout, why);
    if (status == PEN_OK)
        status =
            make_candidate(args, &planning->setting, &layout, &candidate, why);
    if (status == PEN_OK)
        status = pen_candidate_plan(&planning->setting, &candidate, out, why);
    if (status == PEN_OK && layout.num_stages > 0)
        store_layout(&layout, *out);
    pen_megatron_layout_release(&layout);
    return status;
}

/* ---- a layout of Megatron's command line ---- */

/* Imports a plan with its own overlaps, not the usual ones. */
static pen_status import_plan(struct pen__plan_args *args,
                              struct pen__planning *planning,
                              struct pen_plan **out, struct pen_text *why)
{
    struct pen_overlaps overlaps;
    pen_status status = pen__plan_import(args, planning, out, &overlaps, why);
    planning->setting =
        pen_setting_with_overlaps(&planning->setting, &overlaps);
    return status;
}

/* ---- the command ---- */

static pen_status predict(const struct pen__plan_args *args,
                          const struct pen__planning *planning,
                          struct pen_plan *plan,
                          struct pen_prediction *prediction,
                          struct pen_text *why)
{
    pen_status status = pen__planning_name(planning, plan, why);
    if (status == PEN_OK)
        status = pen_predict(&planning->setting, plan, prediction, why);
    if (status != PEN_OK || args->output == NULL ||
        pen__failures_are_drawn(args))
        return status;
    if (!pen_prediction_store(prediction, plan)) {
        pen_why(why, "no memory for a prediction");
        return PEN_NOMEM;
    }
    return pen_plan_save(plan, args->output, why);
}

/* `failures` and `peers` are NULL where they are not asked for. */
static int
print(const struct pen__plan_args *args, const struct pen__planning *planning,
      const struct pen_plan *plan, const struct pen_prediction *prediction,
      const struct pen__failures *failures, const struct pen__peers *peers)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (pen__answer_is_json()) {
        json_t *object = pen__plan_json_with_run(planning, plan, prediction,
                                                 (double)args->tokens);
        if (failures != NULL)
            json_object_set_new(object, "failures",
                                pen__failures_json(failures));
        if (peers != NULL)
            json_object_set_new(object, "peers", pen__peers_json(peers));
        return pen__print_json("predict", object);
    }
    pen__plan_print(plan, prediction, &text);
    pen__plan_print_run(plan, prediction, (double)args->tokens, &text);
    if (failures != NULL)
        pen__failures_print(failures, &text);
    if (peers != NULL)
        pen__peers_print(peers, &text);
    return pen__print(&text);
}

static int answer(const struct pen__plan_args *args,
                  const struct pen__planning *planning, struct pen_plan *plan,
                  const struct pen_prediction *prediction, struct pen_text *why)
{
    struct pen__failures failures;
    struct pen__peers peers;
    const struct pen__peers *found = NULL;
    if (args->peers != NULL) {
        pen_status status =
            pen__peers_find(args, planning, plan, prediction, &peers, why);
        if (status != PEN_OK)
            return pen__refuse_as(status, why);
        found = &peers;
    }
    if (!pen__failure_args_are_given(&args->failures))
        return print(args, planning, plan, prediction, NULL, found);
    pen_status status =
        pen__failures_find(args, planning, plan, prediction, &failures, why);
    if (status == PEN_OK && pen__failures_are_drawn(args))
        status = pen__failures_draw(&failures, planning, args->output, why);
    int code = status == PEN_OK
                   ? print(args, planning, plan, prediction, &failures, found)
                   : pen__refuse_as(status, why);
    pen__failures_release(&failures);
    return code;
}

static int run(int argc, char **argv)
{
    struct pen__plan_args args;
    struct pen__planning planning = {.model = NULL};
    struct pen_plan *plan = NULL;
    struct pen_prediction prediction = {.step_sec = 0};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status;
    pen__plan_args_parse(PEN__PLAN_PREDICT, argc, argv, &args);
    if (args.megatron_line != NULL) {
        status = import_plan(&args, &planning, &plan, &why);
    } else {
        status = pen__planning_open(&args, NULL, &planning, &why);
        if (status == PEN_OK)
            status = make_plan(&args, &planning, &plan, &why);
    }
    if (status == PEN_OK)
        status = predict(&args, &planning, plan, &prediction, &why);
    int code = status == PEN_OK
                   ? answer(&args, &planning, plan, &prediction, &why)
                   : pen__refuse_as(status, &why);
    if (code == PEN__EXIT_OK && !prediction.fits)
        code = PEN__EXIT_NO;
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
    pen__planning_close(&planning);
    pen_text_release(&why);
    return code;
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    pen__plan_args_help(PEN__PLAN_PREDICT);
    return PEN__EXIT_OK;
}

const struct pen__command pen__predict = {
    "predict", "predicts time and memory of one layout of a training", run,
    help};
