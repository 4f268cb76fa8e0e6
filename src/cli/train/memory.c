#include "cli/train/memory.h"

#include "base/crc32c.h"
#include "base/log.h"
#include "core/image_model_cost.h"
#include "engine/newton_schulz.h"
#include "host/memory_limit.h"
#include "planner/expert_rank.h"
#include "runtime/versions.h"
#include "schedule/needs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The prediction is at most this share away, mostly below; see
 * cli/train_memory. */
#define PREDICTION_ERROR 0.1

/* ---- the prediction ---- */

static bool has_snapshot(const struct pen__train_memory_question *question)
{
    const struct pen__train_args *args = question->args;
    return (args->save != NULL || args->moves.count > 0) &&
           (question->num_ranks > 1 ||
            pen_transport_size(question->transport) > 1);
}

/*
 * Masters, gradients and moments are float; ZeRO-1 shares out the moments. A
 * copy in bf16 is for products.
 */
static double
bytes_per_parameter(const struct pen__train_memory_question *question,
                    uint32_t num_members)
{
    const struct pen__train_args *args = question->args;
    double moments = 4.0 * pen_optimizer_moments(&args->numbers);
    double kept =
        args->sharding != PEN_SHARDING_NONE ? moments / num_members : moments;
    double snapshot =
        has_snapshot(question)
            ? (4.0 + moments) / (num_members > 0 ? num_members : 1)
            : 0;
    return 8.0 + kept + snapshot + (args->is_bf16 ? 2.0 : 0);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void layer_cost(const struct pen__train_memory_question *question,
                       uint32_t layer, const struct pen_workload *workload,
                       struct pen_layer_cost *out)
{
    if (question->model->images != NULL)
        pen_image_layer_cost(question->model->images, layer, workload, out);
    else
        pen_model_layer_cost(question->model->decoder, layer, workload, out);
}

/* Layers of text models that are not blocks. */
static bool is_end_of(const struct pen__train_memory_question *question,
                      uint32_t layer)
{
    const struct pen_model *model = question->model->decoder;
    return model == NULL ||
           pen_model_layer_kind(model, layer) != PEN_LAYER_BLOCK;
}

/* Bytes that a micro-batch brings to a layer after the first. */
static double input_bytes(const struct pen__train_memory_question *question,
                          uint32_t layer, const struct pen_workload *workload)
{
    struct pen_layer_cost before;
    if (layer == 0)
        return 0;
    layer_cost(question, layer - 1, workload, &before);
    return (double)before.output_bytes;
}

/* Ranks of a tensor group share what is neither as wide as the stream nor a
 * statistic of its rows, which are small. */
static uint64_t share_bytes(uint64_t bytes, uint64_t whole, uint64_t ranks)
{
    return bytes <= whole ? bytes : whole + (bytes - whole) / ranks;
}

/* Ranks that have parts of the rows; 1: a rank has all. */
static uint64_t num_row_parts(const struct pen__train_memory_question *question)
{
    return question->args->is_sequence_parallel ? question->args->tensor_size
                                                : 1;
}

/*
 * With parts of the rows all is shared but what products read and make: the
 * gradients of two of their results in the hold, and in the scratch an operand,
 * a result and what others send of it.
 */
static void share_rows(uint64_t ranks, bool is_block, uint64_t stream,
                       struct pen_layer_cost *cost)
{
    cost->stash_bytes =
        share_bytes(cost->stash_bytes, cost->common.stash_bytes, ranks);
    cost->hold_bytes =
        share_bytes(cost->hold_bytes, cost->common.hold_bytes, ranks) +
        (is_block ? 2 * stream : 0);
    cost->again_bytes = cost->again_bytes / ranks + 3 * stream;
    cost->output_bytes /= ranks;
}

/* With all rows; the first two are bytes as wide as the residual stream. */
static void share_wide(struct pen_layer_cost *cost, uint64_t stash,
                       uint64_t hold, uint64_t ranks)
{
    cost->stash_bytes =
        share_bytes(cost->stash_bytes, stash + cost->common.stash_bytes, ranks);
    cost->hold_bytes =
        share_bytes(cost->hold_bytes, hold + cost->common.hold_bytes, ranks);
}

static void share_layer(const struct pen__train_memory_question *question,
                        uint32_t layer, const struct pen_workload *workload,
                        struct pen_layer_cost *plain,
                        struct pen_layer_cost *kept)
{
    const struct pen_model *model = question->model->decoder;
    if (model == NULL)
        return;
    bool is_block = pen_model_layer_kind(model, layer) == PEN_LAYER_BLOCK;
    uint64_t ranks = question->args->tensor_size;
    uint64_t stream = workload->batch * workload->sequence *
                      workload->element_bytes * model->hidden;
    plain->copy_bytes =
        share_bytes(plain->copy_bytes, plain->common.copy_bytes, ranks);
    if (num_row_parts(question) > 1) {
        share_rows(ranks, is_block, stream, plain);
        share_rows(ranks, is_block, stream, kept);
        return;
    }
    bool keeps_norms =
        !pen_recomputed_of(workload->recompute, workload->modules).norms;
    /*
     * Rows of the stream: a block keeps input, middle and both norms, and holds
     * their gradients.
     */
    uint64_t stash = !is_block ? 2 : keeps_norms ? 4 : 2;
    uint64_t hold = is_block ? 4 : 1;
    share_wide(plain, (is_block ? 4 : 2) * stream, hold * stream, ranks);
    share_wide(kept, stash * stream, hold * stream, ranks);
    kept->again_bytes = share_bytes(kept->again_bytes, 2 * stream, ranks);
}

/* Slices or parts that a sequence is cut into. */
static uint64_t num_cuts(const struct pen__train_memory_question *question)
{
    const struct pen_schedule *schedule = question->layout->schedule;
    return question->args->context_size *
           (schedule == NULL ? 1 : schedule->shape.num_slices);
}

/* Key heads of a piece of a layer: pieces beyond their number have copies. */
static double key_heads(const struct pen__train_memory_question *question)
{
    uint64_t pieces = question->args->logical_tensor;
    uint32_t heads = question->model->decoder->num_kv_heads;
    return pieces <= 1 ? heads : pieces < heads ? heads / (double)pieces : 1;
}

/*
 * Keys and values of all parts of a sequence, for each block whose stash is
 * kept and once for those that are computed again; and, of one piece of a
 * layer, gradients of these and what other ranks send of them.
 */
static double context_bytes(const struct pen__train_memory_question *question,
                            const struct pen_layer_range *layers,
                            const struct pen_stage_needs *needs)
{
    const struct pen__train_args *args = question->args;
    const struct pen_model *model = question->model->decoder;
    bool is_full = layers->recompute == PEN_RECOMPUTE_FULL;
    double pairs = 2.0 * (double)args->micro_batch_size *
                   question->sample.num_ids * (args->is_bf16 ? 2.0 : 4.0) *
                   key_heads(question) * model->head_dim;
    double pieces = (double)args->logical_tensor / (double)args->tensor_size;
    double blocks = is_full ? 1 : 0;
    for (uint32_t i = 0; i < layers->count && !is_full; i++)
        if (pen_model_layer_kind(model, layers->first + i) == PEN_LAYER_BLOCK)
            blocks += needs->stashes;
    return pairs *
           (blocks * larger(pieces, 1) + 2 - 1.0 / (double)args->context_size);
}

/*
 * Bytes that passes over a sequence share: queries, keys and values of all
 * slices, in place of those in their stashes and holds, or the keys and values
 * of all parts.
 */
static double shared_bytes(const struct pen__train_memory_question *question,
                           const struct pen_layer_range *layers,
                           const struct pen_stage_needs *needs)
{
    const struct pen__train_args *args = question->args;
    const struct pen_model *model = question->model->decoder;
    bool is_full = layers->recompute == PEN_RECOMPUTE_FULL;
    double cuts = (double)num_cuts(question), bytes = 0;
    if (cuts == 1)
        return 0;
    if (args->context_size > 1)
        return context_bytes(question, layers, needs);
    double numbers = (double)args->micro_batch_size * question->sample.num_ids *
                     (args->is_bf16 ? 2.0 : 4.0);
    double all = numbers * model->head_dim *
                 (model->num_heads + 2.0 * model->num_kv_heads);
    for (uint32_t i = 0; i < layers->count; i++)
        if (pen_model_layer_kind(model, layers->first + i) == PEN_LAYER_BLOCK)
            bytes +=
                all * (needs->contexts + needs->slopes) -
                all / cuts * (needs->holds + (is_full ? 0 : needs->stashes));
    return bytes;
}

/*
 * Activations of one stage: what its row has in flight at once, and what all
 * micro-batches share: the hold of one layer, its gradients and, where it is
 * computed again, its stash.
 */
static double
activation_bytes(const struct pen__train_memory_question *question,
                 const struct pen_layer_range *layers,
                 const struct pen_stage_needs *needs)
{
    const struct pen__train_args *args = question->args;
    struct pen_workload workload = {.batch = args->micro_batch_size,
                                    .sequence = question->sample.num_ids /
                                                num_cuts(question),
                                    .element_bytes = args->is_bf16 ? 2 : 4,
                                    .stat_bytes = 4};
    double bytes = shared_bytes(question, layers, needs);
    double hold = 0, output = 0, again = 0, chunk = 0, copies = 0;
    uint32_t block = 0;
    for (uint32_t i = 0; i < layers->count; i++) {
        struct pen_layer_cost kept, plain;
        bool is_end = is_end_of(question, layers->first + i);
        workload.recompute = PEN_RECOMPUTE_NONE;
        workload.modules = args->modules;
        layer_cost(question, layers->first + i, &workload, &plain);
        workload.recompute = layers->recompute;
        if (layers->recompute == PEN_RECOMPUTE_FULL &&
            !pen_recompute_covers(&args->span, block))
            workload.recompute = PEN_RECOMPUTE_NONE;
        layer_cost(question, layers->first + i, &workload, &kept);
        share_layer(question, layers->first + i, &workload, &plain, &kept);
        bool is_whole = workload.recompute == PEN_RECOMPUTE_FULL;
        bool is_inner =
            is_whole && !is_end && pen_recompute_is_inner(&args->span, block);
        if (is_inner) { /* its input is in the chunk */
            kept.hold_bytes += kept.stash_bytes;
            kept.stash_bytes = 0;
        }
        bytes += (double)kept.stash_bytes * needs->stashes +
                 (double)kept.hold_bytes * needs->holds;
        chunk = (is_inner ? chunk : 0) + (double)plain.stash_bytes -
                (double)kept.stash_bytes;
        block += is_end ? 0 : 1;
        hold = larger(hold, (double)(is_whole ? plain : kept).hold_bytes);
        output = larger(output, (double)plain.output_bytes);
        again = larger(again, is_whole ? chunk : (double)kept.again_bytes);
        copies = larger(copies, (double)plain.copy_bytes);
    }
    return bytes +
           needs->kept * input_bytes(question, layers->first, &workload) /
               (double)num_row_parts(question) +
           hold + 2 * output + again + copies;
}

/*
 * Experts that are dealt out: fewer values and moments, as many gradients, and
 * more room for tokens.
 */
static double dealt_bytes(const struct pen__train_memory_question *question,
                          const struct pen_layer_range *layers,
                          const struct pen_stage_needs *needs)
{
    const struct pen__train_args *args = question->args;
    const struct pen_model *model = question->model->decoder;
    bool is_full = layers->recompute == PEN_RECOMPUTE_FULL;
    bool is_sharded = args->sharding != PEN_SHARDING_NONE;
    if (args->expert_size <= 1)
        return 0;
    double moments = 4.0 * pen_optimizer_moments(&args->numbers);
    double per_parameter =
        4.0 + (args->is_bf16 ? 2 : 0) + (is_sharded ? 0 : moments);
    const struct pen_compute compute = {
        .model = model,
        .micro_batch = (uint32_t)args->micro_batch_size,
        .sequence = question->sample.num_ids,
        .is_bf16 = args->is_bf16,
        .modules = args->modules,
        .tensor_ranks = (uint32_t)args->tensor_size,
        .expert_ranks = (uint32_t)args->expert_size};
    struct pen_expert_room room;
    double bytes = 0, once = 0;
    for (uint32_t i = 0; i < layers->count; i++) {
        uint32_t layer = layers->first + i;
        if (is_end_of(question, layer) ||
            !pen_model_block_is_sparse(model, layer - 1))
            continue;
        pen_expert_rank_room(&compute, layers->recompute, &room);
        double stash = (double)room.stash, hold = (double)room.hold;
        bytes +=
            (is_full ? 0 : stash * needs->stashes) +
            (hold + (is_full ? stash : 0)) * needs->holds -
            per_parameter * (double)pen_expert_rank_elsewhere(&compute, layer);
        once =
            larger(once, hold + (double)room.scratch + (is_full ? stash : 0));
    }
    return bytes + once;
}

/*
 * Bytes that Muon saves: the second moments of its matrices, which are dealt
 * out, and those in a snapshot; it needs more scratch instead.
 */
static double muon_bytes(const struct pen__train_memory_question *question,
                         const struct pen_layer_range *layers,
                         uint32_t num_members)
{
    const struct pen__train_args *args = question->args;
    const struct pen_model *model = question->model->decoder;
    double matrices = 0, scratch = 0;
    if (args->numbers.kind != PEN_STEP_RULE_MUON)
        return 0;
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        struct pen_any_tensor tensor;
        struct pen_tensor_info info;
        pen_model_tensor(model, i, &info);
        pen_any_model_tensor(question->model, i, &tensor);
        if (!tensor.is_block_matrix || info.layer < layers->first ||
            info.layer >= layers->first + layers->count)
            continue;
        matrices += (double)tensor.num_elements;
        scratch = larger(scratch, 4.0 * (double)pen_newton_schulz_scratch(
                                            (size_t)tensor.shape[0],
                                            (size_t)tensor.shape[1]));
    }
    double share = num_members > 0 ? num_members : 1;
    double copies = has_snapshot(question) ? 1 / share : 0;
    return scratch -
           4.0 * matrices *
               ((args->sharding != PEN_SHARDING_NONE ? 1 / share : 1) + copies);
}

