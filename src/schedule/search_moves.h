#ifndef PEN_SCHEDULE_SEARCH_MOVES_H
#define PEN_SCHEDULE_SEARCH_MOVES_H

#include "schedule/search_problem.h"

/*
 * Local search: shifts single ops along their row, where the critical path
 * runs, and keeps what is legal and not much worse (simulated annealing).
 */

struct pen__moves; /* its arrays */

pen_status pen__moves_create(const struct pen__problem *problem,
                             struct pen__moves **out);
void pen__moves_free(struct pen__moves *moves);

/*
 * Improves a legal candidate in place until `steps` ops were evaluated, or the
 * span reaches `goal`, or `is_over` (may be NULL) says so. Returns the number
 * of moves tried.
 */
uint64_t pen__moves_run(struct pen__moves *moves,
                        struct pen__evaluator *evaluator, uint64_t steps,
                        int64_t goal, struct pen__random *random,
                        bool (*is_over)(void *context), void *context,
                        uint8_t *order, struct pen__score *score);

#endif
