#include "runtime/guests.h"

#include "base/bug.h"
#include "runtime/executor_internal.h"

#include <stdlib.h>
#include <string.h>

/* A stash of this rank on its way. */
struct move {
    struct pen_request request;
    struct pen_stage *stage;
    uint32_t microbatch;
    uint32_t stash; /* in the shelf of the stage */
    bool is_load;
    bool is_open;
};

/* A guest of this rank. */
struct guest {
    struct pen_request request;
    bool is_returning;
};

struct pen_guests {
    struct pen_executor *executor;
    struct pen_transport *transport;
    uint32_t partner; /* world rank */
    uint32_t own_stage;
    uint32_t partner_stage;

    struct move *moves;
    uint32_t num_moves;

    struct pen_shelf shelf;
    struct guest *guests; /* per place of the shelf */
    uint32_t num_per_pass;
    uint32_t num_come; /* whose receive is posted in this pass */
};

static uint32_t count_ops(const struct pen_row *row, enum pen_op_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < row->count; i++)
        count += row->ops[i].kind == kind;
    return count;
}

/* Most stashes of a row that are away at once. */
static uint32_t most_away(const struct pen_row *row)
{
    uint32_t now = 0, most = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->ops[i].kind == PEN_OP_EVICT && ++now > most)
            most = now;
        if (row->ops[i].kind == PEN_OP_LOAD)
            now--;
    }
    return most;
}

/* The n-th op of a kind; its row has that many. */
static const struct pen_op *nth(const struct pen_row *row,
                                enum pen_op_kind kind, uint32_t n)
{
    const struct pen_op *op = row->ops;
    for (uint32_t seen = 0; op->kind != kind || seen++ < n; op++)
        ;
    return op;
}

/* Exchanges the sizes of stashes with the partner. */
static pen_status exchange_bytes(struct pen_guests *guests, uint64_t *bytes)
{
    struct pen_request out = {0}, in = {0};
    struct pen_tag tag = {PEN_TAG_STATE, 0};
    uint64_t own = *bytes, theirs = 0;
    pen_transport_receive(guests->transport, guests->partner, tag, &theirs,
                          sizeof theirs, &in);
    pen_transport_send(guests->transport, guests->partner, tag, &own,
                       sizeof own, &out);
    pen_status status = pen_transport_wait(guests->transport, &in);
    if (status == PEN_OK)
        status = pen_transport_wait(guests->transport, &out);
    *bytes = theirs;
    return status;
}

static uint32_t evicting_stage(const struct pen_row *row)
{
    return count_ops(row, PEN_OP_EVICT) == 0 ? 0
                                             : nth(row, PEN_OP_EVICT, 0)->stage;
}

static pen_status make_room(struct pen_guests *guests,
                            const struct pen_row *own,
                            const struct pen_row *other)
{
    uint32_t most = most_away(other);
    uint64_t bytes = 0;
    guests->own_stage = evicting_stage(own);
    guests->partner_stage = evicting_stage(other);
    guests->num_moves = 2 * count_ops(own, PEN_OP_EVICT);
    guests->num_per_pass = count_ops(other, PEN_OP_EVICT);
    if (guests->num_moves > 0)
        bytes = pen__executor_home(
                    guests->executor,
                    pen__executor_find(guests->executor, guests->own_stage))
                    ->sizes.stash;
    if (bytes == 0) /* an embedding alone has nothing to move */
        guests->num_moves = 0;
    pen_status status = exchange_bytes(guests, &bytes);
    if (status != PEN_OK)
        return status;
    if (bytes == 0)
        most = guests->num_per_pass = 0;
    guests->moves = calloc(guests->num_moves + 1, sizeof *guests->moves);
    guests->guests = calloc((size_t)most + 1, sizeof *guests->guests);
    if (guests->moves == NULL || guests->guests == NULL)
        return PEN_NOMEM;
    return pen_shelf_init(&guests->shelf, NULL, PEN_PLACE_STAGING, most, bytes);
}

pen_status pen_guests_create(struct pen_executor *executor,
                             const struct pen_executor_options *options,
                             struct pen_guests **out)
{
    const struct pen_layout *layout = &options->layout;
    const struct pen_row *rows = options->schedule->rows;
    uint32_t other = pen_shape_partner(&layout->shape, layout->row);
    *out = NULL;
    if (other == layout->row || count_ops(&rows[layout->row], PEN_OP_EVICT) +
                                        count_ops(&rows[other], PEN_OP_EVICT) ==
                                    0)
        return PEN_OK;
    struct pen_guests *guests = calloc(1, sizeof *guests);
    if (guests == NULL)
        return PEN_NOMEM;
    guests->executor = executor;
    guests->transport = options->transport;
    guests->partner = pen_layout_rank_at(layout, other, layout->replica);
    pen_status status = make_room(guests, &rows[layout->row], &rows[other]);
    if (status == PEN_OK)
        *out = guests;
    else
        pen_guests_free(guests);
    return status;
}

void pen_guests_free(struct pen_guests *guests)
{
    if (guests == NULL)
        return;
    pen_shelf_release(&guests->shelf);
    free(guests->moves);
    free(guests->guests);
    free(guests);
}

size_t pen_guests_bytes(const struct pen_guests *guests)
{
    return guests->shelf.count * guests->shelf.bytes;
}

