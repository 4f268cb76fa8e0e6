#include "planner/candidates.h"

#include "planner/collective.h"
#include "planner/energy.h"
#include "planner/layer_class.h"
#include "planner/measured.h"
#include "planner/module_sets.h"
#include "planner/optimizer.h"
#include "planner/target_rules.h"
#include "schedule/time.h"

#include <math.h>
#include <stdlib.h>

#define MOST_MICRO_BATCH 64u /* sequences */
#define MOST_IMAGES 1024u    /* of a micro-batch */
#define LEAST_PIECE 1024u    /* tokens that a rank has of a sequence */
#define MOST_CONTEXT 64u     /* ranks that share one */
#define ALL_DEPTHS 32u       /* up to here every depth is tried */
#define MOST_DEPTH 1024u     /* ranks of a pipeline */

static void add_value(struct pen__values *values, uint64_t value)
{
    for (size_t i = 0; i < values->count; i++)
        if (values->items[i] == value)
            return;
    if (values->count < PEN__MOST_VALUES && value <= PEN_PLAN_MAX_DEGREE)
        values->items[values->count++] = (uint32_t)value;
}

static void add_divisors(struct pen__values *values, uint64_t number,
                         uint64_t most)
{
    for (uint64_t i = 1; i * i <= number; i++) {
        if (number % i != 0)
            continue;
        if (i <= most)
            add_value(values, i);
        if (number / i <= most)
            add_value(values, number / i);
    }
}

