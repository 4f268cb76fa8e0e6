#ifndef PEN_BENCH_VALIDATION_ORDER_H
#define PEN_BENCH_VALIDATION_ORDER_H

/*
 * Two published trainings of one model on one system in one precision, with
 * different layouts or recipes: is the faster one predicted to be faster?
 */
#include "validation_rows.h"

struct ordered {
    const struct row *row;
    double measured; /* seconds of a device for each token */
    double predicted;
};

struct order {
    struct ordered *items;
    uint32_t count;
    uint32_t capacity;
};

static inline void add_ordered(struct order *order, const struct row *row,
                               double predicted_sec)
{
    double share =
        (double)row->group.count /
        ((double)pen_plan_global_batch(row->plan) * row->plan->sequence);
    if (strncmp(row->set, "nemo", 4) != 0 || row->is_left_out)
        return;
    if (order->count == order->capacity) {
        order->capacity = 2 * order->capacity + 64;
        order->items =
            realloc(order->items, order->capacity * sizeof *order->items);
        if (order->items == NULL)
            die("order", "no memory");
    }
    order->items[order->count++] =
        (struct ordered){row, row->measured_sec * share, predicted_sec * share};
}

static inline bool is_comparable(const struct ordered *a,
                                 const struct ordered *b)
{
    static const char *const keys[] = {"model", "system", "precision", "task"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(word_of(a->row->facts, keys[i]),
                   word_of(b->row->facts, keys[i])) != 0)
            return false;
    /* The same plan, or as fast as it: another release, or noise. */
    return fabs(a->predicted / b->predicted - 1) > 1e-3 &&
           fabs(a->measured / b->measured - 1) > 0.02;
}

static inline void print_order(const struct order *order)
{
    uint32_t pairs = 0;
    uint32_t right = 0;
    for (uint32_t i = 0; i < order->count; i++)
        for (uint32_t k = i + 1; k < order->count; k++) {
            const struct ordered *a = &order->items[i];
            const struct ordered *b = &order->items[k];
            if (!is_comparable(a, b))
                continue;
            pairs++;
            right +=
                (a->measured < b->measured) == (a->predicted < b->predicted);
        }
    printf("%-28s %5u pairs of one model, system and precision, in the right "
           "order %.0f %%\n",
           "nemo", pairs, pairs > 0 ? 100.0 * right / pairs : 0.0);
}

#endif
