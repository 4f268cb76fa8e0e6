#include "supervise/policy.h"

#include "watch/watchdog.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    MOST_SAME = 3,
    FREE_RESTARTS = 2,
    LONGEST_DELAY_SEC = 60,
    EXIT_REFUSED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_EXECUTABLE = 126, /* as shells and launchers have it */
    EXIT_NOT_FOUND = 127,
    EXIT_BY_SIGNAL = 128,
    NUM_SIGNALS = 64
};

static const struct {
    const char *name;
    const char *words;
    bool is_retried;
} causes[] = {
#define CAUSE_ROW(name, event, is_retried, words) {event, words, is_retried},
    PEN_CAUSE_TABLE(CAUSE_ROW)
#undef CAUSE_ROW
};

const char *pen_cause_name(enum pen_cause cause)
{
    return causes[cause].name;
}

const char *pen_cause_words(enum pen_cause cause)
{
    return causes[cause].words;
}

bool pen_cause_is_retried(enum pen_cause cause)
{
    return causes[cause].is_retried;
}

/* ---- what happened ---- */

static enum pen_cause cause_of_error(const char *error)
{
    if (strstr(error, "No space left on device") != NULL ||
        strstr(error, "Disk quota exceeded") != NULL)
        return PEN_CAUSE_DISK_FULL;
    if (strstr(error, "not finite") != NULL || strstr(error, "NaN") != NULL ||
        strstr(error, "infinite") != NULL)
        return PEN_CAUSE_NOT_FINITE;
    return PEN_CAUSE_REFUSED;
}

static enum pen_cause cause_of_code(int64_t code, const char *error)
{
    switch (code) {
    case 0:
        return PEN_CAUSE_DONE;
    case EXIT_REFUSED:
        return *error == '\0' ? PEN_CAUSE_FAILED : cause_of_error(error);
    case EXIT_USAGE:
        return PEN_CAUSE_USAGE;
    case PEN_EXIT_DAMAGED:
        return PEN_CAUSE_DAMAGED;
    case PEN_EXIT_PEER_DIED:
        return PEN_CAUSE_RANK_DIED;
    case PEN_EXIT_HANG:
        return PEN_CAUSE_HANG;
    case EXIT_NOT_EXECUTABLE:
    case EXIT_NOT_FOUND:
        return PEN_CAUSE_NOT_STARTED;
    default:
        return PEN_CAUSE_FAILED;
    }
}

void pen_fault_read_status(struct pen_fault *fault, int status,
                           const char *error)
{
    enum pen_cause cause = PEN_CAUSE_LAUNCHER_DIED;
    if (WIFSIGNALED(status)) {
        if (fault->signal == PEN_UNKNOWN)
            fault->signal = WTERMSIG(status);
    } else {
        int64_t code = WEXITSTATUS(status);
        cause = cause_of_code(code, error);
        fault->exit_code = code;
        if (code > EXIT_BY_SIGNAL && code <= EXIT_BY_SIGNAL + NUM_SIGNALS &&
            cause == PEN_CAUSE_FAILED) {
            cause = PEN_CAUSE_RANK_DIED;
            if (fault->signal == PEN_UNKNOWN)
                fault->signal = code - EXIT_BY_SIGNAL;
        }
    }
    if (fault->cause == PEN_CAUSE_DONE)
        fault->cause = cause;
}

static void print_end(const struct pen_fault *fault, struct pen_text *out)
{
    if (fault->signal != PEN_UNKNOWN)
        pen_text_add(out, " (signal %" PRId64 ")", fault->signal);
    else if (fault->exit_code != PEN_UNKNOWN)
        pen_text_add(out, " (exit code %" PRId64 ")", fault->exit_code);
}

