#ifndef PEN_SCHEDULE_CORRECTION_H
#define PEN_SCHEDULE_CORRECTION_H

/*
 * What a method without a flush does against its delays, beside keeping
 * versions. A schedule fixes the order; this is what the runtime computes.
 */
enum pen_correction {
    PEN_CORRECTION_NONE,
    PEN_CORRECTION_MOMENTUM, /* weights predicted along the momentum */
    PEN_CORRECTION_ADAM,     /* likewise along Adam's direction */
    PEN_CORRECTION_AVERAGE,  /* backward at weights of the past, estimated */
    PEN_CORRECTION_SPIKE     /* the gradient makes up for its delay */
};

#endif
