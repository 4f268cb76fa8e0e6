/*
 * A training changes to another layout between two steps. All ranks of the
 * transport do the same, those that are idle before or after it, too:
 *
 *   pack     copies what this rank would write of a checkpoint
 *   rebuild  frees executor, exchange and engine, and makes those of the new
 *            layout; its mesh has the next epoch
 *   meet     one sum over all ranks: epoch and step of each, and the ranks that
 *            have and need each tensor
 *   fill     the rank that has a tensor sends it to those that need it
 *
 * After each of them the ranks agree, so that one which fails ends all. Every
 * tensor has one rank that packs it, as every tensor of a checkpoint has one
 * writer.
 */
#include "base/bug.h"
#include "base/clock.h"
#include "runtime/agree.h"
#include "runtime/checkpoint_contents.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char doing[] = "moving to another layout";

/*
 * The relation of a rank to a tensor, in one number: whether it has it, and how
 * many of its stages need the value and the moments. Copies of a stage, and a
 * matrix that the first and the last stage share, may be on one rank.
 */
enum { HAS = 1, VALUE = 2, MOMENTS = 64, MOST_STAGES = 31 };

/* Fields of a rank at the meeting, before those of its tensors. */
enum { EPOCH, STEP, FIELDS };

struct move {
    struct pen_trainer *trainer;
    struct pen_transport *transport;
    uint32_t rank;
    uint32_t size;
    uint32_t num_tensors;
    uint32_t num_parts; /* of a tensor: the value, and moments */
    struct pen__contents contents;
    struct pen_snapshot *snapshot; /* NULL: this rank has nothing */
    size_t *packed;                /* by tensor: its place, where it HAS it */
    double *table;                 /* FIELDS of each rank, [tensor][rank] */
    struct pen_request *requests;
    size_t num_requests;
    uint64_t sent_bytes;
};

static double *cell(const struct move *move, uint32_t tensor, uint32_t rank)
{
    return move->table + (size_t)move->size * FIELDS +
           (size_t)tensor * move->size + rank;
}

static bool has(const struct move *move, uint32_t tensor, uint32_t rank)
{
    return ((unsigned)*cell(move, tensor, rank) & HAS) != 0;
}

/* Stages of a rank that need a part of a tensor. */
static uint32_t num_needs(const struct move *move, uint32_t tensor,
                          uint32_t rank, uint32_t part)
{
    unsigned unit = part == PEN_CHECKPOINT_WEIGHT ? VALUE : MOMENTS;
    return (unsigned)*cell(move, tensor, rank) / unit % (MOST_STAGES + 1);
}

static pen_status agree(const struct move *move, pen_status status,
                        struct pen_text *why)
{
    return pen_agree(move->transport, status, doing, PEN_AGREE_DEADLINE_SEC,
                     why);
}

/* ---- may it move? ---- */