static int compare_values(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void sort_values(struct pen__values *values)
{
    qsort(values->items, values->count, sizeof *values->items, compare_values);
}

struct space {
    const struct pen_setting *setting;
    const struct pen_candidate_filter *filter;
    struct pen_plan *probe; /* what layers are asked with */
    struct pen__layer_classes classes;
    struct pen__module_sets sets; /* of selective recomputation */
    uint64_t num_devices;
    bool has_slices; /* micro-batches are cut by one of the schedules */
    struct pen__values replicas; /* that the choice may have, in order */
    struct pen__bases *out;
};

/* The choices of the loops below so far. */
struct choice {
    struct pen_candidate candidate;
    double seconds;    /* of a micro-batch, all layers on the best group */
    double path;       /* of it, there and back: no schedule is quicker */
    double joules;     /* of it: computing, above waiting */
    double stash;      /* bytes of it, in blocks of one class */
    double parameters; /* of those, cut by tp and ep */
};

static bool is_open(uint32_t fixed, uint32_t value)
{
    return fixed == 0 || fixed == value;
}

static bool is_among(unsigned bits, int value)
{
    return bits == 0 || (bits & 1u << value) != 0;
}

static bool add_base(struct pen__bases *bases, const struct pen__base *base)
{
    if (bases->count == bases->capacity) {
        size_t capacity = bases->capacity == 0 ? 1024 : 2 * bases->capacity;
        struct pen__base *items =
            realloc(bases->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        bases->items = items;
        bases->capacity = capacity;
    }
    bases->items[bases->count++] = *base;
    return true;
}

/* ---- replicas ---- */

double pen__base_value(const struct pen__bases *bases,
                       const struct pen__base *base, double seconds)
{
    return pen__objective_floor(bases->objective, bases->setting->cluster,
                                pen_candidate_num_devices(&base->candidate),
                                seconds, base->busy_joules);
}

static void set_replicas(const struct pen__bases *bases, uint32_t dp,
                         struct pen__base *base)
{
    struct pen_candidate *candidate = &base->candidate;
    uint64_t batches = bases->setting->global_batch / candidate->micro_batch;
    candidate->degrees[PEN_DEGREE_DP] = dp;
    candidate->num_microbatches = (uint32_t)(batches / dp);
    base->floor_sec = base->seconds * candidate->num_microbatches /
                      candidate->degrees[PEN_DEGREE_PP];
    if (base->floor_sec < base->path)
        base->floor_sec = base->path;
}

/* Whether `dp` replicas can share the batch, and the experts. */
static bool may_replicate(const struct pen__bases *bases,
                          const struct pen_candidate *candidate, uint32_t dp)
{
    uint64_t batches = bases->setting->global_batch / candidate->micro_batch;
    return batches % dp == 0 && batches / dp <= PEN_PLAN_MAX_COUNT &&
           pen_target_shares_experts(bases->setting->target, candidate, dp) &&
           is_open(bases->fixed_replicas, dp);
}

static uint64_t ranks_of_replica(const struct pen_candidate *candidate)
{
    const uint32_t *degrees = candidate->degrees;
    return (uint64_t)degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP] *
           degrees[PEN_DEGREE_PP];
}

/* Takes the next smaller number of replicas. */
static bool step_down(const struct pen__bases *bases, struct pen__base *base)
{
    uint32_t before = base->candidate.degrees[PEN_DEGREE_DP];
    for (size_t i = bases->replicas.count; i-- > 0;) {
        uint32_t dp = bases->replicas.items[i];
        if (dp >= before || !may_replicate(bases, &base->candidate, dp))
            continue;
        set_replicas(bases, dp, base);
        return true;
    }
    return false;
}

/* Fewer replicas take longer, but may cost less. */
void pen__base_set_key(const struct pen__bases *bases, struct pen__base *base)
{
    struct pen__base next = *base;
    base->key = pen__base_value(bases, base, base->floor_sec);
    if (bases->objective == PEN_OBJECTIVE_TIME)
        return;
    while (step_down(bases, &next)) {
        double key = pen__base_value(bases, &next, next.floor_sec);
        base->key = key < base->key ? key : base->key;
    }
}

bool pen__base_next(const struct pen__bases *bases, struct pen__base *base)
{
    if (!step_down(bases, base))
        return false;
    pen__base_set_key(bases, base);
    return true;
}

static void list_replicas(struct space *space, const struct choice *choice)
{
    const struct pen__values *all = &space->out->replicas;
    space->replicas.count = 0;
    for (size_t i = 0; i < all->count; i++)
        if (may_replicate(space->out, &choice->candidate, all->items[i]))
            space->replicas.items[space->replicas.count++] = all->items[i];
}

/*
 * As many replicas as there are devices for; fewer ones are made from it later.
 */
static bool choose_replicas(struct space *space, const struct choice *choice)
{
    struct pen__bases *bases = space->out;
    const struct pen__values *replicas = &space->replicas;
    uint64_t most = space->num_devices / ranks_of_replica(&choice->candidate);
    size_t count = replicas->count;
    while (count > 0 && replicas->items[count - 1] > most)
        count--;
    if (count == 0)
        return true;
    uint64_t num_microbatches =
        space->setting->global_batch / choice->candidate.micro_batch;
    struct pen__base base = {.candidate = choice->candidate,
                             .seconds = choice->seconds,
                             .path = space->has_slices ? 0 : choice->path,
                             .parameters = choice->parameters,
                             .stash = choice->stash};
    base.busy_joules = choice->joules * (double)num_microbatches;
    set_replicas(bases, replicas->items[count - 1], &base);
    pen__base_set_key(bases, &base);
    bases->num_choices += count;
    return add_base(bases, &base);
}

/*
 * Depths that make a difference: all small ones, the least for each number of
 * blocks in the fullest stage, and those that use all devices.
 */
static void list_depths(const struct space *space, uint64_t most,
                        struct pen__values *out)
{
    uint32_t num_layers = space->setting->model->num_layers;
    most = most < num_layers ? most : num_layers;
    most = most < MOST_DEPTH ? most : MOST_DEPTH;
    out->count = 0;
    for (uint32_t i = 1; i <= ALL_DEPTHS && i <= most; i++)
        add_value(out, i);
    for (uint32_t i = 1; i <= num_layers; i = i < 64 ? i + 1 : i + i / 32) {
        uint32_t depth = (num_layers + i - 1) / i;
        if (depth <= most)
            add_value(out, depth);
        if (depth < ALL_DEPTHS)
            break;
    }
    add_divisors(out, most, most);
    add_divisors(out, space->num_devices, most);
    if (space->filter->degrees[PEN_DEGREE_PP] != 0 &&
        space->filter->degrees[PEN_DEGREE_PP] <= most)
        add_value(out, space->filter->degrees[PEN_DEGREE_PP]);
}

static bool choose_depth(struct space *space, struct choice *choice)
{
    struct pen__values depths;
    uint32_t *degrees = choice->candidate.degrees;
    uint64_t share = (uint64_t)degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP];
    list_depths(space, space->num_devices / share, &depths);
    for (size_t i = 0; i < depths.count; i++) {
        degrees[PEN_DEGREE_PP] = depths.items[i];
        if (is_open(space->filter->degrees[PEN_DEGREE_PP], depths.items[i]) &&
            !choose_replicas(space, choice))
            return false;
    }
    return true;
}

