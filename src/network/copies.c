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
    void *received;  /* of another member */
    size_t *members; /* of one set, in the order of their pieces */
    uint32_t summed; /* layers from here on have their sums */
};

static bool is_same(const struct pen_network_parameter *a,
                    const struct pen_network_parameter *b)
{
    return a->layer == b->layer && a->slices[0].tensor == b->slices[0].tensor &&
           memcmp(&a->slices[0].piece, &b->slices[0].piece,
                  sizeof a->slices[0].piece) == 0;
}

/*
 * Counts the parameters here that are copies of `first`, itself included; 0
 * where an earlier one is a copy.
 */
static size_t find_set(const struct pen_network *network, size_t first,
                       size_t *members)
{
    const struct pen_network_parameter *all = network->parameters;
    size_t begin = first, count = 0;
    while (begin > 0 && all[begin - 1].layer == all[first].layer)
        begin--;
    for (size_t i = begin;
         i < network->num_parameters && all[i].layer == all[first].layer; i++)
        if (is_same(&all[i], &all[first]))
            members[count++] = i;
    return members[0] == first ? count : 0;
}

static size_t bytes_of(const struct pen__copies *copies, size_t count)
{
    return count * pen_precision_bytes(pen_precision_master(
                       copies->network->options.engine->dtype));
}

pen_status pen__copies_create(struct pen_network *network)
{
    size_t largest = 0;
    for (size_t i = 0; i < network->num_parameters; i++) {
        const struct pen_network_parameter *it = &network->parameters[i];
        if (it->num_sharing > 1 && pen_network_count(it) > largest)
            largest = pen_network_count(it);
    }
    if (largest == 0 || network->options.is_forward_only)
        return PEN_OK;
    struct pen__copies *copies = calloc(1, sizeof *copies);
    network->copies = copies;
    if (copies == NULL)
        return PEN_NOMEM;
    copies->network = network;
    copies->summed = UINT32_MAX;
    copies->members =
        calloc(network->options.tensor.count, sizeof *copies->members);
    copies->received = malloc(bytes_of(copies, largest));
    pen_status status =
        pen_mirror_init(&copies->to, network->options.engine, largest);
    if (status == PEN_OK)
        status =
            pen_mirror_init(&copies->from, network->options.engine, largest);
    return copies->members == NULL || copies->received == NULL ? PEN_NOMEM
                                                               : status;
}

void pen__copies_free(struct pen__copies *copies)
{
    if (copies == NULL)
        return;
    pen_mirror_release(&copies->to);
    pen_mirror_release(&copies->from);
    free(copies->members);
    free(copies->received);
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
    if (adds)
        pen__add_masters(bytes_of(copies, 1), out, in, source.count);
    else
        memcpy(out, in, bytes_of(copies, source.count));
    pen_mirror_put(&copies->to);
}

/* Sums the first one here and those that other members have. */
static void join_members(struct pen__copies *copies, uint32_t num_sharing)
{
    const struct pen_tensor_share *tensor = &copies->network->options.tensor;
    struct pen_group *group = tensor->group;
    const struct pen_mirror_piece piece = gradient_of(copies, 0);
    for (uint32_t apart = 1;
         group != NULL && apart * tensor->count < num_sharing; apart *= 2) {
        void *mine = pen_mirror_show(&copies->to, &piece);
        pen__exchange(group, group->self ^ apart, mine, copies->received,
                      bytes_of(copies, piece.count));
        pen__add_masters(bytes_of(copies, 1), mine, copies->received,
                         piece.count);
    }
}

void pen__copies_clear(struct pen__copies *copies)
{
    copies->summed = UINT32_MAX;
}

void pen__copies_sum(struct pen__copies *copies, uint32_t first)
{
    const struct pen_network *network = copies->network;
    for (size_t i = 0; i < network->num_parameters; i++) {
        uint32_t layer = network->parameters[i].layer;
        uint32_t num_sharing = network->parameters[i].num_sharing;
        bool is_due =
            num_sharing > 1 && layer >= first && layer < copies->summed;
        size_t count = is_due ? find_set(network, i, copies->members) : 0;
        if (count == 0)
            continue;
        for (struct pen_tree at = {.size = (uint32_t)count};
             count > 1 && pen_tree_next(&at);)
            join(copies, at.from, at.to, true);
        join_members(copies, num_sharing);
        for (size_t k = 1; k < count; k++)
            join(copies, 0, k, false);
    }
    copies->summed = first < copies->summed ? first : copies->summed;
}
