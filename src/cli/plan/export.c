/*
 * penstock export: a plan as files of the program that is to carry it out.
 */
#include "cli/program/cli.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/plan/options.h"
#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "export/export.h"
#include "planner/predict.h"

#include <stdbool.h>
#include <string.h>

struct args {
    const char *to;
    const char *output;
    const char *model;
    const char *cluster;
    struct pen__rest plans; /* one */
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("to", "NAME", to,
         "program to write for: megatron, torchtitan (also torchtitan@0.2.2), "
         "deepspeed, nanotron or sbatch; all: every one that can express the "
         "plan; the target of the plan when not given"),
    TEXT("output", "DIR", output,
         "folder to write to; created if it does not exist"),
    TEXT("model", "MODEL", model,
         "config.json or its folder, for a plan that does not contain its "
         "model"),
    TEXT("cluster", "CLUSTER", cluster,
         "a cluster file, or preset:KIND*COUNT, to predict the exported "
         "layout where it differs from the plan"),
    JSON("print JSON")};

static void check(void *context, const struct argp_state *state)
{
    const struct args *args = context;
    if (args->output == NULL)
        argp_error(state, "expected PLAN and -o DIR");
}

static const struct pen__line command_line = {
    .name = "penstock export",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "PLAN -o DIR",
    .expected = "PLAN and -o DIR",
    .words_offset = AT(plans),
    .least_words = 1,
    .most_words = 1,
    .doc = "Writes a plan as files that another program reads.\vSettings "
           "that the program does not have are left out or replaced by "
           "the nearest one. Each change is printed as a warning and "
           "written as a comment in the files.",
    .check = check};

/* The arguments of all exporters. */
struct job {
    const struct pen_plan *plan;
    const struct pen_model *model;
    const struct pen_cluster *cluster; /* NULL: nothing is predicted */
};

/* ---- one exporter ---- */

/* Predicts the nearest plan, whose step differs from that of the given plan. */
static void predict(const struct job *job, const char *name,
                    struct pen_plan *nearest)
{
    struct pen_setting setting = {.model = job->model,
                                  .cluster = job->cluster,
                                  .global_batch =
                                      pen_plan_global_batch(nearest),
                                  .sequence = nearest->sequence,
                                  .number = nearest->number,
                                  .target = nearest->target};
    struct pen_prediction prediction;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (job->cluster == NULL || nearest->predicted.is_there)
        return;
    pen_practice_init(&setting.practice, nearest->target, nearest->number);
    if (pen_predict(&setting, nearest, &prediction, &why) != PEN_OK) {
        pen_log(PEN_LOG_WARN, "%s: no prediction: %s", name,
                pen_text_string(&why));
    } else {
        pen_log(prediction.fits ? PEN_LOG_INFO : PEN_LOG_WARN,
                "%s: %.4g s a step, %.4g GiB, which %s", name,
                prediction.step_sec, (double)prediction.peak_bytes / (1u << 30),
                prediction.fits ? "fits" : "does not fit");
        if (!pen_prediction_store(&prediction, nearest))
            nearest->predicted.is_there = false;
        pen_prediction_release(&prediction);
    }
    pen_text_release(&why);
}

