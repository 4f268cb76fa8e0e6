/* The goodput of runs that fail, for people and as JSON. */
#include "cli/plan/failures.h"

#include "cli/plan/figures.h"

#include <inttypes.h>
#include <string.h>

/* ---- tables ---- */

/* "41 s", "12.5 min", "3.1 h", "16.5 days". */
static void add_duration(struct pen_table *table, double sec)
{
    static const struct {
        double from;
        double size;
        const char *unit;
    } units[] = {{172800, 86400, "days"}, {7200, 3600, "h"}, {120, 60, "min"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (sec >= units[i].from) {
            pen_table_add(table, "%.3g %s", sec / units[i].size, units[i].unit);
            return;
        }
    pen_table_add(table, "%.3g s", sec);
}

static double interval_sec(const struct pen_recovery_result *found)
{
    return (double)found->job.interval * found->job.step_sec;
}

static void add_ways(struct pen_table *table, const struct pen_recovery *row)
{
    for (int way = 0; way < PEN_RECOVERY_WAYS; way++)
        if (row->ways[way].is_there)
            pen_table_add(table, "%.2f ± %.2f %%",
                          100 * row->ways[way].goodput.share,
                          100 * row->ways[way].goodput.error);
        else
            pen_table_add(table, "-");
    pen_table_add(table, "%u", row->ways[PEN_RECOVERY_ISLANDS].job.islands);
}

#define NUMBER(title)                                                          \
    {                                                                          \
        title, true, false                                                     \
    }

static void print_goodput(const struct pen__failures *failures,
                          struct pen_text *out)
{
    static const struct pen_column columns[] = {
        NUMBER("devices"), NUMBER("step"),    NUMBER("fails every"),
        NUMBER("restart"), NUMBER("holders"), NUMBER("islands"),
        NUMBER("number")};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < failures->num_rows; i++) {
        const struct pen_recovery *row = &failures->rows[i].recovery;
        pen_table_add(&table, "%" PRIu64, row->ranks);
        add_duration(&table, row->step_sec);
        add_duration(&table, row->mtbf_sec);
        add_ways(&table, row);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

/* Prints the same for a ranking, in its order. */
static void print_ranking(const struct pen__failures *failures,
                          struct pen_text *out)
{
    static const struct pen_column columns[] = {
        NUMBER("#"),       NUMBER("step"),    NUMBER("save every"),
        NUMBER("restart"), NUMBER("holders"), NUMBER("islands"),
        NUMBER("number"),  NUMBER("kept/s")};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < failures->num_rows; i++) {
        const struct pen_recovery *row = &failures->rows[i].recovery;
        const struct pen_recovery_result *found = &row->ways[failures->way];
        pen_table_add(&table, "%u", i + 1);
        add_duration(&table, row->step_sec);
        add_duration(&table, interval_sec(found));
        add_ways(&table, row);
        pen__add_figure_cell(&table, failures->rows[i].tokens_per_sec *
                                         found->goodput.share);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void print_checkpoints(const struct pen__failures *failures,
                              struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"devices", true, false},
        {"save", true, false},
        {"load", true, false},
        {"load from buddy", true, false},
        {"save every", true, false},
        {"closed form", true, false},
        {"Young", true, false},
        {"closed goodput", true, false},
        {"holders save every", true, false}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < failures->num_rows; i++) {
        const struct pen_recovery *row = &failures->rows[i].recovery;
        const struct pen_recovery_result *restart =
            &row->ways[PEN_RECOVERY_RESTART];
        pen_table_add(&table, "%" PRIu64, row->ranks);
        add_duration(&table, restart->job.save_sec);
        add_duration(&table, restart->job.disk_sec);
        add_duration(&table, restart->job.memory_sec);
        add_duration(&table, interval_sec(restart));
        add_duration(&table, row->exact_sec);
        add_duration(&table, row->young_sec);
        pen_table_add(&table, "%.2f %%", 100 * row->exact_share);
        add_duration(&table, interval_sec(&row->ways[PEN_RECOVERY_HOLDERS]));
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

/* Adds a cell of goodput, with the number of shards that a group holds. */
static void add_stacked(struct pen_table *table,
                        const struct pen_recovery_stacked *way)
{
    if (way->height == 0) {
        pen_table_add(table, "-");
        pen_table_add(table, "-");
        return;
    }
    pen_table_add(table, "%.2f ± %.2f %%", 100 * way->found.goodput.share,
                  100 * way->found.goodput.error);
    pen_table_add(table, "%u", way->height);
}

static void add_stacked_row(struct pen_table *table,
                            const struct pen_recovery *row)
{
    const struct pen_recovery_stacked *stacks = &row->stacks;
    pen_table_add(table, "%" PRIu64, row->ranks);
    pen_table_add(table, "%u", row->num_groups);
    pen_table_add(table, "%.2f %%",
                  100 * row->ways[PEN_RECOVERY_RESTART].goodput.share);
    add_stacked(table, &row->replication);
    add_stacked(table, stacks);
    if (stacks->height == 0) {
        for (int i = 0; i < 4; i++)
            pen_table_add(table, "-");
        return;
    }
    pen_table_add(table, "%.2f", stacks->found.depth);
    pen_table_add(table, "%.0f", stacks->found.endured);
    add_duration(table, stacks->found.interval_sec);
    pen_table_add(table, "%+.1f %%",
                  100 * (row->replication.found.goodput.share /
                             stacks->found.goodput.share -
                         1));
}

static void print_stacks(const struct pen__failures *failures,
                         struct pen_text *out)
{
    static const struct pen_column columns[] = {
        NUMBER("devices"),     NUMBER("groups"),   NUMBER("restart"),
        NUMBER("replication"), NUMBER("copies"),   NUMBER("stacks"),
        NUMBER("shards"),      NUMBER("computed"), NUMBER("endured"),
        NUMBER("save every"),  NUMBER("time")};
    struct pen_table table;
    pen_text_add(out,
                 "\nreplica groups that hold up to %u shards of the batch, and "
                 "return after a restart only:\n"
                 "  replication  groups compute copies of the same shards\n"
                 "  stacks       each shard is computed once, by another group "
                 "after a failure (SPARe)\n"
                 "  computed     shards of the busiest group, in the mean\n"
                 "  endured      failures between two restarts\n"
                 "  time         of stacks against replication\n"
                 "penstock train runs neither.\n\n",
                 failures->wish.stacks);
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < failures->num_rows; i++)
        if (failures->rows[i].recovery.num_groups > 0)
            add_stacked_row(&table, &failures->rows[i].recovery);
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void print_times(const struct pen__failures *failures,
                        struct pen_text *out)
{
    const struct pen_goodput_job *job =
        &failures->rows[0].recovery.ways[PEN_RECOVERY_RESTART].job;
    pen_text_add(out,
                 "\nA failure is noticed after %.3g s, and the processes start "
                 "in %.3g s%s.\n\n",
                 job->detect_sec, job->restart_sec,
                 failures->wish.detect_sec < 0 || failures->wish.restart_sec < 0
                     ? " (measured on one node: give --detect-sec and "
                       "--restart-sec for a large cluster)"
                     : "");
}

static void print_spares(const struct pen__failures *failures,
                         struct pen_text *out)
{
    const struct pen_recovery *best = &failures->rows[0].recovery;
    double nodes = (double)best->ways[failures->way].job.num_nodes;
    pen_text_add(
        out,
        "\nWith %u spare nodes in addition to %.0f and %.3g h of repair, plan "
        "1 has a goodput of %.2f %% (%s); counted over all nodes, "
        "%.2f %%.\n",
        failures->spares, nodes,
        best->ways[failures->way].job.repair_sec / 3600,
        100 * failures->spared.share, pen_recovery_names[failures->way],
        100 * failures->spared.share * nodes / (nodes + failures->spares));
}

void pen__failures_print(const struct pen__failures *failures,
                         struct pen_text *out)
{
    pen_text_add(out,
                 "\ngoodput: share of the wall time that goes into steps that "
                 "stay, with its 95 %% confidence interval; seed %" PRIu64
                 "\nrate of failures: %s\n\n",
                 failures->wish.seed, pen_failure_rate_origin(&failures->rate));
    if (failures->is_ranking) {
        print_ranking(failures, out);
        print_spares(failures, out);
    } else {
        print_goodput(failures, out);
    }
    print_times(failures, out);
    if (!failures->is_ranking)
        print_checkpoints(failures, out);
    if (failures->wish.stacks > 0)
        print_stacks(failures, out);
    for (uint32_t i = 0; i < failures->num_rows; i++)
        if (!failures->rows[i].fits)
            pen_text_add(out,
                         "\nThe plan does not fit on %" PRIu64 " devices.\n",
                         failures->rows[i].recovery.ranks);
}

/* ---- JSON ---- */

static json_t *way_json(const struct pen_recovery_result *found, int way)
{
    const struct pen_goodput_job *job = &found->job;
    if (!found->is_there)
        return json_null();
    json_t *object = json_pack(
        "{s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f}", "goodput",
        found->goodput.share, "error", found->goodput.error, "interval_sec",
        interval_sec(found), "interval_steps", (json_int_t)job->interval,
        "save_sec", job->save_sec, "detect_sec", job->detect_sec, "restart_sec",
        job->restart_sec, "load_sec", job->disk_sec);
    if (way != PEN_RECOVERY_RESTART) {
        json_object_set_new(object, "buddy_load_sec",
                            json_real(job->memory_sec));
        json_object_set_new(object, "commit_steps",
                            json_integer(job->memory_steps));
        json_object_set_new(object, "pair_share", json_real(job->pair_share));
    }
    if (way == PEN_RECOVERY_ISLANDS) {
        json_object_set_new(object, "islands", json_integer(job->islands));
        json_object_set_new(object, "sync_steps",
                            json_integer(job->sync_steps));
        json_object_set_new(object, "sync_sec", json_real(job->sync_sec));
    }
    return object;
}

static json_t *stacked_json(const struct pen_recovery_stacked *way)
{
    const struct pen_stacked_goodput *found = &way->found;
    if (way->height == 0)
        return json_null();
    return json_pack("{s:f, s:f, s:i, s:f, s:f, s:f}", "goodput",
                     found->goodput.share, "error", found->goodput.error,
                     "shards", (int)way->height, "computed", found->depth,
                     "endured", found->endured, "interval_sec",
                     found->interval_sec);
}

static json_t *row_json(const struct pen_recovery *row, bool fits)
{
    json_t *object = json_pack(
        "{s:I, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "ranks",
        (json_int_t)row->ranks, "fits", fits, "step_sec", row->step_sec,
        "mtbf_sec", row->mtbf_sec, "state_bytes", row->state_bytes, "young_sec",
        row->young_sec, "available_sec", row->available_sec, "exact_sec",
        row->exact_sec, "exact_goodput", row->exact_share);
    for (int way = 0; object != NULL && way < PEN_RECOVERY_WAYS; way++)
        json_object_set_new(object, pen_recovery_names[way],
                            way_json(&row->ways[way], way));
    if (object != NULL && row->num_groups > 0) {
        json_object_set_new(object, "groups", json_integer(row->num_groups));
        json_object_set_new(object, "replication",
                            stacked_json(&row->replication));
        json_object_set_new(object, "stacks", stacked_json(&row->stacks));
    }
    return object;
}

json_t *pen__failures_json(const struct pen__failures *failures)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < failures->num_rows; i++)
        pen__json_append(&rows, row_json(&failures->rows[i].recovery,
                                         failures->rows[i].fits));
    json_t *object = json_pack("{s:s, s:I, s:o?, s:o}", "rate",
                               pen_failure_rate_origin(&failures->rate), "seed",
                               (json_int_t)failures->wish.seed, "spares",
                               failures->wish.spares == PEN_GOODPUT_NO_LIMIT
                                   ? json_null()
                                   : json_integer(failures->wish.spares),
                               "rows", rows);
    if (object != NULL && failures->is_ranking) {
        json_object_set_new(object, "recovery",
                            json_string(pen_recovery_names[failures->way]));
        json_object_set_new(object, "best_spares",
                            json_integer(failures->spares));
        json_object_set_new(object, "best_spares_goodput",
                            json_real(failures->spared.share));
    }
    return object;
}
