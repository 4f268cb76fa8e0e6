/* Gradients of parameters that several pieces have; see chain.h. */
#include "engine/mirror.h"
#include "group/tree.h"
#include "network/chain.h"

#include <stdlib.h>
#include <string.h>

struct pen__copies {
    const struct pen_network *network;
    struct pen_mirror to;
    struct pen_mirror from;
    size_t most;     /* members of a set */
    size_t *members; /* of one set, in the order of their pieces */
};

static bool is_same(const struct pen_network_parameter *a,
                    const struct pen_network_parameter *b)
{
    return a->layer == b->layer && a->slices[0].tensor == b->slices[0].tensor &&
           memcmp(&a->slices[0].piece, &b->slices[0].piece,
                  sizeof a->slices[0].piece) == 0;
}

/* The first of them is no copy; returns how many there are. */
static size_t find_set(const struct pen_network *network, size_t first,
                       size_t *members)
{
    size_t count = 0;
    for (size_t i = first; i < network->num_parameters; i++) {
        const struct pen_network_parameter *it = &network->parameters[i];
        if (it->layer != network->parameters[first].layer)
            break;
        if (i == first ||
            (it->is_copy && is_same(it, &network->parameters[first])))
            members[count++] = i;
    }
    return count;
}

pen_status pen__copies_create(struct pen_network *network)
{
    size_t largest = 0;
    for (size_t i = 0; i < network->num_parameters; i++) {
        const struct pen_network_parameter *it = &network->parameters[i];
        if (it->is_copy && pen_network_count(it) > largest)
            largest = pen_network_count(it);
    }
    if (largest == 0 || network->options.is_forward_only)
        return PEN_OK;
    struct pen__copies *copies = calloc(1, sizeof *copies);
    network->copies = copies;
    if (copies == NULL)
        return PEN_NOMEM;
    copies->network = network;
    copies->members =
        calloc(network->options.tensor.count, sizeof *copies->members);
    pen_status status =
        pen_mirror_init(&copies->to, network->options.engine, largest);
    if (status == PEN_OK)
        status =
            pen_mirror_init(&copies->from, network->options.engine, largest);
    return copies->members == NULL ? PEN_NOMEM : status;
}

void pen__copies_free(struct pen__copies *copies)
{
    if (copies == NULL)
        return;
    pen_mirror_release(&copies->to);
    pen_mirror_release(&copies->from);
    free(copies->members);
    free(copies);
}

static struct pen_mirror_piece gradient_of(const struct pen__copies *copies,
                                           size_t member)
{
    const struct pen_network_parameter *it =
        &copies->network->parameters[copies->members[member]];
    return (struct pen_mirror_piece){.parameter = it->parameter,
                                     .part = PEN_PART_GRADIENT,
                                     .count = pen_network_count(it)};
}

/* Adds one gradient to another, or puts it in its place. */
static void join(struct pen__copies *copies, size_t from, size_t to, bool adds)
{
    const struct pen_mirror_piece source = gradient_of(copies, from);
    const struct pen_mirror_piece target = gradient_of(copies, to);
    const void *in = pen_mirror_show(&copies->from, &source);
    void *out = pen_mirror_show(&copies->to, &target);
    bool is_double =
        copies->network->options.engine->dtype == PEN_PRECISION_F64;
    if (!adds)
        memcpy(out, in,
               source.count * (is_double ? sizeof(double) : sizeof(float)));
    for (size_t i = 0; i < source.count && adds; i++) {
        if (is_double)
            ((double *)out)[i] += ((const double *)in)[i];
        else
            ((float *)out)[i] += ((const float *)in)[i];
    }
    pen_mirror_put(&copies->to);
}

void pen__copies_sum(struct pen__copies *copies)
{
    const struct pen_network *network = copies->network;
    for (size_t i = 0; i < network->num_parameters; i++) {
        if (network->parameters[i].is_copy)
            continue;
        size_t count = find_set(network, i, copies->members);
        for (struct pen_tree at = {.size = (uint32_t)count};
             count > 1 && pen_tree_next(&at);)
            join(copies, at.from, at.to, true);
        for (size_t k = 1; k < count; k++)
            join(copies, 0, k, false);
    }
}
