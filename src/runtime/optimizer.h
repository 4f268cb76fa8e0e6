#ifndef PEN_RUNTIME_OPTIMIZER_H
#define PEN_RUNTIME_OPTIMIZER_H

#include "network/network.h"

/*
 * One step of an optimizer. The moments live in the parameters; this file has
 * the settings.
 */

enum pen_step_rule {
    PEN_STEP_RULE_ADAM, /* with decoupled decay: AdamW */
    PEN_STEP_RULE_SGD,
    PEN_STEP_RULE_MUON /* of matrices of the blocks; AdamW of all others */
};

/* The step of Muon for a matrix, as torch.optim.Muon names these. */
enum pen_muon_adjust {
    PEN_MUON_ORIGINAL,          /* rate * sqrt(max(1, rows / columns)) */
    PEN_MUON_MATCH_RMS_ADAMW,   /* rate * 0.2 sqrt(max(rows, columns)) */
    PEN_MUON_SPECTRAL_UNCLAMPED /* rate * sqrt(rows / columns) */
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
    double muon_scale; /* of Muon: its learning rate over that of the others */
    double muon_momentum;
    bool is_muon_plain; /* no Nesterov momentum */
    enum pen_muon_adjust muon_adjust;
    double weight_decay;
    enum pen_decay_group decay_group;
    double clip_norm; /* the largest norm of all gradients; 0: no limit */
    double router_bias_rate; /* what a step moves offsets of routers by */
};

/* "adamw", "sgd" or "muon". */
const char *pen_optimizer_name(const struct pen_optimizer *optimizer);

/* Moments that parameters have to keep, at most; and those of one. */
int pen_optimizer_moments(const struct pen_optimizer *optimizer);
int pen_optimizer_moments_of(const struct pen_optimizer *optimizer,
                             const struct pen_network *network,
                             size_t parameter);

/* Call this for each parameter that is stepped, once its moments were added. */
pen_status pen_optimizer_prepare(const struct pen_optimizer *optimizer,
                                 struct pen_network *network, size_t parameter,
                                 struct pen_text *why);

/* The weight decay of a parameter. */
double pen_optimizer_decay(const struct pen_optimizer *optimizer,
                           const struct pen_network_parameter *parameter);

/* By what gradients of this norm are multiplied: 1, or less to clip them. */
double pen_optimizer_clip(const struct pen_optimizer *optimizer, double norm);

struct pen_update {
    double learning_rate;
    uint64_t step; /* 1 for the first */
    double norm;   /* of all gradients */
};

/*
 * Changes a parameter by its gradient, which stays. An offset of a router,
 * whose gradient is the number of tokens of each expert, moves up where there
 * are fewer than the mean, and down where there are more.
 */
void pen_optimizer_step(const struct pen_optimizer *optimizer,
                        struct pen_network *network, size_t parameter,
                        const struct pen_update *update);

#endif
