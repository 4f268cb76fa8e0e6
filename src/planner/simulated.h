#ifndef PEN_PLANNER_SIMULATED_H
#define PEN_PLANNER_SIMULATED_H

#include "core/layer_messages.h"
#include "planner/predict.h"
#include "schedule/schedule.h"

/*
 * A plan as a simulation of it runs it: what ranks compute is seconds, as in
 * the prediction; what they send is bytes, whose seconds the simulated links
 * decide. Devices of this program are a rank each, unless they cut rows; a rank
 * of others stands for the tp * cp devices that work in lockstep.
 */

/* A stage on one of its ranks, for one micro-batch. */
struct pen_simulated_stage {
    double forward_sec; /* with messages inside layers that the simulation does
                           not send, as the others */
    double input_sec;   /* recomputation included */
    double weight_sec;
    double update_sec;       /* of the optimizer, once a step */
    uint64_t num_parameters; /* whose gradients are summed, of one device, */
    uint64_t num_experts;    /* without those of experts that are dealt out,
                                which are summed over ranks with the same */
};

struct pen_simulated {
    struct pen_simulated_stage *stages; /* owned; those of the plan */
    uint32_t num_stages;
    uint32_t tensor_ranks; /* that a layer is shared by; 1: lockstep, or none */
    uint32_t context_ranks; /* likewise: that a sequence is shared by */
    uint32_t expert_ranks;  /* replicas that experts are dealt out over */
    struct pen_layer_messages *messages; /* owned; by layer of the model; NULL
                                            where all are 1 */
    uint64_t *layer_parameters;    /* owned; of a rank, where gathers_weights;
                                      else NULL */
    struct pen_schedule *schedule; /* owned; lowered */
    struct pen_costs costs;        /* under which the schedule was timed */
    double message_bytes;          /* that one device sends to the next stage */
    double gather_sec; /* that receivers spend to join parts of a message */
    double other_sec;  /* of a step, after everything */
    uint32_t gradient_bytes; /* of one gradient on its way */
    uint32_t weight_bytes;   /* of one weight on its way back */
    bool is_blocking;        /* senders wait until their bytes have left */
    bool is_sharded;         /* sums are scattered, weights gathered */
    bool gathers_weights;    /* ahead of each layer, in groups of: */
    uint32_t sharding_group; /* replicas; 0: all */
    bool overlaps_gradients; /* sums set out while backwards run */
};

/*
 * INVALID as pen_predict(), and for schedules whose steps overlap. For other
 * programs, sums that no simulated rank makes (ZeRO-3's for every micro-batch,
 * those of context parallel ranks alone) are in the seconds.
 *
 * On success release with pen_simulated_release().
 */
pen_status pen_predict_simulated(const struct pen_setting *setting,
                                 const struct pen_plan *plan,
                                 struct pen_simulated *out,
                                 struct pen_text *why);
void pen_simulated_release(struct pen_simulated *simulated);

#endif
