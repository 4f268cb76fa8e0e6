/*
 * What does a simulation say of a published run, and of the same run on more
 * devices or fewer?
 *
 *   build/release/bench/simulate_published FOLDER SET ROW [--replicas N]
 *       [--microbatches N] [--steps N] [--uncontended]
 *
 * FOLDER has the files of published runs; sets and rows are those of `validate
 * --rows`, and the set llama3. Prints one JSON object: devices and ranks,
 * seconds of a step as published (null where the run is not that one), as the
 * planner says and as simulated, what ranks waited for (mean, of a step), the
 * fullest link, and what the simulation took. With --uncontended no message
 * slows another.
 */
#include "cli/simulate/make.h"
#include "validation_rows.h"

struct wish {
    const char *folder;
    const char *set;
    uint32_t row;
    uint32_t replicas;     /* 0: as published, as the next */
    uint32_t microbatches; /* of a replica, in a step */
    uint32_t steps;
    bool is_uncontended;
};

static uint32_t count_of(const char *word)
{
    char *end;
    unsigned long value = strtoul(word, &end, 10);
    if (*end != '\0' || end == word || value > UINT32_MAX)
        die(word, "expected a number");
    return (uint32_t)value;
}

static void read_wish(int argc, char **argv, struct wish *out)
{
    if (argc < 4)
        die("usage", "simulate_published FOLDER SET ROW [option ...]");
    *out = (struct wish){.folder = argv[1],
                         .set = argv[2],
                         .row = count_of(argv[3]),
                         .steps = 1};
    for (int i = 4; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--uncontended") == 0) {
            out->is_uncontended = true;
            continue;
        }
        if (strcmp(argv[i], "--replicas") == 0)
            out->replicas = count_of(value);
        else if (strcmp(argv[i], "--microbatches") == 0)
            out->microbatches = count_of(value);
        else if (strcmp(argv[i], "--steps") == 0)
            out->steps = count_of(value);
        else
            die(argv[i], "unknown option");
        i++;
    }
}

static struct row *find_row(const struct rows *rows, const struct wish *wish)
{
    for (uint32_t i = 0; i < rows->count; i++)
        if (strcmp(rows->items[i].set, wish->set) == 0 &&
            rows->items[i].index == wish->row)
            return &rows->items[i];
    die(wish->set, "no such row");
    return NULL;
}

/* The run with other replicas, or other micro-batches for each of them. */
static void rescale(struct row *row, const struct wish *wish)
{
    uint32_t *replicas = &row->plan->degrees[PEN_DEGREE_DP];
    uint32_t *microbatches = &row->plan->num_microbatches;
    uint64_t per_replica = pen_plan_num_ranks(row->plan) / *replicas;
    if ((wish->replicas > 0 && wish->replicas != *replicas) ||
        (wish->microbatches > 0 && wish->microbatches != *microbatches))
        row->measured_sec = 0;
    if (wish->microbatches > 0)
        *microbatches = wish->microbatches;
    if (wish->replicas > 0) {
        *replicas = wish->replicas;
        row->group.count = *replicas * per_replica;
    }
    row->setting.global_batch = pen_plan_global_batch(row->plan);
}

struct waits {
    double pipeline_sec;
    double sums_sec;
    double all_sec;
};

/* Of a step, mean over ranks. */
static struct waits waits_of(const struct pen_sim_result *result)
{
    struct waits mean = {0, 0, 0};
    double share = 1.0 / ((double)result->num_ranks * result->num_steps);
    for (uint32_t i = 0; i < result->num_ranks; i++) {
        mean.pipeline_sec += share * result->ranks[i].pipeline_sec;
        mean.sums_sec += share * result->ranks[i].sums_sec;
        mean.all_sec += share * result->ranks[i].all_sec;
    }
    return mean;
}

static void print(const struct row *row, const struct pen__simulate_job *job,
                  const struct pen_sim_result *result)
{
    struct waits waits = waits_of(result);
    json_t *object = json_pack(
        "{s:s, s:i, s:I, s:I, s:I, s:o, s:f, s:f, s:f, s:f, s:f, s:s, s:f, "
        "s:f, s:I}",
        "set", row->set, "row", (int)row->index, "devices",
        (json_int_t)pen_plan_num_ranks(row->plan), "ranks",
        (json_int_t)result->num_ranks, "batch",
        (json_int_t)row->setting.global_batch, "published_sec",
        row->measured_sec > 0 ? json_real(row->measured_sec) : json_null(),
        "planner_sec", job->predicted_sec, "simulated_sec",
        pen__simulate_step_sec(result), "pipeline_sec", waits.pipeline_sec,
        "sums_sec", waits.sums_sec, "all_sec", waits.all_sec, "link",
        result->num_links > 0 ? result->links[0].name : "", "utilisation",
        result->num_links > 0 ? result->links[0].utilisation : 0.0, "host_sec",
        result->host_sec, "host_bytes", (json_int_t)result->peak_bytes);
    char *text = json_dumps(object, JSON_INDENT(1));
    puts(text);
    free(text);
    json_decref(object);
}

static void simulate(const struct row *row, const struct wish *wish)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_sim_result result;
    struct pen__simulate_args args = {.steps = wish->steps};
    struct pen__simulate_job job = {.plan = row->plan};
    job.planning.model = row->model;
    job.planning.cluster = (struct pen_cluster *)&row->cluster;
    job.planning.setting = row->setting;
    if (pen__simulate_job_make(&job, &args, &why) != PEN_OK)
        die(row->set, pen_text_string(&why));
    job.simulation.platform.is_uncontended = wish->is_uncontended;
    if (pen_simulate(&job.simulation, &result, &why) != PEN_OK)
        die(row->set, pen_text_string(&why));
    if (result.is_stuck)
        die(row->set, "the simulation got stuck");
    print(row, &job, &result);
    pen_sim_result_release(&result);
    pen_text_release(&why);
}

int main(int argc, char **argv)
{
    struct wish wish;
    struct rows rows = {.timings = pen_timings_create()};
    read_wish(argc, argv, &wish);
    rows.folder = wish.folder;
    add_sc21(&rows);
    add_recompute(&rows);
    add_bloom(&rows);
    add_llama3(&rows);
    settle_rows(&rows);
    struct row *row = find_row(&rows, &wish);
    rescale(row, &wish);
    simulate(row, &wish);
    return 0;
}