/* Joules of a micro-batch in the layers of a class, on all ranks of a stage. */
static double joules_of(const struct space *space, const struct choice *choice,
                        uint32_t group, double busy_sec)
{
    const struct pen_device *device =
        &space->setting->cluster->groups[group].device;
    const uint32_t *degrees = choice->candidate.degrees;
    return (double)degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP] * busy_sec *
           (device->watts - pen_device_idle_watts(device));
}

/* Sums over the layers, on the group where they take least. */
static void measure(struct space *space, struct choice *choice)
{
    const struct pen_candidate *candidate = &choice->candidate;
    struct pen_plan *probe = space->probe;
    for (int i = 0; i < PEN_DEGREES; i++)
        probe->degrees[i] = candidate->degrees[i];
    probe->degrees[PEN_DEGREE_PP] = 1;
    probe->degrees[PEN_DEGREE_DP] = candidate->degrees[PEN_DEGREE_EP];
    probe->expert_tp = candidate->expert_tp;
    probe->recipe = candidate->recipe;
    probe->micro_batch = candidate->micro_batch;
    probe->has_sequence_parallel =
        pen_candidate_has_sequence_parallel(space->setting, candidate);
    double joules[PEN_LAYER_CLASSES] = {0};
    for (uint32_t group = 0; group < space->setting->cluster->num_groups;
         group++) {
        struct pen__class_costs costs;
        double seconds = 0;
        double path = 0;
        pen__class_costs_find(space->setting, probe, group,
                              candidate->recompute, &space->classes, &costs);
        uint32_t most = 0;
        for (uint32_t i = 0; i < space->classes.num; i++) {
            seconds += space->classes.count[i] * costs.seconds[i];
            path += space->classes.count[i] * costs.path[i];
            if (space->classes.count[i] > space->classes.count[most])
                most = i;
            double spent = joules_of(space, choice, group, costs.busy[i]);
            if (group == 0 || spent < joules[i])
                joules[i] = spent;
        }
        double count = space->classes.count[most];
        choice->stash = count * (double)costs.bytes[most].stash_bytes;
        choice->parameters = count * (double)costs.bytes[most].num_parameters;
        if (group == 0 || seconds < choice->seconds)
            choice->seconds = seconds;
        if (group == 0 || path < choice->path)
            choice->path = path;
    }
    choice->joules = 0;
    /* Passes that were measured apart may take longer than in a row. */
    for (uint32_t i = 0; i < space->classes.num; i++)
        if (!pen__is_measured(space->setting))
            choice->joules += space->classes.count[i] * joules[i];
}

static bool choose_recompute(struct space *space, struct choice *choice,
                             enum pen_recompute recompute, unsigned modules)
{
    if (!is_among(space->filter->recomputes, (int)recompute))
        return true;
    choice->candidate.recompute = recompute;
    choice->candidate.recipe.modules = modules;
    for (int rows = 0; rows < 2; rows++) {
        choice->candidate.cuts_rows = rows == 1;
        if (rows == 1 &&
            !pen_target_may_cut_rows(space->setting, &choice->candidate))
            break;
        measure(space, choice);
        if (!choose_depth(space, choice))
            return false;
    }
    choice->candidate.cuts_rows = false;
    return true;
}

