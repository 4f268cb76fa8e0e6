#include "cli/plan/options.h"

#include "base/log.h"
#include "base/units.h"
#include "cli/program/field_rows.h"
#include "cli/program/help.h"
#include "core/image_model.h"
#include "planner/swarm.h"
#include "planner/timings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command line ---- */

#define AT(member) offsetof(struct pen__plan_args, member)
#define SEARCH PEN__PLAN_SEARCH
#define PREDICT PEN__PLAN_PREDICT
#define MAKERS (PEN__PLAN_SEARCH | PEN__PLAN_PREDICT)
#define ALL (MAKERS | PEN__PLAN_CHECK)
#define MOST_DEGREE PEN_PLAN_MAX_DEGREE

struct row {
    unsigned verbs;
    struct pen__field field;
};

static const struct row rows[] = {
    {ALL, TEXT("model", "MODEL", model,
               "config.json, its folder, or a preset, as gpt2")},
    {ALL, TEXT("cluster", "CLUSTER", cluster,
               "a cluster file, or a preset, as 64xh100")},
    {MAKERS,
     SIZE("seq-length", sequence, 1, PEN_PLAN_MAX_COUNT,
          "tokens per sequence, as 8k for 8192; up to 8192 when not given")},
    {MAKERS, SIZE("global-batch-size", global_batch, 1, 1e12,
                  "sequences (or images) per step, over all devices; 4 Mi "
                  "tokens when not "
                  "given")},
    {ALL, COUNT("tokens", tokens, 1, 1e18,
                "tokens of the whole run, as 15T: print its days")},
    {MAKERS, WORD("target", target, pen_target_names,
                  "program to run the plan: penstock, megatron, torchtitan or "
                  "deepspeed; "
                  "when not given, penstock on CPUs, deepspeed for images, "
                  "else megatron")},
    {MAKERS, WORD("dtype", number, pen_number_names,
                  "number format of matrix products: f32, bf16, fp16, fp8, "
                  "mxfp8 or nvfp4; "
                  "when not given, f32 for penstock and image networks, bf16 "
                  "for others")},
    {ALL, TEXT("memory-limit", "BYTES", memory_limit,
               "device memory that a plan may use, including the prediction's "
               "margin, as 70GiB; all of it when not given")},
    {ALL, TEXT("profile", "FILE", profile,
               "times that `penstock profile` measured")},
    {SEARCH, COUNT("top", top, 1, 1000,
                   "number of plans in the table; 10 when not given")},
    {SEARCH,
     FIELD("seconds", "S", seconds, REAL, 0.01, 1e6, NULL,
           "work after which the search returns its best plan so far, counted "
           "as seconds of a usual core; 0.5 when not given")},
    {SEARCH,
     WORD("objective", objective, pen_objective_names,
          "value of a step to make small: time, energy, or cost, which is "
          "the cluster file's price, or devices x seconds; time when not "
          "given")},
    {SEARCH,
     TEXT("within", "X%", within,
          "take the plan with the fewest devices whose time (or energy, or "
          "cost) is at most X% above the best")},
    {SEARCH,
     FLAG("allow-stale", allows_stale,
          "also search asynchronous schedules, whose results differ from "
          "synchronous training")},
    {SEARCH, REAL("clip-grad", clip_norm, 0, 1e30,
                  "gradient norm that the training must clip to: leaves out "
                  "asynchronous schedules that cannot clip; 0 when not given: "
                  "clip if the "
                  "schedule can")},
    {SEARCH, FLAG("allow-local", allows_local,
                  "also compare other ways to synchronise the replicas of the "
                  "best plan, with their savings")},
    {SEARCH,
     FLAG("explain", is_explained,
          "explain the best plan: why its neighbours are worse, the limit of "
          "the step, and what would help")},
    {SEARCH, TEXT("html", "FILE", html, "write an HTML report here")},
    {PREDICT, COUNT("tensor-model-parallel-size", degrees[PEN_DEGREE_TP], 1,
                    MOST_DEGREE, "devices that share each tensor")},
    {PREDICT, COUNT("tp", degrees[PEN_DEGREE_TP], 1, MOST_DEGREE, "the same")},
    {PREDICT, COUNT("pipeline-model-parallel-size", degrees[PEN_DEGREE_PP], 1,
                    PEN_PLAN_MAX_STAGES, "ranks of the pipeline")},
    {PREDICT,
     COUNT("pp", degrees[PEN_DEGREE_PP], 1, PEN_PLAN_MAX_STAGES, "the same")},
    {PREDICT,
     COUNT("num-virtual-stages-per-pipeline-rank", degrees[PEN_DEGREE_VPP], 1,
           PEN_PLAN_MAX_STAGES, "stages on each pipeline rank")},
    {PREDICT,
     COUNT("vpp", degrees[PEN_DEGREE_VPP], 1, PEN_PLAN_MAX_STAGES, "the same")},
    {PREDICT, COUNT("context-parallel-size", degrees[PEN_DEGREE_CP], 1,
                    MOST_DEGREE, "devices that share each sequence")},
    {PREDICT, COUNT("cp", degrees[PEN_DEGREE_CP], 1, MOST_DEGREE, "the same")},
    {PREDICT, COUNT("expert-model-parallel-size", degrees[PEN_DEGREE_EP], 1,
                    MOST_DEGREE, "replicas that share the experts")},
    {PREDICT, COUNT("ep", degrees[PEN_DEGREE_EP], 1, MOST_DEGREE, "the same")},
    {PREDICT,
     COUNT("dp", degrees[PEN_DEGREE_DP], 1, MOST_DEGREE,
           "replicas of the pipeline; as many as the devices allow when "
           "not given")},
    {PREDICT, SIZE("micro-batch-size", micro_batch, 1, PEN_PLAN_MAX_COUNT,
                   "sequences per micro-batch; 1 when not given")},
    {PREDICT,
     TEXT("schedule", "NAME", schedule,
          "a name from `penstock schedule list`; when not given, 1f1b, "
          "or interleaved with several stages per rank")},
    {PREDICT, WORD("recompute-granularity", recompute, pen_recompute_names,
                   "none, selective or full; none when not given")},
    {PREDICT, FLAG("use-distributed-optimizer", is_sharded,
                   "the same as --sharding zero1")},
    {PREDICT,
     WORD("sharding", sharding, pen_sharding_names,
          "over replicas: none, zero1, zero2 or zero3; when not given, the "
          "target's first after none")},
    {PREDICT, COUNT("sharding-group", sharding_group, 1, MOST_DEGREE,
                    "with --sharding zero3, replicas that have all weights "
                    "together, others have copies; all when not given")},
    {PREDICT,
     FLAG("sequence-parallel", is_sequence_parallel,
          "also split norms over tp; when not given, as the target does it: "
          "penstock does not")},
    {PREDICT, TEXT("blocks", "LIST", stages,
                   "blocks of each stage, as 1,2,2,3; as even as possible when "
                   "not given")},
    {PREDICT, TEXT("pipeline-model-parallel-layout", "LAYOUT", layout,
                   "the same in Megatron's notation, as 'Et*2|(t*2|)*34,tL'")},
    {MAKERS,
     TEXT("from-megatron", "LINE", megatron_line,
          "a Megatron-LM command line, from which to take the layout, "
          "and the model if --model is not given; @FILE reads it from a "
          "file; plan compares it with the best plan, option by option")},
    {SEARCH,
     TEXT("why", "LIST", why,
          "explain why the plans with these settings are not the best, as "
          "tp=8,pp=4; also vpp, cp, ep, dp, micro-batch, schedule, recompute, "
          "sharding")},
    {SEARCH, FLAG("compare-targets", compares_targets,
                  "print the best plan of each target")},
    {PREDICT, TEXT("devices", "N[,N...]", failures.devices,
                   "with --failures: numbers of devices, as 128,2048,16384; "
                   "each has as many replicas as fit, and the batch grows "
                   "with them; the plan's when not given")},
    {PREDICT,
     TEXT("peers", "N[:X]", peers,
          "also predict the plan's stages on N peers whose speeds differ up to "
          "X times, as 6:3, where micro-batches choose their peers (SWARM); "
          "penstock train cannot run it")},
    {PREDICT, COUNT("lost-peers", lost_peers, 1, PEN_SWARM_MAX_PEERS,
                    "with --peers: peers that are lost; none when not given")},
    {PREDICT, TEXT("peer-link", "RATE", peer_link,
                   "with --peers: the link of each; 200Mbit/s when not "
                   "given")},
    {SEARCH,
     WORD("recovery", failures.recovery, pen_recovery_names,
          "with --failures: the way to recover by which plans are ordered: "
          "restart, holders or islands; restart when not given")},
    {ALL, JSON("print JSON")},
};

