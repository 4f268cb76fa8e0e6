#ifndef PEN_WATCH_BOARD_H
#define PEN_WATCH_BOARD_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Where every rank of this node is. The ranks share a piece of memory, in which
 * each has one line of the cache: written by its rank at every op, read by all
 * others when a rank dies or nothing moves. No rank waits for a reader, and
 * nothing here calls MPI: the board may be opened before MPI_Init().
 *
 * The memory has a name only until all ranks of the node have opened it, so a
 * job that ends in any way leaves nothing behind. Boards of jobs that died
 * while they started are removed by the next one.
 */

/* What a rank does: name, and the words of a report. */
#define PEN_BOARD_STATE_TABLE(X)                                               \
    X(STARTING, "starting")                                                    \
    X(JOINING, "in MPI_Init")                                                  \
    X(LOADING, "loading the model and the data")                               \
    X(PREPARING, "preparing the first step")                                   \
    X(COMPUTING, "computing")                                                  \
    X(WAITING, "waiting")                                                      \
    X(COLLECTIVE, "in a collective operation")                                 \
    X(SAVING, "saving")                                                        \
    X(ISLANDS, "waiting for other islands")                                    \
    X(FINISHED, "finished")

enum pen_board_state {
#define PEN_BOARD_STATE_ENUM(name, words) PEN_BOARD_##name,
    PEN_BOARD_STATE_TABLE(PEN_BOARD_STATE_ENUM)
#undef PEN_BOARD_STATE_ENUM
        PEN_BOARD_STATES
};

const char *pen_board_state_words(enum pen_board_state state);

/* Outside the row of a schedule: evaluation, start, end. */
#define PEN_BOARD_NO_OP UINT32_MAX

/* Nobody in particular; in a collective: whoever has not come. */
#define PEN_BOARD_NOBODY 0xffffffu

struct pen_board;

struct pen_board_options {
    const char *job;  /* the same on all ranks of one start, and of no other */
    const char *host; /* as reports name it; the same on all of this node */
    uint32_t rank;    /* in the world, below PEN_BOARD_NOBODY */
    uint32_t local_rank; /* on this node: 0..num_local-1 */
    uint32_t num_local;
    uint32_t num_ranks;  /* of the job; 0: unknown */
    double deadline_sec; /* for the others to come */
    int socket;          /* of this process to the launcher; 0: none */
};

/*
 * Opens the board of this node and returns when all its ranks have. Fails when
 * one does not come in time (PEN_LATE), dies meanwhile, or comes with another
 * number of ranks. On success free with pen_board_free(), from the same thread.
 */
pen_status pen_board_create(const struct pen_board_options *options,
                            struct pen_board **out, struct pen_text *why);
void pen_board_free(struct pen_board *board);

/* For tests: the name in /dev/shm, with a slash; differs between users. */
pen_status pen__board_name(const struct pen_board_options *options,
                           struct pen_text *name, struct pen_text *why);

/*
 * What this rank does from now on: the op at this position of its row. A rank
 * that leaves on purpose says PEN_BOARD_FINISHED first; otherwise the others
 * take it for dead. Saying the same again changes nothing. Costs some tens of
 * nanoseconds. Does nothing when the board is NULL. Only for the thread that
 * executes.
 */
void pen_board_note(struct pen_board *board, uint64_t step, uint32_t position,
                    enum pen_board_state state, uint32_t waits_for);

/* Which row of the schedule this rank executes. As pen_board_note(). */
void pen_board_set_row(struct pen_board *board, uint32_t row);

/* The thread of this process whose work is not that of the rank. */
void pen_board_set_watcher(struct pen_board *board, int thread);

/* One line of the board, as somebody read it. */
struct pen_board_entry {
    uint32_t rank;
    uint32_t row; /* of the schedule; 0 until it is told */
    int32_t pid;
    int32_t socket;
    int32_t watcher; /* number of its watchdog's thread; 0: none yet */
    uint64_t step;
    uint32_t position;
    enum pen_board_state state;
    uint32_t waits_for;
    int64_t since_ns; /* CLOCK_MONOTONIC */
};

struct pen_board_entry pen_board_read(const struct pen_board *board,
                                      uint32_t local_rank);

/* Borrowed until the board is freed. */
const char *pen_board_host(const struct pen_board *board);
uint32_t pen_board_count(const struct pen_board *board);
uint32_t pen_board_own(const struct pen_board *board); /* local rank */

/* Whether the process of another rank of this node is still there. */
bool pen_board_is_alive(const struct pen_board *board, uint32_t local_rank);

/* What became of a rank. */
enum pen_board_fate {
    PEN_BOARD_LIVES,
    PEN_BOARD_LEFT, /* freed its board */
    PEN_BOARD_DIED  /* or ended without freeing it */
};

/*
 * Waits for the end of another rank, at most so long. It is told before the
 * kernel closes the files of that process, that is before a launcher can notice
 * and end everybody.
 */
enum pen_board_fate pen_board_await_end(struct pen_board *board,
                                        uint32_t local_rank, int milliseconds);

/*
 * Words that the ranks of a node leave each other about the end of the job.
 * Each begins as 0.
 */
enum pen_board_word {
    PEN_BOARD_DEATH_TELLER, /* local rank + 1 of the one that tells a death */
    PEN_BOARD_DEATH_TOLD,   /* 1 once it is told */
    PEN_BOARD_HANG,         /* local rank + 1 of the one that waited too long */
    PEN_BOARD_HANG_TOLD,    /* how many ranks have told what they wait for */
    PEN_BOARD_HANG_OVER,    /* 1 once all have told it that could */
    PEN_BOARD_WARNED,       /* second of the clock of the last warning */
    PEN_BOARD_LOST,         /* rank in the world + 1 of a member that is lost */
    PEN_BOARD_WORDS
};

uint32_t pen_board_word(const struct pen_board *board,
                        enum pen_board_word word);

/* Whether a watchdog of this node has marked a rank as lost; NULL: no. */
bool pen_board_has_lost(const struct pen_board *board);

/* Sets a word that is still 0; false when another was first. */
bool pen_board_claim(struct pen_board *board, enum pen_board_word word,
                     uint32_t value);
/* Sets a word that still has the value `old`; false when it has another. */
bool pen_board_replace(struct pen_board *board, enum pen_board_word word,
                       uint32_t old, uint32_t value);
void pen_board_count_up(struct pen_board *board, enum pen_board_word word);

#endif
