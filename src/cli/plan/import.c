/* A command line of Megatron-LM as a plan and its setting. */
#include "cli/plan/import.h"

#include "base/file.h"
#include "base/log.h"
#include "export/megatron_line.h"

#include <string.h>

#define MAX_LINE_BYTES ((size_t)1 << 20)

static void warn_notes(const struct pen_text *notes)
{
    for (const char *line = pen_text_string(notes); *line != '\0';) {
        size_t length = strcspn(line, "\n");
        pen_log(PEN_LOG_WARN, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static pen_status read_line(const char *word, struct pen_text *out,
                            struct pen_text *why)
{
    if (word[0] == '@')
        return pen_file_read(word + 1, MAX_LINE_BYTES, out, why);
    pen_text_add_string(out, word);
    return PEN_OK;
}

/* Opens the setting: the line has model, batch, sequence and recipe. */
static pen_status open_setting(struct pen__plan_args *args,
                               struct pen_model *model, struct pen_plan *plan,
                               struct pen__planning *planning,
                               struct pen_text *why)
{
    args->target = plan->target;
    args->number = plan->number;
    args->sequence = plan->sequence;
    args->global_batch = pen_plan_global_batch(plan);
    args->expert_tp = plan->expert_tp;
    args->recipe = plan->recipe;
    if (args->model != NULL) {
        pen_model_free(model);
        model = NULL;
    }
    pen_status status = pen__planning_open(args, model, planning, why);
    if (status == PEN_OK)
        status = pen__planning_name(planning, plan, why);
    if (status == PEN_OK)
        status = pen_plan_fits(plan, planning->model, why);
    return status;
}

static pen_status parse(struct pen__plan_args *args,
                        const struct pen_text *line,
                        struct pen__planning *planning, struct pen_plan **out,
                        struct pen_text *why)
{
    struct pen_text notes = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster = NULL;
    struct pen_model *model = NULL;
    struct pen_plan *plan = NULL;
    pen_status status = pen_cluster_load(args->cluster, &cluster, why);
    if (status == PEN_OK)
        status = pen_megatron_line_parse(pen_text_string(line), line->length,
                                         pen_cluster_num_devices(cluster),
                                         &model, &plan, &notes, why);
    if (status == PEN_OK) {
        warn_notes(&notes);
        status = open_setting(args, model, plan, planning, why);
    }
    if (status == PEN_OK)
        *out = plan;
    else
        pen_plan_free(plan);
    pen_cluster_free(cluster);
    pen_text_release(&notes);
    return status;
}

pen_status pen__plan_import(struct pen__plan_args *args,
                            struct pen__planning *planning,
                            struct pen_plan **out,
                            struct pen_overlaps *overlaps, struct pen_text *why)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    struct pen_megatron_overlaps hidden = {.gradients = false};
    *planning = (struct pen__planning){.model = NULL};
    pen_text_init(&planning->model_name);
    pen_status status = read_line(args->megatron_line, &line, why);
    if (status == PEN_OK && line.length == 0) {
        pen_why(why, "--from-megatron: the command line is empty");
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = parse(args, &line, planning, out, why);
    if (status == PEN_OK)
        pen_megatron_line_overlaps(line.bytes, line.length, &hidden);
    *overlaps =
        (struct pen_overlaps){hidden.gradients, hidden.parameters, hidden.loss};
    pen_text_release(&line);
    return status;
}
