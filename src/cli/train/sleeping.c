#include "cli/train/sleeping.h"

#include "planner/context_rank.h"
#include "planner/expert_rank.h"
#include "planner/tensor_rank.h"

#include <stdlib.h>

pen_status pen__train_sleeping_costs(const struct pen_shape *shape,
                                     int64_t sleep_ns, struct pen_costs *out)
{
    uint32_t count = pen_shape_parts(shape);
    double sec = 1e-9 * (double)sleep_ns;
    pen_costs_init(out);
    out->items = calloc(count, sizeof *out->items);
    if (out->items == NULL)
        return PEN_NOMEM;
    out->scope = PEN_COST_PER_STAGE;
    out->num_items = count;
    for (uint32_t i = 0; i < count; i++)
        out->items[i] = (struct pen_cost){.forward_sec = sec,
                                          .input_sec = sec,
                                          .weight_sec = sec,
                                          .recompute_sec = -1,
                                          .pair_sec = -1,
                                          .memory = -1};
    return PEN_OK;
}

static pen_status set_seconds(struct pen__train_layout *layout,
                              const struct pen_compute *compute,
                              int64_t sleep_ns, struct pen_text *why)
{
    const struct pen_schedule *schedule = layout->schedule;
    const struct pen_shape *shape = &schedule->shape;
    struct pen_compute apart = *compute;
    apart.sends_messages = true;
    return sleep_ns > 0
               ? pen__train_sleeping_costs(shape, sleep_ns, &layout->sleeps)
               : pen_compute_costs(&apart, layout->parts,
                                   pen_shape_parts(shape), shape->num_ranks,
                                   pen_compute_has_whole_backward(schedule),
                                   &layout->sleeps, why);
}

/* Rows that a rank sends if it chooses all experts equally often. */
static struct pen_inner_messages travels_of(const struct pen_compute *compute,
                                            const struct pen_layer_range *stage)
{
    const struct pen_model *model = compute->model;
    bool has_head = stage->first + stage->count == model->num_layers;
    uint64_t tokens = (uint64_t)compute->micro_batch * compute->sequence;
    struct pen_inner_messages out = {
        .kind = PEN_INNER_ROWS,
        .travel = {.num_rows = tokens * model->experts_per_token,
                   .count_bytes = model->num_experts / compute->expert_ranks *
                                  sizeof(int32_t),
                   .row_bytes =
                       (size_t)model->hidden * (compute->is_bf16 ? 2 : 4),
                   .gate_bytes = sizeof(float)}};
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
        uint32_t forward =
            pen_compute_expert_rounds(compute, stage, i, PEN_PASS_FORWARD);
        uint32_t input =
            pen_compute_expert_rounds(compute, stage, i, PEN_PASS_INPUT);
        out.num_forward += forward;
        out.num_input += input;
        out.travel.num_again += input > forward;
        out.travel.num_plain += input > 0 && input == forward;
    }
    out.num_again = out.num_forward;
    if (!has_head && out.num_forward > 0)
        out.num_again--; /* without an output */
    return out;
}

/*
 * Sums of tensor-parallel ranks or, where rows are cut, the rounds in which
 * ranks gather rows and scatter results.
 */