#define NUM_ROWS (sizeof rows / sizeof *rows)

/* Come after all other options. */
static const struct row outputs[] = {
    {SEARCH, TEXT("output", "FILE", output,
                  "write the best plan to FILE; plan.svg: a picture")},
    {PREDICT, TEXT("output", "FILE", output,
                   "write the plan to FILE; goodput.svg: a picture")},
    {PEN__PLAN_CHECK,
     TEXT("output", "FILE", output, "write the plan to FILE")}};

/* --help of plan has these, so that it is one screen; --help-all has all. */
static const char *const usual_names[] = {"seq-length", "global-batch-size",
                                          "target",     "memory-limit",
                                          "explain",    "json",
                                          "output",     NULL};

/* --help of predict leaves these out. */
static const char *const rare[] = {"use-distributed-optimizer",
                                   "sharding-group",
                                   "sequence-parallel",
                                   "pipeline-model-parallel-layout",
                                   "from-megatron",
                                   "blocks",
                                   "devices",
                                   "peers",
                                   "lost-peers",
                                   "peer-link",
                                   NULL};

static void read_within(struct pen__plan_args *args,
                        const struct argp_state *state)
{
    char *end = NULL;
    if (args->within == NULL)
        return;
    args->tolerance = strtod(args->within, &end) / 100;
    if (end == args->within || strcmp(end, "%") != 0 ||
        !(args->tolerance >= 0 && args->tolerance <= 100))
        argp_error(state, "--within must be 0%% to 10000%%, as 5%%, not '%s'",
                   args->within);
}

