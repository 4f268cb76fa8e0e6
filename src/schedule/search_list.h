#ifndef PEN_SCHEDULE_SEARCH_LIST_H
#define PEN_SCHEDULE_SEARCH_LIST_H

#include "schedule/search_problem.h"

/*
 * List scheduling: builds a candidate by simulating the ranks, each of which
 * takes, whenever it is free, the ready op that the rule puts first. A rule is
 * a handful of numbers, so a change of one number changes every period of the
 * candidate: moves that single ops cannot make.
 */

struct pen__rule {
    double *offset;      /* rank * num_types + type; in ticks */
    double *reserve;     /* per rank: memory that a first F leaves free, in A */
    double period;       /* op n of a type has the key offset + n * period */
    double patience;     /* a W starts if the gap is this share of its time */
    uint32_t in_advance; /* messages that may exceed the window */
};

pen_status pen__rule_create(const struct pen__problem *problem,
                            struct pen__rule **out);
void pen__rule_free(struct pen__rule *rule);
void pen__rule_copy(const struct pen__problem *problem, struct pen__rule *to,
                    const struct pen__rule *from);

/* Return the number of ready-made rules, and the i-th of them. */
uint32_t pen__rule_count(const struct pen__problem *problem);
void pen__rule_set(const struct pen__problem *problem, uint32_t index,
                   struct pen__rule *rule);

/* Changes a few numbers at random; `strength` is about 1 at first. */
void pen__rule_vary(const struct pen__problem *problem, struct pen__rule *rule,
                    double strength, struct pen_random *random);

/* The simulation, with its arrays. */
struct pen__lister;

pen_status pen__lister_create(const struct pen__problem *problem,
                              struct pen__lister **out);
void pen__lister_free(struct pen__lister *lister);

/*
 * Lists the ops by a rule. False when the ranks get stuck; `order` is then
 * useless.
 */
bool pen__list(struct pen__lister *lister, const struct pen__rule *rule,
               uint8_t *order);

#endif
