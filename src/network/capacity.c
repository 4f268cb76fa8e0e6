/*
 * Tokens that an expert has no room for. Their gates become 0, so the expert
 * gives them nothing and learns nothing from them; they keep their slots.
 *
 * Kept are the slots with the largest gates, of equal ones the first. The
 * smallest gate that is kept is found by halving the range of bit patterns of
 * doubles, which have the order of the numbers above 0: no sorting, and no
 * memory.
 */
#include "network/experts.h"

#include <math.h>
#include <string.h>

/* The slots of one expert, and the gates of all. */
struct queue {
    const int32_t *slots;
    size_t count;
    void *gates;
    size_t stat; /* bytes of a gate */
};

static double gate_at(const struct queue *queue, size_t index)
{
    size_t slot = (size_t)queue->slots[index];
    return queue->stat == sizeof(double)
               ? ((const double *)queue->gates)[slot]
               : (double)((const float *)queue->gates)[slot];
}

static double real_of(uint64_t bits)
{
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

static size_t count_above(const struct queue *queue, double limit)
{
    size_t count = 0;
    for (size_t i = 0; i < queue->count; i++)
        count += gate_at(queue, i) > limit;
    return count;
}

/* The smallest limit above which there are no more gates than `room`. */
static double find_limit(const struct queue *queue, size_t room)
{
    const double largest = HUGE_VAL;
    uint64_t low = 0, high;
    memcpy(&high, &largest, sizeof high);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (count_above(queue, real_of(middle)) > room)
            low = middle + 1;
        else
            high = middle;
    }
    return real_of(low);
}

/* A gate that is not a number stays, so that the loss shows it. */
static size_t drop_from(const struct queue *queue, size_t room)
{
    double limit = find_limit(queue, room);
    size_t above = count_above(queue, limit), dropped = 0;
    size_t equal = room > above ? room - above : 0;
    for (size_t i = 0; i < queue->count; i++) {
        double gate = gate_at(queue, i);
        if (!(gate <= limit))
            continue;
        if (gate >= limit && equal > 0) {
            equal--;
            continue;
        }
        memset((char *)queue->gates + (size_t)queue->slots[i] * queue->stat, 0,
               queue->stat);
        dropped++;
    }
    return dropped;
}

size_t pen__experts_room(size_t slots, uint32_t experts, double factor)
{
    double room = ceil((double)slots / experts * factor);
    return room < (double)slots ? (size_t)room : slots;
}

size_t pen__experts_drop(const struct pen__experts *experts,
                         const int32_t *order, const int32_t *tokens,
                         void *gates)
{
    size_t room = experts->capacity, dropped = 0;
    for (uint32_t e = 0; e < experts->num_experts; e++) {
        const struct queue queue = {order, (size_t)tokens[e], gates,
                                    experts->shape.stat};
        if (queue.count > room)
            dropped += drop_from(&queue, room);
        order += queue.count;
    }
    return dropped;
}

void pen__experts_drop_slots(struct pen__experts *self,
                             const struct pen__experts_pass *pass)
{
    if (self->capacity > 0 && !pass->is_forward_only)
        self->dropped =
            pen__experts_drop(self, pen__experts_seen(self, pass, self->order),
                              pen__experts_seen(self, pass, self->tokens),
                              pen__experts_seen(self, pass, self->gates));
}

/* Gives gates of dropped slots no slope. Other gates are positive: a softmax or
 * a sigmoid that underflows to 0 has no slope either. */
void pen__experts_close_dropped(const struct pen__experts *self,
                                const struct pen__experts_pass *pass)
{
    size_t stat = self->shape.stat, slots = self->shape.rows * self->chosen;
    struct pen_engine *engine = pass->engine;
    char *computed = pen__at(pass->scratch, self->gate_gradient);
    char *gradients =
        self->view == NULL ? computed : self->view + self->routing_bytes;
    const int32_t *order = pen__experts_seen(self, pass, self->order);
    const struct queue all = {order, slots,
                              pen__experts_seen(self, pass, self->gates), stat};
    if (self->capacity == 0)
        return;
    if (self->view != NULL) {
        engine->ops->copy(engine, computed, gradients, slots * stat);
        pen_engine_await(engine);
    }
    for (size_t i = 0; i < slots; i++)
        if (fpclassify(gate_at(&all, i)) == FP_ZERO)
            memset(gradients + (size_t)order[i] * stat, 0, stat);
    if (self->view != NULL)
        engine->ops->copy(engine, gradients, computed, slots * stat);
}