static pen_status check_one(const struct pen_trainer_options *options,
                            struct pen_text *why)
{
    const struct pen_schedule *schedule = options->schedule;
    if (options->world != NULL) {
        pen_why(why, "the layout can change only while replicas are always the "
                     "same; those of this --sync, or with --compress, may "
                     "differ. Use --sync allreduce, or leave out --move");
        return PEN_INVALID;
    }
    if (options->context_size > 1) {
        pen_why(why, "the layout cannot change while --context-parallel-size "
                     "cuts the sequences. Drop it, or --move");
        return PEN_INVALID;
    }
    if (options->expert_size > 1) {
        pen_why(why, "the layout cannot change while "
                     "--expert-model-parallel-size deals out experts. Drop it, "
                     "or --move");
        return PEN_INVALID;
    }
    if (options->sparsity > 0) {
        pen_why(why, "the layout cannot change while --sparsity keeps some "
                     "elements of each matrix alone. Drop it, or --move");
        return PEN_INVALID;
    }
    if (options->model->decoder != NULL &&
        options->model->decoder->num_sections > 1) {
        pen_why(why, "the layout cannot change while --local-updates cuts the "
                     "model into sections. Drop it, or --move");
        return PEN_INVALID;
    }
    if (options->subspace > 0) {
        pen_why(why, "the layout cannot change while --compress-stages "
                     "subspace:K keeps columns of the token table on all "
                     "stages. Drop it, or --move");
        return PEN_INVALID;
    }
    if (options->sleeps != NULL) {
        pen_why(why, "an --engine that only sleeps has no weights to move; use "
                     "onednn or reference, or leave out --move");
        return PEN_INVALID;
    }
    if (schedule != NULL && schedule->rules.period != 0) {
        pen_why(why,
                "the layout can change only between synchronous steps, but "
                "those of %s overlap; use a synchronous schedule of `penstock "
                "schedule list`, such as 1f1b",
                schedule->name);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static uint32_t num_slices(const struct pen_trainer_options *options)
{
    return options->schedule == NULL ? 1 : options->schedule->shape.num_slices;
}

/*
 * Refuses other micro-batches or slices: their sums would have another order.
 */
static pen_status check_batch(const struct pen_trainer_options *from,
                              const struct pen_trainer_options *to,
                              struct pen_text *why)
{
    uint32_t had = num_slices(from), has = num_slices(to);
    if (had != has) {
        pen_why(why,
                "the schedule of the plan has %u token slices, but that of the "
                "run has %u, and the number must stay; plan with the same one",
                has, had);
        return PEN_INVALID;
    }
    if (from->micro_batch == to->micro_batch &&
        from->global_batch == to->global_batch)
        return PEN_OK;
    pen_why(why,
            "the plan has micro-batches of %zu and global batches of %zu "
            "samples, but the run has %zu and %zu, and both must stay; plan "
            "with the same --micro-batch-size and --global-batch-size",
            to->micro_batch, to->global_batch, from->micro_batch,
            from->global_batch);
    return PEN_INVALID;
}

pen_status pen_trainer_check_move(const struct pen_trainer_options *from,
                                  const struct pen_trainer_options *to,
                                  struct pen_text *why)
{
    pen_status status = check_one(from, why);
    if (status == PEN_OK)
        status = check_one(to, why);
    if (status == PEN_OK)
        status = check_batch(from, to, why);
    return status;
}

/* ---- packing ---- */

static pen_status pack(struct move *move, struct pen_text *why)
{
    struct pen__contents *contents = &move->contents;
    pen_status status = pen_transport_check_tags(
        move->transport, move->num_tensors * move->num_parts, why);
    if (status == PEN_OK)
        status = pen__contents_init(contents, move->trainer, false, why);
    move->packed = calloc(move->num_tensors, sizeof *move->packed);
    move->table = calloc((size_t)move->size * (FIELDS + move->num_tensors),
                         sizeof *move->table);
    if (status == PEN_OK && (move->packed == NULL || move->table == NULL))
        status = PEN_NOMEM;
    if (status != PEN_OK || pen__contents_is_empty(contents))
        return status;
    const struct pen_snapshot_contents list = pen__contents_list(contents);
    status = pen_snapshot_create(&list, &move->snapshot, why);
    if (status == PEN_OK)
        status = pen__contents_copy(contents, move->snapshot);
    for (size_t i = 0; i < contents->count && status == PEN_OK; i++) {
        uint32_t tensor = pen__contents_tensor(contents, i);
        move->packed[tensor] = i;
        *cell(move, tensor, move->rank) = HAS;
    }
    return status;
}

/* ---- rebuilding ---- */

static pen_status rebuild(struct pen_trainer *trainer,
                          const struct pen_trainer_options *to,
                          struct pen_text *why)
{
    struct pen_trainer_options *options = &trainer->options;
    pen__trainer_release_parts(trainer);
    options->logical_replicas = trainer->layout.num_logical;
    options->num_ranks = to->num_ranks;
    options->schedule = to->schedule;
    options->parts = to->parts;
    options->order = to->order;
    options->recompute = to->recompute;
    options->span = to->span;
    options->modules = to->modules;
    options->sharding = to->sharding;
    options->sharding_group = to->sharding_group;
    trainer->layout.mesh.epoch++;
    return pen__trainer_make_parts(trainer, why);
}

/* ---- meeting ---- */

static void note_needs(struct move *move)
{
    struct pen_trainer *trainer = move->trainer;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
            const struct pen_network_parameter *it =
                pen_network_parameter(network, i);
            bool is_stepped = pen__trainer_num_kept(trainer, s, i) > 1;
            for (size_t k = 0; k < it->num_slices; k++) {
                uint32_t tensor = it->slices[k].tensor;
                if (it->slices[k].piece.first_row > 0)
                    continue; /* counted with the first expert */
                PEN_BUG_UNLESS(num_needs(move, tensor, move->rank, 0) <
                               MOST_STAGES);
                *cell(move, tensor, move->rank) +=
                    VALUE + (is_stepped ? MOMENTS : 0);
            }
        }
    }
}

