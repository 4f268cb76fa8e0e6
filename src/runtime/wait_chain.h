#ifndef PEN_RUNTIME_WAIT_CHAIN_H
#define PEN_RUNTIME_WAIT_CHAIN_H

#include "runtime/board.h"
#include "runtime/process.h"
#include "schedule/schedule.h"

/*
 * Who waits for whom, and who is the first that does not wait. A pure function
 * of what was read from the board of a node.
 */
struct pen__rank_view {
    struct pen_board_entry entry;
    struct pen__process process;
};

struct pen__node_view {
    const struct pen_schedule *schedule; /* borrowed */
    const char *host;                    /* borrowed */
    int64_t now_ns;
    uint32_t num_ranks; /* of this node */
    struct pen__rank_view *ranks;
};

/* Where a chain of waits ends. */
enum pen__root_kind {
    PEN__ROOT_HERE,      /* a rank of this node that does not wait */
    PEN__ROOT_ELSEWHERE, /* a rank that has no line on this board */
    PEN__ROOT_CIRCLE     /* the ranks wait for each other */
};

struct pen__root {
    enum pen__root_kind kind;
    uint32_t local_rank; /* HERE: the root; else: the last of the chain */
    int64_t moved_ns;    /* when the last of the chain to move did so */
};

/* The end of the chain that begins at this local rank. */
struct pen__root pen__wait_root(const struct pen__node_view *view,
                                uint32_t local_rank);

/*
 * One sentence: in which op the rank waits, for whom, whom that one waits for,
 * and "root of the wait: ...". A rank that does not wait is told as the root.
 */
void pen__wait_tell(const struct pen__node_view *view, uint32_t local_rank,
                    struct pen_text *out);

/* "at step 12 in 5F3 (forward of stage 5, micro-batch 3)" */
void pen__place_tell(const struct pen_schedule *schedule,
                     const struct pen_board_entry *entry, struct pen_text *out);

#endif
