/*
 * Draws the columns of a table over its first one, as lines of a chart.
 *
 *   build/release/bench/draw_chart TABLE -o FILE [--title TEXT] [--y TEXT]
 *       [--log-x] [--log-y]
 *
 * TABLE has a line of names, then lines of numbers, with tabs between them; a
 * cell without a number is a gap. FILE ends in .svg, .png or .pdf.
 */
#include "base/file.h"
#include "view/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 8u
#define MAX_LINES 256u
#define MAX_BYTES 65536u

struct table {
    char *names[MAX_COLUMNS];
    size_t num_columns;
    double cells[MAX_COLUMNS][MAX_LINES];
    size_t num_lines;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "draw_chart: %s: %s\n", what, why);
    exit(2);
}

static double number_of(const char *cell)
{
    char *end;
    double value = strtod(cell, &end);
    return end == cell ? (double)NAN : value;
}

/* Cells of one line; the text is cut into them. */
static void read_line(struct table *table, char *line, const char *path)
{
    size_t column = 0;
    for (char *cell = line; cell != NULL; column++) {
        char *tab = strchr(cell, '\t');
        if (column == MAX_COLUMNS || table->num_lines == MAX_LINES)
            die(path, "too large");
        if (tab != NULL)
            *tab = '\0';
        if (table->num_columns <= column)
            table->names[column] = cell;
        else
            table->cells[column][table->num_lines] = number_of(cell);
        cell = tab == NULL ? NULL : tab + 1;
    }
    if (table->num_columns == 0)
        table->num_columns = column;
    else if (column != table->num_columns)
        die(path, "lines differ in length");
    else
        table->num_lines++;
}

/* The text is borrowed by the table. */
static void read_table(char *text, const char *path, struct table *out)
{
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        read_line(out, line, path);
        line = end == NULL ? NULL : end + 1;
    }
    if (out->num_columns < 2 || out->num_lines == 0)
        die(path, "nothing to draw");
}

static void draw(const struct table *table, struct pen_chart *chart,
                 const char *path)
{
    static struct pen_chart_point points[MAX_COLUMNS][MAX_LINES];
    struct pen_chart_line lines[MAX_COLUMNS];
    struct pen_text why = PEN_TEXT_EMPTY;
    for (size_t i = 1; i < table->num_columns; i++) {
        for (size_t j = 0; j < table->num_lines; j++)
            points[i][j] = (struct pen_chart_point){table->cells[0][j],
                                                    table->cells[i][j]};
        lines[i - 1] = (struct pen_chart_line){table->names[i], points[i],
                                               table->num_lines};
    }
    chart->x_name = table->names[0];
    chart->lines = lines;
    chart->num_lines = table->num_columns - 1;
    if (pen_chart_draw(chart, path, &why) != PEN_OK)
        die(path, pen_text_string(&why));
}

int main(int argc, char **argv)
{
    static struct table table;
    struct pen_chart chart = {.title = "", .y_name = "seconds of a step"};
    struct pen_text why = PEN_TEXT_EMPTY;
    const char *output = NULL;
    struct pen_text text = PEN_TEXT_EMPTY;
    if (argc < 4)
        die("usage", "draw_chart TABLE -o FILE [option ...]");
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--log-x") == 0)
            chart.has_log_x = true;
        else if (strcmp(argv[i], "--log-y") == 0)
            chart.has_log_y = true;
        else if (strcmp(argv[i], "-o") == 0)
            output = value, i++;
        else if (strcmp(argv[i], "--title") == 0)
            chart.title = value, i++;
        else if (strcmp(argv[i], "--y") == 0)
            chart.y_name = value, i++;
        else
            die(argv[i], "unknown option");
    }
    if (output == NULL)
        die("-o", "which file?");
    if (pen_file_read(argv[1], MAX_BYTES, &text, &why) != PEN_OK)
        die(argv[1], pen_text_string(&why));
    read_table(text.bytes, argv[1], &table);
    draw(&table, &chart, output);
    pen_text_release(&text);
    return 0;
}