/* Each number has one contributor, so that the sum is exact. */
static pen_status meet(struct move *move, struct pen_text *why)
{
    const struct pen_mesh *mesh = &move->trainer->layout.mesh;
    double *own = move->table + (size_t)move->rank * FIELDS;
    struct pen_request request = {.is_active = false};
    own[EPOCH] = mesh->epoch;
    own[STEP] = (double)move->trainer->progress.steps;
    pen_transport_sum(move->transport, move->table,
                      (size_t)move->size * (FIELDS + move->num_tensors),
                      &request);
    pen_status status = pen_transport_wait(move->transport, &request);
    for (uint32_t i = 0; i < move->size && status == PEN_OK; i++) {
        const double *it = move->table + (size_t)i * FIELDS;
        status = pen_mesh_check_epoch(mesh, i, (uint32_t)it[EPOCH], why);
        PEN_BUG_UNLESS(status != PEN_OK || it[STEP] == own[STEP]);
    }
    return status;
}

/* ---- filling ---- */

static uint32_t holder_of(const struct move *move, uint32_t tensor)
{
    for (uint32_t i = 0; i < move->size; i++)
        if (has(move, tensor, i))
            return i;
    PEN_BUG_UNLESS(false); /* every trained tensor has a writer */
    return 0;
}

static struct pen_tag tag_of(const struct move *move, uint32_t tensor,
                             uint32_t part)
{
    return (struct pen_tag){PEN_TAG_MOVE, tensor * move->num_parts + part};
}

/* Messages that a part of a tensor takes: a tensor that stacks experts travels
 * one expert at a time, in their order, as networks have them. */
static uint32_t num_messages(const struct move *move, uint32_t tensor)
{
    const struct pen_model *model = move->trainer->options.model->decoder;
    struct pen_tensor_info info;
    if (model == NULL)
        return 1;
    pen_model_tensor(model, tensor, &info);
    return info.form->is_stacked ? model->num_experts : 1;
}

/* Bytes of one of them. */
static size_t bytes_of(const struct move *move, uint32_t tensor)
{
    struct pen_any_tensor about;
    pen_any_model_tensor(move->trainer->options.model, tensor, &about);
    return about.num_elements / num_messages(move, tensor) * sizeof(float);
}

/*
 * Copies of a part to send: one for every stage of another rank that needs it.
 */
static uint32_t num_copies(const struct move *move, uint32_t tensor,
                           uint32_t part, uint32_t rank)
{
    PEN_BUG_UNLESS(move->contents.tensors != NULL);
    const struct pen_checkpoint_tensor *kept =
        &move->contents.tensors[move->packed[tensor]];
    if (rank == move->rank ||
        part > pen_checkpoint_tensor_moments(kept->has_moments,
                                             move->num_parts - 1))
        return 0;
    return num_needs(move, tensor, rank, part);
}

static size_t count_sends(const struct move *move)
{
    size_t count = 0;
    for (uint32_t t = 0; t < move->num_tensors; t++)
        for (uint32_t r = 0; r < move->size && has(move, t, move->rank); r++)
            for (uint32_t p = 0; p < move->num_parts; p++)
                count +=
                    (size_t)num_copies(move, t, p, r) * num_messages(move, t);
    return count;
}

static void send(struct move *move, uint32_t tensor, uint32_t part,
                 uint32_t rank)
{
    size_t length = bytes_of(move, tensor);
    uint32_t each = num_messages(move, tensor);
    uint32_t count = num_copies(move, tensor, part, rank);
    const char *bytes =
        count == 0
            ? NULL
            : pen_snapshot_part(move->snapshot, (enum pen_checkpoint_part)part,
                                move->packed[tensor]);
    for (uint32_t i = 0; i < count * each; i++) {
        pen_transport_send(move->transport, rank, tag_of(move, tensor, part),
                           bytes + i % each * length, length,
                           &move->requests[move->num_requests++]);
        move->sent_bytes += length;
    }
}