static void warn_notes(const struct pen_export *exporter,
                       const struct pen_text *notes)
{
    const char *line = pen_text_string(notes);
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        pen_log(PEN_LOG_WARN, "%s: %.*s", exporter->name, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static pen_status write_files(const struct pen_export_files *files,
                              const char *folder, json_t *written,
                              struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < files->count; i++) {
        const struct pen_export_file *file = &files->list[i];
        pen_text_clear(&path);
        pen_text_add(&path, "%s/%s", folder, file->name);
        status = pen_file_write_text(pen_text_string(&path), &file->text, why);
        json_array_append_new(written, json_string(pen_text_string(&path)));
    }
    pen_text_release(&path);
    return status;
}

static pen_status export_to(const struct pen_export *exporter,
                            const struct job *job, const char *folder,
                            json_t *written, struct pen_text *why)
{
    struct pen_export_files files = PEN_EXPORT_NO_FILES;
    struct pen_text notes = PEN_TEXT_EMPTY;
    struct pen_plan *nearest = NULL;
    pen_status status = pen_export_nearest(exporter, job->plan, job->model,
                                           &nearest, &notes, why);
    if (status == PEN_OK) {
        if (exporter->is_unjudged)
            pen_log(PEN_LOG_WARN,
                    "%s@%s is not judged: the names of its options were "
                    "checked, but no release of the program was at hand",
                    exporter->name, exporter->version);
        warn_notes(exporter, &notes);
        predict(job, exporter->name, nearest);
        struct pen_export_job wanted = {nearest, job->model,
                                        pen_text_string(&notes)};
        status = pen_export_write(exporter, &wanted, &files, why);
    }
    if (status == PEN_OK)
        status = write_files(&files, folder, written, why);
    pen_plan_free(nearest);
    pen_export_files_release(&files);
    pen_text_release(&notes);
    return status;
}

/* ---- all that was asked for ---- */

/*
 * Exports all. Both versions of torchtitan have a schedule.csv, so each gets a
 * folder.
 */
static pen_status export_all(const struct job *job, const char *folder,
                             json_t *written, struct pen_text *why)
{
    const struct pen_export *exporter;
    pen_status status = PEN_OK;
    for (size_t i = 0;
         status == PEN_OK && (exporter = pen_export_at(i)) != NULL; i++) {
        if (exporter->is_unjudged)
            continue;
        struct pen_text path = PEN_TEXT_EMPTY;
        struct pen_text reason = PEN_TEXT_EMPTY;
        pen_text_add(&path, "%s/%s%s%s", folder, exporter->name,
                     exporter->version == NULL ? "" : "@",
                     exporter->version == NULL ? "" : exporter->version);
        status = pen_file_make_folder(pen_text_string(&path), 0777, why);
        if (status == PEN_OK)
            status = export_to(exporter, job, pen_text_string(&path), written,
                               &reason);
        if (status == PEN_INVALID) {
            pen_log(PEN_LOG_WARN, "skipped %s: %s", exporter->name,
                    pen_text_string(&reason));
            status = PEN_OK;
        } else if (status != PEN_OK) {
            pen_why(why, "%s", pen_text_string(&reason));
        }
        pen_text_release(&path);
        pen_text_release(&reason);
    }
    return status;
}

/* A plan for our own runtime is exported as a job. */
static const char *default_target(const struct pen_plan *plan)
{
    return plan->target == PEN_TARGET_PENSTOCK ? "sbatch"
                                               : pen_target_names[plan->target];
}

static pen_status export_plan(const struct args *args, const struct job *job,
                              json_t *written, struct pen_text *why)
{
    const char *to = args->to != NULL ? args->to : default_target(job->plan);
    bool is_all = strcmp(to, "all") == 0;
    const struct pen_export *exporter =
        is_all ? NULL : pen_export_find(to, why);
    if (!is_all && exporter == NULL)
        return PEN_INVALID;
    pen_status status = pen_file_make_folder(args->output, 0777, why);
    if (status != PEN_OK)
        return status;
    return is_all ? export_all(job, args->output, written, why)
                  : export_to(exporter, job, args->output, written, why);
}

/* Prints the written files, a line each; takes the list. */
static int print_written(const struct args *args, json_t *written)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    size_t i;
    json_t *path;
    if (pen__answer_is_json())
        return pen__print_json(
            "export",
            json_pack("{s:s, s:o}", "folder", args->output, "files", written));
    json_array_foreach(written, i, path)
        pen_text_add(&text, "%s\n", json_string_value(path));
    int code = pen__print(&text);
    json_decref(written);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.to = NULL};
    struct pen_plan *plan = NULL;
    struct pen_model *model = NULL;
    struct pen_cluster *cluster = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    json_t *written = json_array();
    pen_status status = pen_plan_load(args.plans.words[0], &plan, &why);
    if (status == PEN_OK)
        status = pen__plan_load_model(args.model, plan, args.plans.words[0],
                                      &model, &why);
    if (status == PEN_OK && model->images != NULL) {
        pen_why(&why,
                "%s is for an image network; export writes layouts of text "
                "models only",
                args.plans.words[0]);
        status = PEN_INVALID;
    }
    if (status == PEN_OK && args.cluster != NULL)
        status = pen_cluster_load(args.cluster, &cluster, &why);
    if (status == PEN_OK) {
        struct job job = {plan, model, cluster};
        status = export_plan(&args, &job, written, &why);
    }
    int code = PEN__EXIT_NO;
    if (status == PEN_OK) {
        code = print_written(&args, written);
    } else {
        json_decref(written);
        code = pen__refuse_as(status, &why);
    }
    pen_cluster_free(cluster);
    pen_model_free(model);
    pen_plan_free(plan);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__export = {
    "export", "writes a plan for the program that will run it", run, NULL};
