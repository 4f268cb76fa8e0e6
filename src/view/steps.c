/* Finds the steps that a trace has whole, and how long they took. */
#include "culprits/course.h"

#include <stdlib.h>

struct found {
    uint32_t number;
    int64_t first_ns;
    int64_t last_ns;
    uint64_t count; /* of compute events */
};

struct list {
    struct found *items; /* by number */
    size_t count;
    size_t capacity;
};

/* Returns the place of this step, where it is or would be. */
static size_t place_of(const struct list *list, uint32_t number)
{
    size_t low = 0;
    size_t high = list->count;
    if (high > 0 && list->items[high - 1].number == number)
        return high - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->items[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct found *find_or_add(struct list *list, uint32_t number)
{
    size_t place = place_of(list, number);
    if (place < list->count && list->items[place].number == number)
        return &list->items[place];
    if (list->count == list->capacity) {
        size_t more = list->capacity == 0 ? 64 : 2 * list->capacity;
        struct found *items = realloc(list->items, more * sizeof *items);
        if (items == NULL)
            return NULL;
        list->items = items;
        list->capacity = more;
    }
    for (size_t i = list->count; i > place; i--)
        list->items[i] = list->items[i - 1];
    list->count++;
    list->items[place] = (struct found){number, INT64_MAX, INT64_MIN, 0};
    return &list->items[place];
}

static pen_status add_rank(struct list *list,
                           const struct pen_rank_trace *trace,
                           const struct pen_row *row)
{
    for (uint64_t i = 0; i < trace->head.num_events; i++) {
        const struct pen_trace_event *event = &trace->events[i];
        int64_t offset_ns = trace->head.clock_offset_ns;
        if (!pen_op_is_compute(row->ops[event->position].kind))
            continue;
        struct found *found = find_or_add(list, event->step);
        if (found == NULL)
            return PEN_NOMEM;
        if (event->ready_ns + offset_ns < found->first_ns)
            found->first_ns = event->ready_ns + offset_ns;
        if (event->end_ns + offset_ns > found->last_ns)
            found->last_ns = event->end_ns + offset_ns;
        found->count++;
    }
    return PEN_OK;
}

static uint64_t count_compute(const struct pen_schedule *schedule)
{
    uint64_t count = 0;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++)
            count += pen_op_is_compute(row->ops[i].kind);
    }
    return count;
}

/* Keeps the whole steps; there is room for all. */
static size_t keep_whole(const struct list *list, uint64_t whole,
                         struct pen__step *steps)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct found *found = &list->items[i];
        if (found->count == whole)
            steps[count++] = (struct pen__step){
                found->number,
                (double)(found->last_ns - found->first_ns) * 1e-9};
    }
    return count;
}

pen_status pen__steps_find(const struct pen_trace *trace,
                           const struct pen_schedule *schedule,
                           struct pen__step **out, size_t *count,
                           struct pen_text *why)
{
    struct list list = {.items = NULL};
    struct pen_mesh mesh = pen__lines_mesh(&schedule->shape, trace->num_ranks);
    uint32_t replicas = pen_mesh_num_replicas(&mesh);
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < trace->num_ranks && status == PEN_OK; i++)
        status = add_rank(&list, &trace->ranks[i],
                          &schedule->rows[trace->ranks[i].head.row]);
    struct pen__step *steps = malloc((list.count + 1) * sizeof *steps);
    if (status != PEN_OK || steps == NULL) {
        pen_why(why, "out of memory for the steps of a trace");
        status = PEN_NOMEM;
    } else {
        *count = keep_whole(&list, count_compute(schedule) * replicas, steps);
        if (*count == 0) {
            pen_why(why, "no complete step was recorded; %zu steps were begun",
                    list.count);
            status = PEN_INVALID;
        }
    }
    free(list.items);
    if (status == PEN_OK)
        *out = steps;
    else
        free(steps);
    return status;
}

static int by_sec(const void *a, const void *b)
{
    const struct pen__step *x = a;
    const struct pen__step *y = b;
    if (x->sec != y->sec)
        return x->sec < y->sec ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

uint32_t pen__steps_median(struct pen__step *steps, size_t count)
{
    qsort(steps, count, sizeof *steps, by_sec);
    return steps[(count - 1) / 2].number;
}
