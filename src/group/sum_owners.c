/*
 * Sums that members add up for each other, each its share of the array, or one
 * of them all of it:
 *
 *   IDLE --begin--> IN --all have come: added up--> OUT --all are back--> IDLE
 *
 * Numbers of the other members are staged in the order of members, and of their
 * nodes where they have several leaves of the tree. The place of this member
 * there is free: messages without the rows that are zero are made in it.
 */
#include "base/bug.h"
#include "group/sparse_rows.h"
#include "group/sum_internal.h"
#include "group/tree.h"

#include <string.h>

size_t pen__sum_owners_stride(const struct pen_sum_options *options)
{
    size_t size = options->group->size;
    size_t share = options->route == PEN_SUM_OWNER
                       ? options->most
                       : (options->most + size - 1) / size;
    return share + (options->is_sparse ? 1 : 0);
}

static char *staged_at(const struct pen_sum *sum, uint32_t member,
                       uint32_t node)
{
    return sum->staged + (sum->first_node[member] + node) *
                             pen__sum_owners_stride(&sum->options) *
                             pen__sum_element(sum);
}

static char *staged_of(const struct pen_sum *sum, uint32_t member)
{
    return staged_at(sum, member, 0);
}

static uint32_t nodes_of(const struct pen_sum *sum, uint32_t member)
{
    return sum->first_node[member + 1] - sum->first_node[member];
}

static struct pen__range share_of(const struct pen_sum *sum, uint32_t member)
{
    struct pen__range range = {0, 0};
    if (sum->options.route == PEN_SUM_SHARES)
        pen_sum_share(sum->options.group->size, member, sum->job.count,
                      &range.first, &range.count);
    else if (member == sum->job.owner)
        range.count = sum->job.count;
    return range;
}

static char *at(const struct pen_sum *sum, struct pen__range range)
{
    return (char *)sum->job.values + range.first * pen__sum_element(sum);
}

static bool is_sparse(const struct pen_sum *sum)
{
    return sum->job.width > 0;
}

static size_t rows_of(const struct pen_sum *sum)
{
    return sum->job.count / sum->job.width;
}

/* ---- messages ---- */

static void receive(struct pen_sum *sum, uint32_t from, uint32_t channel,
                    uint32_t node, char *to, size_t count)
{
    size_t bytes = is_sparse(sum)
                       ? pen_sparse_rows_most(rows_of(sum), sum->job.width)
                       : count * pen__sum_element(sum);
    if (count > 0)
        pen_group_receive(sum->options.group, from, channel, to, bytes,
                          &sum->receives[from * sum->most_nodes + node]);
}

/* Sends values; a message is packed once, even if several members get it. */
static void send_values(struct pen_sum *sum, uint32_t to, uint32_t channel,
                        struct pen__range range, size_t packed)
{
    const char *bytes = is_sparse(sum)
                            ? staged_of(sum, sum->options.group->self)
                            : at(sum, range);
    if (range.count > 0)
        pen_group_send(sum->options.group, to, channel, bytes,
                       is_sparse(sum) ? packed
                                      : range.count * pen__sum_element(sum),
                       &sum->sends[(size_t)to * sum->most_nodes]);
}

/* Sends all nodes but the last, one after the other. */
static void send_nodes(struct pen_sum *sum, uint32_t to, uint32_t channel,
                       struct pen__range range)
{
    uint32_t count = nodes_of(sum, sum->options.group->self) - 1;
    for (uint32_t i = 0; i < count && range.count > 0; i++)
        pen_group_send(sum->options.group, to, channel, sum->job.nodes[i],
                       range.count * pen__sum_element(sum),
                       &sum->sends[to * sum->most_nodes + 1 + i]);
}

/* Sends to one member and receives from another, `turn` before this one. */
static void post(struct pen_sum *sum, uint32_t turn, size_t packed)
{
    uint32_t size = sum->options.group->size, self = sum->options.group->self;
    uint32_t to = (self + turn) % size, from = (self + size - turn) % size;
    uint32_t channel = sum->options.channel;
    if (sum->state == PEN__SUM_IN) {
        for (uint32_t i = 0; i < nodes_of(sum, from); i++)
            receive(sum, from, channel, i, staged_at(sum, from, i),
                    share_of(sum, self).count);
        send_nodes(sum, to, channel, share_of(sum, to));
        send_values(sum, to, channel, share_of(sum, to), packed);
        return;
    }
    struct pen__range back = share_of(sum, from);
    channel += 1 + sum->job.further_channel;
    receive(sum, from, channel, 0,
            is_sparse(sum) ? staged_of(sum, self) : at(sum, back), back.count);
    send_values(sum, to, channel, share_of(sum, self), packed);
}

static bool takes_turns(const struct pen_sum *sum)
{
    size_t bytes = sum->job.count * sizeof(float) / sum->options.group->size;
    return sum->options.route == PEN_SUM_SHARES && bytes > PEN_SUM_LONG_SHARE;
}