static bool choose_recomputation(struct space *space, struct choice *choice)
{
    unsigned modules = space->filter->recipe.modules;
    if (!choose_recompute(space, choice, PEN_RECOMPUTE_NONE, modules))
        return false;
    if (space->setting->model->images != NULL)
        return true;
    for (uint32_t i = 0; i < space->sets.count; i++)
        if (!choose_recompute(space, choice, PEN_RECOMPUTE_SELECTIVE,
                              space->sets.items[i]))
            return false;
    return choose_recompute(space, choice, PEN_RECOMPUTE_FULL, modules);
}

/*
 * 1, 2, 3, 4, 6, 8, 12, ... that divide the batch; of images all that do, since
 * the share of one replica is usually taken at once.
 */
static bool choose_micro_batch(struct space *space, struct choice *choice)
{
    struct pen__values sizes = {.count = 0};
    if (space->setting->model->images != NULL)
        add_divisors(&sizes, space->setting->global_batch, MOST_IMAGES);
    for (uint32_t i = 1; i <= MOST_MICRO_BATCH; i *= 2) {
        add_value(&sizes, i);
        if (i >= 2)
            add_value(&sizes, i + i / 2);
    }
    if (space->filter->micro_batch != 0)
        add_value(&sizes, space->filter->micro_batch);
    for (size_t i = 0; i < sizes.count; i++) {
        if (space->setting->global_batch % sizes.items[i] != 0 ||
            !is_open(space->filter->micro_batch, sizes.items[i]))
            continue;
        choice->candidate.micro_batch = sizes.items[i];
        list_replicas(space, choice);
        if (!choose_recomputation(space, choice))
            return false;
    }
    return true;
}

/* Checks the rules that need only what is chosen so far. */
static bool is_possible(const struct space *space, const struct choice *choice)
{
    struct pen_candidate candidate = choice->candidate;
    candidate.degrees[PEN_DEGREE_DP] = candidate.degrees[PEN_DEGREE_EP];
    candidate.degrees[PEN_DEGREE_PP] = 1;
    candidate.micro_batch = 1;
    candidate.num_microbatches = 1;
    struct pen_setting setting = *space->setting;
    setting.global_batch = candidate.degrees[PEN_DEGREE_DP];
    candidate.generator = pen_generator_find("1f1b");
    for (int i = 0; i < PEN_SHARDINGS; i++) {
        candidate.sharding = (enum pen_sharding)i;
        if (pen_target_check(&setting, &candidate, NULL) == PEN_OK)
            return true;
    }
    return false;
}

static bool choose_experts(struct space *space, struct choice *choice)
{
    struct pen__values sizes = {.count = 0};
    uint32_t *degrees = choice->candidate.degrees;
    uint32_t wanted = space->filter->degrees[PEN_DEGREE_EP];
    add_value(&sizes, 1);
    if (space->setting->model->num_experts > 0)
        add_divisors(&sizes, space->setting->model->num_experts,
                     space->num_devices);
    for (size_t i = 0; i < sizes.count; i++) {
        degrees[PEN_DEGREE_EP] = sizes.items[i];
        choice->candidate.expert_tp =
            space->filter->expert_tp > 0
                ? space->filter->expert_tp
                : pen_target_expert_tp(space->setting->target,
                                       degrees[PEN_DEGREE_TP], sizes.items[i]);
        if (is_open(wanted, sizes.items[i]) && is_possible(space, choice) &&
            !choose_micro_batch(space, choice))
            return false;
    }
    return true;
}

static bool choose_context(struct space *space, struct choice *choice)
{
    uint32_t *degrees = choice->candidate.degrees;
    for (uint32_t cp = 1; cp <= MOST_CONTEXT; cp *= 2) {
        degrees[PEN_DEGREE_CP] = cp;
        degrees[PEN_DEGREE_EP] = 1;
        bool is_sensible = space->setting->sequence / cp >= LEAST_PIECE ||
                           cp == 1 ||
                           space->filter->degrees[PEN_DEGREE_CP] == cp;
        if (is_sensible && is_possible(space, choice) &&
            is_open(space->filter->degrees[PEN_DEGREE_CP], cp) &&
            !choose_experts(space, choice))
            return false;
    }
    return true;
}

