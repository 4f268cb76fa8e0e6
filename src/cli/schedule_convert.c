/*
 * penstock schedule convert: the text form, with sends and receives, to and
 * from PyTorch's compute-only CSV.
 */
#include "cli/schedule.h"

int pen__schedule_convert(const struct pen__schedule_args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    pen_status status = pen__load_lowered(args->words[0], &schedule, &why);
    if (status == PEN_OK)
        status = pen_schedule_save(schedule, args->words[1], &why);
    int code = PEN__EXIT_OK;
    if (status == PEN_OK)
        pen__report_written(schedule, args->words[1]);
    else
        code = pen__refuse(&why);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return code;
}