/* Parameters of some layers that all ranks of a tensor group have. */
static double common_parameters(const struct pen_model *model,
                                const struct pen_layer_range *layers)
{
    double count = 2.0 * model->hidden * layers->count;
    double narrow = (double)model->q_lora_rank + model->kv_lora_rank;
    for (uint32_t i = 0; i < layers->count; i++) {
        uint32_t layer = layers->first + i;
        if (pen_model_layer_kind(model, layer) != PEN_LAYER_BLOCK)
            continue;
        if (pen_model_block_is_sparse(model, layer - 1))
            count += (double)model->num_experts * model->hidden;
        if (model->kv_lora_rank > 0)
            count += (narrow + model->qk_rope_dim) * model->hidden + narrow;
    }
    return count;
}

/*
 * Gradients and moments of pruned elements, less what the others have in
 * addition: an index, a packed value, and a dense gradient of one block.
 */
static double pruned_bytes(const struct pen__train_memory_question *question,
                           const struct pen_layer_range *layers)
{
    const struct pen__train_args *args = question->args;
    const struct pen_model *model = question->model->decoder;
    double all = 0, largest = 0, kept = 1 - args->sparsity;
    double state = 4.0 + 4.0 * pen_optimizer_moments(&args->numbers);
    if (model == NULL || args->sparsity <= 0)
        return 0;
    for (uint32_t i = 0; i < layers->count; i++) {
        double one = 0;
        for (uint32_t k = 0; k < model->num_tensors; k++) {
            struct pen_any_tensor tensor;
            struct pen_tensor_info info;
            pen_model_tensor(model, k, &info);
            pen_any_model_tensor(question->model, k, &tensor);
            if (tensor.is_block_matrix && info.layer == layers->first + i)
                one += (double)tensor.num_elements;
        }
        all += one;
        largest = larger(largest, one);
    }
    return all * (state - kept * (state + 8.0)) - 4.0 * largest;
}

