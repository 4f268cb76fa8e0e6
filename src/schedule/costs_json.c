#include "schedule/costs.h"
pen_status pen_costs_parse_json(const char *text, size_t length,
                                struct pen_costs *costs, struct pen_text *why)
{
    (void)text;
    (void)length;
    (void)costs;
    pen_why(why, "todo");
    return PEN_INVALID;
}
