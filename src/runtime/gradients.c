#include "runtime/gradients.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "group/sum.h"
#include "group/tree.h"
#include "schedule/needs.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LEVELS = 16 };

struct pen_gradients {
    struct pen_network *network;
    uint32_t num_replicas;
    uint32_t num_closed;
    const struct pen_network_parameter *tied; /* NULL: none */
    size_t count;              /* elements of all parameters but the tied one */
    size_t tied_count;         /* of that */
    float *levels[MAX_LEVELS]; /* sums that wait for their twin */
    float *aside;              /* of the tied one, for each replica */
    struct pen_mirror mirror;  /* of one gradient */
};

/* The gradient of a parameter, as the host sees it. */
static float *show(struct pen_gradients *gradients,
                   const struct pen_network_parameter *parameter)
{
    const struct pen_mirror_piece piece = {.parameter = parameter->parameter,
                                           .part = PEN_PART_GRADIENT,
                                           .count =
                                               pen_network_count(parameter)};
    return pen_mirror_show(&gradients->mirror, &piece);
}

static bool is_plain(const struct pen_gradients *gradients,
                     const struct pen_network_parameter *parameter)
{
    return !parameter->is_value_only && parameter != gradients->tied;
}

/* Of at least one element, so that NULL means that memory ran out. */
static float *resident(size_t count)
{
    size_t bytes = (count > 0 ? count : 1) * sizeof(float);
    float *array = malloc(bytes);
    if (array != NULL)
        memset(array, 0, bytes);
    return array;
}

static uint32_t num_levels(const struct pen_gradients *gradients)
{
    return pen_needs_levels(gradients->num_replicas);
}

static pen_status make_room(struct pen_gradients *gradients)
{
    const struct pen_network *network = gradients->network;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        size_t count = pen_network_count(it);
        if (is_plain(gradients, it))
            gradients->count += count;
        else if (it == gradients->tied)
            gradients->tied_count = count;
    }
    if (gradients->num_replicas == 1)
        return PEN_OK;
    pen_status status =
        pen_mirror_init(&gradients->mirror, pen_network_engine(network),
                        pen_network_largest(network));
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < num_levels(gradients); i++) {
        gradients->levels[i] = resident(gradients->count);
        if (gradients->levels[i] == NULL)
            return PEN_NOMEM;
    }
    if (gradients->tied == NULL)
        return PEN_OK;
    gradients->aside =
        resident(gradients->num_replicas * gradients->tied_count);
    return gradients->aside == NULL ? PEN_NOMEM : PEN_OK;
}

pen_status pen_gradients_create(struct pen_network *network,
                                uint32_t num_replicas,
                                struct pen_gradients **out)
{
    PEN_BUG_UNLESS(num_replicas > 0 &&
                   (num_replicas & (num_replicas - 1)) == 0 &&
                   num_replicas <= 1u << MAX_LEVELS);
    struct pen_gradients *gradients = calloc(1, sizeof *gradients);
    if (gradients == NULL)
        return PEN_NOMEM;
    gradients->network = network;
    gradients->num_replicas = num_replicas;
    gradients->tied = pen_network_tied(network);
    if (gradients->tied != NULL && gradients->tied->is_value_only)
        gradients->tied = NULL;
    pen_status status = make_room(gradients);
    if (status == PEN_OK)
        *out = gradients;
    else
        pen_gradients_free(gradients);
    return status;
}

void pen_gradients_free(struct pen_gradients *gradients)
{
    if (gradients == NULL)
        return;
    for (int i = 0; i < MAX_LEVELS; i++)
        free(gradients->levels[i]);
    free(gradients->aside);
    pen_mirror_release(&gradients->mirror);
    free(gradients);
}

size_t pen_gradients_bytes(const struct pen_gradients *gradients)
{
    if (gradients->num_replicas == 1)
        return 0;
    return (num_levels(gradients) * gradients->count +
            gradients->num_replicas * gradients->tied_count) *
           sizeof(float);
}

void pen_gradients_begin(struct pen_gradients *gradients)
{
    gradients->num_closed = 0;
    pen_network_clear_gradients(gradients->network);
}

/* All plain gradients one behind the other: adds a level, or becomes one. */
static void walk(struct pen_gradients *gradients, float *level, bool is_adding)
{
    for (size_t i = 0; i < pen_network_num_parameters(gradients->network);
         i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(gradients->network, i);
        size_t count = pen_network_count(it);
        if (!is_plain(gradients, it))
            continue;
        float *gradient = show(gradients, it);
        if (is_adding) {
            pen_add_floats(gradient, level, count);
            pen_mirror_put(&gradients->mirror);
        } else {
            memcpy(level, gradient, count * sizeof *gradient);
        }
        level += count;
    }
}

static void set_aside(struct pen_gradients *gradients, uint32_t replica)
{
    size_t count = gradients->tied_count;
    if (gradients->aside == NULL)
        return;
    memcpy(gradients->aside + replica * count, show(gradients, gradients->tied),
           count * sizeof *gradients->aside);
}

void pen_gradients_close(struct pen_gradients *gradients)
{
    uint32_t number = ++gradients->num_closed;
    int level = 0;
    pen_network_finish_gradients(gradients->network);
    if (gradients->num_replicas == 1)
        return;
    set_aside(gradients, number - 1);
    for (uint32_t left = number; left % 2 == 0; left /= 2)
        walk(gradients, gradients->levels[level++], true);
    if (number == gradients->num_replicas)
        return;
    walk(gradients, gradients->levels[level], false);
    pen_network_clear_gradients(gradients->network);
}

/* The sums that were set aside join as all others do. */
static void sum_aside(struct pen_gradients *gradients)
{
    size_t count = gradients->tied_count;
    float *aside = gradients->aside;
    for (struct pen_tree at = {.size = gradients->num_replicas};
         pen_tree_next(&at);)
        pen_add_floats(aside + at.to * count, aside + at.from * count, count);
    memcpy(show(gradients, gradients->tied), aside, count * sizeof *aside);
    pen_mirror_put(&gradients->mirror);
}

void pen_gradients_join(struct pen_gradients *gradients, uint32_t replica,
                        size_t count, const int32_t *words, const void *rows)
{
    size_t width = gradients->tied->columns;
    if (gradients->aside == NULL) {
        pen_network_add_gathered(gradients->network, count, words, rows);
        return;
    }
    float *aside = gradients->aside + replica * gradients->tied_count;
    pen_engine_await(pen_network_engine(gradients->network));
    for (size_t i = 0; i < count; i++)
        pen_add_floats(aside + (size_t)words[i] * width,
                       (const float *)rows + i * width, width);
    if (replica + 1 == gradients->num_replicas)
        sum_aside(gradients);
}
