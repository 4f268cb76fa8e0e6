#ifndef PEN_SIM_SIMULATION_H
#define PEN_SIM_SIMULATION_H

#include "core/any_model.h"
#include "core/layer_messages.h"
#include "core/mesh.h"
#include "core/trace.h"
#include "culprits/blame.h"
#include "schedule/costs.h"
#include "schedule/schedule.h"
#include "sim/disturbance.h"
#include "sim/platform.h"

/*
 * The runtime on simulated ranks: the trainer, its executor, its messages and
 * its sums as `penstock train` runs them, compiled against SimGrid's MPI, with
 * networks that spend simulated seconds (timed_network.h) instead of computing.
 * All ranks live in this process; a simulation can be run once in a process.
 */

/* A part of the model (the layers of one stage) on each of its ranks. */
struct pen_sim_part {
    double forward_sec; /* of one micro-batch */
    double input_sec;
    double weight_sec;
    double step_sec; /* of the optimizer */
    uint32_t num_layers;
    uint64_t num_parameters; /* but for experts that are dealt out */
    uint64_t num_experts;    /* parameters of those on each rank */
};

/* How far a simulation is. */
struct pen_sim_progress {
    uint32_t num_started; /* ranks that are ready to train */
    uint64_t num_steps;   /* that are done, all ranks together */
    double simulated_sec;
};

struct pen_simulation {
    const struct pen_any_model *model;
    const struct pen_schedule *schedule; /* lowered and verified */
    const struct pen_sim_part *parts;    /* of the schedule */
    /* By layer of the model, where parts are not shared equally by layers: of
     * num_parameters. NULL: they are. */
    const uint64_t *layer_parameters;
    struct pen_mesh mesh;  /* of the ranks */
    uint32_t expert_ranks; /* replicas of an expert group; 1: there are none */
    /* By layer of the model, between the ranks of a tensor, context or expert
     * group; NULL: there are no groups. */
    const struct pen_layer_messages *messages;
    size_t message_bytes;   /* of activations or gradients between stages */
    bool is_blocking;       /* a sender waits until its bytes have left */
    uint32_t gradient_size; /* bytes of one gradient on its way */
    uint32_t value_size;    /* of a weight on its way back */
    bool is_sharded;      /* optimizer: sums are scattered, weights gathered */
    bool gathers_weights; /* ahead of each layer, too, and keeps none */
    uint32_t sharding_group; /* replicas that have all together; 0: all */
    bool overlaps_sums;      /* they set out layer by layer, else at the end */
    double other_sec;        /* of a step, after everything else */
    uint32_t num_steps;
    struct pen_platform_options platform;
    const struct pen_disturbances *disturbances; /* or NULL */
    bool with_trace;
    /* Called now and then while it runs; may be NULL. */
    void (*progress)(void *context, const struct pen_sim_progress *progress);
    void *progress_context;
};

/* The traffic of a link. */
struct pen_sim_link {
    char name[64];
    double bytes;
    double utilisation; /* of its bandwidth over the run, 0 to 1 */
};

#define PEN_SIM_MAX_LINKS 32u

struct pen_sim_result {
    double *step_sec; /* of each step, from the end of the one before */
    uint32_t num_steps;
    struct pen_rank_seconds *ranks;
    uint32_t num_ranks;
    uint32_t tensor_ranks;  /* of a group */
    uint32_t context_ranks; /* likewise */
    uint32_t num_lines;     /* of the trace: the first ranks of groups */
    struct pen_sim_link links[PEN_SIM_MAX_LINKS]; /* the fullest first */
    uint32_t num_links;
    uint64_t num_messages;
    uint64_t num_inside;     /* of those, inside layers, */
    double inside_bytes;     /* and what they carried */
    double host_sec;         /* that the simulation took */
    uint64_t peak_bytes;     /* of its process */
    bool is_stuck;           /* a deadlock, or a failure that all wait for */
    uint32_t *waiting_for;   /* by rank when stuck; UINT32_MAX: no rank */
    struct pen_trace *trace; /* NULL unless asked for */
    /* as the trace: the rank that each event waited for, or UINT32_MAX */
    uint32_t **waited_for;
};

/*
 * Runs the simulation in a process of its own, so that several can be run one
 * after the other. On success release with pen_sim_result_release(); a
 * simulation that gets stuck is a success with is_stuck.
 */
pen_status pen_simulate(const struct pen_simulation *simulation,
                        struct pen_sim_result *out, struct pen_text *why);
void pen_sim_result_release(struct pen_sim_result *result);

/* Returns the figures by which a result is compared; borrowed. */
struct pen_run_figures
pen_sim_result_figures(const struct pen_sim_result *result);

#endif
