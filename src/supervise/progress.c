#include "supervise/progress.h"

#define SEC INT64_C(1000000000)

enum {
    WARN_SEC = 60,
    IDLE_SEC = 600,
    IDLE_STEPS = 25,
    BUSY_SEC = 1800,
    BUSY_STEPS = 100,
    LEAST_COMMITS = 3,
    LEAST_SHARE = 100 /* a rank that waits asleep uses less than 1 % */
};

void pen_progress_start(struct pen_progress *progress, int64_t now_ns)
{
    *progress = (struct pen_progress){.start_ns = now_ns,
                                      .commit_ns = now_ns,
                                      .busy_ns = now_ns,
                                      .seen_ns = now_ns};
}

void pen_progress_commit(struct pen_progress *progress, int64_t now_ns)
{
    if (progress->num_commits > 0)
        progress->intervals[progress->num_commits % PEN_PROGRESS_INTERVALS] =
            now_ns - progress->commit_ns;
    progress->num_commits++;
    progress->commit_ns = progress->busy_ns = now_ns;
    progress->is_warned = false;
}

void pen_progress_work(struct pen_progress *progress, int64_t work_ns,
                       int64_t now_ns)
{
    int64_t passed_ns = now_ns - progress->seen_ns;
    int64_t used_ns = work_ns - progress->work_ns;
    if (used_ns < 0 || used_ns > passed_ns / LEAST_SHARE) {
        progress->busy_ns = now_ns;
        progress->is_warned = false;
    }
    progress->seen_ns = now_ns;
    progress->work_ns = work_ns;
}

static int64_t limit(const struct pen_progress *progress, int64_t sec,
                     int64_t steps)
{
    int64_t longest = 0;
    for (int i = 0; i < PEN_PROGRESS_INTERVALS; i++)
        if (progress->intervals[i] > longest)
            longest = progress->intervals[i];
    return longest * steps > sec * SEC ? longest * steps : sec * SEC;
}

enum pen_progress_verdict pen_progress_judge(struct pen_progress *progress,
                                             int64_t now_ns)
{
    int64_t idle_ns = now_ns - progress->busy_ns;
    if (idle_ns > limit(progress, IDLE_SEC, IDLE_STEPS) ||
        (progress->num_commits >= LEAST_COMMITS &&
         now_ns - progress->commit_ns > limit(progress, BUSY_SEC, BUSY_STEPS)))
        return PEN_PROGRESS_STUCK;
    if (idle_ns <= WARN_SEC * SEC || progress->is_warned)
        return PEN_PROGRESS_FINE;
    progress->is_warned = true;
    return PEN_PROGRESS_WARN;
}
