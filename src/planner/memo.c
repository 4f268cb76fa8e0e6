/*
 * Two tables with one slot per hash: what needs a taken slot replaces its
 * content. The answers are the same whatever was replaced.
 */
#include "planner/memo.h"

#include "planner/layer_operations.h"

#include <stdlib.h>
#include <string.h>

#define NUM_LAYERS (1u << 14)
#define NUM_CUTS (1u << 12)
#define MOST_STAGES 256u /* of a cut that is kept */

/* All of a plan that layers depend on; of a cut, `what` is its stages. */
struct key {
    uint32_t numbers[9]; /* none of them is 0 in a slot that is taken */
    struct pen_recipe recipe;
};

struct layer {
    struct key key;
    struct pen_layer_time time;
    struct pen_layer_bytes bytes;
};

struct cut {
    struct key key;
    uint16_t counts[MOST_STAGES];
};

struct pen__memo {
    struct layer layers[NUM_LAYERS];
    struct cut cuts[NUM_CUTS];
};

struct pen__memo *pen__memo_create(void)
{
    return calloc(1, sizeof(struct pen__memo));
}

void pen__memo_free(struct pen__memo *memo)
{
    free(memo);
}

static struct key key_of(const struct pen_plan *plan, uint32_t group,
                         uint32_t what, enum pen_recompute recompute)
{
    struct key key = {
        .numbers = {plan->degrees[PEN_DEGREE_TP], plan->degrees[PEN_DEGREE_CP],
                    plan->degrees[PEN_DEGREE_EP], plan->expert_tp + 1,
                    plan->micro_batch, plan->has_sequence_parallel + 1u,
                    group + 1, what + 1, (uint32_t)recompute + 1},
        .recipe = plan->recipe};
    if (recompute != PEN_RECOMPUTE_SELECTIVE)
        key.recipe.modules = 0;
    return key;
}

static uint32_t hash_of(const struct key *key)
{
    uint64_t hash = key->recipe.modules;
    for (size_t i = 0; i < sizeof key->numbers / sizeof *key->numbers; i++)
        hash = (hash ^ key->numbers[i]) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 32);
}

static bool is_same(const struct key *a, const struct key *b)
{
    return memcmp(a->numbers, b->numbers, sizeof a->numbers) == 0 &&
           memcmp(&a->recipe, &b->recipe, sizeof a->recipe) == 0;
}

void pen__layer_recall(const struct pen_setting *setting,
                       const struct pen_plan *plan, uint32_t group,
                       uint32_t index, enum pen_recompute recompute,
                       struct pen_layer_time *time,
                       struct pen_layer_bytes *bytes)
{
    if (setting->memo == NULL) {
        pen_predict_layer(setting, plan, group, index, recompute, time, bytes);
        return;
    }
    struct key key = key_of(plan, group, index, recompute);
    struct layer *layer = &setting->memo->layers[hash_of(&key) % NUM_LAYERS];
    if (is_same(&key, &layer->key)) {
        *time = layer->time;
        *bytes = layer->bytes;
        return;
    }
    if (recompute == PEN_RECOMPUTE_NONE) {
        pen_predict_layer(setting, plan, group, index, recompute, time, bytes);
    } else {
        pen__layer_recall(setting, plan, group, index, PEN_RECOMPUTE_NONE, time,
                          bytes);
        pen__layer_recompute(setting, plan, group, index, recompute, time,
                             bytes);
    }
    *layer = (struct layer){key, *time, *bytes};
}

/* Where devices differ, cuts depend on dp, too. */
static bool may_keep(const struct pen_setting *setting,
                     const struct pen_plan *plan)
{
    return setting->memo != NULL && setting->cluster->num_groups == 1 &&
           setting->model->num_layers <= UINT16_MAX &&
           plan->num_stages <= MOST_STAGES;
}

const uint16_t *pen__cut_recall(const struct pen_setting *setting,
                                const struct pen_plan *plan,
                                enum pen_recompute recompute)
{
    if (!may_keep(setting, plan))
        return NULL;
    struct key key = key_of(plan, 0, plan->num_stages, recompute);
    const struct cut *cut = &setting->memo->cuts[hash_of(&key) % NUM_CUTS];
    return is_same(&key, &cut->key) ? cut->counts : NULL;
}

void pen__cut_keep(const struct pen_setting *setting,
                   const struct pen_plan *plan, enum pen_recompute recompute)
{
    if (!may_keep(setting, plan))
        return;
    struct key key = key_of(plan, 0, plan->num_stages, recompute);
    struct cut *cut = &setting->memo->cuts[hash_of(&key) % NUM_CUTS];
    cut->key = key;
    for (uint32_t i = 0; i < plan->num_stages; i++)
        cut->counts[i] = (uint16_t)plan->stages[i].count;
}
