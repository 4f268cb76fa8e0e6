/* The exporters there are, and what they all do before and after. */
#include "export/export_internal.h"

#include "base/bug.h"

#include <inttypes.h>
#include <string.h>

const struct pen_export *pen_export_at(size_t index)
{
    static const struct pen_export *const all[] = {
        &pen__export_megatron,       &pen__export_megatron_2026,
        &pen__export_torchtitan_030, &pen__export_torchtitan_022,
        &pen__export_deepspeed,      &pen__export_nanotron,
        &pen__export_sbatch};
    return index < sizeof all / sizeof *all ? all[index] : NULL;
}

static bool is_meant(const struct pen_export *exporter, const char *word)
{
    size_t length = strlen(exporter->name);
    if (strncmp(word, exporter->name, length) != 0)
        return false;
    if (word[length] == '\0')
        return true;
    return word[length] == '@' && exporter->version != NULL &&
           strcmp(word + length + 1, exporter->version) == 0;
}

const struct pen_export *pen_export_find(const char *word, struct pen_text *why)
{
    const struct pen_export *exporter;
    for (size_t i = 0; (exporter = pen_export_at(i)) != NULL; i++)
        if (is_meant(exporter, word))
            return exporter;
    pen_why(why, "there is no exporter %s; expected one of", word);
    for (size_t i = 0; (exporter = pen_export_at(i)) != NULL; i++)
        pen_why(why, "%s %s%s%s", i == 0 ? "" : ",", exporter->name,
                exporter->version == NULL ? "" : "@",
                exporter->version == NULL ? "" : exporter->version);
    return NULL;
}

/* ---- the nearest plan ---- */

static pen_status copy_plan(const struct pen_plan *plan, struct pen_plan **out,
                            struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_plan_print(plan, &text);
    pen_status status = PEN_NOMEM;
    if (text.has_failed)
        pen_why(why, "no memory for a plan");
    else
        status = pen_plan_parse(pen_text_string(&text), text.length, out, why);
    /* The file has the node size only together with the name of a cluster. */
    if (status == PEN_OK)
        (*out)->node_size = plan->node_size;
    pen_text_release(&text);
    return status;
}

pen_status pen_export_nearest(const struct pen_export *exporter,
                              const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_plan **out, struct pen_text *notes,
                              struct pen_text *why)
{
    struct pen_plan *nearest = NULL;
    size_t before = notes->length;
    pen_status status = pen_plan_check(plan, why);
    if (status == PEN_OK)
        status = pen_plan_fits(plan, model, why);
    if (status == PEN_OK)
        status = copy_plan(plan, &nearest, why);
    if (status != PEN_OK)
        return status;
    pen__nearest_recipe(nearest, model);
    pen__nearest_group(nearest, exporter->program, notes);
    status = exporter->fit(nearest, model, notes, why);
    if (status == PEN_OK && notes->length > before)
        nearest->predicted.is_there = false;
    if (status == PEN_OK)
        status = pen_plan_check(nearest, why);
    if (status == PEN_OK)
        *out = nearest;
    else
        pen_plan_free(nearest);
    return status;
}

/* ---- files ---- */

struct pen_text *pen__export_open(struct pen_export_files *files,
                                  const char *name)
{
    PEN_BUG_UNLESS(files->count < PEN_EXPORT_MAX_FILES);
    struct pen_export_file *file = &files->list[files->count++];
    file->name = name;
    pen_text_init(&file->text);
    return &file->text;
}

void pen_export_files_release(struct pen_export_files *files)
{
    for (uint32_t i = 0; i < files->count; i++)
        pen_text_release(&files->list[i].text);
    files->count = 0;
}

static pen_status check_texts(const struct pen_export_files *files,
                              struct pen_text *why)
{
    for (uint32_t i = 0; i < files->count; i++)
        if (files->list[i].text.has_failed) {
            pen_why(why, "no memory for %s", files->list[i].name);
            return PEN_NOMEM;
        }
    return PEN_OK;
}