static struct pen_inner_messages tensors_of(const struct pen_compute *compute,
                                            const struct pen_layer_range *stage)
{
    bool cuts = compute->cuts_rows;
    uint32_t (*count)(const struct pen_compute *,
                      const struct pen_layer_range *, enum pen_layer_pass) =
        cuts ? pen_compute_tensor_rounds : pen_compute_tensor_sums;
    uint32_t forward = count(compute, stage, PEN_PASS_FORWARD);
    bool has_head = stage->first + stage->count == compute->model->num_layers;
    struct pen_tensor_messages one =
        (cuts ? pen_tensor_rank_rounds : pen_tensor_rank_messages)(
            compute, PEN_LAYER_EMBEDDING, PEN_RECOMPUTE_NONE, PEN_PASS_FORWARD);
    struct pen_tensor_messages loss = pen_tensor_rank_messages(
        compute, PEN_LAYER_HEAD, PEN_RECOMPUTE_NONE, PEN_PASS_FORWARD);
    return (struct pen_inner_messages){
        .kind = cuts ? PEN_INNER_PARTS : PEN_INNER_SUMS,
        .num_forward = forward,
        .num_again = has_head ? forward : forward - 1, /* without an output */
        .num_input = count(compute, stage, PEN_PASS_INPUT),
        .num_weight = cuts ? count(compute, stage, PEN_PASS_WEIGHT) : 0,
        .bytes = (size_t)one.bytes,
        .loss_bytes = has_head ? (size_t)loss.bytes : 0};
}

/* Keys and values that ranks of a context group exchange. */
static struct pen_inner_messages chunks_of(const struct pen_compute *compute,
                                           const struct pen_layer_range *stage)
{
    struct pen_context_messages forward =
        pen_compute_context_messages(compute, stage, PEN_PASS_FORWARD);
    struct pen_context_messages input =
        pen_compute_context_messages(compute, stage, PEN_PASS_INPUT);
    return (struct pen_inner_messages){
        .kind = PEN_INNER_CHUNKS,
        .num_forward = forward.gathers,
        .num_again = forward.gathers,
        .num_input = input.gathers + input.sums,
        .bytes = (size_t)pen_context_rank_chunk_bytes(compute),
        .num_gathers = input.gathers};
}

static struct pen_inner_messages
messages_of(const struct pen_compute *compute,
            const struct pen_layer_range *stage)
{
    if (compute->context_ranks > 1)
        return chunks_of(compute, stage);
    if (compute->expert_ranks > 1)
        return travels_of(compute, stage);
    return tensors_of(compute, stage);
}

/* Lists a stage's sums of gradients of which ranks have copies. */
static uint32_t list_copies(const struct pen_compute *compute,
                            const struct pen_layer_range *stage,
                            struct pen_message_round *out)
{
    uint32_t count = 0;
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
        struct pen_layer_messages sent;
        pen_compute_layer_messages(compute, stage, i, &sent);
        for (uint32_t k = 0; k < sent.copies.count; k++)
            out[count++] = sent.copies.rounds[k];
    }
    return count;
}

pen_status pen__train_sleeping_set(struct pen__train_layout *layout,
                                   const struct pen_compute *compute,
                                   int64_t sleep_ns, struct pen_text *why)
{
    uint32_t count = pen_shape_parts(&layout->schedule->shape);
    size_t num_layers = compute->model->num_layers;
    pen_status status = set_seconds(layout, compute, sleep_ns, why);
    if (status != PEN_OK)
        return status;
    layout->inner = calloc(count, sizeof *layout->inner);
    layout->copies =
        calloc(num_layers * PEN_PASS_ROUNDS, sizeof *layout->copies);
    if (layout->inner == NULL || layout->copies == NULL) {
        pen_costs_release(&layout->sleeps);
        free(layout->inner);
        free(layout->copies);
        layout->inner = NULL;
        layout->copies = NULL;
        pen_why(why, "no memory for the messages of %u stages", count);
        return PEN_NOMEM;
    }
    struct pen_message_round *copies = layout->copies;
    for (uint32_t i = 0; i < count; i++) {
        layout->inner[i] = messages_of(compute, &layout->parts[i]);
        layout->inner[i].copies = copies;
        layout->inner[i].num_copies =
            list_copies(compute, &layout->parts[i], copies);
        copies += layout->inner[i].num_copies;
    }
    return PEN_OK;
}

void pen__train_sleeping_release(struct pen__train_layout *layout)
{
    if (layout->inner != NULL)
        pen_costs_release(&layout->sleeps);
    free(layout->inner);
    free(layout->copies);
    layout->inner = NULL;
    layout->copies = NULL;
}
