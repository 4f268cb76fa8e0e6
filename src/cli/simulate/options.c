/* The options of penstock simulate. */
#include "cli/simulate/options.h"

#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "sim/mapping.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct pen__simulate_args, member)

#define MOST_STEPS 1000
#define MOST_SEED 1e15

static const struct pen__field fields[] = {
    TEXT("plan", "PLAN", plan,
         "plan to run, a file that `penstock plan -o` wrote"),
    TEXT("cluster", "CLUSTER", cluster,
         "a cluster file, or preset:KIND*COUNT; the plan's cluster when "
         "not given"),
    TEXT("model", "MODEL", model,
         "config.json, a folder with one, or preset:NAME; the plan's "
         "model when not given"),
    TEXT("profile", "FILE", profile,
         "times that `penstock profile` measured, for a plan with "
         "target penstock"),
    TEXT("costs", "COSTS", costs,
         "seconds of forwards and backwards, from a cost file or as "
         "f=1,i=1,w=1, in place of the planner's"),
    COUNT("steps", steps, 1, MOST_STEPS,
          "steps to run; 2 when not given; with more than one step, "
          "averages leave out the first"),
    TEXT("trace", "DIR", trace,
         "record every operation in DIR, for penstock view"),
    LIST("slow-rank", "RANK=FACTOR", slow_ranks,
         "operations of RANK take FACTOR times as long; may be "
         "repeated, as the next three options"),
    LIST("slow-link", "NAME=FACTOR", slow_links,
         "a link, as rank-17.network, or all links of a rank, as "
         "rank-17, have 1 / FACTOR of their bandwidth"),
    LIST("fail", "NAME@SEC", failures,
         "a rank, as rank-3, or a link fails at second SEC"),
    LIST("background", "A-B:BYTES", background,
         "background traffic from rank A to rank B: messages of BYTES, "
         "one after another"),
    TEXT("jitter", "SHARE", jitter,
         "random variation of each operation, one standard deviation, "
         "as 5% or 0.05"),
    COUNT("seed", seed, 0, MOST_SEED,
          "seed of the jitter and of --mapping random; 1 when not given"),
    {"mapping", "NAME",
     "order of ranks on devices, innermost first: tp-cp-dp-pp, "
     "tp-cp-pp-dp or random; tp-cp-dp-pp when not given",
     PEN__FIELD_WORD, AT(mapping), 0, 0, pen_mapping_names},
    FLAG("use-tp-pp-dp-mapping", is_pipeline_first,
         "the same as --mapping tp-cp-pp-dp"),
    TEXT("topology", "NAME", topology_text,
         "network between nodes: levels (as in the cluster file), "
         "torus:8x8x8, fat-tree:2;8,16;1,8;1,1 or dragonfly:...; levels "
         "when not given"),
    FLAG("no-contention", is_uncontended,
         "messages do not slow each other down, as the planner assumes; "
         "compare with a run without this option for the cost of shared "
         "links"),
    TEXT("sweep", "KEY=FROM:TO:STEP", sweep_text,
         "one run for each strength of a disturbance: "
         "slow-rank=17@1:3:0.25, slow-link=rank-17@1:8:1 or "
         "jitter=0:0.2:0.05; rank 0 when none is named"),
    TEXT("plot", "FILE", plot, "draw the sweep: .svg, .png or .pdf"),
    JSON("print JSON"),
};

#define NUM_FIELDS (sizeof fields / sizeof *fields)

/* ---- a sweep ---- */

static const char *const sweep_names[] = {
#define SWEEP_NAME(name, words) words,
    PEN_SWEEP_TABLE(SWEEP_NAME) NULL};

#define SWEEP_EXAMPLE "slow-rank=17@1.0:3.0:0.25"
#define MOST_STRENGTH 1e6

static pen_status refuse_sweep(const char *text, const char *what,
                               struct pen_text *why)
{
    pen_why(why, "--sweep %s: %s, as in %s", text, what, SWEEP_EXAMPLE);
    return PEN_INVALID;
}

