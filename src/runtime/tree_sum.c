#include "runtime/tree_sum.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

enum { CHILDREN = 2 };

enum state { IDLE, GATHERING, RISING };

struct pen_tree_sum {
    struct pen_transport *transport;
    size_t count;
    uint32_t rank;
    uint32_t num_children;
    enum state state;
    double *values;          /* of the caller */
    double *parts[CHILDREN]; /* of the children */
    double *total;           /* from the parent, and on its way to them */
    struct pen_request children[CHILDREN];
    struct pen_request part; /* to the parent */
    struct pen_request parent;
};

/* What goes up, and what comes down. */
enum { PART, TOTAL };

static struct pen_tag tag_of(uint32_t what)
{
    return (struct pen_tag){PEN_TAG_TOTAL, what};
}

static size_t length_of(const struct pen_tree_sum *sum)
{
    return sum->count * sizeof *sum->values;
}

static uint32_t child_of(const struct pen_tree_sum *sum, uint32_t index)
{
    return CHILDREN * sum->rank + 1 + index;
}

pen_status pen_tree_sum_create(struct pen_transport *transport, size_t count,
                               struct pen_tree_sum **out)
{
    struct pen_tree_sum *sum = calloc(1, sizeof *sum);
    if (sum == NULL)
        return PEN_NOMEM;
    *sum = (struct pen_tree_sum){.transport = transport,
                                 .count = count,
                                 .rank = pen_transport_rank(transport)};
    while (sum->num_children < CHILDREN &&
           child_of(sum, sum->num_children) < pen_transport_size(transport))
        sum->num_children++;
    sum->total = calloc(count, sizeof *sum->total);
    bool has_all = sum->total != NULL;
    for (uint32_t i = 0; i < sum->num_children; i++) {
        sum->parts[i] = calloc(count, sizeof *sum->parts[i]);
        has_all = has_all && sum->parts[i] != NULL;
    }
    if (has_all)
        *out = sum;
    else
        pen_tree_sum_free(sum);
    return has_all ? PEN_OK : PEN_NOMEM;
}

void pen_tree_sum_free(struct pen_tree_sum *sum)
{
    if (sum == NULL)
        return;
    for (uint32_t i = 0; i < CHILDREN; i++)
        free(sum->parts[i]);
    free(sum->total);
    free(sum);
}

size_t pen_tree_sum_bytes(const struct pen_tree_sum *sum)
{
    return (sum->num_children + 1) * length_of(sum);
}

/* Whether what was sent to the children, or comes from them, is through. */
bool pen_tree_sum_is_quiet(struct pen_tree_sum *sum)
{
    bool is_all = true;
    for (uint32_t i = 0; i < sum->num_children; i++)
        if (pen_transport_test(sum->transport, &sum->children[i]) != PEN_OK)
            is_all = false;
    return is_all;
}

void pen_tree_sum_start(struct pen_tree_sum *sum, double *values)
{
    PEN_BUG_UNLESS(sum->state == IDLE);
    sum->values = values;
    for (uint32_t i = 0; i < sum->num_children; i++) {
        PEN_BUG_UNLESS(!sum->children[i].is_active);
        pen_transport_receive(sum->transport, child_of(sum, i), tag_of(PART),
                              sum->parts[i], length_of(sum), &sum->children[i]);
    }
    sum->state = GATHERING;
}

static void add_parts(struct pen_tree_sum *sum)
{
    for (uint32_t i = 0; i < sum->num_children; i++)
        for (size_t k = 0; k < sum->count; k++)
            sum->values[k] += sum->parts[i][k];
}

/* The root has the total; others send their part and wait for it. */
static void rise(struct pen_tree_sum *sum)
{
    uint32_t parent = (sum->rank - 1) / CHILDREN;
    sum->state = RISING;
    if (sum->rank == 0) {
        memcpy(sum->total, sum->values, length_of(sum));
        return;
    }
    pen_transport_send(sum->transport, parent, tag_of(PART), sum->values,
                       length_of(sum), &sum->part);
    pen_transport_receive(sum->transport, parent, tag_of(TOTAL), sum->total,
                          length_of(sum), &sum->parent);
}

static void spread(struct pen_tree_sum *sum)
{
    memcpy(sum->values, sum->total, length_of(sum));
    for (uint32_t i = 0; i < sum->num_children; i++)
        pen_transport_send(sum->transport, child_of(sum, i), tag_of(TOTAL),
                           sum->total, length_of(sum), &sum->children[i]);
    sum->state = IDLE;
}

bool pen_tree_sum_poll(struct pen_tree_sum *sum)
{
    if (sum->state == GATHERING && pen_tree_sum_is_quiet(sum)) {
        add_parts(sum);
        rise(sum);
    }
    if (sum->state == RISING &&
        pen_transport_test(sum->transport, &sum->part) == PEN_OK &&
        pen_transport_test(sum->transport, &sum->parent) == PEN_OK)
        spread(sum);
    return sum->state == IDLE;
}