/* Parameters of some layers of a text model that a rank of a tensor group has:
 * its share of all but the common ones. */
static double trained_here(const struct pen__train_memory_question *question,
                           const struct pen_layer_range *layers)
{
    const struct pen_model *model = question->model->decoder;
    double common = common_parameters(model, layers);
    double count = (double)pen_model_trained_parameters(model, layers);
    return common + (count - common) / (double)question->args->tensor_size;
}

/* The part of them that takes turns: experts that are dealt out stay. */
static double turning_here(const struct pen__train_memory_question *question,
                           const struct pen_layer_range *layers)
{
    double count = trained_here(question, layers);
    for (uint32_t i = 0; i < layers->count && question->args->expert_size > 1;
         i++)
        count -= (double)pen_model_expert_parameters(question->model->decoder,
                                                     layers->first + i) /
                 (double)question->args->tensor_size;
    return count;
}

/* Bytes that one of several members lacks, except those that take turns. */
static double left_out(double all, double turns, uint32_t num_members)
{
    return larger(0, all * (num_members - 1) / num_members - turns);
}

/*
 * Gradients and values that a member does not keep: all that others own but
 * those of a tied matrix, less two layers that follow each other.
 */
static double dropped_bytes(const struct pen__train_memory_question *question,
                            const struct pen_layer_range *layers,
                            uint32_t num_members)
{
    const struct pen_model *model = question->model->decoder;
    const struct pen_trainer_options options = pen__train_layout_options(
        question->layout, question->args, question->model, question->sample);
    bool drops_gradients = pen_trainer_drops_gradients(&options, num_members);
    bool drops_values = pen_trainer_drops_values(&options, num_members);
    uint32_t together =
        options.sharding_group > 0 ? options.sharding_group : num_members;
    if (!drops_gradients && !drops_values)
        return 0;
    uint32_t last = model->num_layers - 1;
    bool has_head = layers->first + layers->count > last;
    double tied = has_head && model->has_tied_embeddings
                      ? (double)pen_model_vocab_parameters(model) /
                            (double)question->args->tensor_size
                      : 0;
    double all = turning_here(question, layers) - tied, most = 0, before = 0;
    for (uint32_t i = 0; i < layers->count; i++) {
        struct pen_layer_range one = {.first = layers->first + i, .count = 1};
        double own =
            turning_here(question, &one) - (one.first == last ? tied : 0);
        most = larger(most, before + own);
        before = own;
    }
    double value_bytes = question->args->is_bf16 ? 6.0 : 4.0;
    return (drops_gradients ? 4.0 * left_out(all, most, num_members) : 0) +
           (drops_values ? value_bytes * left_out(all, most, together) : 0);
}