void pen_fault_print(const struct pen_fault *fault, struct pen_text *out)
{
    bool has_rank = fault->rank != PEN_UNKNOWN;
    if (has_rank && fault->cause == PEN_CAUSE_RANK_DIED)
        pen_text_add(out, "rank %" PRId64 " died", fault->rank);
    else if (has_rank && fault->cause == PEN_CAUSE_RANK_STOPPED)
        pen_text_add(out, "rank %" PRId64 " was stopped", fault->rank);
    else if (has_rank)
        pen_text_add(out, "%s, rank %" PRId64 " first",
                     pen_cause_words(fault->cause), fault->rank);
    else
        pen_text_add_string(out, pen_cause_words(fault->cause));
    print_end(fault, out);
    if (fault->step != PEN_UNKNOWN)
        pen_text_add(out, " at step %" PRId64, fault->step);
    if (fault->op[0] != '\0')
        pen_text_add(out, " in %s", fault->op);
}

/* ---- restarts ---- */

bool pen_policy_init(struct pen_policy *policy, uint32_t max_restarts,
                     double window_sec)
{
    *policy = (struct pen_policy){.max_restarts = max_restarts,
                                  .window_sec = window_sec,
                                  .last = PEN_FAULT_UNKNOWN};
    policy->times = calloc((size_t)max_restarts + 1, sizeof *policy->times);
    return policy->times != NULL;
}

void pen_policy_release(struct pen_policy *policy)
{
    free(policy->times);
    policy->times = NULL;
}

/*
 * Returns whether a fault can be due to a step: a launcher that is stopped or
 * killed is not.
 */
static bool can_be_due_to_a_step(const struct pen_fault *fault)
{
    return fault->step != PEN_UNKNOWN &&
           (fault->cause == PEN_CAUSE_RANK_DIED ||
            fault->cause == PEN_CAUSE_HANG ||
            fault->cause == PEN_CAUSE_NO_PROGRESS ||
            fault->cause == PEN_CAUSE_FAILED);
}

/*
 * Compares two faults. The exit code of the launcher is not always waited for.
 */
static bool is_same(const struct pen_fault *a, const struct pen_fault *b)
{
    return a->cause == b->cause && a->step == b->step && a->rank == b->rank &&
           a->signal == b->signal &&
           (a->signal != PEN_UNKNOWN || a->exit_code == b->exit_code);
}

static bool is_too_many(const struct pen_policy *policy, double now_sec)
{
    if (policy->max_restarts == 0)
        return true;
    if (policy->num_restarts < policy->max_restarts)
        return false;
    double oldest = policy->times[policy->num_restarts % policy->max_restarts];
    return now_sec - oldest < policy->window_sec;
}

static double delay_of(uint32_t num_fruitless)
{
    if (num_fruitless < FREE_RESTARTS)
        return 0;
    double delay = ldexp(1, (int)num_fruitless - FREE_RESTARTS);
    return delay < LONGEST_DELAY_SEC ? delay : LONGEST_DELAY_SEC;
}

static struct pen_decision refuse(enum pen_cause cause)
{
    return (struct pen_decision){.cause = cause};
}

struct pen_decision pen_policy_decide(struct pen_policy *policy,
                                      const struct pen_fault *fault,
                                      bool has_progress, double now_sec)
{
    if (!pen_cause_is_retried(fault->cause))
        return refuse(fault->cause);
    bool is_repeated =
        can_be_due_to_a_step(fault) && is_same(fault, &policy->last);
    policy->num_same = is_repeated ? policy->num_same + 1 : 1;
    policy->last = *fault;
    if (policy->num_same >= MOST_SAME)
        return refuse(PEN_CAUSE_SAME_STEP);
    if (is_too_many(policy, now_sec))
        return refuse(PEN_CAUSE_TOO_MANY);
    policy->times[policy->num_restarts++ % policy->max_restarts] = now_sec;
    if (has_progress)
        policy->num_fruitless = 0;
    struct pen_decision decision = {
        .restarts = true, .delay_sec = delay_of(policy->num_fruitless)};
    policy->num_fruitless++;
    return decision;
}
