/*
 * Follows waits over the board of a node.
 *
 *   rank 2 waits in 2F4 for rank 1
 *            rank 1 waits in 1F4 for rank 0
 *                     rank 0 is in 0F4, its process is stopped
 *
 * A rank in a collective waits for each rank that has not come. The lines of
 * the board show which rank that is: one whose process is halted, or else one
 * that computes, or else one that waits itself; of several the one with the
 * least progress. MPI_Init is such a collective.
 *
 * World rank r executes row r mod p: parallel pipelines run the same schedule.
 */
#include "watch/wait_chain.h"

#include <inttypes.h>

enum { HOPS_TOLD = 4 };

#define NO_RANK UINT32_MAX

/* ---- words ---- */

/* Returns the row of a rank, or NULL before there is a schedule. */
static const struct pen_row *row_of(const struct pen_schedule *schedule,
                                    const struct pen_board_entry *entry)
{
    return schedule == NULL ? NULL : &schedule->rows[entry->row];
}

/* Returns the op of an entry, or NULL outside a row. */
static const struct pen_op *op_of(const struct pen_schedule *schedule,
                                  const struct pen_board_entry *entry)
{
    const struct pen_row *row = row_of(schedule, entry);
    return row != NULL && entry->position < row->count
               ? &row->ops[entry->position]
               : NULL;
}

/* Adds "forward of stage 5, micro-batch 3". */
static void add_words(const struct pen_op *op, struct pen_text *out)
{
    pen_text_add(out, "%s of stage %u", pen_op_info(op->kind)->words,
                 op->stage);
    if (pen_op_has_microbatch(op->kind))
        pen_text_add(out, ", micro-batch %u", op->microbatch);
}

/* Adds " (forward of stage 5, micro-batch 3)". */
static void add_op_words(const struct pen_op *op, struct pen_text *out)
{
    pen_text_add_string(out, " (");
    add_words(op, out);
    pen_text_add_string(out, ")");
}

/* Adds "at step 12 (saving)" or "during start-up (in MPI_Init)". */
static void add_outside(const struct pen_board_entry *entry,
                        struct pen_text *out)
{
    if (entry->step > 0)
        pen_text_add(out, "at step %" PRIu64, entry->step);
    else
        pen_text_add_string(out, "during start-up");
    pen_text_add(out, " (%s)", pen_board_state_words(entry->state));
}

void pen__place_describe(const struct pen_schedule *schedule,
                         const struct pen_board_entry *entry,
                         struct pen_text *out)
{
    const struct pen_op *op = op_of(schedule, entry);
    if (op == NULL) {
        add_outside(entry, out);
        return;
    }
    pen_text_add(out, "at step %" PRIu64 " in ", entry->step);
    pen_op_print(op, out);
    add_op_words(op, out);
}

static double since_sec(const struct pen__node_view *view,
                        const struct pen_board_entry *entry)
{
    return 1e-9 * (double)(view->now_ns - entry->since_ns);
}

/* ---- the chain ---- */

static bool is_collective(enum pen_board_state state)
{
    return state == PEN_BOARD_COLLECTIVE || state == PEN_BOARD_JOINING;
}

bool pen__state_is_waiting(enum pen_board_state state)
{
    return state == PEN_BOARD_WAITING || is_collective(state);
}

static bool is_waiting(const struct pen__rank_view *rank)
{
    return pen__state_is_waiting(rank->entry.state) &&
           !pen__process_is_halted(&rank->process);
}

/*
 * Orders the ranks that a collective waits for: 0: halted, 1: busy, 2: waiting
 * for one rank, 3: in a collective itself.
 */
static int order_of(const struct pen__rank_view *rank)
{
    if (pen__process_is_halted(&rank->process))
        return 0;
    if (!is_waiting(rank))
        return 1;
    return rank->entry.state == PEN_BOARD_WAITING ? 2 : 3;
}

/*
 * Returns how far a rank is in its row, 0 to 1; outside of it the rank has done
 * all or nothing. In start-up the states follow each other as they are listed.
 */
static double share_done(const struct pen__node_view *view,
                         const struct pen_board_entry *entry)
{
    const struct pen_row *row = row_of(view->schedule, entry);
    if (row == NULL || entry->state <= PEN_BOARD_PREPARING)
        return entry->state <= PEN_BOARD_PREPARING ? 1e-3 * (int)entry->state
                                                   : 1;
    return entry->position >= row->count
               ? 1
               : (double)entry->position / (double)row->count;
}

