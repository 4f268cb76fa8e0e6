#ifndef PEN_CORE_LAYER_MESSAGES_H
#define PEN_CORE_LAYER_MESSAGES_H

#include <stdint.h>

/*
 * Messages of ranks that compute a layer together, as a simulation sends them:
 * in rounds between all ranks of a group. A rank computes an equal share of the
 * pass before each round, and then waits for the round.
 */
enum pen_message_way {
    PEN_WAY_DISTANCES, /* all to one partner after another, at distances 1, 2,
                          4, ... below the span */
    PEN_WAY_THERE,     /* to all others at once, each gets its share */
    PEN_WAY_BACK,      /* to all others at once, each gets the own share */
    PEN_WAY_CAUSAL     /* as BACK, the second message to later ranks alone */
};

/* Messages of one pair of ranks in one direction, at most. */
enum { PEN_ROUND_MESSAGES = 2 };

struct pen_message_round {
    enum pen_message_way way;
    uint64_t num_parts; /* that the members share as equally as they can */
    uint64_t part_bytes[PEN_ROUND_MESSAGES]; /* of one part in each of the
                                                messages; 0: none */
    uint32_t span;    /* of DISTANCES: ranks that follow each other; 0: all */
    double after_sec; /* computing with what came, of all messages */
};

enum { PEN_PASS_ROUNDS = 12 };

struct pen_pass_messages {
    uint32_t count; /* of rounds, one after another */
    struct pen_message_round rounds[PEN_PASS_ROUNDS];
};

struct pen_layer_messages {
    struct pen_pass_messages forward;
    struct pen_pass_messages input; /* recomputation included */
    struct pen_pass_messages weight;
    struct pen_pass_messages copies; /* sums of gradients of parameters that
                                        several ranks of the group have, once
                                        per logical replica */
};

/* Parts of a member. */
static inline uint64_t pen_round_share(const struct pen_message_round *round,
                                       uint32_t member, uint32_t num_members)
{
    return round->num_parts * (member + 1) / num_members -
           round->num_parts * member / num_members;
}

#endif
