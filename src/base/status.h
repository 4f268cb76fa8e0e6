#ifndef PEN_BASE_STATUS_H
#define PEN_BASE_STATUS_H

/*
 * The result of a function that can fail. A code exists only if some caller
 * acts differently on it; the reason in words travels in a struct pen_text.
 */

#define PEN_STATUS_TABLE(X)                                                    \
    X(OK, "ok")                                                                \
    X(NOMEM, "out of memory")                                                  \
    X(INVALID, "invalid input")                                                \
    X(INFEASIBLE, "nothing fits the given limits")                             \
    X(IO, "cannot read or write a file")                                       \
    X(DAMAGED, "numbers were changed in memory or on their way")               \
    X(LATE, "another process did not come in time")                            \
    X(BUSY, "not done yet")                                                    \
    X(LOST, "another process is lost")

enum pen_status_code {
#define PEN_STATUS_ENUM(name, text) PEN_##name,
    PEN_STATUS_TABLE(PEN_STATUS_ENUM)
#undef PEN_STATUS_ENUM
};

typedef enum pen_status_code pen_status;

/* For functions whose answer must not be dropped: all that wait. */
#define PEN_MUST_CHECK __attribute__((warn_unused_result))

/* Returns a constant, never NULL. */
const char *pen_status_text(pen_status status);

#endif
