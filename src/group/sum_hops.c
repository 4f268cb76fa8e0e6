/*
 * Sums along the tree itself (tree.h): a member adds what comes from those
 * below it, one level after another, sends that on, and hears the total.
 *
 *   IDLE --begin--> IN --part sent--> OUT --total--> LAST --sent on--> IDLE
 *
 * Member k is below k - s, where s is the lowest bit of k. Values belong to the
 * caller again from LAST on, so that the total is sent from a copy.
 */
#include "base/bug.h"
#include "group/sum_internal.h"

#include <string.h>

enum { LEVELS = 32 }; /* more members than 2 to that have no numbers */

static size_t length_of(const struct pen_sum *sum)
{
    return sum->job.count * pen__sum_element(sum);
}

static bool has_parent(const struct pen_sum *sum)
{
    return (sum->options.group->self & sum->step) != 0;
}

/* Awaits the next member below this one, if there is one. */
static void await_next(struct pen_sum *sum)
{
    struct pen_group *group = sum->options.group;
    if (!has_parent(sum) && group->self + sum->step < group->size)
        pen_group_receive(group, group->self + sum->step, sum->options.channel,
                          sum->staged, length_of(sum), &sum->receives[0]);
}

void pen__sum_hops_begin(struct pen_sum *sum)
{
    PEN_BUG_UNLESS(sum->job.way == PEN_SUM_BOTH);
    sum->step = 1;
    await_next(sum);
}

/* Sends the part of this member and those below it to the one above. */
static void rise(struct pen_sum *sum)
{
    struct pen_group *group = sum->options.group;
    uint32_t parent = group->self - sum->step;
    sum->state = PEN__SUM_OUT;
    if (!has_parent(sum)) {
        memcpy(sum->staged, sum->job.values, length_of(sum));
        return;
    }
    pen_group_send(group, parent, sum->options.channel, sum->job.values,
                   length_of(sum), &sum->sends[0]);
    pen_group_receive(group, parent, sum->options.channel + 1, sum->staged,
                      length_of(sum), &sum->receives[0]);
}

/* Adds one level that has come. */
static void add_level(struct pen_sum *sum)
{
    const struct pen_group *group = sum->options.group;
    if (group->self + sum->step < group->size)
        pen__sum_add(sum, sum->job.values, sum->staged, sum->job.count);
    sum->step *= 2;
    await_next(sum);
}

/* Sends down, the farthest first: it has the longest way to go. */
static void spread(struct pen_sum *sum)
{
    struct pen_group *group = sum->options.group;
    uint32_t num_sends = 0;
    memcpy(sum->job.values, sum->staged, length_of(sum));
    for (uint32_t step = sum->step / 2; step > 0; step /= 2)
        if (group->self + step < group->size)
            pen_group_send(group, group->self + step, sum->options.channel + 1,
                           sum->staged, length_of(sum),
                           &sum->sends[num_sends++]);
    sum->state = PEN__SUM_LAST;
}

void pen__sum_hops_poll(struct pen_sum *sum)
{
    struct pen_group *group = sum->options.group;
    while (sum->state == PEN__SUM_IN &&
           pen_group_is_done(group, sum->receives, 1)) {
        if (has_parent(sum) || sum->step >= group->size)
            rise(sum);
        else
            add_level(sum);
    }
    if (sum->state == PEN__SUM_OUT && pen_group_is_done(group, sum->sends, 1) &&
        pen_group_is_done(group, sum->receives, 1))
        spread(sum);
    if (sum->state == PEN__SUM_LAST &&
        pen_group_is_done(group, sum->sends,
                          group->size < LEVELS ? group->size : LEVELS))
        sum->state = PEN__SUM_IDLE;
}
