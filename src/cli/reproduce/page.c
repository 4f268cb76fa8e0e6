/* Intervals, as the pages of all experiments print them. */
#include "cli/reproduce/reproduce.h"

void pen__interval_print(const struct pen_interval *interval, int digits,
                         struct pen_text *out)
{
    pen_text_add(out, "%.*f (%.*f to %.*f)", digits, interval->middle, digits,
                 interval->low, digits, interval->high);
}

void pen__interval_cell(const struct pen_interval *interval, int digits,
                        struct pen_table *table)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__interval_print(interval, digits, &text);
    pen_table_add(table, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

json_t *pen__interval_json(const struct pen_interval *interval)
{
    return json_pack("[f, f, f]", interval->low, interval->middle,
                     interval->high);
}
