#ifndef PEN_RING_NET_WIRE_H
#define PEN_RING_NET_WIRE_H

#include "base/status.h"
#include "base/text.h"
#include "ring/ring.h"

#include <stddef.h>

/*
 * The messages of a ring's nodes: frames, each a header of 8 bytes and a body.
 * Numbers have their lowest byte first.
 *
 *     0..3  bytes of the body, within the bounds of its kind
 *     4     version of this format
 *     5     kind
 *     6..7  zero
 *
 * A connection begins with HELLO from both ends; until the other end's has
 * come, no kind but REFUSE is read. Encoder and decoder share one description
 * of the bodies, which is walked in either direction, without allocation, clock
 * or socket.
 */
#define PEN__WIRE_VERSION 1u
#define PEN__WIRE_HEADER 8u
#define PEN__WIRE_PIECE ((size_t)64 << 10) /* bytes of a piece, at most */
#define PEN__WIRE_MOST ((size_t)65 << 10)  /* of a whole frame */
#define PEN__WIRE_MOST_TOTAL ((uint64_t)1 << 42)
#define PEN__WIRE_WORDS 240u
#define PEN__WIRE_CONFIG 32u

enum pen__frame_kind {
    PEN__FRAME_HELLO = 1,
    PEN__FRAME_REFUSE, /* why the connection ends, in words */
    PEN__FRAME_MESSAGE,
    PEN__FRAME_PIECE,
    PEN__FRAME_ASK, /* from an operator */
    PEN__FRAME_STATUS
};
static inline uint32_t pen__frame_bit(enum pen__frame_kind kind)
{
    return (uint32_t)1 << kind;
}

/*
 * The hash of the configuration, which must be the same for all; zeros: an
 * operator's.
 */
struct pen__hello {
    uint8_t config[PEN__WIRE_CONFIG];
};

/*
 * A part of a fragment or of a state. The message, of the kind FRAGMENT or
 * STATE, counts when all `total` bytes have come.
 */
struct pen__piece {
    struct pen_ring_message message;
    uint64_t total;
    uint64_t offset;
    uint32_t length;
    const uint8_t *bytes; /* of a frame that was read: borrowed from it */
};

enum pen__order { PEN__ORDER_NONE, PEN__ORDER_EVICT, PEN__ORDERS };

struct pen__ask {
    enum pen__order order;
    uint32_t island;
};

/* The status that a coordinator reports. */
struct pen__ring_status {
    bool is_serving;
    uint32_t num_islands;
    uint32_t quorum;
    uint64_t patience; /* in nanoseconds */
    uint64_t revision;
    struct pen_ring_record record;
    struct {
        bool is_connected;
        bool is_heard;
        uint64_t silent; /* nanoseconds since it was last heard */
        uint64_t round;  /* of its state */
    } islands[PEN_RING_ISLANDS];
};

struct pen__frame {
    enum pen__frame_kind kind;
    union {
        struct pen__hello hello;
        char words[PEN__WIRE_WORDS + 1];
        struct pen_ring_message message; /* `from` is not on the wire */
        struct pen__piece piece;
        struct pen__ask ask;
        struct pen__ring_status status;
    } as;
};

/*
 * Writes the frame and returns its bytes; 0 when it does not fit into `room`
 * or has a value that a decoder would refuse.
 */
size_t pen__wire_encode(const struct pen__frame *frame, uint8_t *out,
                        size_t room);

/*
 * Reads the frame that these bytes begin with. PEN_BUSY: it is still
 * incomplete. PEN_INVALID: no further byte of this connection can be read; an
 * error in the header is found as soon as the header is complete. `kinds` has
 * the bits of the kinds that may come. Fields that a kind does not have are 0.
 */
pen_status pen__wire_decode(const uint8_t *bytes, size_t length, uint32_t kinds,
                            struct pen__frame *out, size_t *used,
                            struct pen_text *why);

#endif
