#ifndef PEN_WATCH_BOARD_H
#define PEN_WATCH_BOARD_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The board of a node: where each of its ranks is. The ranks share a piece of
 * memory, in which each has one cache line. A rank writes its line at every op;
 * the others read it when a rank dies or nothing moves. No rank waits for a
 * reader, and nothing here calls MPI: the board may be opened before
 * MPI_Init().
 *
 * The memory has a name only until all ranks of the node have opened it, so a
 * job that ends in any way leaves nothing in /dev/shm. The next board removes
 * boards of jobs that died while they started.
 */

/* Each state of a rank: its name, and its words in a report. */
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

/*
 * The position of a rank that is outside the row of its schedule: evaluation,
 * start, end.
 */
#define PEN_BOARD_NO_OP UINT32_MAX

/*
 * The peer of a rank that waits for no particular rank; in a collective it
 * waits for all that have not come.
 */
#define PEN_BOARD_NOBODY 0xffffffu

struct pen_board;

struct pen_board_options {
    const char *job;  /* differs between starts; the same on all their ranks */
    const char *host; /* its name in reports; the same on all its ranks */
    uint32_t rank;    /* in the world, below PEN_BOARD_NOBODY */
    uint32_t local_rank; /* on this node: 0..num_local-1 */
    uint32_t num_local;
    uint32_t num_ranks;  /* of the job; 0: unknown */
    double deadline_sec; /* seconds to wait for the other ranks */
    int socket;          /* from this process to the launcher; 0: none */
};

/*
 * Opens the board of this node and returns when all its ranks have. Fails when
 * one does not come in time (PEN_LATE), dies meanwhile, or comes with another
 * number of ranks. On success free with pen_board_free(), from the same thread.
 */
pen_status pen_board_create(const struct pen_board_options *options,
                            struct pen_board **out, struct pen_text *why);
void pen_board_free(struct pen_board *board);

/*
 * Writes the name in /dev/shm, with a slash; it differs between users. For
 * tests.
 */
pen_status pen__board_name(const struct pen_board_options *options,
                           struct pen_text *name, struct pen_text *why);

/*
 * Notes the op that this rank is at from now on, by its position in the row. A
 * rank that leaves on purpose notes PEN_BOARD_FINISHED first; otherwise the
 * others take it for dead. Noting the same again changes nothing. Costs some
 * tens of nanoseconds. Does nothing when the board is NULL. Only for the thread
 * that executes.
 */
void pen_board_note(struct pen_board *board, uint64_t step, uint32_t position,
                    enum pen_board_state state, uint32_t waits_for);

/* Notes which row of the schedule this rank executes. Like pen_board_note(). */
void pen_board_set_row(struct pen_board *board, uint32_t row);

/* Notes the thread of this process whose work is not that of the rank. */
void pen_board_set_watcher(struct pen_board *board, int thread);

/* One line of the board, as it was read. */
struct pen_board_entry {
    uint32_t rank;
    uint32_t row; /* of the schedule; 0 until it is known */
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

/* Returns the host's name, borrowed until the board is freed. */
const char *pen_board_host(const struct pen_board *board);
uint32_t pen_board_count(const struct pen_board *board);
uint32_t pen_board_own(const struct pen_board *board); /* local rank */

/* Returns whether the process of another rank of this node is alive. */
bool pen_board_is_alive(const struct pen_board *board, uint32_t local_rank);

/* Whether and how a rank has ended. */
enum pen_board_fate {
    PEN_BOARD_LIVES,
    PEN_BOARD_LEFT, /* freed its board */
    PEN_BOARD_DIED  /* ended without freeing it */
};

/*
 * Waits up to this many milliseconds for the end of another rank, and returns
 * its fate. The kernel gives back the rank's lock before it closes its files,
 * so this returns before a launcher can notice and end all ranks.
 */
enum pen_board_fate pen_board_await_end(struct pen_board *board,
                                        uint32_t local_rank, int milliseconds);

/*
 * Words by which the ranks of a node agree on the end of the job. Each begins
 * as 0.
 */
enum pen_board_word {
    PEN_BOARD_DEATH_REPORTER, /* local rank + 1 of the one that reports */
    PEN_BOARD_DEATH_REPORTED, /* 1 once it is reported */
    PEN_BOARD_HANG, /* local rank + 1 of the one that waited too long */
    PEN_BOARD_HANG_REPORTED, /* how many ranks have reported what they wait for
                              */
    PEN_BOARD_HANG_OVER,     /* 1 once all ranks that can have reported */
    PEN_BOARD_WARNED,        /* time of the last warning, in seconds */
    PEN_BOARD_LOST, /* rank in the world + 1 of a member that is lost */
    PEN_BOARD_WORDS
};

uint32_t pen_board_word(const struct pen_board *board,
                        enum pen_board_word word);

/*
 * Returns whether a watchdog of this node has marked a rank as lost. False when
 * the board is NULL.
 */
bool pen_board_has_lost(const struct pen_board *board);

/* Sets a word that is still 0; false when another was first. */
bool pen_board_claim(struct pen_board *board, enum pen_board_word word,
                     uint32_t value);
/* Sets a word that still has the value `old`; false when it has another. */
bool pen_board_replace(struct pen_board *board, enum pen_board_word word,
                       uint32_t old, uint32_t value);
void pen_board_count_up(struct pen_board *board, enum pen_board_word word);

#endif
