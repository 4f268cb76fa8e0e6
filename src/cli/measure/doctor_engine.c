/* penstock doctor --engine: whether an engine computes a model's operations. */
#include "base/file.h"
#include "base/table.h"
#include "cli/measure/doctor.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "cli/program/program.h"
#include "cli/program/progress.h"
#include "profiler/examine.h"

#include <stdlib.h>

enum { DEFAULT_LENGTH = 64 };

static void show_progress(void *context, uint32_t done, uint32_t total)
{
    pen__progress_update(context, done, total, NULL);
}

static bool is_all_good(const struct pen_examination *it)
{
    for (size_t i = 0; i < it->count; i++)
        if (!pen_examined_is_good(&it->rows[i]))
            return false;
    return true;
}

/* ---- printing ---- */

static void add_row(const struct pen_examined *row, struct pen_table *table)
{
    bool is_product = row->flops > 0;
    double rate = (is_product ? row->flops : row->bytes) / row->sec;
    pen_table_add(table, "%s", row->name);
    pen_table_add(table, "%s", row->shape);
    pen_table_add(table, "%.1e%s", row->difference,
                  row->difference <= row->tolerance ? "" : " (wrong)");
    pen_table_add(table, "%s", row->has_same_bits ? "same" : "differ");
    pen_table_add(table, "%.3f", 1e3 * row->sec);
    pen_table_add(table, "%.2f %s", 1e-9 * rate,
                  is_product ? "Gflop/s" : "GB/s");
}

static void print_table(const struct pen_examination *it, const char *engine,
                        const char *library, struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"operation", false, false}, {"shape", true, false},
        {"difference", true, false}, {"bits of two runs", false, false},
        {"ms", true, false},         {"rate", true, false}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < it->count; i++)
        add_row(&it->rows[i], &table);
    pen_text_add(out, "%s: %s\n\n", engine, library);
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
    pen_text_add(out,
                 "\ndifferences are from the reference engine in double, "
                 "as a share of the largest number; at most %.1e is "
                 "rounding\n",
                 it->count > 0 ? it->rows[0].tolerance : 0.0);
}

static json_t *make_json(const struct pen_examine_options *options,
                         const struct pen__doctor_args *args,
                         const struct pen_examination *it, const char *library)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < it->count; i++) {
        const struct pen_examined *row = &it->rows[i];
        json_t *difference = json_real(row->difference); /* NULL: NaN */
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:o, s:f, s:b, s:b, s:f, s:f, s:f}", "name",
                      row->name, "shape", row->shape, "difference",
                      difference != NULL ? difference : json_null(),
                      "tolerance", row->tolerance, "same_bits",
                      row->has_same_bits, "good", pen_examined_is_good(row),
                      "sec", row->sec, "flops", row->flops, "bytes",
                      row->bytes));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:b, s:o}", "program",
                     pen__program_version(), "engine", args->engine, "library",
                     library, "model", args->model, "bf16", options->is_bf16,
                     "micro_batch", (json_int_t)options->batch, "sequence",
                     (json_int_t)options->sequence, "good", is_all_good(it),
                     "operations", rows);
}

/* Writes the same object as --json prints. */
static pen_status write_report(const char *path, json_t *value,
                               struct pen_text *why)
{
    json_t *answer = pen__answer_make("doctor-engine", json_incref(value));
    char *text = answer == NULL ? NULL : json_dumps(answer, JSON_INDENT(2));
    pen_status status = PEN_NOMEM;
    if (text != NULL) {
        struct pen_text lines = PEN_TEXT_EMPTY;
        pen_text_add(&lines, "%s\n", text);
        status = pen_file_write_text(path, &lines, why);
        pen_text_release(&lines);
    }
    free(text);
    json_decref(answer);
    return status;
}

static int answer(const struct pen_examine_options *options,
                  const struct pen__doctor_args *args,
                  const struct pen_examination *it, struct pen_text *why)
{
    struct pen_text library = PEN_TEXT_EMPTY;
    if (options->engine->describe != NULL)
        options->engine->describe(options->device, &library);
    const char *name =
        library.length > 0 ? pen_text_string(&library) : "plain loops";
    json_t *value = make_json(options, args, it, name);
    pen_status status = value == NULL ? PEN_NOMEM
                        : args->output == NULL
                            ? PEN_OK
                            : write_report(args->output, value, why);
    int code = PEN__EXIT_OK;
    if (status != PEN_OK) {
        code = pen__refuse_as(status, why);
        json_decref(value);
    } else if (pen__answer_is_json()) {
        code = pen__print_json("doctor-engine", value);
    } else {
        struct pen_text text = PEN_TEXT_EMPTY;
        print_table(it, args->engine, name, &text);
        code = pen__print(&text);
        json_decref(value);
    }
    pen_text_release(&library);
    return code;
}

/* ---- examining ---- */

static pen_status set_options(const struct pen__doctor_args *args,
                              const struct pen_model *model,
                              struct pen_examine_options *out,
                              struct pen_text *why)
{
    size_t most = model->max_positions;
    *out = (struct pen_examine_options){
        .model = model,
        .is_bf16 = args->is_bf16,
        .batch = args->micro_batch_size > 0 ? args->micro_batch_size : 1,
        .sequence = args->seq_length > 0    ? args->seq_length
                    : most < DEFAULT_LENGTH ? most
                                            : DEFAULT_LENGTH};
    out->engine = pen_engine_read(args->engine, &out->device);
    if (model->images != NULL)
        pen_why(why,
                "--engine examines the operations of text models; %s is "
                "for images",
                args->model);
    else if (out->sequence > most)
        pen_why(why, "--seq-length %zu: the model has %zu positions",
                out->sequence, most);
    else
        return pen_model_check_trainable(model, why);
    return PEN_INVALID;
}

int pen__doctor_engine(const struct pen__doctor_args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_threads_options wanted = {.count = 0};
    struct pen_threads threads = {0};
    struct pen_examine_options options;
    struct pen_examination *found = calloc(1, sizeof *found);
    struct pen_model *model = NULL;
    struct pen__progress progress;
    pen_status status = found == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = pen_threads_start(&wanted, &threads, &why);
    if (status == PEN_OK)
        status = pen_model_load_any(args->model, &model, &why);
    if (status == PEN_OK)
        status = set_options(args, model, &options, &why);
    if (status == PEN_OK) {
        options.threads = threads.count;
        pen__progress_init(&progress, "operations");
        status = pen_examine(&options, show_progress, &progress, found, &why);
        pen__progress_finish(&progress);
    }
    int code = status == PEN_OK ? answer(&options, args, found, &why)
                                : pen__refuse_as(status, &why);
    if (status == PEN_OK && code == PEN__EXIT_OK && !is_all_good(found))
        code = PEN__EXIT_NO;
    free(found);
    pen_model_free(model);
    pen_text_release(&why);
    return code;
}
