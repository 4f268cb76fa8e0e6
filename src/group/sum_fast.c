/*
 * Sums in whatever order is fast: first every member gets the sum of a part of
 * the array, then all get the parts of all. The part of a member is a range of
 * count / n elements, rounded up or down, the same one in both halves; it may
 * be empty.
 */
#include "group/sum_internal.h"

/* The messages of one step. */
struct move {
    uint32_t to;
    uint32_t from;
    struct pen__range out;
    struct pen__range in;
};

static bool is_power_of_two(uint32_t number)
{
    return (number & (number - 1)) == 0;
}

/* Messages of the first half; the second has as many. */
static uint32_t num_steps(const struct pen_sum *sum)
{
    uint32_t steps = 0, size = sum->options.group->size;
    if (!is_power_of_two(size))
        return size - 1;
    for (uint32_t left = size; left > 1; left /= 2)
        steps++;
    return steps;
}

size_t pen__sum_fast_staged(const struct pen_sum_options *options)
{
    uint32_t size = options->group->size;
    size_t parts = is_power_of_two(size) ? 2 : size;
    return options->is_phantom ? 0 : (options->most + parts - 1) / parts + 1;
}

/* ---- halves ---- */

/*
 * Returns the range of a member after this many steps: the low half where its
 * bit is 0. The first step, which sends most, has the lowest bit: members with
 * neighbouring numbers are near each other.
 */
static struct pen__range half_at(const struct pen_sum *sum, uint32_t member,
                                 uint32_t steps)
{
    struct pen__range range = {0, sum->job.count};
    for (uint32_t i = 0; i < steps; i++) {
        size_t low = range.count / 2;
        if (member >> i & 1)
            range = (struct pen__range){range.first + low, range.count - low};
        else
            range.count = low;
    }
    return range;
}

static struct move halve(const struct pen_sum *sum, uint32_t step,
                         bool is_gathering)
{
    uint32_t member = sum->options.group->self;
    uint32_t depth = is_gathering ? num_steps(sum) - step : step + 1;
    uint32_t left = num_steps(sum) + 1 - depth;
    uint32_t partner = member ^ (sum->options.group->size >> left);
    struct pen__range own = half_at(sum, member, depth);
    struct pen__range other = half_at(sum, partner, depth);
    return (struct move){partner, partner, is_gathering ? own : other,
                         is_gathering ? other : own};
}

/* ---- the ring ---- */

static struct pen__range part_of(const struct pen_sum *sum, uint32_t part)
{
    size_t num = sum->options.group->size;
    size_t each = sum->job.count / num;
    size_t more = sum->job.count % num; /* of the first parts, one each */
    size_t first = part * each + (part < more ? part : more);
    return (struct pen__range){first, each + (part < more ? 1 : 0)};
}

/*
 * Returns the move of a step. After the first half a member has the part of the
 * next one.
 */
static struct move pass_on(const struct pen_sum *sum, uint32_t step,
                           bool is_gathering)
{
    uint32_t num = sum->options.group->size;
    uint32_t member = sum->options.group->self;
    uint32_t at = member + num - step + (is_gathering ? 1 : 0);
    return (struct move){(member + 1) % num, (member + num - 1) % num,
                         part_of(sum, at % num), part_of(sum, (at - 1) % num)};
}

/* ---- steps ---- */

static struct move move_of(const struct pen_sum *sum)
{
    bool is_gathering = sum->state == PEN__SUM_OUT;
    return is_power_of_two(sum->options.group->size)
               ? halve(sum, sum->step, is_gathering)
               : pass_on(sum, sum->step, is_gathering);
}

static void start(struct pen_sum *sum)
{
    const struct pen_sum_options *options = &sum->options;
    struct move move = move_of(sum);
    size_t element =
        options->is_phantom ? sum->job.element_bytes : pen__sum_element(sum);
    char *values = sum->job.values;
    bool is_in = sum->state == PEN__SUM_IN;
    pen_group_receive(options->group, move.from, options->channel,
                      values == NULL ? NULL
                      : is_in        ? sum->staged
                                     : values + move.in.first * element,
                      move.in.count * element, &sum->receives[0]);
    pen_group_send(options->group, move.to, options->channel,
                   values == NULL ? NULL : values + move.out.first * element,
                   move.out.count * element, &sum->sends[0]);
}

static void finish(struct pen_sum *sum)
{
    struct pen__range in = move_of(sum).in;
    char *values = sum->job.values;
    if (values != NULL && sum->state == PEN__SUM_IN)
        pen__sum_add(sum, values + in.first * pen__sum_element(sum),
                     sum->staged, in.count);
}

void pen__sum_fast_begin(struct pen_sum *sum)
{
    sum->step = 0;
    start(sum);
}

static bool has_further_half(const struct pen_sum *sum)
{
    return sum->state == PEN__SUM_IN && (sum->job.way & PEN_SUM_OUT) != 0;
}

void pen__sum_fast_poll(struct pen_sum *sum)
{
    struct pen_group *group = sum->options.group;
    while (sum->state != PEN__SUM_IDLE) {
        bool has_come = pen_group_is_done(group, sum->receives, 1);
        if (!pen_group_is_done(group, sum->sends, 1) || !has_come)
            return;
        finish(sum);
        if (++sum->step == num_steps(sum)) {
            sum->step = 0;
            sum->state = has_further_half(sum) ? PEN__SUM_OUT : PEN__SUM_IDLE;
        }
        if (sum->state != PEN__SUM_IDLE)
            start(sum);
    }
}
