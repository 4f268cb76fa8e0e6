#ifndef PEN_WATCH_WAIT_CHAIN_H
#define PEN_WATCH_WAIT_CHAIN_H

#include "schedule/schedule.h"
#include "watch/board.h"
#include "watch/process.h"

/*
 * Chains of waits: which rank waits for which, and the first that does not
 * wait. Pure functions of values read from the board of a node.
 */
struct pen__rank_view {
    struct pen_board_entry entry;
    struct pen__process process;
    struct pen__process_work work; /* for the ranks of the chain, see stall.h */
};

struct pen__node_view {
    const struct pen_schedule *schedule; /* borrowed; NULL: none is known yet */
    const char *host;                    /* borrowed */
    int64_t now_ns;
    uint32_t num_ranks; /* of this node */
    struct pen__rank_view *ranks;
    bool is_whole_job; /* no rank is of another node */
    uint32_t *chain;   /* room for num_ranks local ranks, or NULL */
};

/* Where a chain of waits ends. */
enum pen__root_kind {
    PEN__ROOT_HERE,      /* a rank of this node that does not wait */
    PEN__ROOT_ELSEWHERE, /* a rank that has no line on this board */
    PEN__ROOT_CIRCLE,    /* the ranks wait for each other */
    PEN__ROOT_ALL,       /* all ranks of the job are in one collective */
    PEN__ROOT_LEFT       /* a rank that has left while others wait for it */
};

struct pen__root {
    enum pen__root_kind kind;
    uint32_t local_rank; /* HERE, LEFT: the root; else: the last of the chain */
    int64_t moved_ns;    /* when the last of the chain to move did so */
    uint32_t num_chain;  /* how many ranks the view's chain has */
};

/* Returns whether a rank in this state waits for others. */
bool pen__state_is_waiting(enum pen_board_state state);

/*
 * Returns the end of the chain that begins at this local rank. The ranks on the
 * way and a root of this node are put into the view's chain; with PEN__ROOT_ALL
 * the chain has all ranks.
 */
struct pen__root pen__wait_root(const struct pen__node_view *view,
                                uint32_t local_rank);

/*
 * Adds one sentence: in which op the rank waits, for which rank, for which that
 * one waits in turn, and "root of the wait: ...". A rank that does not wait is
 * the root itself, unless another rank of this node is stopped: then the
 * stopped rank is the root.
 */
void pen__wait_describe(const struct pen__node_view *view, uint32_t local_rank,
                        struct pen_text *out);

/*
 * Adds "at step 12 in 5F3 (forward of stage 5, micro-batch 3)", "at step 12
 * (saving)" or "during start-up (in MPI_Init)".
 */
void pen__place_describe(const struct pen_schedule *schedule,
                         const struct pen_board_entry *entry,
                         struct pen_text *out);

#endif
