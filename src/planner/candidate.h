#ifndef PEN_PLANNER_CANDIDATE_H
#define PEN_PLANNER_CANDIDATE_H

#include "planner/predict.h"
#include "schedule/generators.h"

/*
 * A candidate: what the search chooses. With a setting it becomes a plan, whose
 * layers are cut into stages of even time.
 */
struct pen_candidate {
    uint32_t degrees[PEN_DEGREES];
    uint32_t micro_batch;
    uint32_t num_microbatches; /* of one pipeline in one step */
    enum pen_recompute recompute;
    enum pen_sharding sharding;
    uint32_t sharding_group; /* as of a plan */
    const struct pen_generator *generator;
    bool cuts_rows;     /* of norms over tp, where the target can do without */
    uint32_t expert_tp; /* as of a plan, and so is the recipe */
    struct pen_recipe recipe;
};

/* Choices that a search may not make itself; 0: it may. */
struct pen_candidate_filter {
    uint32_t degrees[PEN_DEGREES];
    uint32_t micro_batch;
    uint64_t max_devices;
    const struct pen_generator *generator; /* of pipelines; NULL: any */
    unsigned recomputes;      /* bits, 1u << PEN_RECOMPUTE_FULL; 0: all */
    unsigned shardings;       /* the same of enum pen_sharding */
    bool allows_stale;        /* asynchronous schedules, too */
    bool is_stale;            /* those only */
    uint32_t expert_tp;       /* of all plans, as their recipe; 0: tp */
    struct pen_recipe recipe; /* without modules the search chooses them */
};

/* dp * tp * pp * cp. */
uint64_t pen_candidate_num_devices(const struct pen_candidate *candidate);

/* Whether they are alike in all that a search chooses; or in all but
 * recomputation. */
bool pen_candidate_is_same(const struct pen_candidate *a,
                           const struct pen_candidate *b);
bool pen_candidate_is_same_layout(const struct pen_candidate *a,
                                  const struct pen_candidate *b);

/* Whether its plan has sequence parallelism. */
bool pen_candidate_has_sequence_parallel(const struct pen_setting *setting,
                                         const struct pen_candidate *candidate);

/*
 * The plan of a candidate, without a name of model and cluster. Free it with
 * pen_plan_free(). INVALID when there are more stages than layers, or when
 * the recipe does not go together with the rest.
 */
pen_status pen_candidate_plan(const struct pen_setting *setting,
                              const struct pen_candidate *candidate,
                              struct pen_plan **out, struct pen_text *why);

/*
 * The plan and its prediction, timed or by its bound. Where the even cut does
 * not fit into memory, stages that are too full give layers away, if that
 * helps. A bound that does not know which cut the timed plan will have has 0
 * seconds.
 *
 * On success *plan is owned by the caller, and so is what *out has.
 */
pen_status pen_candidate_predict(const struct pen_setting *setting,
                                 const struct pen_candidate *candidate,
                                 bool is_timed, struct pen_plan **plan,
                                 struct pen_prediction *out,
                                 struct pen_text *why);

/* "none", "full", "selective", or its modules: "mla_up_proj,moe_act". */
void pen_recompute_print(enum pen_recompute recompute, unsigned modules,
                         struct pen_text *out);

/*
 * "tp 4 pp 8 vpp 2 dp 2, micro-batch 1, interleaved, full, zero1": what is not
 * there is not named.
 */
void pen_candidate_print(const struct pen_candidate *candidate,
                         struct pen_text *out);

#endif
