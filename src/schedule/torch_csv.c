#include "schedule/torch_csv.h"
pen_status pen_torch_csv_parse(const char *text, size_t length,
                               struct pen_schedule **out, struct pen_text *why)
{
    (void)text;
    (void)length;
    (void)out;
    pen_why(why, "todo");
    return PEN_INVALID;
}
pen_status pen_torch_csv_print(const struct pen_schedule *schedule,
                               struct pen_text *out, struct pen_text *why)
{
    (void)schedule;
    (void)out;
    pen_why(why, "todo");
    return PEN_INVALID;
}
