#ifndef PEN_CALLS_CALLS_H
#define PEN_CALLS_CALLS_H

#include "base/status.h"
#include "base/text.h"
#include "calls/call_op.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Calls of communication that the ranks of another program made, as its own
 * recorders wrote them: PyTorch's Flight Recorder (JSON or pickle),
 * torch.profiler, or Chrome's trace events. One file is one rank.
 */

#define PEN_CALLS_MOST_RANKS 65536u
#define PEN_CALLS_MOST_CALLS 4000000u /* of a rank */
#define PEN_CALLS_MOST_BYTES ((size_t)1 << 30)

enum pen_call_state {
    PEN_CALL_UNKNOWN, /* the recorder does not say */
    PEN_CALL_PENDING, /* scheduled or started */
    PEN_CALL_DONE
};

/* How many values of which type a call was given. */
struct pen_call_data {
    uint64_t elements; /* of all tensors; PEN_CALL_NO_DATA: not recorded */
    char dtype[16];
};

#define PEN_CALL_NO_DATA UINT64_MAX

/* One call of one rank. */
struct pen_call {
    enum pen_call_op op;
    enum pen_call_state state;
    uint32_t group;  /* of the rank while it is read, then of pen_calls */
    uint32_t peer;   /* rank in the job, of sends and receives */
    uint64_t number; /* in its group, or on its link, from the recorder */
    struct pen_call_data data;
    int64_t begin_ns; /* since 1970; 0 where not recorded */
    int64_t end_ns;   /* 0 where not recorded */
    uint32_t site;    /* where in the program: in pen_call_rank.texts, or 0 */
};

/* A process group. */
struct pen_call_group {
    char name[64];
    uint32_t *ranks; /* of the job, ascending */
    uint32_t count;  /* 0: not recorded */
};

struct pen_call_rank {
    char *path; /* of its file */
    char host[64];
    uint32_t rank;
    struct pen_call *calls; /* in order of their begin */
    size_t count;
    size_t room;
    struct pen_call_group *groups; /* while it is read */
    uint32_t num_groups;
    struct pen_text texts; /* each ended by a NUL; the first is "" */
    uint64_t num_lost;     /* calls before the first, which were overwritten */
    int64_t shift_ns;      /* added to its times, see calls/waits.h */
};

struct pen_calls {
    struct pen_call_rank *ranks; /* ascending */
    uint32_t num_ranks;
    uint32_t world; /* ranks of the job, as far as the files say */
    struct pen_call_group *groups;
    uint32_t num_groups;
};

/*
 * Reads one file per rank. The rank is in the file, or is the number in its
 * name. Release with pen_calls_release().
 */
pen_status pen_calls_load(char *const *paths, size_t count,
                          struct pen_calls *out, struct pen_text *why);
void pen_calls_release(struct pen_calls *calls);

/* Returns the rank, or NULL where it has no file. */
const struct pen_call_rank *pen_calls_find(const struct pen_calls *calls,
                                           uint32_t rank);

/* Reads the bytes of one file; the path is for the rank in its name. */
pen_status pen_call_rank_parse(const char *path, const char *bytes,
                               size_t length, struct pen_call_rank *out,
                               uint32_t *world, struct pen_text *why);
void pen_call_rank_release(struct pen_call_rank *rank);

/* Adds "all_reduce of 3,000 Float". */
void pen_call_add_words(const struct pen_call *call, struct pen_text *out);

#endif
