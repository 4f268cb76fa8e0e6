/* From the parts of a report to a page; charts are in files of their own. */
#include "view/report_internal.h"

#include "view/cells.h"

#include <string.h>

void pen__html_add(struct pen_text *out, const char *string)
{
    struct pen_text clean = PEN_TEXT_EMPTY;
    pen__add_clean(string, &clean);
    for (const char *at = pen_text_string(&clean); *at != '\0'; at++) {
        if (*at == '&')
            pen_text_add_string(out, "&amp;");
        else if (*at == '<')
            pen_text_add_string(out, "&lt;");
        else if (*at == '>')
            pen_text_add_string(out, "&gt;");
        else if (*at == '"')
            pen_text_add_string(out, "&quot;");
        else
            pen_text_add_bytes(out, at, 1);
    }
    if (clean.has_failed)
        out->has_failed = 1;
    pen_text_release(&clean);
}

/*
 * Adds prose as above, but options such as --output are code, which is not
 * broken.
 */
static void add_prose(struct pen_text *out, const char *string)
{
    struct pen_text run = PEN_TEXT_EMPTY;
    for (const char *at = string; *at != '\0';) {
        bool is_option = strncmp(at, "--", 2) == 0 && at[2] >= 'a' &&
                         at[2] <= 'z' &&
                         (at == string || at[-1] == ' ' || at[-1] == '(');
        size_t length = 1;
        if (is_option)
            length =
                2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
        else
            length += strcspn(at + 1, "-");
        pen_text_clear(&run);
        pen_text_add_bytes(&run, at, length);
        pen_text_add_string(out, is_option ? "<code>" : "");
        pen__html_add(out, pen_text_string(&run));
        pen_text_add_string(out, is_option ? "</code>" : "");
        at += length;
    }
    if (run.has_failed)
        out->has_failed = 1;
    pen_text_release(&run);
}

/* Adds an element with nothing but text in it; none without a text. */
static void add_element(struct pen_text *out, const char *name,
                        const char *class_name, const char *string)
{
    if (string == NULL)
        return;
    pen_text_add(out, "<%s", name);
    if (class_name != NULL)
        pen_text_add(out, " class=\"%s\"", class_name);
    pen_text_add_string(out, ">");
    pen__html_add(out, string);
    pen_text_add(out, "</%s>\n", name);
}

/* Lines stay lines. */
static void add_commands(struct pen_text *out, const char *commands)
{
    if (commands == NULL)
        return;
    struct pen_text line = PEN_TEXT_EMPTY;
    pen_text_add_string(out, "<pre>");
    for (const char *at = commands; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        pen_text_clear(&line);
        pen_text_add_bytes(&line, at, length);
        pen__html_add(out, pen_text_string(&line));
        at += length;
        if (*at == '\n') {
            pen_text_add_string(out, "\n");
            at++;
        }
    }
    pen_text_add_string(out, "</pre>\n");
    if (line.has_failed)
        out->has_failed = 1;
    pen_text_release(&line);
}

static void add_remarks(struct pen_text *out,
                        const struct pen_report_section *section)
{
    if (section->num_remarks == 0)
        return;
    pen_text_add_string(out, "<ul class=\"remarks\">\n");
    for (size_t i = 0; i < section->num_remarks; i++) {
        const struct pen_report_remark *remark = &section->remarks[i];
        pen_text_add_string(out, "<li>\n");
        add_element(out, "span", "label", remark->label);
        pen_text_add_string(out, "<strong>");
        add_prose(out, remark->head);
        pen_text_add_string(out, "</strong>\n<p>");
        add_prose(out, remark->text);
        pen_text_add_string(out, "</p>\n</li>\n");
    }
    pen_text_add_string(out, "</ul>\n");
}

/* ---- tables ---- */

static const char *column_class(const struct pen_column *column)
{
    if (column->is_number)
        return "number";
    return column->may_wrap ? "wraps" : NULL;
}

/* Names and values need no titles. */
static bool has_titles(const struct pen_table *table)
{
    for (size_t c = 0; c < table->num_columns; c++) {
        if (table->columns[c].title[0] != '\0')
            return true;
    }
    return false;
}

static void add_titles(struct pen_text *out, const struct pen_table *table)
{
    if (!has_titles(table))
        return;
    pen_text_add_string(out, "<thead><tr>\n");
    for (size_t c = 0; c < table->num_columns; c++) {
        const struct pen_column *column = &table->columns[c];
        add_element(out, "th", column_class(column), column->title);
    }
    pen_text_add_string(out, "</tr></thead>\n");
}

static void add_cell(struct pen_text *out, const struct pen_column *column,
                     const char *string)
{
    if (!column->may_wrap) {
        add_element(out, "td", column_class(column), string);
        return;
    }
    pen_text_add(out, "<td class=\"%s\">", column_class(column));
    add_prose(out, string);
    pen_text_add_string(out, "</td>\n");
}

