/*
 * penstock schedule check: says what was proved, or what is wrong.
 */
#include "cli/schedule.h"

#include "schedule/verify.h"

static void tell_proof(const struct pen__schedule_args *args,
                       const struct pen_schedule *schedule,
                       const struct pen_timing *timing, struct pen_text *out)
{
    uint32_t window = args->send_window != 0 ? args->send_window
                                             : pen_schedule_window(schedule);
    struct pen__summary summary = pen__summarise(timing);
    pen_text_add(out,
                 "correct: %s, %llu operations on %u ranks, no deadlock with "
                 "a send window of %u, peak %.6g A on rank %u",
                 schedule->name,
                 (unsigned long long)pen_schedule_count(schedule),
                 timing->num_ranks, window, summary.peak, summary.fullest);
    if (args->memory_limit != 0)
        pen_text_add(out, " (limit %.6g A)", args->memory_limit);
    pen_text_add(out, ", %u weight version%s\n", summary.versions,
                 summary.versions == 1 ? "" : "s");
}

int pen__schedule_check(const struct pen__schedule_args *args)
{
    const struct pen_verify_options rules = {.send_window = args->send_window,
                                             .memory_limit = args->memory_limit,
                                             .costs = &args->costs};
    const struct pen_time_options times = {.send_window = args->send_window};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text proof = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_timing *timing = NULL;
    pen_status status = pen__load_lowered(args->words[0], &schedule, &why);
    if (status == PEN_OK)
        status = pen_schedule_verify(schedule, &rules, NULL, &why);
    if (status == PEN_OK)
        status =
            pen_schedule_time(schedule, &args->costs, &times, &timing, &why);
    int code = PEN__EXIT_OK;
    if (status == PEN_OK) {
        tell_proof(args, schedule, timing, &proof);
        code = pen__print(&proof);
    } else {
        code = pen__refuse(&why);
    }
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    pen_text_release(&proof);
    pen_text_release(&why);
    return code;
}