/* A command line of Megatron has its model: a single word is the cluster. */
static void take_words(struct pen__plan_args *args,
                       const struct argp_state *state)
{
    char **words = args->words.words;
    size_t count = args->words.count;
    if (args->verb == PEN__PLAN_CHECK) {
        args->file = words[0];
        return;
    }
    bool is_cluster =
        args->megatron_line != NULL && count == 1 && args->cluster == NULL;
    for (size_t i = 0; i < count; i++) {
        const char **place =
            args->model == NULL && !is_cluster ? &args->model : &args->cluster;
        if (*place != NULL)
            argp_error(state, "unexpected argument '%s'", words[i]);
        *place = words[i];
    }
}

/* A question has an answer of its own, and no ranking. */
static void check_question(const struct pen__plan_args *args,
                           const struct argp_state *state)
{
    const struct {
        const char *name;
        bool is_given;
    } questions[] = {{"from-megatron", args->megatron_line != NULL},
                     {"why", args->why != NULL},
                     {"compare-targets", args->compares_targets}},
      others[] = {{"tokens", args->tokens != 0},
                  {"html", args->html != NULL},
                  {"failures", pen__failure_args_are_given(&args->failures)},
                  {"explain", args->is_explained},
                  {"allow-local", args->allows_local}};
    const char *asked = NULL;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        if (questions[i].is_given && asked != NULL)
            argp_error(state, "--from-megatron, --why and --compare-targets "
                              "are different questions; give only one of them");
        if (questions[i].is_given)
            asked = questions[i].name;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is_given && asked != NULL)
            argp_error(state,
                       "--%s belongs to the ranking of plans, which --%s does "
                       "not print; give one of them",
                       others[i].name, asked);
}

