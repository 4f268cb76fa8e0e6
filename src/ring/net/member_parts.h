#ifndef PEN_RING_NET_MEMBER_PARTS_H
#define PEN_RING_NET_MEMBER_PARTS_H

#include "ring/island.h"
#include "ring/net/member.h"
#include "ring/net/net.h"

/* Between the files of a member. */

/* A fragment, or a state, as far as its pieces have come from one island. */
struct pen__incoming {
    struct pen_ring_message message;
    struct pen_ring_bytes bytes; /* all of it; NULL: none is coming */
    size_t length;               /* that is there */
    int64_t at;                  /* of the last piece */
};

/* What one island is still to get. */
struct pen__outgoing {
    uint64_t fragments; /* of the own contribution */
    bool wants_state;
    /* What is on its way, from `offset` on. */
    bool is_state;
    uint32_t fragment;
    size_t offset;
};

/* A contribution's bytes: fragments first, then all in one. */
struct pen__held {
    struct pen_ring_bytes fragments[PEN_RING_FRAGMENTS];
    struct pen_ring_bytes all;
    struct pen_ring_hash hash; /* of `all` */
    struct pen_ring_hash kept; /* of the file */
};

struct pen_ring_member {
    struct pen_ring_member_options options;
    struct pen_ring_setting setting;
    struct pen__ring_keys keys;
    struct pen__tls *tls;
    uint8_t config[PEN__WIRE_CONFIG];
    struct pen__net *net;
    struct pen_ring_island island;
    bool has_ended;
    bool is_unkept; /* the last write to the folder failed */
    int64_t tick_at;
    int64_t dial_at[PEN_RING_NODES];
    char words[PEN_RING_NODES][128]; /* that were told last about it */
    struct {
        bool is_on;
        uint64_t round;
        uint64_t first;
    } training;
    struct pen__held held[PEN_RING_ISLANDS];
    struct pen__incoming incoming[PEN_RING_ISLANDS];
    struct pen__outgoing outgoing[PEN_RING_ISLANDS];
    /* The committed state, and one that may follow: a sum, or what was sent. */
    struct pen_ring_bytes state;
    struct pen_ring_hash state_hash;
    struct pen_ring_hash state_kept; /* of the file */
    struct pen_ring_bytes next;
    struct pen_ring_hash next_hash;
    uint64_t next_round; /* 0: none */
    uint64_t next_set;   /* contributors of a sum; 0: it was sent */
    struct pen_ring_offer next_offers[PEN_RING_ISLANDS];
};

void pen__bytes_free(struct pen_ring_bytes *bytes);
pen_status pen__bytes_hash(const void *bytes, size_t length,
                           struct pen_ring_hash *out);

/* ---- transfers */

/* Queues pieces for an island while there is room. */
void pen__member_pump(struct pen_ring_member *member, uint32_t island);
/* True when the message of the piece is complete, in member->incoming. */
bool pen__member_take_piece(struct pen_ring_member *member, uint32_t from,
                            const struct pen__piece *piece);
/* Puts the fragment that has come to its part; false: the whole is wrong. */
bool pen__member_hold(struct pen_ring_member *member, uint32_t from);
void pen__member_forget(struct pen_ring_member *member, uint32_t island);

/* ---- the folder */

/* Writes what has changed, and then what the island wants kept. */
pen_status pen__member_keep(struct pen_ring_member *member,
                            struct pen_text *why);
/* False: there is nothing that can be used. */
bool pen__member_recall(struct pen_ring_member *member,
                        struct pen_ring_kept *out);

#endif
