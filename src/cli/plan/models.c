/*
 * penstock models: the model presets that every command takes by name.
 */
#include "cli/program/cli.h"

#include "base/table.h"
#include "cli/plan/figures.h"
#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "core/image_model.h"
#include "core/model.h"

#include <errno.h>
#include <inttypes.h>

static const struct pen__field fields[] = {JSON("print JSON")};

/*
 * Returns the names of models for texts, then those for images; NULL after the
 * last one.
 */
static const char *name_at(size_t index)
{
    size_t texts = 0;
    while (pen_model_preset_at(texts) != NULL)
        texts++;
    return index < texts ? pen_model_preset_at(index)
                         : pen_image_model_preset_at(index - texts);
}

static bool is_trained(const struct pen_model *model)
{
    return model->images != NULL ||
           pen_model_check_trainable(model, NULL) == PEN_OK;
}

/* ---- for people ---- */

static void add_count(struct pen_table *table, uint64_t count)
{
    if (count == 0)
        pen_table_add(table, "-");
    else
        pen__add_figure_cell(table, (double)count);
}

/* "70.55 billion", "671 billion, 37.55 billion active". */
static void add_parameters(struct pen_table *table,
                           const struct pen_model *model)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__add_large(&text, (double)model->num_parameters);
    if (model->num_experts > 0) {
        pen_text_add_string(&text, ", ");
        pen__add_large(&text, (double)pen_model_active_parameters(model));
        pen_text_add_string(&text, " active");
    }
    pen_table_add(table, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

static void add_row(struct pen_table *table, const char *name,
                    const struct pen_model *model)
{
    bool is_text = model->images == NULL;
    pen_table_add(table, "%s", name);
    add_parameters(table, model);
    add_count(table, is_text ? model->num_blocks : model->num_layers);
    add_count(table, is_text ? model->hidden : 0);
    add_count(table, is_text ? model->max_positions : 0);
    pen_table_add(table, "%s", is_trained(model) ? "plan, train" : "plan");
}

static const struct pen_column columns[] = {
    {"model", false, false},    {"parameters", false, false},
    {"layers", true, false},    {"hidden", true, false},
    {"positions", true, false}, {"for", false, false}};

/* ---- for programs ---- */

static json_t *model_json(const char *name, const struct pen_model *model)
{
    bool is_text = model->images == NULL;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "model", name, "parameters",
        (json_int_t)model->num_parameters, "active_parameters",
        (json_int_t)(is_text ? pen_model_active_parameters(model)
                             : model->num_parameters),
        "layers", (json_int_t)(is_text ? model->num_blocks : model->num_layers),
        "hidden", (json_int_t)(is_text ? model->hidden : 0), "positions",
        (json_int_t)(is_text ? model->max_positions : 0), "trained",
        is_trained(model));
}

/* ---- the command ---- */

static pen_status load_preset(const char *name, struct pen_model **out,
                              struct pen_text *why)
{
    struct pen_text source = PEN_TEXT_EMPTY;
    pen_text_add(&source, "preset:%s", name);
    pen_status status =
        source.has_failed
            ? PEN_NOMEM
            : pen_model_load_any(pen_text_string(&source), out, why);
    pen_text_release(&source);
    return status;
}

static int print_models(struct pen_text *why)
{
    json_t *list = json_array();
    struct pen_table table;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; name_at(i) != NULL && status == PEN_OK; i++) {
        struct pen_model *model = NULL;
        status = load_preset(name_at(i), &model, why);
        if (status == PEN_OK && pen__answer_is_json())
            pen__json_append(&list, model_json(name_at(i), model));
        else if (status == PEN_OK)
            add_row(&table, name_at(i), model);
        pen_model_free(model);
    }
    int code = PEN__EXIT_OK;
    if (status != PEN_OK) {
        code = pen__refuse_as(status, why);
    } else if (pen__answer_is_json()) {
        code = pen__print_json("models", json_pack("{s:O}", "models", list));
    } else {
        pen_table_print(&table, pen__page_width(), &text);
        pen_text_add_string(
            &text,
            "\npositions: the longest sequence; -: any, or images\n"
            "penstock plan llama-3.1-70b 64xh100 plans one; `penstock cluster "
            "list` has the devices\n");
        code = pen__print(&text);
    }
    json_decref(list);
    pen_table_release(&table);
    pen_text_release(&text);
    return code;
}

static const struct pen__line command_line = {
    .name = "penstock models",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .doc = "Lists the model presets, with their sizes.\vAll commands "
           "that take a MODEL take these names. Models that are for plan "
           "only are not trained here; other programs train them."};

static int run(int argc, char **argv)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (!pen__line_read(&command_line, argc, argv, NULL))
        return PEN__EXIT_USAGE;
    int code = print_models(&why);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__models = {
    "models", "lists the model presets with their sizes", run, NULL};
