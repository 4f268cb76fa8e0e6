#include "runtime/gradients.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "group/sum.h"
#include "group/tree.h"
#include "schedule/needs.h"

#include <stdlib.h>
#include <string.h>

/* Twice as many levels as a power of two has: uneven shares begin anywhere. */
enum { MAX_REPLICAS = 1 << 16, MAX_LEVELS = 32 };

struct lane {
    uint32_t num_closed;        /* logical replicas */
    uint32_t num_kept;          /* sums that wait for their twin, */
    uint32_t sizes[MAX_LEVELS]; /* replicas in each sum: */
    float *levels[MAX_LEVELS];
    float *aside;    /* of several lanes: all gradients, while another
                        is open */
    size_t num_rows; /* that its embedding has gathered, likewise */
    int32_t *words;
    char *rows;
};

struct pen_gradients {
    struct pen_network *network;
    uint32_t num_replicas;
    uint32_t num_lanes;
    bool keeps_nodes;
    uint32_t first; /* replica, of all of the run */
    struct lane *lanes;
    uint32_t open;       /* lane */
    uint32_t num_whole;  /* lanes whose replicas are all closed */
    uint32_t num_joined; /* replicas whose tied gradients are whole */
    const struct pen_network_parameter *tied; /* the first; NULL: none */
    size_t count;             /* elements of all parameters but the tied ones */
    size_t tied_count;        /* of those: pieces of one matrix, in a row */
    float *aside;             /* of the tied ones, for each replica */
    bool gathers;             /* rows for a head elsewhere */
    struct pen_mirror mirror; /* of one gradient */
};

/* Elements of the gradient of a parameter, from all of its sources. */
static size_t count_of(const struct pen_network_parameter *parameter)
{
    return pen_network_count(parameter) * parameter->num_sources;
}

/* The gradient of a parameter, as the host sees it, from all of its sources. */
static float *show(struct pen_gradients *gradients,
                   const struct pen_network_parameter *parameter)
{
    if (parameter->gradients != NULL)
        return parameter->gradients;
    const struct pen_mirror_piece piece = {.parameter = parameter->parameter,
                                           .part = PEN_PART_GRADIENT,
                                           .count =
                                               pen_network_count(parameter)};
    return pen_mirror_show(&gradients->mirror, &piece);
}

static bool is_tied(const struct pen_gradients *gradients,
                    const struct pen_network_parameter *parameter)
{
    return gradients->tied != NULL &&
           pen_network_is_tied(gradients->network, parameter);
}

/* An array of at least one element, so that NULL means that memory ran out. */
static float *resident(size_t count)
{
    size_t bytes = (count > 0 ? count : 1) * sizeof(float);
    float *array = malloc(bytes);
    if (array != NULL)
        memset(array, 0, bytes);
    return array;
}

/* Logical replicas of a lane. */
static uint32_t lane_share(const struct pen_gradients *gradients)
{
    return gradients->num_replicas / gradients->num_lanes;
}

static uint32_t num_levels(const struct pen_gradients *gradients)
{
    uint32_t share = lane_share(gradients);
    return gradients->keeps_nodes
               ? pen_tree_most_nodes(gradients->first, gradients->first + share)
               : pen_needs_levels(share);
}

static size_t row_bytes(const struct pen_gradients *gradients)
{
    return gradients->gathers
               ? pen_network_model(gradients->network)->hidden * sizeof(float)
               : 0;
}

static pen_status make_lane(const struct pen_gradients *gradients,
                            struct lane *lane)
{
    for (uint32_t i = 0; i < num_levels(gradients); i++) {
        lane->levels[i] = resident(gradients->count);
        if (lane->levels[i] == NULL)
            return PEN_NOMEM;
    }
    if (lane == gradients->lanes) /* the first is the engine's */
        return PEN_OK;
    lane->aside = resident(gradients->count + gradients->tied_count);
    if (lane->aside == NULL)
        return PEN_NOMEM;
    if (!gradients->gathers)
        return PEN_OK;
    size_t capacity = pen_network_gathered_capacity(gradients->network);
    lane->words = calloc(capacity, sizeof *lane->words);
    lane->rows = calloc(capacity, row_bytes(gradients));
    return lane->words == NULL || lane->rows == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status make_room(struct pen_gradients *gradients)
{
    const struct pen_network *network = gradients->network;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        size_t count = count_of(it);
        if (is_tied(gradients, it))
            gradients->tied_count += count;
        else if (!it->is_value_only)
            gradients->count += count;
    }
    if (gradients->num_replicas == 1)
        return PEN_OK;
    pen_status status =
        pen_mirror_init(&gradients->mirror, pen_network_engine(network),
                        pen_network_largest(network));
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < gradients->num_lanes && status == PEN_OK; i++)
        status = make_lane(gradients, &gradients->lanes[i]);
    if (status != PEN_OK || gradients->tied == NULL)
        return status;
    gradients->aside =
        resident(gradients->num_replicas * gradients->tied_count);
    return gradients->aside == NULL ? PEN_NOMEM : PEN_OK;
}

