/*
 * penstock schedule convert: the text form, with sends and receives, to and
 * from PyTorch's compute-only CSV. A schedule that `check` refuses is not
 * written, unless it is forced.
 */
#include "cli/schedule/schedule.h"

#include "base/log.h"
#include "schedule/verify.h"

static pen_status check(const struct pen__schedule_args *args,
                        const struct pen_schedule *schedule,
                        struct pen_text *why)
{
    const struct pen_verify_options rules = {.costs = &args->costs};
    struct pen_text wrong = PEN_TEXT_EMPTY;
    pen_status status = pen_schedule_verify(schedule, &rules, NULL, &wrong);
    if (status != PEN_OK && args->is_forced) {
        pen_log(PEN_LOG_WARN, "%s: %s", args->words.words[0],
                pen_text_string(&wrong));
        status = PEN_OK;
    }
    if (status != PEN_OK)
        pen_why(why, "%s\n%s was not written; --force writes it all the same",
                pen_text_string(&wrong), args->words.words[1]);
    pen_text_release(&wrong);
    return status;
}

int pen__schedule_convert(const struct pen__schedule_args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    pen_status status =
        pen__load_lowered(args->words.words[0], &schedule, &why);
    if (status == PEN_OK)
        status = check(args, schedule, &why);
    if (status == PEN_OK)
        status = pen_schedule_save(schedule, args->words.words[1], &why);
    int code = PEN__EXIT_OK;
    if (status == PEN_OK)
        pen__report_written(schedule, args->words.words[1]);
    else
        code = pen__refuse_as(status, &why);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return code;
}
