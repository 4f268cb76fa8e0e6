#include "group/sum.h"

#include "base/bug.h"
#include "base/clones.h"
#include "group/sum_internal.h"
#include "group/tree.h"

#include <stdlib.h>
#include <string.h>

PEN_CLONES void pen_add_floats(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

void pen__sum_add(const struct pen_sum *sum, void *to, const void *from,
                  size_t count)
{
    double *numbers = to;
    const double *others = from;
    if (!sum->options.is_double) {
        pen_add_floats(to, from, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        numbers[i] += others[i];
}

void pen_sum_share(uint32_t num_members, uint32_t member, size_t count,
                   size_t *first, size_t *share)
{
    PEN_BUG_UNLESS(num_members > 0);
    size_t begin = count * member / num_members;
    *first = begin;
    *share = count * ((size_t)member + 1) / num_members - begin;
}

/* ---- making ---- */

static size_t staged_count(const struct pen_sum *sum)
{
    const struct pen_sum_options *options = &sum->options;
    switch (options->route) {
    case PEN_SUM_SHARES:
    case PEN_SUM_OWNER:
        return sum->first_node[options->group->size] *
               pen__sum_owners_stride(options);
    case PEN_SUM_HOPS:
        return options->most;
    case PEN_SUM_FAST:
        break;
    }
    return pen__sum_fast_staged(options);
}

size_t pen_sum_bytes(const struct pen_sum *sum)
{
    return staged_count(sum) * pen__sum_element(sum);
}

/* Counts the leaves of members, and the nodes that these make up. */
static pen_status count_nodes(struct pen_sum *sum)
{
    uint32_t size = sum->options.group->size;
    const uint32_t *leaves = sum->options.leaves;
    sum->first_leaf = calloc((size_t)size + 1, sizeof *sum->first_leaf);
    sum->first_node = calloc((size_t)size + 1, sizeof *sum->first_node);
    if (sum->first_leaf == NULL || sum->first_node == NULL)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < size; k++) {
        uint32_t first = sum->first_leaf[k];
        uint32_t end = first + (leaves == NULL ? 1 : leaves[k]);
        uint32_t nodes = pen_tree_count_nodes(first, end);
        sum->first_leaf[k + 1] = end;
        sum->first_node[k + 1] = sum->first_node[k] + nodes;
        sum->most_nodes = nodes > sum->most_nodes ? nodes : sum->most_nodes;
    }
    sum->num_leaves = sum->first_leaf[size];
    sum->options.leaves = NULL;
    return PEN_OK;
}

/* Touched now and not in a step. */
pen_status pen_sum_create(const struct pen_sum_options *options,
                          struct pen_sum **out)
{
    uint32_t size = options->group->size;
    PEN_BUG_UNLESS(options->leaves == NULL ||
                   (options->route == PEN_SUM_OWNER && !options->is_sparse));
    struct pen_sum *sum = calloc(1, sizeof *sum);
    if (sum == NULL)
        return PEN_NOMEM;
    sum->options = *options;
    if (count_nodes(sum) != PEN_OK) {
        pen_sum_free(sum);
        return PEN_NOMEM;
    }
    size_t requests = (size_t)size * sum->most_nodes;
    PEN_BUG_UNLESS(requests > 0 && sum->num_leaves > 0);
    sum->staged = malloc(pen_sum_bytes(sum) + 1);
    sum->sums = calloc(sum->num_leaves, sizeof *sum->sums);
    sum->sends = calloc(requests, sizeof *sum->sends);
    sum->receives = calloc(requests, sizeof *sum->receives);
    if (sum->staged == NULL || sum->sums == NULL || sum->sends == NULL ||
        sum->receives == NULL) {
        pen_sum_free(sum);
        return PEN_NOMEM;
    }
    memset(sum->staged, 0, pen_sum_bytes(sum));
    *out = sum;
    return PEN_OK;
}

void pen_sum_free(struct pen_sum *sum)
{
    if (sum == NULL)
        return;
    free(sum->first_leaf);
    free(sum->first_node);
    free(sum->staged);
    free(sum->sums);
    free(sum->sends);
    free(sum->receives);
    free(sum);
}

/* ---- progress ---- */

void pen_sum_begin(struct pen_sum *sum, const struct pen_sum_job *job)
{
    const struct pen_group *group = sum->options.group;
    if (group->has_lost)
        return;
    PEN_BUG_UNLESS(sum->state == PEN__SUM_IDLE &&
                   job->count <= sum->options.most);
    sum->job = *job;
    if (group->size == 1)
        return;
    sum->state = job->way & PEN_SUM_IN ? PEN__SUM_IN : PEN__SUM_OUT;
    switch (sum->options.route) {
    case PEN_SUM_SHARES:
    case PEN_SUM_OWNER:
        pen__sum_owners_begin(sum);
        break;
    case PEN_SUM_HOPS:
        pen__sum_hops_begin(sum);
        break;
    case PEN_SUM_FAST:
        pen__sum_fast_begin(sum);
        break;
    }
}

static void go_on(struct pen_sum *sum)
{
    switch (sum->options.route) {
    case PEN_SUM_SHARES:
    case PEN_SUM_OWNER:
        pen__sum_owners_poll(sum);
        break;
    case PEN_SUM_HOPS:
        pen__sum_hops_poll(sum);
        break;
    case PEN_SUM_FAST:
        pen__sum_fast_poll(sum);
        break;
    }
}

pen_status pen_sum_poll(struct pen_sum *sum)
{
    const struct pen_group *group = sum->options.group;
    if (sum->state != PEN__SUM_IDLE && !group->has_lost)
        go_on(sum);
    if (group->has_lost)
        return PEN_LOST;
    return sum->state == PEN__SUM_IDLE || sum->state == PEN__SUM_LAST
               ? PEN_OK
               : PEN_BUSY;
}

bool pen_sum_is_quiet(struct pen_sum *sum)
{
    return pen_sum_poll(sum) == PEN_OK && sum->state == PEN__SUM_IDLE;
}

static bool is_quiet(void *context)
{
    return pen_sum_is_quiet(context);
}

pen_status pen_sum_wait(struct pen_sum *sum)
{
    return pen_group_wait_until(sum->options.group, is_quiet, sum,
                                PEN_GROUP_NEVER);
}
