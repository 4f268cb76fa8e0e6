#ifndef PEN_PLANNER_PIPEDREAM_STATES_H
#define PEN_PLANNER_PIPEDREAM_STATES_H

#include "graph/pipedream_profile.h"
#include "planner/ideals.h"

/*
 * Where PipeDream may cut a profile. Inputs, and outputs of tuples that no
 * layer reads, are left out. A state is a downward-closed, connected set of
 * layers that has the first one. State 0 is empty: the cut before the first
 * layer.
 */
struct pen__pipedream_states {
    struct pen_ideals *ideals; /* of all layers that hang together */
    uint32_t *layers;          /* their nodes in the profile */
    uint32_t *members;         /* (count): which of the ideals are states */
    uint32_t count;            /* with the empty one */
    /* Per state, of all that it contains: */
    double *compute_sec;
    double *activation_bytes;
    double *parameter_bytes;
    double *output_bytes; /* that stages after it read */
    uint8_t *is_part;     /* (count, count): the first is within the second */
};

pen_status pen__pipedream_states_init(struct pen__pipedream_states *states,
                                      const struct pen_pipedream_profile *from,
                                      struct pen_text *why);
void pen__pipedream_states_release(struct pen__pipedream_states *states);

/* Whether the layer, a number in states->layers, is part of a state. */
bool pen__pipedream_state_has(const struct pen__pipedream_states *states,
                              uint32_t state, uint32_t layer);

#endif