/* Posts all sends at once: receivers take them in their own order. */
static void send_all(struct move *move)
{
    for (uint32_t t = 0; t < move->num_tensors; t++)
        for (uint32_t r = 0; r < move->size && has(move, t, move->rank); r++)
            for (uint32_t p = 0; p < move->num_parts; p++)
                send(move, t, p, r);
}

/* Tensors travel whole, or expert by expert: no layout cuts them. */
static pen_status read_slice(void *context,
                             const struct pen_tensor_slice *slice,
                             enum pen_checkpoint_part part, float *values,
                             struct pen_text *why)
{
    struct move *move = context;
    struct pen_request request = {.is_active = false};
    uint32_t tensor = slice->tensor;
    size_t length = bytes_of(move, tensor);
    (void)why;
    PEN_BUG_UNLESS(pen_tensor_piece_count(&slice->piece) * sizeof *values ==
                   length);
    if (has(move, tensor, move->rank)) {
        const float *all =
            pen_snapshot_part(move->snapshot, part, move->packed[tensor]);
        memcpy(values, all + slice->piece.first_row * slice->piece.num_columns,
               length);
        return PEN_OK;
    }
    pen_transport_receive(move->transport, holder_of(move, tensor),
                          tag_of(move, tensor, (uint32_t)part), values, length,
                          &request);
    return pen_transport_wait(move->transport, &request);
}

static pen_status fill(struct move *move, struct pen_text *why)
{
    const struct pen__trainer_source source = {move, read_slice};
    send_all(move);
    pen_status status = pen__trainer_fill(move->trainer, &source, why);
    if (status != PEN_OK && status != PEN_LOST) /* others wait for this rank */
        pen_agree_alone(move->transport, status, doing, why);
    for (size_t i = 0; i < move->num_requests && status == PEN_OK; i++)
        status = pen_transport_wait(move->transport, &move->requests[i]);
    return status;
}

/* ---- all together ---- */

static void release(struct move *move)
{
    pen_snapshot_free(move->snapshot);
    pen__contents_release(&move->contents);
    free(move->packed);
    free(move->table);
    free(move->requests);
}

static pen_status carry_out(struct move *move,
                            const struct pen_trainer_options *to,
                            struct pen_text *why)
{
    pen_status status = agree(move, pack(move, why), why);
    if (status == PEN_OK)
        status = agree(move, rebuild(move->trainer, to, why), why);
    if (status != PEN_OK)
        return status;
    note_needs(move);
    status = meet(move, why);
    if (status == PEN_OK) {
        move->requests = calloc(count_sends(move) + 1, sizeof *move->requests);
        status = move->requests == NULL ? PEN_NOMEM : PEN_OK;
    }
    status = agree(move, status, why);
    if (status == PEN_OK)
        status = agree(move, fill(move, why), why);
    return status;
}

/* Adds up the bytes that all ranks have sent. */
static pen_status sum_bytes(const struct move *move, uint64_t *out)
{
    struct pen_request request = {.is_active = false};
    double bytes = (double)move->sent_bytes;
    pen_transport_sum(move->transport, &bytes, 1, &request);
    pen_status status = pen_transport_wait(move->transport, &request);
    *out = (uint64_t)bytes;
    return status;
}

pen_status pen_trainer_move(struct pen_trainer *trainer,
                            const struct pen_trainer_options *to,
                            struct pen_move_cost *out, struct pen_text *why)
{
    struct pen_transport *transport = trainer->options.transport;
    struct move move = {
        .trainer = trainer,
        .transport = transport,
        .rank = pen_transport_rank(transport),
        .size = pen_transport_size(transport),
        .num_tensors = pen_any_model_num_tensors(trainer->options.model),
        .num_parts =
            1 + (uint32_t)pen_optimizer_moments(&trainer->options.optimizer)};
    int64_t begin = pen_clock_ns();
    pen_status status = pen_trainer_check_move(&trainer->options, to, why);
    if (status != PEN_OK)
        return status;
    status = carry_out(&move, to, why);
    if (status == PEN_OK)
        status = sum_bytes(&move, &out->sent_bytes);
    if (status == PEN_OK)
        out->sec = 1e-9 * (double)(pen_clock_ns() - begin);
    release(&move);
    return status;
}
