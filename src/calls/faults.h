#ifndef PEN_CALLS_FAULTS_H
#define PEN_CALLS_FAULTS_H

#include "calls/meetings.h"

/*
 * The first wrong or missing operation of each group and link: kind and its
 * name in JSON. In the order of the table a fault explains those after it.
 */
#define PEN_CALL_FAULT_TABLE(X)                                                \
    X(SKIPPED, "skipped")       /* a rank left out a collective */             \
    X(MISMATCHED, "mismatched") /* a rank made another call than the others */ \
    X(ABSENT, "absent")         /* a rank has no record */                     \
    X(STOPPED, "stopped")       /* a rank's record ends before the call */     \
    X(UNSENT, "unsent")         /* a receive has no send */                    \
    X(UNRECEIVED, "unreceived") /* a send has no receive */                    \
    X(STUCK, "stuck") /* all ranks are in the call, and it does not end */

enum pen_call_fault_kind {
#define PEN_CALL_FAULT_ENUM(name, word) PEN_CALL_FAULT_##name,
    PEN_CALL_FAULT_TABLE(PEN_CALL_FAULT_ENUM)
#undef PEN_CALL_FAULT_ENUM
        PEN_CALL_FAULTS
};

const char *pen_call_fault_word(enum pen_call_fault_kind kind);

struct pen_call_fault {
    enum pen_call_fault_kind kind;
    const struct pen_meeting *meeting; /* NULL: a link, or a job of one call */
    const struct pen_message *message; /* NULL: not of a link */
    uint32_t *ranks;                   /* at fault */
    uint32_t num_ranks;
    uint32_t num_waiting;          /* ranks that are in the call */
    const struct pen_call *wrong;  /* what the first of them called, or NULL */
    const struct pen_call *right;  /* what the others called, or NULL */
    uint32_t right_rank;           /* one of the others */
    const struct pen_call *before; /* the last call of the first, or NULL */
    bool is_even;      /* as many ranks made one call as the other */
    bool is_explained; /* its ranks wait in another fault */
};

struct pen_call_faults {
    struct pen_call_fault *list; /* the cause first */
    size_t count;
};

pen_status pen_call_faults_find(const struct pen_meetings *meetings,
                                struct pen_call_faults *out,
                                struct pen_text *why);
void pen_call_faults_release(struct pen_call_faults *faults);

/* Adds one or two sentences that say which rank is wrong, how, and where. */
void pen_call_fault_add_words(const struct pen_meetings *meetings,
                              const struct pen_call_fault *fault,
                              struct pen_text *out);

#endif