/* ---- the host's side ---- */

static void welcome(struct pen_guests *guests)
{
    while (guests->num_come < guests->num_per_pass) {
        uint32_t place = pen_shelf_take(&guests->shelf);
        if (place == PEN_SHELF_NONE)
            return;
        guests->num_come++;
        guests->guests[place].is_returning = false;
        pen_transport_receive(
            guests->transport, guests->partner,
            (struct pen_tag){PEN_TAG_EVICT, guests->partner_stage},
            pen_shelf_at(&guests->shelf, place), guests->shelf.bytes,
            &guests->guests[place].request);
    }
}

static void poll_guests(struct pen_guests *guests)
{
    for (uint32_t place = 0; place < guests->shelf.count; place++) {
        struct guest *guest = &guests->guests[place];
        if (!guests->shelf.is_taken[place] ||
            pen_transport_test(guests->transport, &guest->request) != PEN_OK)
            continue;
        if (guest->is_returning) {
            pen_shelf_give(&guests->shelf, place);
            continue;
        }
        guest->is_returning = true;
        pen_transport_send(
            guests->transport, guests->partner,
            (struct pen_tag){PEN_TAG_LOAD, guests->partner_stage},
            pen_shelf_at(&guests->shelf, place), guests->shelf.bytes,
            &guest->request);
    }
    welcome(guests);
}

/* ---- the owner's side ---- */

static void poll_moves(struct pen_guests *guests)
{
    for (uint32_t i = 0; i < guests->num_moves; i++) {
        struct move *move = &guests->moves[i];
        if (!move->is_open ||
            pen_transport_test(guests->transport, &move->request) != PEN_OK)
            continue;
        move->is_open = false;
        if (move->is_load)
            move->stage->stays[move->microbatch].stash = move->stash;
        else
            pen_shelf_give(&move->stage->stashes, move->stash);
    }
}

static struct move *new_move(struct pen_guests *guests, const struct pen_op *op)
{
    uint32_t index = pen__executor_find(guests->executor, op->stage);
    for (uint32_t i = 0; i < guests->num_moves; i++)
        if (!guests->moves[i].is_open) {
            guests->moves[i] = (struct move){
                .stage = pen__executor_home(guests->executor, index),
                .microbatch = op->microbatch,
                .is_load = op->kind == PEN_OP_LOAD,
                .is_open = true};
            return &guests->moves[i];
        }
    PEN_BUG_UNLESS(false);
    return NULL;
}

static bool has_stash(void *context)
{
    struct move *move = context;
    move->stash = pen_shelf_take(&move->stage->stashes);
    return move->stash != PEN_SHELF_NONE;
}

pen_status pen_guests_move(struct pen_guests *guests, const struct pen_op *op)
{
    PEN_BUG_UNLESS(guests != NULL);
    if (guests->num_moves == 0)
        return PEN_OK;
    struct move *move = new_move(guests, op);
    struct pen_shelf *shelf = &move->stage->stashes;
    if (move->is_load) {
        move->is_open = false; /* nothing is posted while it waits for room */
        pen_status status =
            pen_executor_wait(guests->executor, has_stash, move, PEN_NO_RANK);
        if (status != PEN_OK)
            return status;
        move->is_open = true;
        pen_transport_receive(guests->transport, guests->partner,
                              (struct pen_tag){PEN_TAG_LOAD, guests->own_stage},
                              pen_shelf_at(shelf, move->stash), shelf->bytes,
                              &move->request);
        return PEN_OK;
    }
    struct pen_stay *stay = pen_stage_stay(move->stage, op);
    move->stash = stay->stash;
    stay->stash = PEN_SHELF_NONE;
    pen_transport_send(guests->transport, guests->partner,
                       (struct pen_tag){PEN_TAG_EVICT, guests->own_stage},
                       pen_shelf_at(shelf, move->stash), shelf->bytes,
                       &move->request);
    return PEN_OK;
}

struct awaited {
    struct pen_guests *guests;
    const struct pen_op *op;
};

static bool is_back(void *context)
{
    const struct awaited *awaited = context;
    const struct pen_guests *guests = awaited->guests;
    for (uint32_t i = 0; i < guests->num_moves; i++) {
        const struct move *move = &guests->moves[i];
        if (move->is_open && move->is_load &&
            move->stage->stage == awaited->op->stage &&
            move->microbatch == awaited->op->microbatch)
            return false;
    }
    return true;
}

pen_status pen_guests_await(struct pen_guests *guests, const struct pen_op *op)
{
    struct awaited awaited = {guests, op};
    return pen_executor_wait(guests->executor, is_back, &awaited,
                             guests->partner);
}

/* ---- both ---- */

void pen_guests_begin(struct pen_guests *guests)
{
    guests->num_come = 0;
    welcome(guests);
}

void pen_guests_poll(struct pen_guests *guests)
{
    poll_moves(guests);
    poll_guests(guests);
}

bool pen_guests_is_idle(const struct pen_guests *guests)
{
    for (uint32_t i = 0; i < guests->num_moves; i++)
        if (guests->moves[i].is_open)
            return false;
    for (uint32_t place = 0; place < guests->shelf.count; place++)
        if (guests->shelf.is_taken[place])
            return false;
    return true;
}
