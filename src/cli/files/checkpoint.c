/*
 * penstock checkpoint: lists, verifies and hashes the steps that a run has
 * saved. Commands that write a step anew are in checkpoint_rewrite.c.
 */
#include "cli/files/checkpoint.h"

#include "base/log.h"
#include "base/table.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEFAULT_SHARD_BYTES UINT64_C(5000000000) /* as transformers has it */

#define AT(member) offsetof(struct pen__checkpoint_args, member)

static const char *const dtypes[] = {"f32", "bf16", NULL};

static const struct pen__field json_fields[] = {JSON("print JSON")};

static const struct pen__field hash_fields[] = {
    FLAG("weights", has_weights_only,
         "weights only, not the optimizer's state"),
    JSON("print JSON")};

#define MAX_SHARD_ROW                                                          \
    TEXT("max-shard-size", "SIZE", max_shard,                                  \
         "largest size of a file, as 200MB or 2GiB, 0: no limit; 5GB when "    \
         "not given")

static const struct pen__field reshard_fields[] = {
    TEXT("output", "RUN", output, "write the step to this run folder"),
    MAX_SHARD_ROW};

static const struct pen__field export_fields[] = {
    WORD("dtype", is_bf16, dtypes, "f32 or bf16; f32 when not given"),
    TEXT("output", "DIR", output,
         "write to this folder, which must not exist yet"),
    MAX_SHARD_ROW};

#define FIELDS(fields) fields, sizeof fields / sizeof *fields

/*
 * The action of each command on the step that it has read; in the order of the
 * verbs.
 */
struct act {
    int (*run)(const struct pen__checkpoint_args *args);
    bool needs_output;
};

static void report(void *context, uint64_t done, uint64_t total)
{
    pen__progress_update(context, done, total, NULL);
}

/* ------------------------------------------------------------------ ls */

static void add_size(struct pen_table *table, uint64_t num_bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = (double)num_bytes;
    size_t unit = 0;
    for (; size >= 1000 && unit < 4; unit++)
        size /= 1000;
    pen_table_add(table, unit == 0 ? "%.0f %s" : "%.2f %s", size, units[unit]);
}

static void add_age(struct pen_table *table, int64_t written_sec)
{
    double age = difftime(time(NULL), (time_t)written_sec);
    if (written_sec == 0)
        pen_table_add(table, "-");
    else if (age < 120)
        pen_table_add(table, "%.0f s", age < 0 ? 0 : age);
    else if (age < 120 * 60)
        pen_table_add(table, "%.0f min", age / 60);
    else if (age < 48 * 3600)
        pen_table_add(table, "%.0f h", age / 3600);
    else
        pen_table_add(table, "%.0f d", age / 86400);
}

static int print_table(const struct pen_checkpoint_list *list)
{
    static const struct pen_column columns[] = {
        {.title = "step", .is_number = true},
        {.title = "size", .is_number = true},
        {.title = "age", .is_number = true},
        {.title = "run"},
        {.title = "state", .may_wrap = true}};
    struct pen_table table;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < list->count; i++) {
        const struct pen_checkpoint_entry *entry = &list->entries[i];
        const char *reason = pen_text_string(&entry->reason);
        pen_table_add(&table, "%" PRIu64, entry->step);
        add_size(&table, entry->num_bytes);
        add_age(&table, entry->written_sec);
        pen_table_add(&table, "%s", entry->run[0] == '\0' ? "-" : entry->run);
        /* The first of several reasons. */
        pen_table_add(&table, "%.*s",
                      entry->is_whole ? 5 : (int)strcspn(reason, "\n"),
                      entry->is_whole ? "whole" : reason);
    }
    pen_table_print(&table, pen__page_width(), &text);
    pen_table_release(&table);
    return pen__print(&text);
}

static int print_json(const struct pen_checkpoint_list *list)
{
    json_t *all = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct pen_checkpoint_entry *entry = &list->entries[i];
        pen__json_append(
            &all, json_pack("{s:I, s:s, s:s?, s:I, s:I, s:b, s:s?}", "step",
                            (json_int_t)entry->step, "path",
                            pen_text_string(&entry->path), "run",
                            entry->run[0] == '\0' ? NULL : entry->run, "bytes",
                            (json_int_t)entry->num_bytes, "written",
                            (json_int_t)entry->written_sec, "whole",
                            entry->is_whole, "reason",
                            entry->is_whole ? NULL
                                            : pen_text_string(&entry->reason)));
    }
    return pen__print_json("checkpoint-ls",
                           json_pack("{s:o}", "checkpoints", all));
}

