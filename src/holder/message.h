#ifndef PEN_HOLDER_MESSAGE_H
#define PEN_HOLDER_MESSAGE_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The messages between a holder, the ranks of its node and its parent: packets
 * of one size on UNIX sockets of one machine, so that byte order and layout are
 * the same at both ends. Descriptors travel with them.
 */
#define PEN_HOLDER_MAX_RANKS 65536u
#define PEN_HOLDER_RUN_SIZE 24u
#define PEN_HOLDER_TEXT_SIZE 128u

/* Each kind: its name, and which side sends it. */
#define PEN_HOLDER_KIND_TABLE(X)                                               \
    /* a rank: answered by OK, REFUSED or ENTRY */                             \
    X(HELLO)     /* epoch, rank, num_ranks */                                  \
    X(SHARD)     /* is_copy; with the descriptor of the memory */              \
    X(COMMITTED) /* step; not answered */                                      \
    X(GOODBYE)   /* is_done; not answered */                                   \
    X(LIST)      /* index: of an entry of the table */                         \
    X(FETCH)     /* epoch, rank, step: the answer has the descriptor */        \
    /* the parent */                                                           \
    X(EPOCH) /* epoch: the next; older ranks are cut off */                    \
    /* answers */                                                              \
    X(OK)                                                                      \
    X(REFUSED) /* text */                                                      \
    X(ENTRY)   /* index, count; the rest where index < count */                \
    /* events, to the parent */                                                \
    X(CONNECTED)                                                               \
    X(GONE) /* the socket of a rank was closed without GOODBYE */              \
    X(LEFT) /* after GOODBYE */

enum pen_holder_kind {
    PEN_HOLDER_NONE,
#define PEN_HOLDER_KIND_ENUM(name) PEN_HOLDER_##name,
    PEN_HOLDER_KIND_TABLE(PEN_HOLDER_KIND_ENUM)
#undef PEN_HOLDER_KIND_ENUM
        PEN_HOLDER_KINDS
};

/* A message. Fields that its kind does not use are 0. */
struct pen_holder_message {
    uint32_t magic;
    uint16_t version;
    uint16_t kind; /* enum pen_holder_kind */
    uint64_t epoch;
    uint32_t rank;
    uint32_t num_ranks;
    uint64_t step;
    uint64_t steps[2]; /* of the slots of a shard; 0: not whole */
    uint64_t num_bytes;
    uint32_t index;
    uint32_t count;
    uint32_t is_connected; /* whether the rank of an entry is there */
    uint32_t drops_older;  /* every rank has a commit of this epoch */
    uint32_t is_copy;      /* memory of a rank of another node */
    uint32_t is_done;      /* the training has ended, no launch follows */
    char run[PEN_HOLDER_RUN_SIZE];
    char text[PEN_HOLDER_TEXT_SIZE];
};

/* Returns a message of a kind, with everything else 0. */
struct pen_holder_message pen_holder_message_of(enum pen_holder_kind kind);

/* Refuses bytes that are no message, or whose numbers are out of bounds. */
pen_status pen_holder_message_parse(const void *bytes, size_t length,
                                    struct pen_holder_message *out,
                                    struct pen_text *why);

/*
 * Sends a message, with a descriptor unless that is -1. Never a signal.
 * PEN_BUSY where the socket is full and must not block, PEN_LOST where the
 * other end is gone.
 */
pen_status pen_holder_send(int socket, const struct pen_holder_message *message,
                           int descriptor);

/*
 * Receives a message. *descriptor is what came with it, or -1; the caller
 * closes it, also when the message is refused (PEN_INVALID). PEN_BUSY: no
 * message is there, on a socket that must not block. PEN_LOST: the other end is
 * gone.
 */
pen_status pen_holder_receive(int socket, struct pen_holder_message *out,
                              int *descriptor, struct pen_text *why);

#endif
