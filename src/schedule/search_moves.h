#ifndef PEN_SCHEDULE_SEARCH_MOVES_H
#define PEN_SCHEDULE_SEARCH_MOVES_H

#include "schedule/search_problem.h"

/*
 * Local search: shifts single ops along their row, where the critical path
 * runs, and keeps what is legal and not much worse (simulated annealing).
 */

struct pen__moves; /* its arrays */

/* Creates the moves. Problem and evaluator are borrowed until the free. */
pen_status pen__moves_create(const struct pen__problem *problem,
                             struct pen__evaluator *evaluator,
                             struct pen__moves **out);
void pen__moves_free(struct pen__moves *moves);

/* When to stop, whichever comes first. */
struct pen__moves_end {
    uint64_t steps; /* ops evaluated */
    int64_t goal;   /* span reached */
    bool (*is_over)(void *context);
    void *context;
};

/*
 * Improves a legal candidate in place; *score is its score before and after.
 * Returns the number of moves tried.
 */
uint64_t pen__moves_run(struct pen__moves *moves,
                        const struct pen__moves_end *end,
                        struct pen_random *random, uint8_t *order,
                        struct pen__score *score);

#endif