static int run_ls(const struct pen__checkpoint_args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint_list list = {.count = 0};
    int code = PEN__EXIT_NO;
    pen_status status =
        pen_checkpoint_list_load(args->paths.words[0], &list, &why);
    if (status == PEN_OK && list.count == 0)
        pen_why(&why, "%s is not a run: it has no folder step-NNNNNNNN",
                args->paths.words[0]);
    if (why.length > 0)
        pen__refuse_as(status, &why);
    else
        code = pen__answer_is_json() ? print_json(&list) : print_table(&list);
    pen_checkpoint_list_release(&list);
    pen_text_release(&why);
    return code;
}

/* -------------------------------------------------------------- verify */

/* Prints that a step is whole, or why not; rows has it, too, unless NULL. */
static int tell_step(const char *path, pen_status status,
                     const struct pen_text *why, json_t *rows)
{
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, why);
    if (rows != NULL)
        json_array_append_new(
            rows, json_pack("{s:s, s:b, s:s?}", "path", path, "whole",
                            status == PEN_OK, "reason",
                            status == PEN_OK ? NULL : pen_text_string(why)));
    else if (status == PEN_OK)
        printf("%s: whole\n", path);
    return code;
}

static int verify_step(const char *path, json_t *rows)
{
    struct pen__progress progress;
    struct pen_checkpoint_watch watch = {report, &progress};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen__progress_init(&progress, "bytes");
    pen_status status = pen_checkpoint_verify(path, &watch, &why);
    pen__progress_finish(&progress);
    int code = tell_step(path, status, &why, rows);
    pen_text_release(&why);
    return code;
}

/* Reads the bytes of those that look whole from outside. */
static int verify_entry(const struct pen_checkpoint_entry *entry, json_t *rows)
{
    const char *path = pen_text_string(&entry->path);
    return entry->is_whole ? verify_step(path, rows)
                           : tell_step(path, PEN_INVALID, &entry->reason, rows);
}

static int verify_run(const char *run, json_t *rows)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint_list list = {.count = 0};
    int code = PEN__EXIT_OK;
    pen_status status = pen_checkpoint_list_load(run, &list, &why);
    if (status != PEN_OK)
        code = tell_step(run, status, &why, rows);
    for (size_t i = 0; i < list.count; i++) {
        if (verify_entry(&list.entries[i], rows) != PEN__EXIT_OK)
            code = PEN__EXIT_NO;
    }
    pen_checkpoint_list_release(&list);
    pen_text_release(&why);
    return code;
}

static int run_verify(const struct pen__checkpoint_args *args)
{
    json_t *rows = pen__answer_is_json() ? json_array() : NULL;
    int code = PEN__EXIT_OK;
    for (size_t i = 0; i < args->paths.count; i++) {
        const char *path = args->paths.words[i];
        bool is_run = pen_checkpoint_kind_of(path) == PEN_CHECKPOINT_RUN;
        if ((is_run ? verify_run(path, rows) : verify_step(path, rows)) !=
            PEN__EXIT_OK)
            code = PEN__EXIT_NO;
    }
    if (pen__answer_is_json() &&
        pen__print_json("checkpoint-verify",
                        json_pack("{s:b, s:o}", "whole", code == PEN__EXIT_OK,
                                  "checkpoints", rows)) != PEN__EXIT_OK)
        code = PEN__EXIT_NO;
    return code;
}

/* ---------------------------------------------------------------- hash */

static pen_status hash_weights(const char *path, char out[PEN_HASH_SIZE],
                               struct pen_text *why)
{
    struct pen__progress progress;
    struct pen_checkpoint_watch watch = {report, &progress};
    struct pen_any_model model = {.decoder = NULL};
    struct pen_weights *weights = NULL;
    pen__progress_init(&progress, "bytes");
    pen_status status = pen_any_model_load(&model, path, why);
    if (status == PEN_OK)
        status = pen_weights_open(path, &weights, why);
    if (status == PEN_OK)
        status = pen_weights_hash(weights, &model, &watch, out, why);
    pen__progress_finish(&progress);
    pen_weights_close(weights);
    pen_any_model_release(&model);
    return status;
}

/* Hashes a step; `path` becomes that of the step. */
static pen_status hash_step(const struct pen__checkpoint_args *args,
                            struct pen_text *path, char out[PEN_HASH_SIZE],
                            struct pen_text *why)
{
    struct pen__step step;
    pen_status status = pen__step_open(&step, pen_text_string(path), why);
    if (status == PEN_OK)
        status = pen__step_add_heads(&step, why);
    if (status == PEN_OK) {
        pen_text_clear(path);
        pen_text_add_string(path, pen_text_string(&step.checkpoint->path));
        status = args->has_weights_only
                     ? pen_weights_hash(step.checkpoint->model, &step.model,
                                        &step.watch, out, why)
                     : pen_checkpoint_hash(step.checkpoint, &step.model,
                                           &step.watch, out, why);
    }
    pen__step_close(&step);
    return status;
}