/*
 * Returns whether this member is the one that sends now, where one alone adds.
 */
static bool is_sender(const struct pen_sum *sum)
{
    bool is_owner = sum->options.group->self == sum->job.owner;
    return is_owner == (sum->state == PEN__SUM_OUT);
}

static void post_all(struct pen_sum *sum)
{
    size_t packed = 0;
    if (is_sparse(sum) && is_sender(sum))
        packed =
            pen_sparse_rows_pack(sum->job.values, rows_of(sum), sum->job.width,
                                 staged_of(sum, sum->options.group->self));
    sum->step = takes_turns(sum) ? 1 : 0;
    if (sum->step > 0)
        post(sum, sum->step, packed);
    for (uint32_t i = 1; i < sum->options.group->size && sum->step == 0; i++)
        post(sum, i, packed);
}

/* Takes a turn; true when there was a further one. */
static bool take_turn(struct pen_sum *sum)
{
    if (sum->step == 0 || sum->step + 1 == sum->options.group->size)
        return false;
    post(sum, ++sum->step, 0);
    return true;
}

/* ---- what has come ---- */

/* Messages to rows, each where it lies. */
static void fill_in_zeros(struct pen_sum *sum)
{
    size_t rows = rows_of(sum), width = sum->job.width;
    uint32_t self = sum->options.group->self;
    char *aside = staged_of(sum, self);
    for (uint32_t k = 0; k < sum->options.group->size; k++) {
        char *staged = staged_of(sum, k);
        if (k == self)
            continue;
        memcpy(aside, staged, pen_sparse_rows_bytes(staged, rows, width));
        pen_sparse_rows_unpack(aside, rows, width, (float *)(void *)staged);
    }
}

/* Shows the arrays of a member's nodes, each where its first leaf is. */
static void show_nodes(struct pen_sum *sum, uint32_t member, char *own)
{
    uint32_t first = sum->first_leaf[member], end = sum->first_leaf[member + 1];
    uint32_t last = nodes_of(sum, member) - 1;
    bool is_here = member == sum->options.group->self;
    for (uint32_t node = 0; first < end; node++) {
        uint32_t next = first + pen_tree_node(first, end);
        sum->sums[first] = !is_here      ? staged_at(sum, member, node)
                           : node < last ? sum->job.nodes[node]
                                         : own;
        while (++first < next)
            sum->sums[first] = NULL;
    }
}

static void add_up(struct pen_sum *sum)
{
    uint32_t size = sum->options.group->size, self = sum->options.group->self;
    struct pen__range own = share_of(sum, self);
    if (own.count == 0)
        return;
    if (is_sparse(sum))
        fill_in_zeros(sum);
    for (uint32_t k = 0; k < size; k++)
        show_nodes(sum, k, at(sum, own));
    for (struct pen_tree it = {.size = sum->num_leaves}; pen_tree_next(&it);)
        if (sum->sums[it.from] != NULL)
            pen__sum_add(sum, sum->sums[it.to], sum->sums[it.from], own.count);
    if (sum->sums[0] != at(sum, own))
        memcpy(at(sum, own), sum->sums[0], own.count * pen__sum_element(sum));
}

/* ---- progress ---- */

void pen__sum_owners_begin(struct pen_sum *sum)
{
    PEN_BUG_UNLESS(!is_sparse(sum) ||
                   (sum->options.is_sparse && !sum->options.is_double &&
                    sum->options.route == PEN_SUM_OWNER));
    post_all(sum);
}

static bool is_quiet(struct pen_sum *sum)
{
    struct pen_group *group = sum->options.group;
    size_t most = sum->most_nodes, all = group->size * most;
    if (sum->options.route == PEN_SUM_OWNER) {
        struct pen_group_request *own =
            is_sender(sum) ? sum->sends : sum->receives;
        return group->self == sum->job.owner
                   ? pen_group_is_done(group, own, all)
                   : pen_group_is_done(group, &own[sum->job.owner * most],
                                       most);
    }
    bool have_left = pen_group_is_done(group, sum->sends, all);
    return pen_group_is_done(group, sum->receives, all) && have_left;
}

void pen__sum_owners_poll(struct pen_sum *sum)
{
    while (sum->state != PEN__SUM_IDLE && is_quiet(sum)) {
        if (take_turn(sum))
            continue;
        bool was_in = sum->state == PEN__SUM_IN;
        if (was_in)
            add_up(sum);
        else if (is_sparse(sum) && !is_sender(sum))
            pen_sparse_rows_unpack(staged_of(sum, sum->options.group->self),
                                   rows_of(sum), sum->job.width,
                                   sum->job.values);
        sum->state = PEN__SUM_IDLE;
        if (!was_in || !(sum->job.way & PEN_SUM_OUT))
            return;
        sum->state = PEN__SUM_OUT;
        post_all(sum);
    }
}