pen_status pen_gradients_create(const struct pen_gradients_options *options,
                                struct pen_gradients **out)
{
    uint32_t num_lanes = options->num_lanes;
    PEN_BUG_UNLESS(options->num_replicas > 0 &&
                   options->num_replicas % num_lanes == 0 &&
                   options->num_replicas <= MAX_REPLICAS &&
                   (!options->keeps_nodes || num_lanes == 1));
    struct pen_gradients *gradients = calloc(1, sizeof *gradients);
    if (gradients == NULL)
        return PEN_NOMEM;
    gradients->network = options->network;
    gradients->num_replicas = options->num_replicas;
    gradients->num_lanes = num_lanes;
    gradients->keeps_nodes = options->keeps_nodes;
    gradients->first = options->first;
    gradients->tied = pen_network_tied(gradients->network);
    if (gradients->tied != NULL && gradients->tied->is_value_only) {
        gradients->tied = NULL;
        gradients->gathers = true;
    }
    gradients->lanes = calloc(num_lanes, sizeof *gradients->lanes);
    pen_status status =
        gradients->lanes == NULL ? PEN_NOMEM : make_room(gradients);
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
    for (uint32_t i = 0; i < gradients->num_lanes && gradients->lanes != NULL;
         i++) {
        struct lane *lane = &gradients->lanes[i];
        for (int k = 0; k < MAX_LEVELS; k++)
            free(lane->levels[k]);
        free(lane->aside);
        free(lane->words);
        free(lane->rows);
    }
    free(gradients->lanes);
    free(gradients->aside);
    pen_mirror_release(&gradients->mirror);
    free(gradients);
}

size_t pen_gradients_bytes(const struct pen_gradients *gradients)
{
    if (gradients->num_replicas == 1)
        return 0;
    size_t lanes = gradients->num_lanes;
    size_t others = lanes - 1;
    size_t count = lanes * num_levels(gradients) * gradients->count +
                   gradients->num_replicas * gradients->tied_count +
                   others * (gradients->count + gradients->tied_count);
    size_t rows = gradients->gathers
                      ? pen_network_gathered_capacity(gradients->network)
                      : 0;
    return count * sizeof(float) +
           others * rows * (sizeof(int32_t) + row_bytes(gradients));
}

void pen_gradients_begin(struct pen_gradients *gradients)
{
    size_t count = gradients->count + gradients->tied_count;
    gradients->open = gradients->num_whole = gradients->num_joined = 0;
    for (uint32_t i = 0; i < gradients->num_lanes; i++) {
        struct lane *lane = &gradients->lanes[i];
        lane->num_closed = lane->num_kept = 0;
        if (lane->aside != NULL)
            memset(lane->aside, 0, count * sizeof *lane->aside);
    }
    pen_network_clear_gradients(gradients->network);
}

enum walk { ADD, KEEP, ADD_LANE, SWAP };

