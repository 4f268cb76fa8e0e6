#include "runtime/all_reduce.h"

#include "base/bug.h"
#include "runtime/gradients.h"

#include <stdlib.h>

struct range {
    size_t first;
    size_t count;
};

/* What one step sends and receives. */
struct move {
    uint32_t to;
    uint32_t from;
    struct range out;
    struct range in;
};

struct pen_all_reduce {
    struct pen_all_reduce_options options;
    uint32_t num_steps; /* of either half */
    uint32_t step;      /* of both */
    uint32_t end;
    float *values;
    size_t count;
    size_t element_bytes;
    float *staged; /* what is to be added */
    struct pen_request requests[2];
};

static bool is_power_of_two(uint32_t number)
{
    return (number & (number - 1)) == 0;
}

static uint32_t count_steps(uint32_t num_members)
{
    uint32_t steps = 0;
    if (!is_power_of_two(num_members))
        return num_members - 1;
    for (uint32_t left = num_members; left > 1; left /= 2)
        steps++;
    return steps;
}

static size_t staged_count(const struct pen_all_reduce_options *options)
{
    size_t parts =
        is_power_of_two(options->num_members) ? 2 : options->num_members;
    return options->is_phantom ? 0 : (options->most + parts - 1) / parts + 1;
}

size_t pen_all_reduce_bytes(const struct pen_all_reduce_options *options)
{
    return staged_count(options) * sizeof(float);
}

pen_status pen_all_reduce_create(const struct pen_all_reduce_options *options,
                                 struct pen_all_reduce **out)
{
    PEN_BUG_UNLESS(options->num_members > 1);
    struct pen_all_reduce *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->options = *options;
    it->num_steps = count_steps(options->num_members);
    it->staged = calloc(staged_count(options) + 1, sizeof *it->staged);
    if (it->staged == NULL) {
        free(it);
        return PEN_NOMEM;
    }
    *out = it;
    return PEN_OK;
}

void pen_all_reduce_free(struct pen_all_reduce *it)
{
    if (it == NULL)
        return;
    free(it->staged);
    free(it);
}

/* ---- halves ---- */

/*
 * What a member has after so many steps: the low half where its bit is 0. The
 * first step, which sends most, has the lowest bit: members with neighbouring
 * numbers are near each other.
 */
static struct range half_at(const struct pen_all_reduce *it, uint32_t member,
                            uint32_t steps)
{
    struct range range = {0, it->count};
    for (uint32_t i = 0; i < steps; i++) {
        size_t low = range.count / 2;
        if (member >> i & 1)
            range = (struct range){range.first + low, range.count - low};
        else
            range.count = low;
    }
    return range;
}

static struct move halve(const struct pen_all_reduce *it, uint32_t step,
                         bool is_gathering)
{
    uint32_t member = it->options.member;
    uint32_t depth = is_gathering ? it->num_steps - step : step + 1;
    uint32_t left = it->num_steps + 1 - depth;
    uint32_t partner = member ^ (it->options.num_members >> left);
    struct range own = half_at(it, member, depth);
    struct range other = half_at(it, partner, depth);
    return (struct move){partner, partner, is_gathering ? own : other,
                         is_gathering ? other : own};
}

/* ---- the ring ---- */

static struct range part_of(const struct pen_all_reduce *it, uint32_t part)
{
    size_t num = it->options.num_members;
    size_t each = it->count / num;
    size_t more = it->count % num; /* of the first parts, one each */
    size_t first = part * each + (part < more ? part : more);
    return (struct range){first, each + (part < more ? 1 : 0)};
}

/* Behind the first half a member has the part of the next one. */
static struct move pass_on(const struct pen_all_reduce *it, uint32_t step,
                           bool is_gathering)
{
    uint32_t num = it->options.num_members;
    uint32_t member = it->options.member;
    uint32_t at = member + num - step + (is_gathering ? 1 : 0);
    return (struct move){(member + 1) % num, (member + num - 1) % num,
                         part_of(it, at % num), part_of(it, (at - 1) % num)};
}

/* ---- steps ---- */

static bool is_gathering(const struct pen_all_reduce *it)
{
    return it->step >= it->num_steps;
}

static struct move move_of(const struct pen_all_reduce *it)
{
    bool is_second = is_gathering(it);
    uint32_t step = it->step - (is_second ? it->num_steps : 0);
    return is_power_of_two(it->options.num_members)
               ? halve(it, step, is_second)
               : pass_on(it, step, is_second);
}

static void start(struct pen_all_reduce *it)
{
    const struct pen_all_reduce_options *options = &it->options;
    struct move move = move_of(it);
    size_t out = move.out.count * it->element_bytes;
    size_t in = move.in.count * it->element_bytes;
    uint32_t to = options->ranks[move.to];
    uint32_t from = options->ranks[move.from];
    if (options->is_phantom) {
        pen_transport_receive_phantom(options->transport, from, options->tag,
                                      NULL, 0, in, &it->requests[0]);
        pen_transport_send_phantom(options->transport, to, options->tag, NULL,
                                   0, out, &it->requests[1]);
        return;
    }
    pen_transport_receive(options->transport, from, options->tag,
                          is_gathering(it) ? it->values + move.in.first
                                           : it->staged,
                          in, &it->requests[0]);
    pen_transport_send(options->transport, to, options->tag,
                       it->values + move.out.first, out, &it->requests[1]);
}

static void finish(struct pen_all_reduce *it)
{
    struct range in = move_of(it).in;
    if (it->values != NULL && !is_gathering(it))
        pen_add_floats(it->values + in.first, it->staged, in.count);
}

void pen_all_reduce_begin(struct pen_all_reduce *it,
                          enum pen_all_reduce_way way, float *values,
                          size_t count, size_t element_bytes)
{
    PEN_BUG_UNLESS(it->step == it->end && count <= it->options.most);
    it->values = values;
    it->count = count;
    it->element_bytes = element_bytes;
    it->step = way & PEN_ALL_REDUCE_SCATTER ? 0 : it->num_steps;
    it->end = (way & PEN_ALL_REDUCE_GATHER ? 2 : 1) * it->num_steps;
    start(it);
}

bool pen_all_reduce_poll(struct pen_all_reduce *it)
{
    struct pen_transport *transport = it->options.transport;
    while (it->step < it->end) {
        bool has_come =
            pen_transport_test(transport, &it->requests[0]) == PEN_OK;
        bool has_gone =
            pen_transport_test(transport, &it->requests[1]) == PEN_OK;
        if (!has_come || !has_gone)
            return false;
        finish(it);
        it->step++;
        if (it->step < it->end)
            start(it);
    }
    return true;
}
