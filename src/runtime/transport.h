#ifndef PEN_RUNTIME_TRANSPORT_H
#define PEN_RUNTIME_TRANSPORT_H

#include "base/status.h"
#include "base/text.h"
#include "watch/board.h"
#include "watch/launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Messages between the processes of a run. transport.c is the only file that
 * calls MPI, and only the main thread may call it. A process that no launcher
 * started is rank 0 of 1 and never touches MPI.
 *
 * A step waits for nothing here: sends, receives and sums are posted, and
 * tested by the code that needs them. Messages between two ranks with one tag
 * arrive in the order in which they were sent. A message may have any length.
 *
 * A member that is lost, to the watchdog (board.h) or to MPI, makes everything
 * void that is or will be under way, on parts of the transport, too: whatever
 * is posted from then on does nothing, every test and wait returns PEN_LOST.
 * A wait therefore ends when any rank dies or hangs.
 */
struct pen_transport;

/*
 * `launch` was read before. On failure *out is untouched; INVALID when launcher
 * and library do not know each other; only the first process of the launcher
 * gets the reason.
 */
pen_status pen_transport_open(const struct pen_launch *launch,
                              struct pen_transport **out, struct pen_text *why);

/*
 * Ranks first to first + count - 1 of another transport as a world of their
 * own, where they are numbered from 0. Called by these alone, at the same time.
 * Close it before the other.
 */
pen_status pen_transport_open_part(struct pen_transport *whole, uint32_t first,
                                   uint32_t count, struct pen_transport **out);

/* One process, whatever launched it. */
pen_status pen_transport_open_alone(struct pen_transport **out);

/* Ends MPI where it was begun: nothing may be under way. NULL is fine. */
void pen_transport_close(struct pen_transport *transport);

/* Ends all processes of the run with this exit code. */
_Noreturn void pen_transport_abort(struct pen_transport *transport, int code);

/* The watchdog of this board reports lost ranks; borrowed until the end. */
void pen_transport_guard(struct pen_transport *transport,
                         const struct pen_board *board);

/*
 * The rank that was lost first; PEN_BOARD_NOBODY: none, or which one is
 * unknown, or it is outside of this part. `has_lost` says whether there is one.
 */
uint32_t pen_transport_lost(const struct pen_transport *transport);
bool pen_transport_has_lost(const struct pen_transport *transport);

uint32_t pen_transport_rank(const struct pen_transport *transport);
uint32_t pen_transport_size(const struct pen_transport *transport);

/* The tags there are, all below what MPI promises; see transport.c. */
enum pen_tag_kind {
    PEN_TAG_ACT,      /* between stages; the number is the consuming stage */
    PEN_TAG_GRAD,     /* likewise */
    PEN_TAG_EVICT,    /* a stash on its way to the partner; the stage */
    PEN_TAG_LOAD,     /* and back */
    PEN_TAG_GRADIENT, /* of parameters, to the rank that sums them; the part */
    PEN_TAG_SUM,      /* and back */
    PEN_TAG_VALUE,    /* of parameters; the part */
    PEN_TAG_TIED,     /* between the ends of a tied matrix; the logical replica
                         or what follows it */
    PEN_TAG_STATE,    /* outside of steps: checkpoints, checks */
    PEN_TAG_REPLICA,  /* between replicas that synchronise; the channel */
    PEN_TAG_TOTAL,    /* numbers of a step, up and down the ranks */
    PEN_TAG_AGREE,    /* of all ranks, on a status: agree.h */
    PEN_TAG_MOVE,     /* a tensor on its way to another layout */
    PEN_TAG_COPY,     /* a committed step on its way to another node */
    PEN_TAG_PROBE,    /* tallies of a step, to the first rank */
    PEN_TAG_TENSOR,   /* in a tensor group; 0: sums of layers, 1: what the
                         first of it writes */
    PEN_TAG_CONTEXT,  /* keys and values, and their gradients, between ranks
                         with parts of the same sequences */
    PEN_TAG_EXPERT,   /* rows of tokens between ranks with different experts */
    PEN_TAG_KINDS
};

/* INVALID when the library's tags do not suffice for numbers below `count`. */
pen_status pen_transport_check_tags(const struct pen_transport *transport,
                                    uint32_t count, struct pen_text *why);

struct pen_tag {
    enum pen_tag_kind kind;
    uint32_t number;
};

/*
 * A message or a sum under way; zero at first, and again when it is done. The
 * struct must not move in memory in between.
 */
struct pen_request {
    _Alignas(8) unsigned char handle[8];
    bool is_active;