static double state_bytes(const struct pen__train_memory_question *question,
                          const struct pen_layer_range *layers,
                          double per_parameter)
{
    const struct pen_image_model *images = question->model->images;
    uint64_t sum = 0;
    if (images == NULL)
        return per_parameter * trained_here(question, layers);
    for (uint32_t i = 0; i < layers->count; i++)
        sum += pen_image_layer_parameters(images, layers->first + i);
    return per_parameter * (double)sum;
}

/*
 * For each parameter, where steps overlap: versions and predictions, in bf16,
 * too; averages; and a second gradient where a step waits for all stages.
 */
static double overlap_bytes(const struct pen__train_memory_question *question,
                            uint32_t row, uint32_t stage)
{
    const struct pen__train_args *args = question->args;
    const struct pen_schedule *schedule = question->layout->schedule;
    const struct pen_trainer_options options = pen__train_layout_options(
        question->layout, args, question->model, question->sample);
    struct pen_version_needs needs = {0};
    if (!question->layout->is_asynchronous ||
        pen_trainer_count_versions(&options, row, stage, &needs) != PEN_OK)
        return 0;
    bool has_second = schedule->rules.is_joint &&
                      pen_row_defers_steps(&schedule->rows[row], stage);
    return (needs.copies + needs.predictions) * (args->is_bf16 ? 6.0 : 4.0) +
           4.0 * (needs.has_average + has_second);
}

