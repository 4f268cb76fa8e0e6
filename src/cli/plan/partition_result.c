/* The output of `penstock partition`: stages or layers, as text or as JSON. */
#include "cli/plan/partition_result.h"

#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"

void pen__partition_init(struct pen__partition *result, const char *kind,
                         const struct pen_column *columns, size_t num_columns)
{
    *result = (struct pen__partition){.stages = json_array()};
    pen_table_init(&result->table, columns, num_columns);
    pen_text_init(&result->summary);
    result->root = json_pack("{s:s}", "file", kind);
}

void pen__partition_set(struct pen__partition *result, const char *key,
                        double value)
{
    (void)json_object_set_new(result->root, key, json_real(value));
}

void pen__partition_leave_out(struct pen__partition *result,
                              const char *left_out)
{
    if (left_out == NULL)
        return;
    pen_log(PEN_LOG_WARN, "%s", left_out);
    (void)json_object_set_new(result->root, "left_out", json_string(left_out));
}

void pen__partition_set_nodes(struct pen__partition *result,
                              const uint32_t *stages, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        pen__json_append(&list, json_integer(stages[i]));
    (void)json_object_set_new(result->root, "node_stages", list);
}

/* Prints and releases. */
int pen__partition_print(struct pen__partition *result)
{
    int code;
    (void)json_object_set_new(result->root, "stages", result->stages);
    (void)json_object_set_new(result->root, "text",
                              json_string(pen_text_string(&result->summary)));
    if (pen__answer_is_json()) {
        code = pen__print_json("partition", result->root);
    } else {
        struct pen_text text = PEN_TEXT_EMPTY;
        pen_table_print(&result->table, pen__page_width(), &text);
        pen_text_add(&text, "\n%s\n", pen_text_string(&result->summary));
        code = pen__print(&text);
        json_decref(result->root);
    }
    pen_table_release(&result->table);
    pen_text_release(&result->summary);
    return code;
}
