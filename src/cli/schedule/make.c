/*
 * penstock schedule make: generate, verify, write.
 */
#include "cli/schedule/schedule.h"

#include "base/log.h"

/* Options that this schedule has no use for are refused, not ignored. */
static int refuse_useless(const struct pen__schedule_args *args,
                          const struct pen_generator *generator)
{
    const char *name = generator->name;
    const char *option = NULL;
    const char *owner = NULL;
    if (args->group_size != 0 && !generator->has_group_size) {
        option = "group-size";
        owner = "kfkb only";
    } else if (args->num_replicated != 0 && !generator->has_replicas) {
        option = "stage-replicas";
        owner = "1f1b only";
    } else if (args->has_vertical_sync && !generator->has_vertical_sync) {
        option = "vertical-sync";
        owner = "pipedream only";
    } else if (args->batches != 0 && generator->is_synchronous) {
        option = "batches";
        owner = "asynchronous schedules only";
    }
    if (option == NULL)
        return PEN__EXIT_OK;
    pen_log(PEN_LOG_ERROR, "--%s is for %s; leave it out for %s", option, owner,
            name);
    return PEN__EXIT_USAGE;
}

/*
 * Checks the shape. A generator gets --chunks and --slices when they are free
 * to choose; otherwise its schedule must agree with the options.
 */
static pen_status check_shape(const struct pen__schedule_args *args,
                              const struct pen_schedule *schedule,
                              struct pen_text *why)
{
    uint32_t chunks = pen_shape_chunks(&schedule->shape);
    if (args->chunks != 0 && args->chunks != chunks) {
        pen_why(why, "--chunks %u: %s has %u on each rank; leave it out",
                args->chunks, schedule->name, chunks);
        return PEN_INVALID;
    }
    uint32_t slices = schedule->shape.num_slices;
    if (args->slices != 0 && args->slices != slices) {
        pen_why(why, "--slices %u: %s has %u; leave it out", args->slices,
                schedule->name, slices);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/*
 * Warns of unused costs: the order of most schedules is the same whatever
 * operations take.
 */
static void warn_of_unused_costs(const struct pen__schedule_args *args,
                                 const struct pen_generator *generator)
{
    if (args->costs_text != NULL && !generator->uses_costs)
        pen_log(
            PEN_LOG_INFO,
            "--costs is not used: %s has one order for all costs; `penstock "
            "schedule time` takes them",
            generator->name);
}

int pen__schedule_make(const struct pen__schedule_args *args)
{
    const struct pen_generator *generator =
        pen__find_generator(args->words.words[0]);
    if (generator == NULL)
        return PEN__EXIT_USAGE;
    int code = refuse_useless(args, generator);
    if (code != PEN__EXIT_OK)
        return code;
    const char *path = args->output != NULL ? args->output : "-";
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    pen_status status = pen__make_verified(args, generator, args->memory_limit,
                                           &schedule, &why);
    if (status == PEN_OK)
        status = check_shape(args, schedule, &why);
    if (status == PEN_OK)
        status = pen_schedule_save(schedule, path, &why);
    if (status == PEN_OK) {
        pen__report_written(schedule, path);
        warn_of_unused_costs(args, generator);
    } else {
        code = pen__refuse_as(status, &why);
    }
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return code;
}
