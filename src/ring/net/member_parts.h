#ifndef PEN_RING_NET_MEMBER_PARTS_H
#define PEN_RING_NET_MEMBER_PARTS_H

#include "ring/island.h"
#include "ring/net/member.h"
#include "ring/net/net.h"

/* Declarations shared by the files of a member. */

/* A fragment, or a state, as far as its pieces have come from one island. */
struct pen__incoming {
    struct pen_ring_message message;
    struct pen_ring_bytes bytes; /* all of it; NULL: none is arriving */
    size_t length;               /* that has arrived */
    int64_t at;                  /* when the last piece came */
};

/* The transfers that one island is waiting for. */
struct pen__outgoing {
    uint64_t fragments; /* of the own contribution */
    /*
     * The island wants a state, and then the contributions of the rounds after
     * it.
     */
    bool wants_state;
    bool is_asked;       /* asked again since everything was sent */
    bool is_following;   /* the state itself was sent */
    uint64_t next_round; /* the round to send next */
    int64_t asked_at;
    /* The transfer under way, from `offset` on. */
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

/* A state, or the contributions of a committed round, to be sent or sent. */
struct pen__state {
    struct pen_ring_bytes bytes; /* NULL: none */
    uint64_t round;
    uint64_t set;              /* contributors; 0: this is a state */
    struct pen_ring_hash hash; /* of the state, or of the one it makes */
    uint32_t from;
};
#define PEN__MOST_FOLLOWS 256u
#define PEN__PART_HEADER 16u /* of a contribution in it: tokens and length */

struct pen_ring_member {
    struct pen_ring_member_options options;
    struct pen_ring_setting setting;
    struct pen__ring_keys keys;
    struct pen__tls *tls;
    uint8_t config[PEN__WIRE_CONFIG];
    struct pen__net *net;
    struct pen_ring_island island;
    bool has_ended;
    bool is_followed; /* the message under way asks for what follows a state */
    bool is_unkept;   /* the last write to the folder failed */
    int64_t tick_at;
    int64_t dial_at[PEN_RING_NODES];
    char words[PEN_RING_NODES][128]; /* reported last about each node */
    struct {
        bool is_on;
        uint64_t round;
        uint64_t first;
    } training;
    struct pen__held held[PEN_RING_ISLANDS];
    struct pen__incoming incoming[PEN_RING_ISLANDS];
    struct pen__outgoing outgoing[PEN_RING_ISLANDS];
    /*
     * The committed state, and one that may become it: a sum, or one that was
     * sent.
     */
    struct pen_ring_bytes state;
    struct pen_ring_hash state_hash;
    struct pen_ring_hash state_kept; /* of the file */
    struct pen_ring_bytes next;
    struct pen_ring_hash next_hash;
    uint64_t next_round; /* 0: none */
    uint64_t next_set;   /* contributors of a sum; 0: it was sent */
    struct pen_ring_offer next_offers[PEN_RING_ISLANDS];
    /*
     * A state that others still receive while newer ones are committed, and the
     * contributions of the rounds since.
     */
    struct pen__state old;
    struct pen__state follows[PEN__MOST_FOLLOWS];
    uint32_t num_follows;
    struct pen__state early; /* arrived, but is not that of the record yet */
    bool has_followed; /* the state came from `leader`, which sends more */
    uint32_t leader;
};

void pen__bytes_free(struct pen_ring_bytes *bytes);
pen_status pen__bytes_hash(const void *bytes, size_t length,
                           struct pen_ring_hash *out);

/* ---- transfers */

/* Queues pieces for an island while there is room. */
void pen__member_pump(struct pen_ring_member *member, uint32_t island);
/* Takes a piece. True when its message is complete, in member->incoming. */
bool pen__member_take_piece(struct pen_ring_member *member, uint32_t from,
                            const struct pen__piece *piece);
/* Moves the fragment that has come to its part; false: the whole is wrong. */
bool pen__member_hold(struct pen_ring_member *member, uint32_t from);
void pen__member_forget(struct pen_ring_member *member, uint32_t island);
/*
 * Drops the fragments of the own contribution, which was replaced or is useless
 * now.
 */
void pen__member_drop_fragments(struct pen_ring_member *member);

/* ---- states for islands that lack them (member_state.c) */

/*
 * Handles an island's request for the state, or for the rounds after the state
 * that it has got.
 */
void pen__member_asked(struct pen_ring_member *member, uint32_t island,
                       bool is_following);
/* Chooses what to send next of a state; false: nothing. */
bool pen__member_next_state(struct pen_ring_member *member,
                            struct pen__outgoing *out,
                            struct pen_ring_bytes *bytes,
                            struct pen_ring_message *message);
void pen__member_state_sent(struct pen_ring_member *member,
                            struct pen__outgoing *out);
/*
 * Keeps `state` for the islands that still receive it, before `next` replaces
 * it.
 */
void pen__member_hold_back(struct pen_ring_member *member);
/* Stops transfers to islands that have not asked again in time. */
void pen__member_trim(struct pen_ring_member *member, int64_t now);
/*
 * Returns the island that sends a state, and then the rounds after it; -1: none
 * does.
 */
int pen__member_source(const struct pen_ring_member *member, int64_t now);
/*
 * Takes the state that has come from that island as a whole, or the one that
 * came early. True: `next` is the state of the record now.
 */
bool pen__member_take_state(struct pen_ring_member *member, uint32_t from);
bool pen__member_use_early(struct pen_ring_member *member);
void pen__member_free_states(struct pen_ring_member *member);

/* ---- the folder */

/* Writes the changed files, and then those that the island wants kept. */
pen_status pen__member_keep(struct pen_ring_member *member,
                            struct pen_text *why);
/* Reads the folder. False: it has nothing usable. */
bool pen__member_recall(struct pen_ring_member *member,
                        struct pen_ring_kept *out);

#endif