/* Reads "1.0:3.0:0.25"; three numbers and nothing else. */
static bool read_numbers(const char *text, double numbers[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;
        numbers[i] = strtod(text, &end);
        if (end == text || *end != (i < 2 ? ':' : '\0') ||
            !isfinite(numbers[i]))
            return false;
        text = end + 1;
    }
    return true;
}

static pen_status take_numbers(const char *text, const double numbers[3],
                               struct pen__sweep *sweep, struct pen_text *why)
{
    double least = sweep->kind == PEN__SWEEP_JITTER ? 0 : 1e-3;
    if (numbers[0] < least || numbers[1] > MOST_STRENGTH)
        return refuse_sweep(text, "the strengths are out of range", why);
    if (!(numbers[2] > 0) || numbers[1] < numbers[0])
        return refuse_sweep(text, "expected FROM up to TO, STEP above 0", why);
    double count = floor((numbers[1] - numbers[0]) / numbers[2] + 1e-9) + 1;
    if (count > PEN__SWEEP_MAX_RUNS) {
        pen_why(why,
                "--sweep %s: these are %.0f runs, more than %u; give a larger "
                "STEP",
                text, count, PEN__SWEEP_MAX_RUNS);
        return PEN_INVALID;
    }
    sweep->from = numbers[0];
    sweep->step = numbers[2];
    sweep->count = (uint32_t)count;
    return PEN_OK;
}

/* Takes the part before the @, or rank 0. */
static pen_status take_name(const char *text, const char *name, size_t length,
                            struct pen__sweep *sweep, struct pen_text *why)
{
    if (sweep->kind == PEN__SWEEP_JITTER && name != NULL)
        return refuse_sweep(text, "jitter applies to all ranks and takes none",
                            why);
    if (sweep->kind == PEN__SWEEP_JITTER)
        return PEN_OK;
    if (name == NULL) {
        name = sweep->kind == PEN__SWEEP_RANK ? "0" : "rank-0";
        length = strlen(name);
    }
    if (length == 0 || length >= sizeof sweep->name)
        return refuse_sweep(text, "expected the rank or link before @", why);
    memcpy(sweep->name, name, length);
    return PEN_OK;
}

pen_status pen__sweep_read(const char *text, struct pen__sweep *out,
                           struct pen_text *why)
{
    struct pen__sweep sweep = {.is_there = true, .kind = PEN__SWEEPS};
    double numbers[3];
    size_t length = strcspn(text, "=");
    for (int i = 0; sweep_names[i] != NULL; i++)
        if (strlen(sweep_names[i]) == length &&
            strncmp(sweep_names[i], text, length) == 0)
            sweep.kind = (enum pen__sweep_kind)i;
    if (text[length] == '\0' || sweep.kind == PEN__SWEEPS)
        return refuse_sweep(text, "expected slow-rank, slow-link or jitter",
                            why);
    const char *name = text + length + 1;
    const char *at = strchr(name, '@');
    pen_status status =
        take_name(text, at == NULL ? NULL : name,
                  at == NULL ? 0 : (size_t)(at - name), &sweep, why);
    if (status == PEN_OK && !read_numbers(at == NULL ? name : at + 1, numbers))
        status = refuse_sweep(text, "expected three numbers FROM:TO:STEP", why);
    if (status == PEN_OK)
        status = take_numbers(text, numbers, &sweep, why);
    if (status == PEN_OK)
        *out = sweep;
    return status;
}

double pen__sweep_at(const struct pen__sweep *sweep, uint32_t run)
{
    return sweep->from + run * sweep->step;
}

/* ---- the line ---- */

/* Reads "5%" or "0.05". */
static pen_status read_share(const char *text, double *out,
                             struct pen_text *why)
{
    char *end;
    double share = strtod(text, &end);
    bool is_number = end != text;
    if (is_number && *end == '%') {
        share /= 100;
        end++;
    }
    if (!is_number || *end != '\0' || !(share >= 0 && share <= 1)) {
        pen_why(why,
                "--jitter %s: expected a share from 0 to 1, as 5%% or "
                "0.05",
                text);
        return PEN_INVALID;
    }
    *out = share;
    return PEN_OK;
}