static void swap_floats(float *a, float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/*
 * Walks over all plain gradients, one after the other: adds a level, or becomes
 * one; adds a lane, or changes places with it. A lane has the tied gradient,
 * too, which is not added here.
 */
static void walk(struct pen_gradients *gradients, float *array, enum walk how)
{
    bool has_tied = how == ADD_LANE || how == SWAP;
    for (size_t i = 0; i < pen_network_num_parameters(gradients->network);
         i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(gradients->network, i);
        bool is_aside = is_tied(gradients, it);
        size_t count = count_of(it);
        if (it->is_value_only || (is_aside && !has_tied))
            continue;
        float *gradient = show(gradients, it);
        if (how == KEEP)
            memcpy(array, gradient, count * sizeof *gradient);
        else if (how == SWAP)
            swap_floats(gradient, array, count);
        else if (!is_aside)
            pen_add_floats(gradient, array, count);
        if (how != KEEP && it->gradients == NULL)
            pen_mirror_put(&gradients->mirror);
        array += count;
    }
}

/* The lane's gradients and rows change places with those of the engine. */
static void swap_lane(struct pen_gradients *gradients, struct lane *lane)
{
    walk(gradients, lane->aside, SWAP);
    if (gradients->gathers)
        lane->num_rows = pen_network_swap_gathered(
            gradients->network, lane->num_rows, lane->words, lane->rows);
}

/* The first lane is the engine's, unless another one has its place. */
void pen_gradients_open(struct pen_gradients *gradients, uint32_t lane)
{
    if (gradients->open == lane)
        return;
    if (gradients->open != 0)
        swap_lane(gradients, &gradients->lanes[gradients->open]);
    if (lane != 0)
        swap_lane(gradients, &gradients->lanes[lane]);
    gradients->open = lane;
}

static void set_aside(struct pen_gradients *gradients, uint32_t replica)
{
    if (gradients->aside == NULL)
        return;
    float *aside = gradients->aside + replica * gradients->tied_count;
    for (uint32_t i = 0; i < pen_network_num_tied(gradients->network); i++) {
        const struct pen_network_parameter *it = &gradients->tied[i];
        memcpy(aside, show(gradients, it),
               pen_network_count(it) * sizeof *aside);
        aside += pen_network_count(it);
    }
}

/*
 * All lanes are whole: they join as the tree has them, the first in the engine.
 * Rows of the open one are still to be handed over.
 */
static void join_lanes(struct pen_gradients *gradients)
{
    size_t count = gradients->count + gradients->tied_count;
    struct lane *lanes = gradients->lanes;
    if (gradients->open != 0)
        walk(gradients, lanes[gradients->open].aside, SWAP);
    gradients->open = 0;
    for (struct pen_tree at = {.size = gradients->num_lanes};
         pen_tree_next(&at);) {
        if (at.to == 0)
            walk(gradients, lanes[at.from].aside, ADD_LANE);
        else
            pen_add_floats(lanes[at.to].aside, lanes[at.from].aside, count);
    }
}

/*
 * Adds to the sum in the engine, which is that of a node, those that wait for
 * it. Returns the replicas of the sum.
 */
static uint32_t join_twins(struct pen_gradients *gradients, struct lane *lane)
{
    uint32_t end = gradients->first + lane->num_closed;
    uint32_t size = 1;
    while (lane->num_kept > 0 && lane->sizes[lane->num_kept - 1] == size &&
           end % (2 * size) == 0) {
        walk(gradients, lane->levels[--lane->num_kept], ADD);
        size *= 2;
    }
    return size;
}

/* Sources follow each other in the tree, and the first has the sum. */
static void join_sources(struct pen_gradients *gradients)
{
    for (size_t i = 0; i < pen_network_num_parameters(gradients->network);
         i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(gradients->network, i);
        size_t count = pen_network_count(it);
        float *all = it->gradients;
        for (struct pen_tree at = {.size = it->num_sources};
             it->num_sources > 1 && pen_tree_next(&at);)
            pen_add_floats(all + at.to * count, all + at.from * count, count);
    }
}

void pen_gradients_close(struct pen_gradients *gradients)
{
    struct lane *lane = &gradients->lanes[gradients->open];
    uint32_t number = ++lane->num_closed;
    pen_network_finish_gradients(gradients->network);
    if (gradients->num_replicas == 1) {
        join_sources(gradients);
        return;
    }
    set_aside(gradients, gradients->open * lane_share(gradients) + number - 1);
    uint32_t size = join_twins(gradients, lane);
    if (number < lane_share(gradients)) {
        lane->sizes[lane->num_kept] = size;
        walk(gradients, lane->levels[lane->num_kept++], KEEP);
        pen_network_clear_gradients(gradients->network);
        return;
    }
    while (!gradients->keeps_nodes && lane->num_kept > 0)
        walk(gradients, lane->levels[--lane->num_kept], ADD);
    if (++gradients->num_whole < gradients->num_lanes)
        return;
    join_lanes(gradients);
    join_sources(gradients);
}

float *const *pen_gradients_nodes(const struct pen_gradients *gradients)
{
    return gradients->lanes[0].levels;
}

size_t pen_gradients_place(const struct pen_gradients *gradients,
                           size_t parameter)
{
    size_t place = 0;
    for (size_t i = 0; i < parameter; i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(gradients->network, i);
        if (!it->is_value_only && !is_tied(gradients, it))
            place += count_of(it);
    }
    return place;
}

/* The sums that were set aside join as all others do. */
static void sum_aside(struct pen_gradients *gradients)
{
    size_t count = gradients->tied_count;
    float *aside = gradients->aside;
    for (struct pen_tree at = {.size = gradients->num_replicas};
         pen_tree_next(&at);)
        pen_add_floats(aside + at.to * count, aside + at.from * count, count);
    for (uint32_t i = 0; i < pen_network_num_tied(gradients->network); i++) {
        const struct pen_network_parameter *it = &gradients->tied[i];
        memcpy(show(gradients, it), aside,
               pen_network_count(it) * sizeof *aside);
        pen_mirror_put(&gradients->mirror);
        aside += pen_network_count(it);
    }
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
    size_t first = (size_t)gradients->tied->slices[0].piece.first_row;
    pen_engine_await(pen_network_engine(gradients->network));
    for (size_t i = 0; i < count; i++)
        pen_add_floats(aside + ((size_t)words[i] - first) * width,
                       (const float *)rows + i * width, width);
    if (++gradients->num_joined == gradients->num_replicas)
        sum_aside(gradients);
}
