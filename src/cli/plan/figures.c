#include "cli/plan/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GROUP 3u        /* digits between two commas */
#define MOST_WHOLE 1e15 /* above, a double does not know the last digit */

static void add_grouped(struct pen_text *out, double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.0f", value);
    size_t length = strlen(digits);
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % GROUP == 0)
            pen_text_add_string(out, ",");
        pen_text_add_bytes(out, &digits[i], 1);
    }
}

void pen__add_figure(struct pen_text *out, double value)
{
    if (value >= MOST_WHOLE)
        pen_text_add(out, "%.4g", value);
    else if (round(value) >= 1000)
        add_grouped(out, value);
    else if (value >= 100)
        pen_text_add(out, "%.0f", value);
    else
        pen_text_add(out, "%.3g", value);
}

void pen__add_figure_cell(struct pen_table *out, double value)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__add_figure(&text, value);
    pen_table_add(out, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

void pen__add_traffic(struct pen_text *out, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t last = sizeof units / sizeof *units - 1;
    size_t unit = 0;
    /* 999.6 kB would be printed as 1000 kB. */
    while (unit < last && bytes >= 999.5) {
        bytes /= 1000;
        unit++;
    }
    pen_text_add(out, "%.3g %s", bytes, units[unit]);
}

void pen__add_large(struct pen_text *out, double value)
{
    static const struct {
        double least;
        const char *name;
    } names[] = {{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (value >= names[i].least) {
            pen_text_add(out, "%.4g %s", value / names[i].least, names[i].name);
            return;
        }
    }
    pen__add_figure(out, value);
}