static bool is_behind(const struct pen__node_view *view,
                      const struct pen__rank_view *a,
                      const struct pen__rank_view *b)
{
    if (order_of(a) != order_of(b))
        return order_of(a) < order_of(b);
    if (a->entry.step != b->entry.step)
        return a->entry.step < b->entry.step;
    return share_done(view, &a->entry) < share_done(view, &b->entry);
}

/*
 * Returns the local rank that a rank in a collective waits for, or NO_RANK if
 * that is not on this node.
 */
static uint32_t slowest_local_rank(const struct pen__node_view *view,
                                   uint32_t local_rank)
{
    uint32_t found = NO_RANK;
    for (uint32_t i = 0; i < view->num_ranks; i++) {
        const struct pen__rank_view *rank = &view->ranks[i];
        if (i == local_rank || rank->entry.state == PEN_BOARD_FINISHED ||
            order_of(rank) == 3)
            continue;
        if (found == NO_RANK || is_behind(view, rank, &view->ranks[found]))
            found = i;
    }
    return found;
}

static uint32_t find(const struct pen__node_view *view, uint32_t world_rank)
{
    for (uint32_t i = 0; i < view->num_ranks; i++)
        if (view->ranks[i].entry.rank == world_rank)
            return i;
    return NO_RANK;
}

/* Returns whether the entry waits for all ranks, not for a single one. */
static bool waits_for_all(const struct pen_board_entry *entry)
{
    return is_collective(entry->state) || entry->waits_for == PEN_BOARD_NOBODY;
}

/*
 * Returns the next rank of the chain, or NO_RANK when it is not on this node.
 */
