#include "cli/train_layout.h"

#include "core/model_cost.h"
#include "schedule/generators.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the schedule ---- */

static const char *default_schedule(const struct pen__train_args *args)
{
    return args->chunks > 1 ? "interleaved" : "1f1b";
}

static bool names_a_file(const char *text)
{
    return strchr(text, '.') != NULL || strchr(text, '/') != NULL;
}

/* A file may hold compute ops only. */
static pen_status load_schedule(const char *path, struct pen_schedule **out,
                                struct pen_text *why)
{
    struct pen_schedule *loaded;
    pen_status status = pen_schedule_load(path, &loaded, why);
    if (status != PEN_OK)
        return status;
    if (pen_schedule_has_class(loaded, PEN_OP_CLASS_SYNC)) {
        *out = loaded;
        return PEN_OK;
    }
    status = pen_schedule_lower(loaded, out, why);
    pen_schedule_free(loaded);
    return status;
}

static pen_status find_generator(const char *name,
                                 const struct pen_generator **out,
                                 struct pen_text *why)
{
    *out = pen_generator_find(name);
    if (*out != NULL)
        return PEN_OK;
    pen_why(why,
            "--schedule %s is neither a schedule that `penstock schedule list` "
            "has nor a file",
            name);
    return PEN_INVALID;
}

static pen_status make_schedule(const struct pen__train_args *args,
                                uint32_t num_replicas,
                                const struct pen_costs *costs,
                                struct pen_schedule **out, struct pen_text *why)
{
    const struct pen_generator *generator;
    const char *name =
        args->pipeline != NULL ? args->pipeline : default_schedule(args);
    if (names_a_file(name))
        return load_schedule(name, out, why);
    pen_status status = find_generator(name, &generator, why);
    if (status != PEN_OK)
        return status;
    struct pen_generator_args wanted = {
        .ranks = (uint32_t)args->pipeline_size,
        .microbatches = (uint32_t)(args->global_batch_size /
                                   args->micro_batch_size / num_replicas),
        .chunks = generator->has_chunks ? (uint32_t)args->chunks : 0,
        .slices = 1,
        .costs = costs};
    return pen_generator_make(generator, &wanted, out, why);
}

/* ---- the split ---- */

/*
 * Layers of near equal cost: a part ends where the sum comes closest to its
 * share.
 */
static void split(const double *costs, uint32_t num_layers, uint32_t num_parts,
                  struct pen_layer_range *parts)
{
    double total = 0, sum = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < num_layers; i++)
        total += costs[i];
    for (uint32_t p = 0; p < num_parts; p++) {
        double end = total * (p + 1) / num_parts;
        uint32_t most = num_layers - (num_parts - 1 - p);
        parts[p].first = next;
        sum += costs[next++];
        while (next < most &&
               (p + 1 == num_parts || sum + costs[next] / 2 <= end))
            sum += costs[next++];
        parts[p].count = next - parts[p].first;
    }
}

static pen_status split_layers(struct pen__train_layout *layout,
                               const struct pen__train_args *args,
                               const struct pen_model *model, uint32_t sequence,
                               struct pen_text *why)
{
    uint32_t num_parts = pen_shape_parts(&layout->schedule->shape);
    struct pen_workload workload = {.batch = args->micro_batch_size,
                                    .sequence = sequence,
                                    .element_bytes = 4,
                                    .stat_bytes = 4};
    if (num_parts > model->num_layers) {
        pen_why(why,
                "the model has %u layers with embedding and head, too few for "
                "%u stages",
                model->num_layers, num_parts);
        return PEN_INVALID;
    }
    double *costs = calloc(model->num_layers, sizeof *costs);
    layout->parts = calloc(num_parts, sizeof *layout->parts);
    if (costs == NULL || layout->parts == NULL) {
        free(costs);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < model->num_layers; i++) {
        struct pen_layer_cost cost;
        pen_model_layer_cost(model, i, &workload, &cost);
        costs[i] = cost.forward_flops + cost.input_flops + cost.weight_flops;
    }
    split(costs, model->num_layers, num_parts, layout->parts);
    free(costs);
    for (uint32_t i = 0; i < num_parts; i++)
        layout->parts[i].recompute = (enum pen_recompute)args->recompute;
    return PEN_OK;
}

/* ---- both ---- */

static pen_status check_ranks(const struct pen__train_args *args,
                              uint32_t num_ranks, struct pen_text *why)
{
    if (num_ranks % args->pipeline_size == 0)
        return PEN_OK;
    pen_why(why,
            "%u ranks are not a multiple of --pipeline-model-parallel-size "
            "%" PRIu64,
            num_ranks, args->pipeline_size);
    return PEN_INVALID;
}

static pen_status check_batch(const struct pen__train_args *args,
                              uint32_t num_replicas, struct pen_text *why)
{
    uint64_t unit = args->micro_batch_size * num_replicas;
    if (args->global_batch_size % unit == 0)
        return PEN_OK;
    pen_why(why,
            "--global-batch-size %" PRIu64 " is not a multiple of "
            "--micro-batch-size %" PRIu64 " times %u replicas of the pipeline",
            args->global_batch_size, args->micro_batch_size, num_replicas);
    return PEN_INVALID;
}

pen_status pen__train_layout_init(struct pen__train_layout *layout,
                                  const struct pen__train_args *args,
                                  const struct pen_any_model *model,
                                  uint32_t sequence, uint32_t num_ranks,
                                  struct pen_text *why)
{
    struct pen_costs costs;
    *layout = (struct pen__train_layout){.predicted_bubble = (double)NAN};
    if (model->decoder == NULL) /* the trainer has its own way for one rank */
        return PEN_OK;
    pen_status status = check_ranks(args, num_ranks, why);
    uint32_t num_replicas = num_ranks / (uint32_t)args->pipeline_size;
    if (status == PEN_OK)
        status = check_batch(args, num_replicas, why);
    if (status != PEN_OK)
        return status;
    pen_costs_init(&costs);
    status = make_schedule(args, num_replicas, &costs, &layout->schedule, why);
    if (status == PEN_OK)
        status = split_layers(layout, args, model->decoder, sequence, why);
    pen_costs_release(&costs);
    if (status != PEN_OK)
        pen__train_layout_release(layout);
    return status;
}

void pen__train_layout_release(struct pen__train_layout *layout)
{
    pen_schedule_free(layout->schedule);
    free(layout->parts);
    layout->schedule = NULL;
    layout->parts = NULL;
}