    /* With checksums: the second message, and what it is about. */
    bool has_check;
    bool is_received;
    uint32_t peer;
    struct pen_tag tag;
    _Alignas(8) unsigned char check_handle[8];
    uint64_t check[2]; /* length and CRC32C, of the sender */
    const void *bytes;
    uint64_t length; /* that has arrived */
};

/*
 * From here on every message (send and receive below) is followed by one with
 * its length and its CRC32C. A receiver that finds another CRC32C names sender,
 * receiver and tag, and ends the job with PEN_EXIT_DAMAGED. Called by all ranks
 * of the transport at the same time, before messages are under way; a part does
 * it for itself. Sums, shares and windows have none. INVALID under a simulated
 * MPI.
 */
pen_status pen_transport_add_checksums(struct pen_transport *transport,
                                       struct pen_text *why);

void pen_transport_send(struct pen_transport *transport, uint32_t to,
                        struct pen_tag tag, const void *bytes, size_t length,
                        struct pen_request *request);

/* Bytes that this rank has sent with tags of a kind; parts count, too. */
uint64_t pen_transport_sent(const struct pen_transport *transport,
                            enum pen_tag_kind kind);

/* From now on the transport calls `told` for every message that sets out. */
void pen_transport_watch(struct pen_transport *transport,
                         void (*told)(void *context, uint32_t to,
                                      size_t length),
                         void *context);

/* A message may be shorter than `length`. */
void pen_transport_receive(struct pen_transport *transport, uint32_t from,
                           struct pen_tag tag, void *bytes, size_t length,
                           struct pen_request *request);

/*
 * A message of `length` bytes of which only the first `held` are there, at both
 * ends: the rest has no contents (phantom.h). At most INT_MAX of them, and for
 * a simulated MPI alone.
 */
void pen_transport_send_phantom(struct pen_transport *transport, uint32_t to,
                                struct pen_tag tag, const void *bytes,
                                size_t held, size_t length,
                                struct pen_request *request);
void pen_transport_receive_phantom(struct pen_transport *transport,
                                   uint32_t from, struct pen_tag tag,
                                   void *bytes, size_t held, size_t length,
                                   struct pen_request *request);

/* Adds up values[] over all ranks, in place; exact where one alone is not 0. */
void pen_transport_sum(struct pen_transport *transport, double *values,
                       size_t count, struct pen_request *request);

/*
 * Memory of some ranks that the others of them may write, `length` bytes of
 * each; made and freed by all of them at the same time. They are numbered in
 * the order of the list. INVALID where the library has no such memory between
 * these hosts. A put returns at once and its bytes may change then; puts to the
 * same rank arrive in order. Bytes come in while their owner looks after
 * messages.
 */
struct pen_window;

pen_status pen_window_create(struct pen_transport *transport,
                             const uint32_t *ranks, uint32_t count,
                             struct pen_tag tag, size_t length,
                             struct pen_window **out);
void pen_window_free(struct pen_window *window);
void *pen_window_bytes(struct pen_window *window);
void pen_window_put(struct pen_window *window, uint32_t to, size_t first,
                    const void *bytes, size_t length);

/* PEN_OK when a request is done, or was not under way; PEN_BUSY; PEN_LOST. */
pen_status pen_transport_test(struct pen_transport *transport,
                              struct pen_request *request) PEN_MUST_CHECK;

/*
 * Lets others compute between two looks at a condition, after a wait of
 * `waited_ns` so far. A message is soon there or it takes long, so this is
 * short at first. Under a simulated MPI it lasts until something under way is
 * done.
 */
void pen_transport_pause(struct pen_transport *transport, int64_t waited_ns);

/*
 * In place of computing: passes time until `end_ns`, or less when messages want
 * to be looked after; true when all of it is over. Under a simulated MPI that
 * is when one of them is done, and only with is_watchful: messages move on by
 * themselves there. The time is simulated, and the call is to be repeated, with
 * the same end, until it is over.
 */
bool pen_transport_nap(struct pen_transport *transport, int64_t end_ns,
                       bool is_watchful);

/*
 * Calls that wait, for use outside of steps. share() sends `bytes` of rank 0 to
 * all others; all ranks call share() and meet() together. PEN_OK or PEN_LOST.
 */
pen_status pen_transport_wait(struct pen_transport *transport,
                              struct pen_request *request) PEN_MUST_CHECK;
pen_status pen_transport_share(struct pen_transport *transport, void *bytes,
                               size_t length) PEN_MUST_CHECK;
pen_status pen_transport_meet(struct pen_transport *transport) PEN_MUST_CHECK;

/*
 * Nanoseconds to add to this rank's CLOCK_MONOTONIC to get rank 0's. All ranks
 * must ask at the same time. 0 when a member is lost.
 */
int64_t pen_transport_clock_offset(struct pen_transport *transport);

#endif