static void check_args(void *context, const struct argp_state *state)
{
    struct pen__plan_args *args = context;
    read_within(args, state);
    take_words(args, state);
    pen__recipe_args_take(&args->recipe_args, state, &args->recipe);
    args->expert_tp = (uint32_t)args->recipe_args.expert_tp;
    if (args->recipe.modules != 0 && args->recompute == PEN_RECOMPUTE_NONE)
        args->recompute = PEN_RECOMPUTE_SELECTIVE;
    if (args->verb == PEN__PLAN_CHECK)
        return;
    pen__failure_args_check(&args->failures, state);
    if (args->peers == NULL &&
        (args->lost_peers != 0 || args->peer_link != NULL))
        argp_error(state, "--%s belongs to --peers; give that as well",
                   args->lost_peers != 0 ? "lost-peers" : "peer-link");
    if (args->verb == PEN__PLAN_SEARCH)
        check_question(args, state);
    bool has_model = args->model != NULL || args->megatron_line != NULL;
    if (args->cluster == NULL || !has_model)
        argp_error(state, "%s%s%s required, as in: penstock %s",
                   has_model ? "" : "--model",
                   has_model || args->cluster != NULL ? "" : " and ",
                   args->cluster != NULL ? " is"
                   : has_model           ? "--cluster is"
                                         : "--cluster are",
                   args->verb == PEN__PLAN_SEARCH
                       ? "plan llama-3.1-70b 64xh100"
                       : "predict llama-3.1-70b 64xh100 --tp 4 --pp 4");
    if (args->megatron_line != NULL) {
        if (args->expert_tp != 0 || !pen_recipe_is_plain(&args->recipe))
            argp_error(state, "--from-megatron takes the recipe from the "
                              "command line; give its options there");
        return;
    }
    pen__line_require(
        state, args->global_batch != 0 || !pen_image_model_is(args->model),
        "global-batch-size");
    if (args->stages != NULL && args->layout != NULL)
        argp_error(state,
                   "--blocks and --pipeline-model-parallel-layout both set the "
                   "stages; give only one of them");
}

/* A line, and what it borrows. */
struct plan_line {
    struct pen__line line;
    struct pen__field fields[PEN__FIELDS_MAX];
    const char *hidden[PEN__FIELDS_MAX];
};

static void list_fields(enum pen__plan_verb verb, struct plan_line *out)
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_ROWS; i++)
        if ((rows[i].verbs & verb) != 0)
            out->fields[count++] = rows[i].field;
    for (size_t i = 0;
         (verb & MAKERS) != 0 && pen__recipe_options[i].name != NULL; i++)
        out->fields[count++] = pen__recipe_options[i];
    for (size_t i = 0;
         (verb & MAKERS) != 0 && pen__failure_options[i].name != NULL; i++)
        out->fields[count++] = pen__failure_options[i];
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if ((outputs[i].verbs & verb) != 0)
            out->fields[count++] = outputs[i].field;
    out->line.fields = out->fields;
    out->line.num_fields = count;
}

/* --help has the options that most need. */
static void hide_rare(enum pen__plan_verb verb, struct plan_line *out)
{
    size_t count = 0;
    if (verb == PEN__PLAN_SEARCH)
        out->line.shown = usual_names;
    if (verb != PEN__PLAN_PREDICT)
        return;
    for (; rare[count] != NULL; count++)
        out->hidden[count] = rare[count];
    for (size_t i = 0; pen__recipe_options[i].name != NULL; i++)
        out->hidden[count++] = pen__recipe_options[i].name;
    for (size_t i = 0; pen__failure_options[i].name != NULL; i++)
        out->hidden[count++] = pen__failure_options[i].name;
    out->hidden[count] = NULL;
    out->line.hidden = out->hidden;
}