/* Bytes of the copies that optimistic steps keep of each parameter that a rank
 * steps. */
static double saved_bytes(const struct pen__train_memory_question *question,
                          uint32_t num_members)
{
    const struct pen__train_args *args = question->args;
    double bytes = 4.0 + 4.0 * pen_optimizer_moments(&args->numbers);
    if (!question->layout->schedule->rules.is_optimistic)
        return 0;
    return args->sharding != PEN_SHARDING_NONE ? bytes / num_members : bytes;
}

/* Stages after the embedding hold some columns of its tables, too. */
static double anchor_bytes(const struct pen__train_memory_question *question,
                           const struct pen_layer_range *layers)
{
    const struct pen_model *model = question->model->decoder;
    uint32_t width = question->args->subspace;
    if (model == NULL || width == 0 || width >= model->hidden ||
        layers->first == 0)
        return 0;
    double rows = model->vocab;
    if (model->rope.kind == PEN_ROPE_NONE)
        rows += model->max_positions;
    return 4.0 * rows * (model->hidden - width);
}

/* Bytes of a process that takes its micro-batches one after the other. */
static double whole_bytes(const struct pen__train_memory_question *question)
{
    const struct pen_model *model = question->model->decoder;
    struct pen_layer_range all = {
        .count = model->num_layers,
        .recompute = (enum pen_recompute)question->args->recompute};
    return state_bytes(question, &all, bytes_per_parameter(question, 1)) +
           muon_bytes(question, &all, 1) - pruned_bytes(question, &all) +
           activation_bytes(question, &all,
                            &(struct pen_stage_needs){.stashes = 1});
}

