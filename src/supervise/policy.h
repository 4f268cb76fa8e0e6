#ifndef PEN_SUPERVISE_POLICY_H
#define PEN_SUPERVISE_POLICY_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Why a launch ended, and whether another one is worth it. docs/supervise.md
 * has the same table; tests/unit/supervise_policy.c compares them.
 *
 * Columns: name, name in events, whether it is restarted, words.
 */
#define PEN_CAUSE_TABLE(X)                                                     \
    X(DONE, "done", false, "all steps are done")                               \
    X(ASKED, "asked", false, "a signal asked for the end")                     \
    X(RANK_DIED, "rank-died", true, "a rank died")                             \
    X(RANK_STOPPED, "rank-stopped", true, "a rank was stopped")                \
    X(LAUNCHER_DIED, "launcher-died", true, "the launcher died")               \
    X(LAUNCHER_STOPPED, "launcher-stopped", true, "the launcher was stopped")  \
    X(HANG, "hang", true, "the ranks hung")                                    \
    X(NO_PROGRESS, "no-progress", true, "no step was committed")               \
    X(NODE_GONE, "node-gone", true, "a node is no longer listed")              \
    X(MORE_SLOTS, "more-slots", true, "there are slots for more ranks")        \
    X(HOLDER_DIED, "holder-died", true, "the holder of steps in memory died")  \
    X(FAILED, "failed", true, "the command failed without a message")          \
    X(REFUSED, "refused", false, "the command refused to continue")            \
    X(DISK_FULL, "disk-full", false, "the disk is full")                       \
    X(NOT_FINITE, "not-finite", false, "a number is infinite or NaN")          \
    X(USAGE, "usage", false, "the command line is wrong")                      \
    X(DAMAGED, "damaged", false, "numbers were damaged")                       \
    X(NOT_STARTED, "not-started", false, "the command could not be started")   \
    X(SAME_STEP, "same-step", false,                                           \
      "the same rank failed in the same way at the same step three times")     \
    X(TOO_MANY, "too-many-restarts", false, "there were too many restarts")

enum pen_cause {
#define PEN_CAUSE_ENUM(name, event, is_retried, words) PEN_CAUSE_##name,
    PEN_CAUSE_TABLE(PEN_CAUSE_ENUM)
#undef PEN_CAUSE_ENUM
        PEN_NUM_CAUSES
};

const char *pen_cause_name(enum pen_cause cause);
const char *pen_cause_words(enum pen_cause cause);
bool pen_cause_is_retried(enum pen_cause cause);

/* Numbers that are not known are PEN_UNKNOWN. */
#define PEN_UNKNOWN INT64_C(-1)

/* The known facts about the end of a launch. */
struct pen_fault {
    enum pen_cause cause;
    int64_t rank;
    int64_t step;   /* in which it happened */
    int64_t signal; /* of the rank or the launcher */
    int64_t exit_code;
    char op[32]; /* that the rank was in, such as "5F3"; may be "" */
};

#define PEN_FAULT_UNKNOWN                                                      \
    {                                                                          \
        .rank = PEN_UNKNOWN, .step = PEN_UNKNOWN, .signal = PEN_UNKNOWN,       \
        .exit_code = PEN_UNKNOWN                                               \
    }

/*
 * Fills cause, signal and exit code from the status that waitpid() gave of the
 * command itself. `error` is the first error that it printed, or "". A cause
 * that is known already is kept.
 */
void pen_fault_read_status(struct pen_fault *fault, int status,
                           const char *error);

/* Prints "rank 2 died (signal 9) at step 12 in 2F3". */
void pen_fault_print(const struct pen_fault *fault, struct pen_text *out);

/* ---- restarts ---- */

struct pen_policy {
    uint32_t max_restarts; /* within the window */
    double window_sec;
    double *times; /* of the last max_restarts restarts, in a ring */
    uint64_t num_restarts;
    struct pen_fault last;
    uint32_t num_same;      /* faults in a row that are like the last */
    uint32_t num_fruitless; /* launches in a row without a committed step */
};

/* Prepares the policy; max_restarts may be 0. False when memory runs out. */
bool pen_policy_init(struct pen_policy *policy, uint32_t max_restarts,
                     double window_sec);
void pen_policy_release(struct pen_policy *policy);

struct pen_decision {
    bool restarts;
    double delay_sec;
    enum pen_cause cause; /* where it does not restart */
};

/*
 * Decides what to do about a fault. has_progress: a step was committed since
 * the last restart. now_sec never decreases. The first two restarts without
 * progress are at once, the next after 1 s, 2 s, 4 s and so on, up to a minute.
 */
struct pen_decision pen_policy_decide(struct pen_policy *policy,
                                      const struct pen_fault *fault,
                                      bool has_progress, double now_sec);

#endif
