#ifndef PEN_PLANNER_OBJECTIVE_H
#define PEN_PLANNER_OBJECTIVE_H

#include "planner/predict.h"

/* The quantity of a step that a search minimizes: name and word. */
#define PEN_OBJECTIVE_TABLE(X)                                                 \
    X(TIME, "time")     /* seconds */                                          \
    X(ENERGY, "energy") /* joules */                                           \
    X(COST, "cost")     /* its price; without prices, devices x seconds */

enum pen_objective {
#define PEN_OBJECTIVE_ENUM(name, word) PEN_OBJECTIVE_##name,
    PEN_OBJECTIVE_TABLE(PEN_OBJECTIVE_ENUM)
#undef PEN_OBJECTIVE_ENUM
        PEN_OBJECTIVES
};

extern const char *const pen_objective_names[PEN_OBJECTIVES + 1];

/* Whether the cluster says what the objective needs: INVALID, with a reason. */
pen_status pen_objective_check(enum pen_objective objective,
                               const struct pen_cluster *cluster,
                               struct pen_text *why);

/* The value of a plan that was predicted: the least is the best. */
double pen_objective_value(enum pen_objective objective,
                           const struct pen_cluster *cluster,
                           const struct pen_plan *plan,
                           const struct pen_prediction *prediction);

#endif