static bool choose_tensor(struct space *space)
{
    struct pen__values sizes = {.count = 0};
    uint64_t node = pen_target_node_size(space->setting->cluster);
    uint32_t wanted = space->filter->degrees[PEN_DEGREE_TP];
    add_divisors(&sizes, node, node < 64 ? node : 64);
    for (size_t i = 0; i < sizes.count; i++) {
        struct choice choice = {
            .candidate = {.degrees = {1, 1, 1, 1, 1, 1},
                          .expert_tp = space->filter->expert_tp,
                          .recipe = space->filter->recipe}};
        choice.candidate.degrees[PEN_DEGREE_TP] = sizes.items[i];
        if (is_open(wanted, sizes.items[i]) && is_possible(space, &choice) &&
            !choose_context(space, &choice))
            return false;
    }
    return true;
}

static int compare_bases(const void *left, const void *right)
{
    const struct pen__base *a = left;
    const struct pen__base *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    /* Equal bases keep one order, whatever qsort() does. */
    for (int i = 0; i < PEN_DEGREES; i++)
        if (a->candidate.degrees[i] != b->candidate.degrees[i])
            return a->candidate.degrees[i] < b->candidate.degrees[i] ? -1 : 1;
    if (a->candidate.micro_batch != b->candidate.micro_batch)
        return a->candidate.micro_batch < b->candidate.micro_batch ? -1 : 1;
    if (a->candidate.recompute != b->candidate.recompute)
        return (int)a->candidate.recompute - (int)b->candidate.recompute;
    return (a->candidate.recipe.modules > b->candidate.recipe.modules) -
           (a->candidate.recipe.modules < b->candidate.recipe.modules);
}

static uint64_t devices_of(const struct pen_setting *setting,
                           const struct pen_candidate_filter *filter)
{
    uint64_t all = pen_cluster_num_devices(setting->cluster);
    return filter->max_devices != 0 && filter->max_devices < all
               ? filter->max_devices
               : all;
}

bool pen__bases_list(const struct pen_setting *setting,
                     const struct pen_candidate_filter *filter,
                     enum pen_objective objective, struct pen__bases *out)
{
    struct space space = {.setting = setting,
                          .filter = filter,
                          .probe = pen_plan_create(1, 1),
                          .num_devices = devices_of(setting, filter),
                          .out = out};
    if (space.probe == NULL)
        return false;
    space.probe->target = setting->target;
    space.probe->sequence = setting->sequence;
    space.probe->number = setting->number;
    *out =
        (struct pen__bases){.setting = setting,
                            .objective = objective,
                            .fixed_replicas = filter->degrees[PEN_DEGREE_DP]};
    for (size_t i = 0; pen_generator_at(i) != NULL; i++)
        if (pen_generator_at(i)->has_slices &&
            pen_target_has_schedule(setting->target, pen_generator_at(i)))
            space.has_slices = true;
    pen__layer_classes_find(setting->model, &space.classes);
    pen__module_sets_find(setting, &filter->recipe, &space.sets);
    add_divisors(&out->replicas, setting->global_batch, space.num_devices);
    sort_values(&out->replicas);
    bool is_done = choose_tensor(&space);
    pen_plan_free(space.probe);
    if (!is_done) {
        free(out->items);
        return false;
    }
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_bases);
    return true;
}

/* ---- schedules, chunks and sharding of one base ---- */

static bool add_candidate(struct pen__candidate_list *list,
                          const struct pen_candidate *candidate)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        struct pen_candidate *items =
            realloc(list->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *candidate;
    return true;
}

/*
 * Megatron-LM moves the optimizer's state to the host, and narrows it, only if
 * it is sharded, even on a single replica.
 */
static bool needs_shards(const struct pen_setting *setting,
                         const struct pen_recipe *recipe)
{
    return setting->target == PEN_TARGET_MEGATRON &&
           (recipe->offloads_optimizer || recipe->master_bytes != 0 ||
            recipe->moment_bytes != 0);
}

/* Returns the replicas of a node where groups of them make up all replicas, and
 * there are several groups; else 0. */
