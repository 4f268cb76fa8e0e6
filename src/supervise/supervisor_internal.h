#ifndef PEN_SUPERVISE_SUPERVISOR_INTERNAL_H
#define PEN_SUPERVISE_SUPERVISOR_INTERNAL_H

#include "supervise/child.h"
#include "supervise/events.h"
#include "supervise/held.h"
#include "supervise/progress.h"
#include "supervise/steps.h"
#include "supervise/supervisor.h"

/* The common part of a supervisor's files: its loop, its reports, its judge. */

#define SEC INT64_C(1000000000)
#define MS INT64_C(1000000)

enum { PEN__MOST_OLD = 8 };

struct pen__supervisor {
    const struct pen_supervisor_options *options;
    struct pen_events events;
    struct pen_policy policy;
    struct pen_steps steps; /* on the disk */
    struct pen_held held;
    struct pen_progress progress;
    struct pen_family family;
    struct pen_fleet fleet;
    struct pen_child now;
    struct pen_child old[PEN__MOST_OLD]; /* launchers that tidy up */
    size_t num_old;
    pid_t others[PEN__MOST_OLD + 2];
    int signals;
    uint64_t epoch;
    int64_t committed;  /* step, PEN_UNKNOWN: none */
    int64_t num_ranks;  /* of the launch, as seen */
    int64_t from_ranks; /* of the launch before, where it had others */
    int asked;          /* SIGTERM or SIGINT asked for the end */
    bool has_progress;  /* since the launch began */
    bool has_fault;     /* that no commit has followed yet */
    struct pen_fault fault;
    int64_t fault_ns;
    int64_t fault_step; /* that was committed then */
    bool awaits_commit; /* before the launch ends for more ranks */
    int64_t more_step;  /* that was committed when there were slots for them */
    int64_t tick_ns;    /* of the last turn */
    int64_t scan_ns;
    int64_t look_ns;
    int64_t work_ns;
    int64_t grown_ns;  /* when a process of the launch was last new */
    int64_t ending_ns; /* when a rank ended badly; 0: none has */
    int64_t deserted_ns;
};

/* Waits until something happens, at most `limit_ms`, and takes it in. */
void pen__supervisor_wait(struct pen__supervisor *s, int limit_ms);

/* Sends a signal to all ranks. */
void pen__supervisor_forward(struct pen__supervisor *s, int number);

/* Writes an event; fault may be NULL. */
void pen__supervisor_tell(struct pen__supervisor *s, enum pen_event_kind kind,
                          const struct pen_fault *fault, double lost_sec,
                          const struct pen_last_words *evidence);

/* Takes in what was committed since the last call. */
void pen__supervisor_note_commits(struct pen__supervisor *s);

/* Returns whether the launch is over or has to be ended, and why. */
bool pen__supervisor_judge(struct pen__supervisor *s, struct pen_fault *fault);

#endif
