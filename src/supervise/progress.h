#ifndef PEN_SUPERVISE_PROGRESS_H
#define PEN_SUPERVISE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a launch gets on, judged late: the watchdogs of the ranks know more,
 * and have ended most hangs before. Times are of a clock that only goes
 * forward.
 *
 *                                              warning       end
 *   no processor time on any rank              60 s          max(600 s, 25
 * steps) processor time, and no committed step                    max(1800 s,
 * 100 steps)
 *
 * A step is the longest of the last intervals between two commits. The second
 * line needs three commits of this launch.
 */
enum { PEN_PROGRESS_INTERVALS = 8 };

struct pen_progress {
    int64_t start_ns;
    int64_t commit_ns; /* of the last commit, or the start */
    int64_t busy_ns;   /* when ranks were last seen to use processors */
    int64_t seen_ns;   /* when work_ns was read */
    int64_t work_ns;   /* processor time, and time in the queue for one */
    int64_t intervals[PEN_PROGRESS_INTERVALS];
    uint64_t num_commits;
    bool is_warned;
};

enum pen_progress_verdict {
    PEN_PROGRESS_FINE,
    PEN_PROGRESS_WARN, /* once */
    PEN_PROGRESS_STUCK
};

void pen_progress_start(struct pen_progress *progress, int64_t now_ns);
void pen_progress_commit(struct pen_progress *progress, int64_t now_ns);

/* Notes the processor time of all ranks since they began. */
void pen_progress_work(struct pen_progress *progress, int64_t work_ns,
                       int64_t now_ns);

enum pen_progress_verdict pen_progress_judge(struct pen_progress *progress,
                                             int64_t now_ns);

#endif