static void make_line(enum pen__plan_verb verb, struct plan_line *out)
{
    out->line = (struct pen__line){
        .words_offset = AT(words), .most_words = 2, .check = check_args};
    list_fields(verb, out);
    switch (verb) {
    case PEN__PLAN_SEARCH:
        out->line.name = "penstock plan";
        out->line.usage = "[MODEL [CLUSTER]]\ncheck PLAN";
        out->line.doc =
            "Finds the fastest layouts of a training that fit into "
            "memory, as in:\n  penstock plan llama-3.1-70b 64xh100\v"
            "All options: penstock plan --help-all. No device is needed. After "
            "you edit a plan, `penstock plan check PLAN` predicts it again.";
        break;
    case PEN__PLAN_CHECK:
        out->line.name = "penstock plan check";
        out->line.usage = "PLAN";
        out->line.expected = "a PLAN";
        out->line.least_words = out->line.most_words = 1;
        out->line.doc = "Predicts a plan again.";
        break;
    case PEN__PLAN_PREDICT:
        out->line.name = "penstock predict";
        out->line.usage = "[MODEL [CLUSTER]]";
        out->line.doc =
            "Predicts time and memory of one layout of a training.\v"
            "All options: penstock predict --help-all.";
        break;
    }
}

void pen__plan_args_init(struct pen__plan_args *args)
{
    *args = (struct pen__plan_args){.top = 10,
                                    .seconds = 0.5,
                                    .target = PEN_TARGETS,
                                    .number = PEN_NUMBERS,
                                    .sharding = PEN_SHARDINGS};
    pen__recipe_args_init(&args->recipe_args);
    pen__failure_args_init(&args->failures);
}

void pen__plan_args_parse(enum pen__plan_verb verb, int argc, char **argv,
                          struct pen__plan_args *args)
{
    struct plan_line made;
    pen__plan_args_init(args);
    args->verb = verb;
    make_line(verb, &made);
    hide_rare(verb, &made);
    if (!pen__line_read(&made.line, argc, argv, args))
        argp_failure(NULL, PEN__EXIT_NO, ENOMEM,
                     "cannot read the command line");
}

void pen__plan_args_help(enum pen__plan_verb verb)
{
    struct plan_line made;
    make_line(verb, &made);
    if (pen__help_is_collected())
        hide_rare(verb, &made);
    pen__line_help(&made.line);
}

/* ---- the setting ---- */

/* Processors do not compute in fp16. */
bool pen__cluster_is_processors(const struct pen_cluster *cluster)
{
    return cluster->groups[0].device.flops[PEN_NUMBER_FP16] == 0;
}

#define USUAL_SEQUENCE 8192u    /* tokens, if the model has as many */
#define USUAL_TOKENS (4u << 20) /* of a step */

/* Prints what it chose, as the options that change it. */
static void choose_batch(struct pen_setting *setting,
                         const struct pen_model *model)
{
    uint32_t most = model->max_positions;
    bool is_open = setting->sequence == 0 || setting->global_batch == 0;
    if (setting->sequence == 0)
        setting->sequence =
            most != 0 && most < USUAL_SEQUENCE ? most : USUAL_SEQUENCE;
    if (setting->global_batch == 0)
        setting->global_batch = USUAL_TOKENS / setting->sequence;
    if (setting->global_batch == 0)
        setting->global_batch = 1;
    if (is_open)
        pen_log(PEN_LOG_INFO,
                "not all given; using --seq-length %u --global-batch-size "
                "%llu",
                setting->sequence, (unsigned long long)setting->global_batch);
}