typedef pen_status disturbance_reader(struct pen_disturbances *to,
                                      const char *text, struct pen_text *why);

static pen_status read_list(const struct pen__list *list, const char *name,
                            disturbance_reader *read,
                            struct pen_disturbances *to, struct pen_text *why)
{
    for (size_t i = 0; i < list->count; i++) {
        struct pen_text reason = PEN_TEXT_EMPTY;
        pen_status status = read(to, list->words[i], &reason);
        if (status != PEN_OK)
            pen_why(why, "--%s %s: %s", name, list->words[i],
                    pen_text_string(&reason));
        pen_text_release(&reason);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static pen_status read_disturbances(struct pen__simulate_args *args,
                                    struct pen_text *why)
{
    struct pen_disturbances *all = &args->disturbances;
    all->seed = args->seed;
    pen_status status = read_list(&args->slow_ranks, "slow-rank",
                                  pen_disturbances_add_slow_rank, all, why);
    if (status == PEN_OK)
        status = read_list(&args->slow_links, "slow-link",
                           pen_disturbances_add_slow_link, all, why);
    if (status == PEN_OK)
        status = read_list(&args->failures, "fail",
                           pen_disturbances_add_failure, all, why);
    if (status == PEN_OK)
        status = read_list(&args->background, "background",
                           pen_disturbances_add_background, all, why);
    if (status == PEN_OK && args->jitter != NULL)
        status = read_share(args->jitter, &all->jitter, why);
    return status;
}

static pen_status read_words(struct pen__simulate_args *args,
                             struct pen_text *why)
{
    pen_status status = read_disturbances(args, why);
    if (status == PEN_OK && args->topology_text != NULL)
        status =
            pen_sim_topology_read(args->topology_text, &args->topology, why);
    if (status == PEN_OK && args->sweep_text != NULL)
        status = pen__sweep_read(args->sweep_text, &args->sweep, why);
    return status;
}

static void complete(void *context, const struct argp_state *state)
{
    struct pen__simulate_args *args = context;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen__line_require(state, args->plan != NULL, "plan");
    if (read_words(args, &why) != PEN_OK)
        argp_error(state, "%s", pen_text_string(&why));
    pen_text_release(&why);
    if (args->is_pipeline_first && args->mapping == PEN_MAPPING_SHUFFLED)
        argp_error(
            state,
            "--use-tp-pp-dp-mapping and --mapping random contradict each "
            "other; give only one of them");
    if (args->is_pipeline_first)
        args->mapping = PEN_MAPPING_PIPELINE_FIRST;
    if (args->plot != NULL && !args->sweep.is_there)
        argp_error(state, "--plot draws a --sweep; give --sweep as well");
    if (args->trace != NULL && args->sweep.is_there)
        argp_error(state, "--trace records one run; leave out --sweep");
}

static const struct pen__line command_line = {
    .name = "penstock simulate",
    .fields = fields,
    .num_fields = NUM_FIELDS,
    .usage = "--plan PLAN",
    .doc = "Runs a plan on simulated ranks: the trainer itself, on a "
           "simulated network, with operations of the predicted "
           "duration.\vNo device is needed. With a disturbance, simulate "
           "also runs without it and compares both.",
    .check = complete};

int pen__simulate_args_parse(struct pen__simulate_args *args, int argc,
                             char **argv)
{
    memset(args, 0, sizeof *args);
    args->steps = 2;
    args->seed = 1;
    return pen__line_read(&command_line, argc, argv, args) ? PEN__EXIT_OK
                                                           : PEN__EXIT_USAGE;
}

void pen__simulate_args_release(struct pen__simulate_args *args)
{
    pen__list_release(&args->slow_ranks);
    pen__list_release(&args->slow_links);
    pen__list_release(&args->failures);
    pen__list_release(&args->background);
}
