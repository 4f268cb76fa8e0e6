#ifndef PEN_SCHEDULE_SEARCH_FIELD_H
#define PEN_SCHEDULE_SEARCH_FIELD_H

#include "schedule/search_list.h"
#include "schedule/search_moves.h"
#include "schedule/search_problem.h"

/*
 * The search under one placement: its problem, its tools, and the pool of the
 * best candidates so far.
 */

#define PEN__POOL 3u

struct pen__entry {
    uint8_t *order;
    struct pen__score score;
    struct pen__rule *rule; /* that made it, if has_rule */
    bool has_rule;
};

struct pen__field {
    struct pen__problem problem;
    struct pen__evaluator *evaluator;
    struct pen__lister *lister;
    struct pen__moves *moves;
    struct pen__rule *rule;            /* being tried */
    uint8_t *order;                    /* being tried */
    struct pen__entry pool[PEN__POOL]; /* shortest first, spans differ */
    uint32_t pooled;
    int64_t bound;        /* no candidate has a shorter span */
    uint64_t rules_tried; /* so far */
    uint64_t moves_tried;
};

pen_status pen__field_init(struct pen__field *field,
                           const struct pen_shape *shape,
                           const struct pen_costs *costs, double limit,
                           uint32_t window, struct pen_text *why);
void pen__field_release(struct pen__field *field);

/* Returns the seconds of the best candidate; INFINITY when there is none. */
double pen__field_span(const struct pen__field *field);

/* Returns the work done so far, in ops. */
uint64_t pen__field_steps(const struct pen__field *field);

/* Adds a schedule of the same shape to the pool, if it can be a candidate. */
void pen__field_offer(struct pen__field *field,
                      const struct pen_schedule *schedule);

/* Lists under the ready-made rules. */
void pen__field_list(struct pen__field *field,
                     const struct pen__moves_end *end);

/* Lists under rules varied from those of the best candidates. */
void pen__field_vary(struct pen__field *field, const struct pen__moves_end *end,
                     struct pen_random *random);

/* Runs a local search from one candidate of the pool. */
void pen__field_move(struct pen__field *field, uint32_t index,
                     const struct pen__moves_end *end,
                     struct pen_random *random);

#endif