static void set_defaults(const struct pen__plan_args *args,
                         struct pen__planning *planning)
{
    struct pen_setting *setting = &planning->setting;
    bool is_images = planning->model->images != NULL;
    setting->target = (enum pen_target)args->target;
    if (args->target == PEN_TARGETS)
        setting->target = pen__cluster_is_processors(planning->cluster)
                              ? PEN_TARGET_PENSTOCK
                          : is_images ? PEN_TARGET_DEEPSPEED
                                      : PEN_TARGET_MEGATRON;
    setting->number = (enum pen_number)args->number;
    if (args->number == PEN_NUMBERS)
        setting->number = setting->target == PEN_TARGET_PENSTOCK || is_images
                              ? PEN_NUMBER_F32
                              : PEN_NUMBER_BF16;
    setting->sequence = is_images ? 1 : (uint32_t)args->sequence;
    setting->global_batch = args->global_batch;
    setting->clip_norm = args->clip_norm;
    choose_batch(setting, planning->model);
}

static pen_status read_limit(const struct pen__plan_args *args,
                             struct pen_setting *setting, struct pen_text *why)
{
    double bytes = 0;
    if (args->memory_limit == NULL)
        return PEN_OK;
    if (!pen_unit_parse(PEN_UNIT_BYTES, args->memory_limit, &bytes) ||
        bytes < 1 || bytes > 0x1p53) {
        pen_why(why, "--memory-limit %s: expected a number with a unit, as %s",
                args->memory_limit, pen_unit_example(PEN_UNIT_BYTES));
        return PEN_INVALID;
    }
    setting->memory_limit = (uint64_t)bytes;
    return PEN_OK;
}