static void add_rows(struct pen_text *out, const struct pen_table *table,
                     bool marks_first)
{
    const char *cell = pen_text_string(&table->cells);
    for (size_t i = 0; i < table->num_cells; i++) {
        size_t c = i % table->num_columns;
        if (c == 0)
            pen_text_add_string(out, i == 0 && marks_first
                                         ? "<tr class=\"marked\">\n"
                                         : "<tr>\n");
        add_cell(out, &table->columns[c], cell);
        if (c + 1 == table->num_columns)
            pen_text_add_string(out, "</tr>\n");
        cell += strlen(cell) + 1;
    }
}

static void add_table(struct pen_text *out,
                      const struct pen_report_section *section)
{
    const struct pen_table *table = section->table;
    if (table == NULL)
        return;
    if (table->cells.has_failed) {
        out->has_failed = 1;
        return;
    }
    if (section->is_folded) {
        pen_text_add_string(out, "<details>");
        add_element(out, "summary", NULL,
                    section->fold == NULL ? "in numbers" : section->fold);
    }
    pen_text_add_string(out, "<div class=\"wide\"><table>\n");
    add_titles(out, table);
    pen_text_add_string(out, "<tbody>\n");
    add_rows(out, table, section->marks_first);
    pen_text_add_string(out, "</tbody></table></div>\n");
    if (section->is_folded)
        pen_text_add_string(out, "</details>\n");
}

/* ---- the page ---- */

/* Adds an SVG without the line that only a file of its own has. */
static void add_drawing(struct pen_text *out, const char *svg)
{
    const char *at = strstr(svg, "<svg");
    if (at == NULL)
        return;
    pen_text_add_string(out, "<figure class=\"picture\">\n");
    pen_text_add_string(out, at);
    pen_text_add_string(out, "</figure>\n");
}

static pen_status add_picture(struct pen_text *out,
                              const struct pen_picture_item *item,
                              struct pen_text *why)
{
    if (item == NULL)
        return PEN_OK;
    struct pen_text svg = PEN_TEXT_EMPTY;
    pen_status status = pen_timeline_print_svg(item, 1, &svg, why);
    if (status == PEN_OK)
        add_drawing(out, pen_text_string(&svg));
    pen_text_release(&svg);
    return status;
}

static pen_status add_curves(struct pen_text *out,
                             const struct pen_report_section *section,
                             struct pen_text *why)
{
    for (size_t i = 0; i < section->num_curves; i++) {
        if (pen__curves_print(&section->curves[i], out) != PEN_OK) {
            pen_why(why, "out of memory for the curves of a report");
            return PEN_NOMEM;
        }
    }
    return PEN_OK;
}

static pen_status add_section(struct pen_text *out,
                              const struct pen_report_section *section,
                              struct pen_text *why)
{
    pen_text_add_string(out, "<section>\n");
    add_element(out, "h2", NULL, section->title);
    add_element(out, "p", NULL, section->text);
    add_remarks(out, section);
    if (section->bars != NULL)
        pen__bars_print(section->bars, out);
    if (section->scatter != NULL)
        pen__scatter_print(section->scatter, out);
    pen_status status = add_curves(out, section, why);
    if (status == PEN_OK)
        status = add_picture(out, section->picture, why);
    if (status != PEN_OK)
        return status;
    if (section->drawing != NULL)
        add_drawing(out, section->drawing);
    add_table(out, section);
    add_commands(out, section->commands);
    add_element(out, "p", "note", section->note);
    pen_text_add_string(out, "</section>\n");
    return PEN_OK;
}

static void add_figures(struct pen_text *out, const struct pen_report *report)
{
    if (report->num_figures == 0)
        return;
    pen_text_add_string(out, "<dl class=\"figures\">\n");
    for (size_t i = 0; i < report->num_figures; i++) {
        const struct pen_report_figure *figure = &report->figures[i];
        pen_text_add_string(out, "<div>\n");
        add_element(out, "dt", NULL, figure->name);
        add_element(out, "dd", "value", figure->value);
        add_element(out, "dd", "also", figure->note);
        pen_text_add_string(out, "</div>\n");
    }
    pen_text_add_string(out, "</dl>\n");
}

/*
 * Adds the head, which forbids the browser to load anything, whatever the texts
 * contain.
 */
static void add_head(struct pen_text *out, const struct pen_report *report)
{
    pen_text_add_string(
        out,
        "<!DOCTYPE html>\n"
        "<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
        "<meta charset=\"utf-8\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
        "<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"/>\n");
    add_element(out, "title", NULL, report->title);
    pen_text_add_string(out, "<style>\n");
    pen__style_print(out);
    pen_text_add_string(out, "</style>\n</head>\n<body>\n<main>\n"
                             "<header>\n");
    add_element(out, "h1", NULL, report->title);
    add_element(out, "p", "quiet", report->subtitle);
    add_figures(out, report);
    pen_text_add_string(out, "</header>\n");
}

pen_status pen_report_print(const struct pen_report *report,
                            struct pen_text *out, struct pen_text *why)
{
    add_head(out, report);
    for (size_t i = 0; i < report->num_sections; i++) {
        pen_status status = add_section(out, &report->sections[i], why);
        if (status != PEN_OK)
            return status;
    }
    add_element(out, "footer", NULL, report->foot);
    pen_text_add_string(out, "</main>\n</body>\n</html>\n");
    if (!out->has_failed)
        return PEN_OK;
    pen_why(why, "out of memory for a report");
    return PEN_NOMEM;
}
