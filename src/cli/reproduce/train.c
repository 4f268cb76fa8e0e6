#include "cli/reproduce/reproduce.h"

#include "base/median.h"

#include <math.h>
#include <stdlib.h>

/* Times the first loss: from there no training comes back. */
#define LOST 10

static bool is_whole(const struct pen_run *run, uint32_t num_steps)
{
    return run->num_steps > 0 &&
           run->steps[run->num_steps - 1].step == num_steps;
}

static bool is_lost(const struct pen_run *run)
{
    if (run->num_steps == 0)
        return false;
    double last = run->steps[run->num_steps - 1].loss;
    return !isfinite(last) || last > LOST * run->steps[0].loss;
}

/* Loads a log; returns whether it has all that its training will ever have. */
static bool load_ended(const char *log, uint32_t num_steps,
                       struct pen_run **out)
{
    if (pen_run_load(log, out, NULL) != PEN_OK)
        return false;
    if (is_whole(*out, num_steps) || is_lost(*out))
        return true;
    pen_run_free(*out);
    return false;
}

pen_status pen__reproduce_train(struct pen__jobs *jobs,
                                const struct pen__reproduce_job *job,
                                struct pen__words *words, struct pen_run **out,
                                struct pen_text *why)
{
    struct pen_text log = PEN_TEXT_EMPTY, reason = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    pen_text_add(&log, "%s/%s.jsonl", jobs->folder, job->name);
    const char *path = pen_text_string(&log);
    pen__words_add(words, "--log");
    pen__words_add(words, "%s", path);
    if (load_ended(path, job->num_steps, out)) {
        pen__jobs_keep(jobs, job->num_ranks, job->weight, words);
    } else {
        status = pen__jobs_run(jobs, job->name, job->num_ranks, job->weight,
                               words, &reason);
        if (status == PEN_OK)
            status = pen_run_load(path, out, why);
        else if (load_ended(path, job->num_steps, out))
            status = PEN_OK; /* it diverged */
        else
            pen_why(why, "%s", pen_text_string(&reason));
    }
    pen_text_release(&reason);
    pen_text_release(&log);
    return status;
}

double pen__reproduce_median_sec(const struct pen_run *run, size_t skipped)
{
    double *seconds = malloc((run->num_steps + 1) * sizeof *seconds);
    size_t count = 0;
    if (seconds == NULL)
        return (double)NAN;
    for (size_t i = skipped; i < run->num_steps; i++)
        seconds[count++] = 1e-3 * run->steps[i].step_ms;
    double median = pen_median(seconds, count);
    free(seconds);
    return median;
}
