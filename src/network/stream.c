/* Rows between products that are cut; see stream.h. */
#include "network/stream.h"

#include "group/tree.h"

#include <stdlib.h>

/* ---- messages ---- */

size_t pen__stream_num_requests(const struct pen_group *group)
{
    return 2 * (size_t)(group->size - 1);
}

struct pending {
    struct pen_group *group;
    struct pen_group_request *requests;
};

static bool is_done(void *context)
{
    struct pending *pending = context;
    return pen_group_is_done(pending->group, pending->requests,
                             pen__stream_num_requests(pending->group));
}

static void await(const struct pen__pass *pass)
{
    struct pending pending = {pass->tensor->group, pass->requests};
    pen_group_wait(pending.group, is_done, &pending);
}

/* Each member sends its part to all others. */
const void *pen__gather_rows(const struct pen__pass *pass, size_t bytes,
                             const void *own, void *room)
{
    struct pen_group *group = pass->tensor->group;
    struct pen_group_request *request = pass->requests;
    if (!pen_tensor_shares_rows(pass->tensor))
        return own;
    size_t part = bytes / group->size;
    pass->engine->ops->copy(pass->engine, own,
                            pen__at(room, group->self * part), part);
    for (uint32_t member = 0; member < group->size; member++) {
        if (member == group->self)
            continue;
        pen_group_receive(group, member, 0, pen__at(room, member * part), part,
                          request++);
        pen_group_send(group, member, 0, own, part, request++);
    }
    await(pass);
    return room;
}

/* Each member sends to every other one that one's part of its results. */
static void exchange_parts(const struct pen__pass *pass, size_t part,
                           void *results, void *received)
{
    struct pen_group *group = pass->tensor->group;
    struct pen_group_request *request = pass->requests;
    for (uint32_t member = 0; member < group->size; member++) {
        if (member == group->self)
            continue;
        pen_group_receive(group, member, 0, received, part, request++);
        pen_group_send(group, member, 0, pen__at(results, member * part), part,
                       request++);
        received = pen__at(received, part);
    }
    await(pass);
}

/* The part of a member's results that this member adds. */
static void *part_of(const struct pen_group *group, uint32_t member,
                     size_t part, void *results, void *received)
{
    if (member == group->self)
        return pen__at(results, member * part);
    return pen__at(received, (member - (member > group->self)) * part);
}

static void scatter(const struct pen__pass *pass, size_t elements, void *sum,
                    void *results, void *received)
{
    const struct pen_group *group = pass->tensor->group;
    struct pen_engine *engine = pass->engine;
    size_t count = elements / group->size;
    size_t part = count * pen_precision_bytes(engine->dtype);
    exchange_parts(pass, part, results, received);
    for (struct pen_tree at = {.size = group->size}; pen_tree_next(&at);) {
        void *to = part_of(group, at.to, part, results, received);
        bool is_last = 2 * at.step >= group->size;
        engine->ops->add(engine, count, to,
                         part_of(group, at.from, part, results, received),
                         is_last ? sum : to);
    }
}

void pen__sum_pieces(const struct pen__pass *pass, size_t elements, void *sum,
                     void *others)
{
    struct pen_engine *engine = pass->engine;
    const struct pen_tensor_share *tensor = pass->tensor;
    struct pen_group *group = tensor->group;
    size_t bytes = elements * pen_precision_bytes(engine->dtype);
    for (struct pen_tree at = {.size = tensor->count};
         tensor->count > 1 && pen_tree_next(&at);) {
        void *to = pen__piece_result(tensor, at.to, bytes, sum, others);
        engine->ops->add(engine, elements, to,
                         pen__piece_result(tensor, at.from, bytes, sum, others),
                         to);
    }
    if (pen_tensor_shares_rows(tensor)) {
        scatter(pass, elements, sum, others,
                pen__at(others, pen__align(bytes)));
        return;
    }
    for (uint32_t apart = 1; group != NULL && apart < group->size; apart *= 2) {
        pen__exchange(group, group->self ^ apart, sum, others, bytes);
        engine->ops->add(engine, elements, sum, others, sum);
    }
}

/* ---- norms ---- */

static pen_status add_copies(struct pen__norm *norm,
                             struct pen_network *network, uint32_t layer,
                             enum pen_part gain, enum pen_part bias,
                             struct pen_text *why)
{
    const struct pen_tensor_share *tensor = &network->options.tensor;
    size_t rows = pen__shape_of(&network->options).rows / tensor->total;
    pen_status status = PEN_OK;
    network->adding_shared = tensor->total;
    for (uint32_t i = 0; i < norm->num_parts && status == PEN_OK; i++) {
        network->adding_piece = tensor->first + i;
        network->is_adding_copies = network->adding_piece > 0;
        status = pen__add_norm(network, layer, gain, bias, rows,
                               &norm->parts[i], why);
    }
    network->adding_shared = 0;
    network->adding_piece = 0;
    network->is_adding_copies = false;
    return status;
}

pen_status pen__norm_init(struct pen__norm *norm, struct pen_network *network,
                          uint32_t layer, enum pen_part gain,
                          enum pen_part bias, struct pen_text *why)
{
    const struct pen_tensor_share *tensor = &network->options.tensor;
    size_t rows = pen__shape_of(&network->options).own_rows;
    *norm = (struct pen__norm){.num_parts = 1};
    if (!tensor->cuts_rows)
        return pen__add_norm(network, layer, gain, bias, rows, &norm->all, why);
    norm->parts = calloc(tensor->count, sizeof *norm->parts);
    if (norm->parts == NULL)
        return PEN_NOMEM;
    norm->num_parts = tensor->count;
    pen_status status = add_copies(norm, network, layer, gain, bias, why);
    norm->all = norm->parts[0];
    norm->all.rows = rows;
    return status;
}

void pen__norm_release(struct pen__norm *norm)
{
    free(norm->parts);
}

void pen__norm_backward_weight(const struct pen__norm *norm,
                               struct pen_engine *engine, const void *x,
                               const void *mean, const void *rstd,
                               const void *dy)
{
    size_t rows = norm->all.rows / norm->num_parts;
    size_t element = pen_precision_bytes(engine->dtype);
    size_t wide = rows * norm->all.width * element;
    size_t stat =
        rows * pen_precision_bytes(pen_precision_master(engine->dtype));
    for (uint32_t i = 0; i < norm->num_parts; i++)
        engine->ops->norm_backward_weight(
            engine, norm->parts == NULL ? &norm->all : &norm->parts[i],
            (const char *)x + i * wide, (const char *)mean + i * stat,
            (const char *)rstd + i * stat, (const char *)dy + i * wide);
}