static uint32_t next_of(const struct pen__node_view *view, uint32_t local_rank)
{
    const struct pen_board_entry *entry = &view->ranks[local_rank].entry;
    return waits_for_all(entry) ? slowest_local_rank(view, local_rank)
                                : find(view, entry->waits_for);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/*
 * Returns when a rank began its current op. For a rank that waits for all
 * ranks, it is when the last of these came: the others may not have noticed
 * yet.
 */
static int64_t moved_ns(const struct pen__node_view *view, uint32_t local_rank)
{
    const struct pen__rank_view *rank = &view->ranks[local_rank];
    int64_t moved = rank->entry.since_ns;
    if (!is_waiting(rank) || !waits_for_all(&rank->entry))
        return moved;
    for (uint32_t i = 0; i < view->num_ranks; i++)
        if (is_collective(view->ranks[i].entry.state))
            moved = later(moved, view->ranks[i].entry.since_ns);
    return moved;
}

/* Returns a rank that has left, or NO_RANK. */
static uint32_t find_left(const struct pen__node_view *view)
{
    for (uint32_t i = 0; i < view->num_ranks; i++)
        if (view->ranks[i].entry.state == PEN_BOARD_FINISHED)
            return i;
    return NO_RANK;
}

static void add_to_chain(const struct pen__node_view *view,
                         struct pen__root *root, uint32_t local_rank)
{
    if (view->chain != NULL)
        view->chain[root->num_chain] = local_rank;
    root->num_chain++;
}

static bool is_in_chain(const struct pen__node_view *view,
                        const struct pen__root *root, uint32_t local_rank)
{
    if (view->chain == NULL)
        return false;
    for (uint32_t i = 0; i < root->num_chain; i++)
        if (view->chain[i] == local_rank)
            return true;
    return false;
}

/* Ends a chain whose last rank waits for no rank of this node. */
static void end_chain(const struct pen__node_view *view, struct pen__root *root)
{
    bool is_for_all = waits_for_all(&view->ranks[root->local_rank].entry);
    uint32_t left = find_left(view);
    root->kind = PEN__ROOT_ELSEWHERE;
    if (is_for_all && left != NO_RANK) {
        root->kind = PEN__ROOT_LEFT;
        root->local_rank = left;
    } else if (is_for_all && view->is_whole_job) {
        root->kind = PEN__ROOT_ALL;
        root->num_chain = 0;
        for (uint32_t i = 0; i < view->num_ranks; i++)
            add_to_chain(view, root, i);
    }
}

/* Calls `hop` for each rank that waits, and returns where the chain ends. */
static struct pen__root
follow(const struct pen__node_view *view, uint32_t local_rank,
       void (*hop)(const struct pen__node_view *view, uint32_t local_rank,
                   uint32_t number, struct pen_text *out),
       struct pen_text *out)
{
    struct pen__root root = {.kind = PEN__ROOT_CIRCLE,
                             .local_rank = local_rank,
                             .moved_ns = moved_ns(view, local_rank)};
    for (uint32_t number = 0; number < view->num_ranks; number++) {
        const struct pen__rank_view *rank = &view->ranks[root.local_rank];
        add_to_chain(view, &root, root.local_rank);
        if (!is_waiting(rank)) {
            root.kind = rank->entry.state == PEN_BOARD_FINISHED
                            ? PEN__ROOT_LEFT
                            : PEN__ROOT_HERE;
            return root;
        }
        if (hop != NULL)
            hop(view, root.local_rank, number, out);
        uint32_t next = next_of(view, root.local_rank);
        if (next == NO_RANK) {
            end_chain(view, &root);
            return root;
        }
        root.local_rank = next;
        if (is_in_chain(view, &root, next))
            return root;
        root.moved_ns = later(root.moved_ns, moved_ns(view, next));
    }
    if (!is_waiting(&view->ranks[root.local_rank]))
        root.kind = PEN__ROOT_HERE;
    return root;
}

struct pen__root pen__wait_root(const struct pen__node_view *view,
                                uint32_t local_rank)
{
    return follow(view, local_rank, NULL, NULL);
}

/* ---- reports ---- */

/* Adds "for rank 1" or "for all to come, of whom rank 1 is the last". */
static void add_for(const struct pen__node_view *view, uint32_t local_rank,
                    struct pen_text *out)
{
    const struct pen_board_entry *entry = &view->ranks[local_rank].entry;
    if (!waits_for_all(entry)) {
        pen_text_add(out, " for rank %u", entry->waits_for);
        return;
    }
    uint32_t next = next_of(view, local_rank);
    pen_text_add_string(out, " for all to come");
    if (next != NO_RANK)
        pen_text_add(out, ", rank %u being the least advanced",
                     view->ranks[next].entry.rank);
}

/*
 * Adds "in 5F3 of step 12 (forward of ...)", or the rank's state outside a row.
 */
static void add_place(const struct pen__node_view *view,
                      const struct pen_board_entry *entry, struct pen_text *out)
{
    const struct pen_op *op = op_of(view->schedule, entry);
    if (op == NULL) {
        add_outside(entry, out);
        return;
    }
    pen_text_add_string(out, "in ");
    pen_op_print(op, out);
    pen_text_add(out, " of step %" PRIu64, entry->step);
    add_op_words(op, out);
}

static void describe_hop(const struct pen__node_view *view, uint32_t local_rank,
                         uint32_t number, struct pen_text *out)
{
    const struct pen_board_entry *entry = &view->ranks[local_rank].entry;
    const struct pen_op *op = op_of(view->schedule, entry);
    if (number == 0) {
        pen_text_add(out, "rank %u on %s has waited %.1f s ", entry->rank,
                     view->host, since_sec(view, entry));
        add_place(view, entry, out);
        add_for(view, local_rank, out);
    } else if (number <= HOPS_TOLD) {
        pen_text_add_string(out, ", which waits ");
        if (op != NULL) {
            pen_text_add_string(out, "in ");
            pen_op_print(op, out);
        } else {
            add_outside(entry, out);
        }
        add_for(view, local_rank, out);
    } else if (number == HOPS_TOLD + 1) {
        pen_text_add_string(out, ", and so on");
    }
}

static void describe_here(const struct pen__node_view *view,
                          uint32_t local_rank, struct pen_text *out)
{
    const struct pen__rank_view *rank = &view->ranks[local_rank];
    const struct pen_board_entry *entry = &rank->entry;
    const struct pen_op *op = op_of(view->schedule, entry);
    pen_text_add(out, "root of the wait: rank %u on %s has been ", entry->rank,
                 view->host);
    if (op != NULL) {
        pen_text_add_string(out, "in ");
        pen_op_print(op, out);
        pen_text_add(out, " of step %" PRIu64, entry->step);
    } else {
        pen_text_add_string(out, pen_board_state_words(entry->state));
        if (entry->step > 0)
            pen_text_add(out, " at step %" PRIu64, entry->step);
    }
    pen_text_add(out, " for %.1f s, state %s", since_sec(view, entry),
                 pen__process_words(&rank->process));
    if (op != NULL)
        add_op_words(op, out);
}

/*
 * Finds the op of the other rank that this op needs; false when there is none.
 */
static bool owed_op(const struct pen_schedule *schedule,
                    const struct pen_op *op, uint32_t *stage, unsigned *kind)
{
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_op_info *info = pen_op_info(op->kind);
    enum pen_direction direction = (enum pen_direction)info->direction;
    bool is_act = direction == PEN_DIRECTION_ACT;
    bool is_send = info->op_class == PEN_OP_CLASS_SEND;
    *stage = is_send ? pen_shape_receiver(shape, op->stage, direction)
                     : pen_shape_sender(shape, op->stage, direction);
    if (is_send)
        *kind = is_act ? PEN_OP_RECV_ACT : PEN_OP_RECV_GRAD;
    else
        *kind = is_act ? PEN_OP_SEND_ACT : PEN_OP_SEND_GRAD;
    return *stage != PEN_NO_STAGE;
}

/* Adds what the schedule says about a rank of another node. */
static void describe_elsewhere(const struct pen__node_view *view,
                               uint32_t local_rank, struct pen_text *out)
{
    const struct pen_board_entry *entry = &view->ranks[local_rank].entry;
    const struct pen_op *op = op_of(view->schedule, entry);
    uint32_t stage = 0;
    unsigned kind = 0;
    if (waits_for_all(entry)) {
        pen_text_add_string(out,
                            "root of the wait: a rank of another node that "
                            "has not come");
        return;
    }
    pen_text_add(out,
                 "root of the wait: rank %u or a rank that it waits for, on "
                 "another node",
                 entry->waits_for);
    if (op == NULL || !owed_op(view->schedule, op, &stage, &kind))
        return;
    struct pen_op owed =
        pen_op_make((enum pen_op_kind)kind, stage, op->microbatch);
    owed.slice = op->slice;
    pen_text_add_string(out, "; it has not reached ");
    pen_op_print(&owed, out);
    pen_text_add_string(out, " (");
    add_words(&owed, out);
    pen_text_add_string(out, ")");
}

/* Returns a rank that is stopped and has not left, or NO_RANK. */
static uint32_t find_stopped(const struct pen__node_view *view)
{
    for (uint32_t i = 0; i < view->num_ranks; i++)
        if (view->ranks[i].process.state == 'T' &&
            view->ranks[i].entry.state != PEN_BOARD_FINISHED)
            return i;
    return NO_RANK;
}

static void describe_root(const struct pen__node_view *view,
                          const struct pen__root *root, struct pen_text *out)
{
    uint32_t world_rank = view->ranks[root->local_rank].entry.rank;
    switch (root->kind) {
    case PEN__ROOT_HERE:
        describe_here(view, root->local_rank, out);
        break;
    case PEN__ROOT_ELSEWHERE:
        describe_elsewhere(view, root->local_rank, out);
        break;
    case PEN__ROOT_CIRCLE:
        pen_text_add(out,
                     "root of the wait: none, rank %u waits for ranks that "
                     "wait for it",
                     world_rank);
        break;
    case PEN__ROOT_ALL:
        pen_text_add_string(out,
                            "root of the wait: none, all ranks have come and "
                            "none of them continues");
        break;
    case PEN__ROOT_LEFT:
        pen_text_add(out, "root of the wait: rank %u on %s has left the job",
                     world_rank, view->host);
        break;
    }
}

void pen__wait_describe(const struct pen__node_view *view, uint32_t local_rank,
                        struct pen_text *out)
{
    size_t length = out->length;
    struct pen__root root = follow(view, local_rank, describe_hop, out);
    uint32_t stopped = find_stopped(view);
    if (out->length > length)
        pen_text_add_string(out, "; ");
    if (stopped != NO_RANK &&
        !pen__process_is_halted(&view->ranks[root.local_rank].process))
        root =
            (struct pen__root){.kind = PEN__ROOT_HERE, .local_rank = stopped};
    describe_root(view, &root, out);
}