uint64_t pen__train_predict(const struct pen__train_memory_question *question)
{
    const struct pen_schedule *schedule = question->layout->schedule;
    bool is_idle = question->rank >= question->num_ranks;
    if (question->args->is_sleeping || is_idle)
        return 0;
    if (question->model->decoder == NULL && schedule == NULL)
        return (
            uint64_t)((double)pen_any_model_num_parameters(question->model) *
                      bytes_per_parameter(question, 1));
    if (schedule == NULL)
        return (uint64_t)whole_bytes(question);
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_mesh *mesh = &question->layout->mesh;
    uint32_t row = pen_mesh_row(mesh, question->rank);
    double bytes = 0;
    for (uint32_t s = 0; s < shape->num_stages; s++) {
        if (pen_shape_rank_of(shape, s) != row ||
            pen_shape_keeper(shape, s) != s)
            continue;
        struct pen_stage_needs needs =
            pen_row_count_needs(shape, &schedule->rows[row], s);
        uint32_t part = pen_shape_part_of_stage(shape, s);
        const struct pen_layer_range *layers = &question->layout->parts[part];
        uint32_t num_members =
            pen_mesh_num_replicas(mesh) * pen_shape_members(shape, part);
        bytes += state_bytes(question, layers,
                             bytes_per_parameter(question, num_members) +
                                 overlap_bytes(question, row, s) +
                                 saved_bytes(question, num_members) +
                                 4.0 * (pen_shape_users(shape, s) - 1)) +
                 muon_bytes(question, layers, num_members) -
                 dropped_bytes(question, layers, num_members) -
                 pruned_bytes(question, layers) +
                 dealt_bytes(question, layers, &needs) +
                 anchor_bytes(question, layers) +
                 activation_bytes(question, layers, &needs);
    }
    return (uint64_t)bytes;
}

/* ---- all ranks of a node ---- */

