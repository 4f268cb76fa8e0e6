#ifndef PEN_SCHEDULE_GENERATORS_V_PATTERN_H
#define PEN_SCHEDULE_GENERATORS_V_PATTERN_H

#include "schedule/generators/generator.h"

/* The passes over a rank, in the order in which a micro-batch takes them. */
enum pen__v_pass {
    PEN__V_F0, /* forward of chunk 0, ranks ascending */
    PEN__V_F1, /* forward of chunk 1, ranks descending */
    PEN__V_I1, /* input gradient of chunk 1, ranks ascending */
    PEN__V_I0, /* input gradient of chunk 0, ranks descending */
    PEN__V_PASSES
};

#define PEN__V_PERIOD 6u /* slots: four passes and two weight gradients */

/* Fills the slots of the four passes of micro-batch 0 on one rank. */
typedef void pen__v_slots(uint32_t ranks, uint32_t rank,
                          uint32_t slots[PEN__V_PASSES]);

/*
 * Makes a schedule on a V from a slot pattern that repeats for every
 * micro-batch: puts weight gradients where the pattern leaves slots, then moves
 * the ops of warm-up and cool-down forward as far as the memory of the pattern
 * allows.
 */
pen_status pen__v_generate(const struct pen_generator_args *args,
                           const char *name, pen__v_slots *slots,
                           struct pen_schedule **out, struct pen_text *why);

#endif