static uint32_t node_group(const struct pen_setting *setting,
                           const struct pen_candidate *candidate)
{
    uint32_t replicas =
        candidate->degrees[PEN_DEGREE_DP] * candidate->degrees[PEN_DEGREE_CP];
    uint64_t group = pen_cluster_node_size(setting->cluster) /
                     candidate->degrees[PEN_DEGREE_TP];
    bool is_cut = group > 1 && group < replicas && replicas % group == 0;
    return is_cut ? (uint32_t)group : 0;
}

static bool add_checked(const struct pen_setting *setting,
                        const struct pen_candidate *candidate,
                        struct pen__candidate_list *out)
{
    return pen_target_check(setting, candidate, NULL) != PEN_OK ||
           add_candidate(out, candidate);
}

/* One device of a kind needs no share; else all that the target has. */
static bool add_shardings(const struct pen_setting *setting,
                          const struct pen_candidate_filter *filter,
                          struct pen_candidate candidate,
                          struct pen__candidate_list *out)
{
    uint32_t replicas =
        candidate.degrees[PEN_DEGREE_DP] * candidate.degrees[PEN_DEGREE_CP];
    int first = needs_shards(setting, &candidate.recipe) ? PEN_SHARDING_ZERO1
                                                         : PEN_SHARDING_NONE;
    for (int i = first; i < PEN_SHARDINGS && (i == first || replicas > 1);
         i++) {
        candidate.sharding = (enum pen_sharding)i;
        if (is_among(filter->shardings, i) &&
            !add_checked(setting, &candidate, out))
            return false;
    }
    if (setting->target != PEN_TARGET_PENSTOCK ||
        !is_among(filter->shardings, PEN_SHARDING_ZERO3))
        return true;
    candidate.sharding = PEN_SHARDING_ZERO3;
    candidate.sharding_group = node_group(setting, &candidate);
    return candidate.sharding_group == 0 ||
           add_checked(setting, &candidate, out);
}

/* Whether the schedule exists with the candidate's number of micro-batches. */
static bool has_schedule(const struct pen_candidate *candidate)
{
    const struct pen_generator *generator = candidate->generator;
    uint64_t ranks = candidate->degrees[PEN_DEGREE_PP];
    uint32_t count = candidate->num_microbatches;
    return (!generator->divides || count % ranks == 0) &&
           count >= generator->least_rounds * ranks;
}

static bool add_chunks(const struct pen_setting *setting,
                       const struct pen_candidate_filter *filter,
                       struct pen_candidate candidate,
                       struct pen__candidate_list *out)
{
    static const uint32_t chunks[] = {1, 2,  3,  4,  5,  6,  7,  8,
                                      9, 10, 12, 14, 16, 20, 24, 32};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        if (!pen_target_has_chunks(candidate.generator, chunks[i]) ||
            !is_open(filter->degrees[PEN_DEGREE_VPP], chunks[i]))
            continue;
        candidate.degrees[PEN_DEGREE_VPP] = chunks[i];
        if (!add_shardings(setting, filter, candidate, out))
            return false;
    }
    return true;
}

static bool is_wanted(const struct pen_candidate_filter *filter,
                      const struct pen_generator *generator)
{
    if (filter->generator != NULL)
        return filter->generator == generator;
    if (filter->is_stale)
        return !generator->is_synchronous;
    return generator->is_synchronous || filter->allows_stale;
}

bool pen__base_expand(const struct pen_setting *setting,
                      const struct pen_candidate_filter *filter,
                      const struct pen__base *base,
                      struct pen__candidate_list *out)
{
    struct pen_candidate candidate = base->candidate;
    out->count = 0;
    if (candidate.degrees[PEN_DEGREE_PP] == 1) {
        candidate.generator = pen_generator_find("1f1b");
        return filter->is_stale || filter->generator != NULL ||
               add_chunks(setting, filter, candidate, out);
    }
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        candidate.generator = pen_generator_at(i);
        if (is_wanted(filter, candidate.generator) &&
            has_schedule(&candidate) &&
            pen_target_has_schedule(setting->target, candidate.generator) &&
            !add_chunks(setting, filter, candidate, out))
            return false;
    }
    return true;
}