pen_status pen_export_write(const struct pen_export *exporter,
                            const struct pen_export_job *job,
                            struct pen_export_files *out, struct pen_text *why)
{
    struct pen_export_files files = PEN_EXPORT_NO_FILES;
    pen_status status = exporter->write(job, &files, why);
    if (status == PEN_OK)
        status = check_texts(&files, why);
    if (status == PEN_OK)
        *out = files;
    else
        pen_export_files_release(&files);
    return status;
}

pen_status pen_export_make(const struct pen_export *exporter,
                           const struct pen_plan *plan,
                           const struct pen_model *model,
                           struct pen_export_files *out, struct pen_text *notes,
                           struct pen_text *why)
{
    struct pen_plan *nearest = NULL;
    size_t before = notes->length;
    pen_status status =
        pen_export_nearest(exporter, plan, model, &nearest, notes, why);
    if (status != PEN_OK)
        return status;
    struct pen_export_job job = {nearest, model,
                                 pen_text_string(notes) + before};
    status = pen_export_write(exporter, &job, out, why);
    pen_plan_free(nearest);
    return status;
}

/* ---- the head ---- */

static void add_comments(const char *lines, struct pen_text *out)
{
    while (*lines != '\0') {
        size_t length = strcspn(lines, "\n");
        pen_text_add(out, "# note: %.*s\n", (int)length, lines);
        lines += length + (lines[length] == '\n');
    }
}

static void add_prediction(const struct pen_plan *plan, struct pen_text *out)
{
    const struct pen_plan_prediction *predicted = &plan->predicted;
    uint64_t most = 0;
    if (!predicted->is_there)
        return;
    for (uint32_t i = 0; i < predicted->num_memory; i++) {
        uint64_t bytes = pen_plan_memory_bytes(&predicted->memory[i]);
        most = bytes > most ? bytes : most;
    }
    pen_text_add(out, "# predicted: %.4g s a step, %.4g tokens a second",
                 predicted->step_sec, predicted->tokens_per_sec);
    if (most > 0)
        pen_text_add(out, ", at most %.4g GiB", (double)most / (1u << 30));
    pen_text_add_string(out, "\n");
}

void pen__export_add_head(const struct pen_export *exporter,
                          const struct pen_export_job *job,
                          struct pen_text *out)
{
    const struct pen_plan *plan = job->plan;
    const uint32_t *degrees = plan->degrees;
    pen_text_add(out,
                 "# %s, by penstock export.\n"
                 "# %s on %" PRIu64
                 " ranks: dp %u, tp %u, pp %u, vpp %u, cp %u, ep %u;\n"
                 "# %u micro-batches of %u x %u tokens in each pipeline\n",
                 exporter->program, plan->model, pen_plan_num_ranks(plan),
                 degrees[PEN_DEGREE_DP], degrees[PEN_DEGREE_TP],
                 degrees[PEN_DEGREE_PP], degrees[PEN_DEGREE_VPP],
                 degrees[PEN_DEGREE_CP], degrees[PEN_DEGREE_EP],
                 plan->num_microbatches, plan->micro_batch, plan->sequence);
    add_prediction(plan, out);
    add_comments(job->notes, out);
}

/* ---- stages ---- */

bool pen__export_has_embedding(const struct pen_layer_range *stage)
{
    return stage->first == 0;
}

bool pen__export_has_head(const struct pen_model *model,
                          const struct pen_layer_range *stage)
{
    return stage->first + stage->count == model->num_layers;
}

uint32_t pen__export_num_blocks(const struct pen_model *model,
                                const struct pen_layer_range *stage)
{
    return stage->count - pen__export_has_embedding(stage) -
           pen__export_has_head(model, stage);
}

uint32_t pen__export_first_block(const struct pen_layer_range *stage)
{
    return stage->first == 0 ? 0 : stage->first - 1;
}