struct together {
    double bytes[PEN_MEMORY_SCOPES];
    uint32_t num_ranks[PEN_MEMORY_SCOPES];
};

static double host_key(void)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    return pen_crc32c(host, strlen(host));
}

/* Adds up the memory of all ranks that share each limit with this one. */
static pen_status add_up(const struct pen__train_memory_question *question,
                         double own_bytes, struct together *out)
{
    enum { BYTES, HOST, GROUP, FIELDS };
    uint32_t size = pen_transport_size(question->transport);
    uint32_t rank = pen_transport_rank(question->transport);
    double *all = calloc((size_t)size * FIELDS, sizeof *all);
    struct pen_request request = {.is_active = false};
    if (all == NULL)
        return PEN_NOMEM;
    double *own = all + (size_t)rank * FIELDS;
    own[BYTES] = own_bytes;
    own[HOST] = host_key();
    own[GROUP] = pen_memory_group_key("");
    pen_transport_sum(question->transport, all, (size_t)size * FIELDS,
                      &request);
    pen_status status = pen_transport_wait(question->transport, &request);
    *out = (struct together){.bytes = {own_bytes},
                             .num_ranks = {[PEN_MEMORY_PROCESS] = 1}};
    for (uint32_t i = 0; i < size; i++) {
        const double *it = all + (size_t)i * FIELDS;
        bool is_here = it[HOST] == own[HOST];
        bool is_of_group = is_here && it[GROUP] == own[GROUP];
        out->bytes[PEN_MEMORY_MACHINE] += is_here ? it[BYTES] : 0;
        out->num_ranks[PEN_MEMORY_MACHINE] += is_here;
        out->bytes[PEN_MEMORY_GROUP] += is_of_group ? it[BYTES] : 0;
        out->num_ranks[PEN_MEMORY_GROUP] += is_of_group;
    }
    free(all);
    return status;
}

/* ---- comparing ---- */

static double mb(double bytes)
{
    return 1e-6 * bytes;
}

static void describe(const struct together *together,
                     const struct pen_memory_limit *limit, int scope,
                     struct pen_text *out)
{
    double bytes = together->bytes[scope];
    pen_text_add(out, "the training needs %.0f MB more memory (within %.0f %%)",
                 mb(bytes), 100 * PREDICTION_ERROR);
    if (together->num_ranks[scope] > 1)
        pen_text_add(out, " for the %" PRIu32 " ranks here",
                     together->num_ranks[scope]);
    pen_text_add(out, ", but %s leaves %.0f MB of %.0f MB", limit->source,
                 mb((double)limit->free_bytes), mb((double)limit->limit_bytes));
}

static const char todo[] =
    "Use a smaller --micro-batch-size or --recompute-granularity full, spread "
    "the model over more ranks (--pipeline-model-parallel-size, "
    "--tensor-model-parallel-size, --sharding zero1, zero2 or zero3), or raise "
    "the "
    "limit";

pen_status
pen__train_check_memory(const struct pen__train_memory_question *question,
                        struct pen_text *why)
{
    struct pen_memory_limit limits[PEN_MEMORY_SCOPES];
    struct together together;
    pen_status status =
        add_up(question, (double)pen__train_predict(question), &together);
    if (status != PEN_OK)
        return status;
    pen_memory_limits_read("", limits);
    for (int i = 0; i < PEN_MEMORY_SCOPES; i++) {
        double free_bytes = (double)limits[i].free_bytes;
        struct pen_text line = PEN_TEXT_EMPTY;
        if (together.bytes[i] * (1 + PREDICTION_ERROR) <= free_bytes)
            continue;
        describe(&together, &limits[i], i, &line);
        if (together.bytes[i] * (1 - PREDICTION_ERROR) > free_bytes) {
            pen_why(why, "%s. %s", pen_text_string(&line), todo);
            status = PEN_INVALID;
        } else if (pen_transport_rank(question->transport) == 0) {
            pen_log(PEN_LOG_WARN, "%s: it may end without memory. %s",
                    pen_text_string(&line), todo);
        }
        pen_text_release(&line);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}