/* ---- room ---- */

bool pen__is_plain(const struct pen_generator *generator)
{
    return pen_target_has_schedule(PEN_TARGET_MEGATRON, generator);
}

/*
 * A schedule that holds less than 1F1B on a short pipeline counts as holding a
 * third, the least of any, on a long one.
 */
#define PROBE_RANKS 8u
#define LEAST_HELD (1.0 / 3)

double pen__held_share(const struct pen_generator *generator)
{
    struct pen_costs costs;
    struct pen_schedule *schedule = NULL;
    struct pen_timing *timing = NULL;
    double peak = 0;
    pen_costs_init(&costs);
    const struct pen_generator_args args = {
        .ranks = PROBE_RANKS, .microbatches = 2 * PROBE_RANKS, .costs = &costs};
    if (pen_generator_make(generator, &args, &schedule, NULL) == PEN_OK &&
        pen_schedule_time(schedule, &costs, NULL, &timing, NULL) == PEN_OK)
        for (uint32_t rank = 0; rank < timing->num_ranks; rank++)
            if (timing->ranks[rank].peak > peak)
                peak = timing->ranks[rank].peak;
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    pen_costs_release(&costs);
    return peak >= PROBE_RANKS ? 1 : LEAST_HELD;
}

/* Bytes of the blocks on a rank, if it had all of them. */
static double whole_bytes(const struct pen__base *base,
                          const struct pen_candidate *candidate,
                          double parameter_bytes, double held, uint32_t rank)
{
    uint32_t batches = candidate->degrees[PEN_DEGREE_PP] - rank;
    if (batches > candidate->num_microbatches)
        batches = candidate->num_microbatches;
    double least = batches * held > 1 ? batches * held : 1;
    return base->parameters * parameter_bytes + base->stash * least;
}

/* Ranks that have the same weights; experts that are folded over tensor ranks
 * may be on more of them than the rest. */
static double most_owners(const struct pen_candidate *candidate)
{
    return fmax(
        pen__num_owners(candidate->degrees, candidate->expert_tp, PEN__COMMON),
        pen__num_owners(candidate->degrees, candidate->expert_tp,
                        PEN__OF_EXPERTS));
}

bool pen__candidate_has_room(const struct pen_setting *setting,
                             const struct pen__base *base,
                             const struct pen_candidate *candidate, double held,
                             double bytes, double *least)
{
    const uint32_t *degrees = candidate->degrees;
    double parameter_bytes =
        pen__parameter_bytes(setting, &candidate->recipe, candidate->sharding,
                             most_owners(candidate));
    double shares = 0; /* of all blocks, per byte of room */
    for (uint32_t rank = 0; rank < degrees[PEN_DEGREE_PP]; rank++)
        shares += 1 / whole_bytes(base, candidate, parameter_bytes, held, rank);
    *least = 1 / shares + setting->practice.overhead_bytes;
    return *least <= bytes;
}

/* ---- bounds ---- */

/*
 * A rank that holds parts of two directions, or of a wave, may have less to do
 * than the busiest of a line: only the floor of the base is known then.
 */
double pen__candidate_floor(const struct pen__base *base,
                            const struct pen_candidate *candidate,
                            const struct pen_prediction *bound)
{
    enum pen_placement_kind placement = candidate->generator->placement;
    if (placement == PEN_PLACEMENT_BIDIRECTIONAL ||
        placement == PEN_PLACEMENT_BIDIRECTIONAL_V ||
        placement == PEN_PLACEMENT_WAVE)
        return base->floor_sec;
    double seconds = bound->step_sec;
    if (!pen__is_plain(candidate->generator))
        seconds -= bound->spent[PEN_SPENDING_BUBBLE];
    /* One stage is reduced while another one of the rank computes. */
    if (candidate->degrees[PEN_DEGREE_VPP] > 1)
        seconds -= bound->spent[PEN_SPENDING_REDUCTION];
    return fmax(base->floor_sec, seconds);
}
