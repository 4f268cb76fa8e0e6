#ifndef PEN_RUNTIME_OPTIMIZER_H
#define PEN_RUNTIME_OPTIMIZER_H

#include "network/network.h"

/*
 * One step of an optimizer. The moments live in the parameters; what is here
 * are the numbers.
 */

enum pen_step_rule {
    PEN_STEP_RULE_ADAM, /* with decoupled decay: AdamW */
    PEN_STEP_RULE_SGD
};

enum pen_decay_group {
    PEN_DECAY_MATRICES, /* not biases, nor anything of norms */
    PEN_DECAY_ALL
};

struct pen_optimizer {
    enum pen_step_rule kind;
    double beta1; /* of Adam, as the two below */
    double beta2;
    double epsilon;
    double momentum; /* of SGD, as below */
    bool is_nesterov;
    double weight_decay;
    enum pen_decay_group decay_group;
    double clip_norm; /* the largest norm of all gradients; 0: no limit */
};

/* "adamw" or "sgd". */
const char *pen_optimizer_name(const struct pen_optimizer *optimizer);

/* Moments that a parameter has to keep. */
int pen_optimizer_moments(const struct pen_optimizer *optimizer);

/* The weight decay of a parameter. */
double pen_optimizer_decay(const struct pen_optimizer *optimizer,
                           enum pen_role role);

/* By what gradients of this norm are multiplied: 1, or less to clip them. */
double pen_optimizer_clip(const struct pen_optimizer *optimizer, double norm);

struct pen_update {
    double learning_rate;
    uint64_t step; /* 1 for the first */
    double norm;   /* of all gradients */
};

/* Changes a parameter by its gradient, which stays. */
void pen_optimizer_step(const struct pen_optimizer *optimizer,
                        struct pen_network *network, size_t parameter,
                        const struct pen_update *update);

#endif