static int print_hash(const struct pen__checkpoint_args *args,
                      const char *given, json_t *rows)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text path = PEN_TEXT_EMPTY;
    char hash[PEN_HASH_SIZE];
    bool is_plain = pen_checkpoint_kind_of(given) == PEN_CHECKPOINT_NONE;
    pen_text_add_string(&path, given);
    pen_status status = is_plain ? hash_weights(given, hash, &why)
                                 : hash_step(args, &path, hash, &why);
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, &why);
    if (status == PEN_OK && rows != NULL)
        json_array_append_new(rows, json_pack("{s:s, s:s}", "path",
                                              pen_text_string(&path), "sha256",
                                              hash));
    else if (status == PEN_OK)
        printf("%s  %s\n", hash, pen_text_string(&path));
    if (status == PEN_OK && is_plain && !args->has_weights_only)
        pen_log(PEN_LOG_INFO, "%s has no manifest: only its weights are hashed",
                given);
    pen_text_release(&path);
    pen_text_release(&why);
    return code;
}

static int run_hash(const struct pen__checkpoint_args *args)
{
    json_t *rows = pen__answer_is_json() ? json_array() : NULL;
    int code = PEN__EXIT_OK;
    for (size_t i = 0; i < args->paths.count; i++) {
        if (print_hash(args, args->paths.words[i], rows) != PEN__EXIT_OK)
            code = PEN__EXIT_NO;
    }
    if (code != PEN__EXIT_OK || !pen__answer_is_json()) {
        json_decref(rows);
        return code;
    }
    return pen__print_json("checkpoint-hash",
                           json_pack("{s:o}", "hashes", rows));
}

/* ------------------------------------------------------------ commands */

static const struct pen__verb verbs[] = {
    {"ls", "DIR", "Lists the steps that a run has saved",
     "A step is complete when its manifest and the sizes of all its "
     "files are right; `penstock checkpoint verify` reads every "
     "byte.",
     FIELDS(json_fields), 1, 1},
    {"verify", "DIR...", "Reads every byte and names each damaged file",
     "DIR is a step, or a run with steps. Exits with 1 if a file is "
     "damaged.",
     FIELDS(json_fields), 1, SIZE_MAX},
    {"hash", "DIR...", "Prints one SHA-256 of weights and optimizer state",
     "DIR is a step, a run (its newest complete step is taken), or "
     "a Hugging Face folder, which has weights only. Two states "
     "have the same hash when every number is the same in float32. "
     "Files, shards and types do not matter: bfloat16 and float16 "
     "are widened without loss; float64 is rounded.",
     FIELDS(hash_fields), 1, SIZE_MAX},
    {"reshard", "DIR -o RUN", "Writes a step with other shards",
     "DIR is a step, or a run (its newest complete step is taken). "
     "Only the tensor files change; the hash stays the same. RUN "
     "may be the step's own run: the new step replaces the old one "
     "when it is complete.",
     FIELDS(reshard_fields), 1, 1},
    {"export", "DIR -o OUT", "Writes weights, configuration and tokenizer",
     "DIR is as for reshard. OUT gets the files that transformers "
     "and other programs load, without the state of the optimizer "
     "and of replicas. OUT appears when all files are written.",
     FIELDS(export_fields), 1, 1}};

static const struct act acts[] = {{run_ls, false},
                                  {run_verify, false},
                                  {run_hash, false},
                                  {pen__checkpoint_reshard, true},
                                  {pen__checkpoint_export, true}};

static void check(void *context, const struct argp_state *state)
{
    struct pen__checkpoint_args *args = context;
    if (args->needs_output && args->output == NULL)
        argp_error(state, "expected -o");
    if (args->max_shard != NULL &&
        !pen__parse_size(args->max_shard, &args->max_shard_bytes))
        argp_error(state,
                   "--max-shard-size must be a size as 200MB or 2GiB, not "
                   "'%s'",
                   args->max_shard);
}

static const struct pen__verbs commands = {.command = "checkpoint",
                                           .items = verbs,
                                           .count =
                                               sizeof verbs / sizeof *verbs,
                                           .name_width = 7,
                                           .words_width = 10,
                                           .words_offset = AT(paths),
                                           .check = check};

static int run(int argc, char **argv)
{
    int code = PEN__EXIT_USAGE;
    int index = pen__verbs_find(&commands, argc, argv, &code);
    if (index < 0)
        return code;
    const struct act *act = &acts[index];
    struct pen__checkpoint_args args = {.needs_output = act->needs_output,
                                        .max_shard_bytes = DEFAULT_SHARD_BYTES};
    if (pen__verbs_parse(&commands, index, argc, argv, &args))
        code = act->run(&args);
    return code;
}

static int help(int argc, char **argv)
{
    return pen__verbs_help(&commands, argc, argv);
}

const struct pen__command pen__checkpoint = {
    "checkpoint", "lists, verifies, hashes and rewrites checkpoints", run,
    help};
