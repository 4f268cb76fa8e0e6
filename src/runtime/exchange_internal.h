#ifndef PEN_RUNTIME_EXCHANGE_INTERNAL_H
#define PEN_RUNTIME_EXCHANGE_INTERNAL_H

#include "runtime/exchange.h"
#include "runtime/gather.h"
#include "runtime/gradients.h"
#include "runtime/reduction.h"
#include "runtime/tied.h"
#include "runtime/turns.h"

/* Sums of one stage. */
struct pen__sums {
    struct pen_gradients *gradients;
    uint32_t num_replicas;           /* logical ones that these sum */
    struct pen_group *group;         /* NULL: the stage is its only member */
    struct pen_reduction *reduction; /* likewise */
    /* For experts that are dealt out; NULL: no other rank has them. */
    struct pen_group *expert_group;
    struct pen_reduction *expert_reduction;
    struct pen_turns *turns;   /* NULL: all gradients are kept */
    struct pen_gather *gather; /* NULL: all values are kept */
    bool has_lost;             /* a member, while it was waited for */
    bool is_tied_head;
    bool is_synced; /* of joint steps: its SYNC has passed, its STEP has not */
    bool is_whole;  /* of a tied head then: the embedding's part has joined */
};

struct pen_exchange {
    struct pen_exchange_options options;
    struct pen__sums *sums; /* per stage of the executor */
    uint32_t num_stages;
    struct pen_tied **tied; /* one per copy that has an end here */
    uint32_t num_tied;
};

/* Index of a stage of the executor. */
uint32_t pen__exchange_index(const struct pen_exchange *exchange,
                             const struct pen_stage *stage);

/* Clears gradients and what is known of their sums. */
void pen__exchange_begin_sums(struct pen__sums *sums);

/* exchange_joint.c */
pen_status pen__exchange_add_seconds(struct pen_network *network);
void pen__exchange_poll_tied(struct pen_exchange *exchange, uint32_t index);
void pen__exchange_set_aside(struct pen_exchange *exchange, uint32_t index);

#endif
