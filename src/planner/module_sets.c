#include "planner/module_sets.h"

#include "planner/layer_class.h"
#include "planner/measured.h"

#define BIT(name) (1u << PEN_MODULE_##name)

/* Modules that are computed again with all of the experts. */
#define INSIDE_EXPERTS (BIT(EXPERT_ACT) | BIT(SHARED_EXPERTS))

#define LEAST_FREED 0.1 /* of all that is kept: a set of its own */

struct work {
    const struct pen_setting *setting;
    struct pen__layer_classes classes;
    struct pen_plan *probe;
};

/* Seconds and bytes of a micro-batch in all layers on one device. */
struct sums {
    double seconds;
    double kept_bytes;
};

static struct sums sum_layers(struct work *work, enum pen_recompute recompute,
                              unsigned modules)
{
    struct sums sums = {.seconds = 0};
    struct pen__class_costs costs;
    work->probe->recipe.modules = modules;
    pen__class_costs_find(work->setting, work->probe, 0, recompute,
                          &work->classes, &costs);
    for (uint32_t i = 0; i < work->classes.num; i++) {
        double count = work->classes.count[i];
        sums.seconds += count * costs.seconds[i];
        sums.kept_bytes += count * (double)costs.bytes[i].stash_bytes;
    }
    return sums;
}

static unsigned join(unsigned set, unsigned module)
{
    if (module == BIT(EXPERTS))
        set &= ~INSIDE_EXPERTS;
    return set | module;
}

/*
 * The module that frees most per second when added to a set; 0: none frees any.
 */
static unsigned next_module(struct work *work, unsigned left, unsigned set,
                            const struct sums *before)
{
    unsigned best = 0;
    double best_freed = 0;
    double best_sec = 1;
    for (unsigned i = 0; i < PEN_MODULES; i++) {
        unsigned module = 1u << i;
        if ((left & module) == 0)
            continue;
        struct sums sums =
            sum_layers(work, PEN_RECOMPUTE_SELECTIVE, join(set, module));
        double freed = before->kept_bytes - sums.kept_bytes;
        double sec = sums.seconds - before->seconds;
        if (freed > 0 && freed * best_sec > best_freed * sec) {
            best = module;
            best_freed = freed;
            best_sec = sec;
        }
    }
    return best;
}

static void add_set(struct pen__module_sets *out, unsigned set)
{
    if (out->count == PEN__MOST_MODULE_SETS)
        out->count--; /* what frees the most stays */
    out->items[out->count++] = set;
}

static void list_sets(struct work *work, unsigned left,
                      struct pen__module_sets *out)
{
    const struct sums full = sum_layers(work, PEN_RECOMPUTE_FULL, 0);
    struct sums sums = sum_layers(work, PEN_RECOMPUTE_NONE, 0);
    double least = LEAST_FREED * sums.kept_bytes;
    double listed = sums.kept_bytes;
    unsigned set = 0;
    unsigned module;
    while ((module = next_module(work, left, set, &sums)) != 0) {
        set = join(set, module);
        left &= ~module;
        if (module == BIT(EXPERTS))
            left &= ~INSIDE_EXPERTS;
        sums = sum_layers(work, PEN_RECOMPUTE_SELECTIVE, set);
        if (sums.seconds >= full.seconds)
            break;
        if (listed - sums.kept_bytes < least)
            continue;
        add_set(out, set);
        listed = sums.kept_bytes;
    }
}

/*
 * Adds the norms, which cost no product, with the MLP; then also attention,
 * which costs most for what it frees.
 */
static void add_trained(const struct pen_model *model,
                        struct pen__module_sets *out)
{
    if (model->images != NULL || model->num_experts > 0)
        return;
    add_set(out, BIT(NORMS) | BIT(MLP));
    add_set(out, PEN_TRAINED_MODULES);
}

void pen__module_sets_find(const struct pen_setting *setting,
                           const struct pen_recipe *recipe,
                           struct pen__module_sets *out)
{
    struct work work = {.setting = setting};
    *out = (struct pen__module_sets){.items = {recipe->modules}, .count = 1};
    if (recipe->modules == 0 && pen__is_measured(setting))
        add_trained(setting->model, out);
    if (recipe->modules != 0 || setting->target != PEN_TARGET_MEGATRON ||
        setting->model->images != NULL || pen__is_measured(setting))
        return;
    work.probe = pen_plan_create(1, 1);
    if (work.probe == NULL)
        return;
    work.probe->target = setting->target;
    work.probe->sequence = setting->sequence;
    work.probe->number = setting->number;
    work.probe->recipe = *recipe;
    work.probe->micro_batch = 1;
    pen__layer_classes_find(setting->model, &work.classes);
    out->count = 0;
    unsigned all = (1u << PEN_MODULES) - 1;
    if (recipe->overlaps_experts)
        all &= ~BIT(EXPERTS);
    list_sets(&work, all, out);
    pen_plan_free(work.probe);
}