/* A plan of an image network has sequences of one. */
static pen_status check_sequence(const struct pen__plan_args *args,
                                 const struct pen_model *model,
                                 struct pen_text *why)
{
    if (model->images != NULL && args->sequence > 1) {
        pen_why(why, "--seq-length is for text, but the model is for images; "
                     "--global-batch-size counts images");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static void refuse_number(const struct pen_device *device,
                          enum pen_number number, struct pen_text *why)
{
    const char *between = "";
    pen_why(why,
            "%s does not support %s; give --dtype with one of: ", device->kind,
            pen_number_names[number]);
    for (int i = 0; i < PEN_NUMBERS; i++) {
        if (device->flops[i] == 0)
            continue;
        pen_why(why, "%s%s", between, pen_number_names[i]);
        between = ", ";
    }
}

/* A kind that does not offer the numbers would never end. */
static pen_status check_numbers(const struct pen__planning *planning,
                                struct pen_text *why)
{
    const struct pen_cluster *cluster = planning->cluster;
    enum pen_number number = planning->setting.number;
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        if (cluster->groups[i].device.flops[number] > 0)
            continue;
        refuse_number(&cluster->groups[i].device, number, why);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* Warns of parts of a model that are not counted or only guessed. */
static void warn_of(const struct pen_model *model)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_model_add_warnings(model, &text);
    const char *line = pen_text_string(&text);
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        pen_log(PEN_LOG_WARN, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
    pen_text_release(&text);
}

/* Our own runtime has one way to train. */
static pen_status check_recipe(const struct pen__plan_args *args,
                               const struct pen_setting *setting,
                               struct pen_text *why)
{
    struct pen_recipe other = args->recipe;
    other.modules &= ~PEN_TRAINED_MODULES;
    if (setting->target != PEN_TARGET_PENSTOCK ||
        (args->expert_tp == 0 && pen_recipe_is_plain(&other)))
        return PEN_OK;
    pen_why(why, "penstock train has no options for a recipe but "
                 "--recompute-modules core_attn,layernorm,mlp; give --target "
                 "megatron, or leave out what makes the recipe");
    return PEN_INVALID;
}

pen_status pen__planning_open(const struct pen__plan_args *args,
                              struct pen_model *model,
                              struct pen__planning *planning,
                              struct pen_text *why)
{
    *planning = (struct pen__planning){.model = model};
    pen_text_init(&planning->model_name);
    pen_status status = PEN_OK;
    if (model == NULL)
        status = pen_model_load_any(args->model, &planning->model, why);
    if (status == PEN_OK)
        status = check_sequence(args, planning->model, why);
    if (status == PEN_OK)
        status = pen_cluster_load(args->cluster, &planning->cluster, why);
    if (status == PEN_OK && args->profile != NULL)
        status = pen_profile_load(args->profile, &planning->profile, why);
    if (status != PEN_OK)
        return status;
    struct pen_setting *setting = &planning->setting;
    warn_of(planning->model);
    set_defaults(args, planning);
    pen_practice_init(&setting->practice, setting->target, setting->number);
    setting->model = planning->model;
    setting->cluster = planning->cluster;
    setting->profile = planning->profile;
    setting->timings = pen_timings_create();
    const char *name = args->model == NULL ? "megatron" : args->model;
    pen_text_add_printable(&planning->model_name, name, strlen(name));
    status = read_limit(args, setting, why);
    if (status == PEN_OK)
        status = check_recipe(args, setting, why);
    if (status == PEN_OK)
        status = check_numbers(planning, why);
    return status;
}

pen_status pen__plan_load_model(const char *model, const struct pen_plan *plan,
                                const char *file, struct pen_model **out,
                                struct pen_text *why)
{
    if (model != NULL)
        return pen_model_load_any(model, out, why);
    if (plan->config != NULL)
        return pen_model_parse_any(plan->config, strlen(plan->config), out,
                                   why);
    pen_why(why, "%s does not contain its model; give --model", file);
    return PEN_INVALID;
}

/* Takes the settings of a plan in place of options. */
static void take_plan(const struct pen_plan *plan, struct pen_text *cluster,
                      struct pen__plan_args *args)
{
    args->target = plan->target;
    args->number = plan->number;
    args->sequence = plan->sequence;
    args->global_batch = pen_plan_global_batch(plan);
    if (args->model == NULL)
        args->model = plan->model;
    if (args->cluster != NULL || plan->cluster == NULL)
        return;
    pen_text_add(cluster, "preset:%s", plan->cluster);
    args->cluster = pen_text_string(cluster);
}

pen_status pen__planning_open_plan(const struct pen__plan_args *args,
                                   const struct pen_plan *plan,
                                   struct pen__planning *planning,
                                   struct pen_text *why)
{
    struct pen__plan_args all = *args;
    struct pen_text cluster = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    *planning = (struct pen__planning){.model = NULL};
    take_plan(plan, &cluster, &all);
    pen_status status =
        pen__plan_load_model(args->model, plan, args->file, &model, why);
    if (status == PEN_OK && all.cluster == NULL) {
        pen_model_free(model);
        pen_why(why, "%s does not name a cluster; give --cluster", args->file);
        status = PEN_INVALID;
    } else if (status == PEN_OK) {
        status = pen__planning_open(&all, model, planning, why);
    }
    pen_text_release(&cluster);
    return status;
}

void pen__planning_close(struct pen__planning *planning)
{
    pen_timings_free(planning->setting.timings);
    pen_profile_free(planning->profile);
    pen_cluster_free(planning->cluster);
    pen_model_free(planning->model);
    pen_text_release(&planning->model_name);
}

pen_status pen__planning_name(const struct pen__planning *planning,
                              struct pen_plan *plan, struct pen_text *why)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    const struct pen_cluster *cluster = planning->cluster;
    pen_status status =
        pen_profile_hash_model(planning->model, plan->model_hash, why);
    if (status != PEN_OK)
        return status;
    pen_model_print(planning->model, &config);
    plan->node_size = (uint32_t)pen_cluster_host_size(cluster);
    if (config.has_failed || planning->model_name.has_failed ||
        !pen_plan_set(&plan->model, pen_text_string(&planning->model_name)) ||
        !pen_plan_set(&plan->config, pen_text_string(&config)) ||
        !pen_plan_set(&plan->cluster, cluster->name)) {
        pen_why(why, "no memory to name a plan");
        status = PEN_NOMEM;
    }
    pen_text_release(&config);
    return status;
}
