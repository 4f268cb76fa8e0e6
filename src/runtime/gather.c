/*
 * Messages of a layer are pieces of its parameters, a few of them under way at
 * once, in the order in which layers are asked for:
 *
 *   absent --want--> asked: pieces come in --last one--> here --use--> in use
 *      ^                                                                 |
 *      '--- forget, or another layer is asked for that takes its place <-'
 *
 * N1. The layer in use and the layer asked for meanwhile follow each other, so
 *     that they have different memory.
 * N2. A layer loses its place only when nothing of it is on its way.
 * N3. Pieces set out in the same order on all members.
 * N4. Layers are forgotten before owners spread values, and asked for again
 *     when all of these have come.
 */
#include "runtime/gather.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "group/subgroup.h"
#include "group/sum.h"

#include <limits.h>
#include <stdlib.h>

enum {
    LANES = PEN_REDUCTION_LANES,
    MOST_ASKED = 2,        /* layers whose pieces have not all set out */
    PIECE_COUNT = 1 << 20, /* elements, at most */
    VALUE_CHANNEL = 2      /* of a lane, as the reduction has it */
};

struct piece {
    size_t parameter;
    size_t first;
    size_t count;
    uint32_t owner;
    uint32_t layer; /* of this stage */
};

/* A piece under way. */
struct lane {
    const struct piece *piece; /* NULL: free */
    bool is_waiting;           /* for its mirror */
    struct pen_mirror mirror;
    struct pen_group_request *requests; /* of each member */
    struct pen_sum *sum;                /* that gathers a phantom in a group, */
    struct pen_sum *spread; /* and that takes it to other groups; or NULL */
};

struct layer {
    size_t first; /* of its pieces */
    size_t end;
    size_t num_missing; /* pieces that have not come */
    bool is_there;      /* asked for, at least */
    bool is_new;        /* not used since it came */
};

struct pen_gather {
    struct pen_gather_options options;
    struct pen_turns *turns;
    uint32_t first_layer; /* as the model counts them */
    uint32_t num_layers;
    struct layer *layers;
    struct piece *pieces; /* layer by layer */
    size_t num_pieces;
    uint32_t asked[MOST_ASKED];
    uint32_t num_asked;
    bool is_spreading;
    size_t next;                /* piece of the first that was asked for */
    struct pen_subgroup within; /* the own group, */
    struct pen_subgroup across; /* and the same place in all groups */
    uint64_t num_set_out; /* piece n of all takes lane n modulo their number */
    struct lane lanes[LANES];
};

/* The member of a group that keeps a piece. */
static uint32_t keeper_in(const struct pen_gather *gather, uint32_t group,
                          const struct piece *piece)
{
    uint32_t size = gather->options.size;
    return group * size + piece->owner % size;
}

static uint32_t own_group(const struct pen_gather *gather)
{
    return gather->options.group->self / gather->options.size;
}

/* The member that sends a piece, of this group or of all. */
static uint32_t source_of(const struct pen_gather *gather,
                          const struct piece *piece)
{
    return gather->is_spreading ? piece->owner
                                : keeper_in(gather, own_group(gather), piece);
}

/* All members have a share of a phantom. */
static bool is_own(const struct pen_gather *gather, const struct piece *piece)
{
    return gather->options.phantom == NULL &&
           source_of(gather, piece) == gather->options.group->self;
}

/* ---- making ---- */

static const struct pen_network_parameter *
parameter_of(const struct pen_gather *gather, size_t parameter)
{
    return pen_network_parameter(gather->options.network, parameter);
}

static bool is_gathered(const struct pen_gather *gather, size_t parameter)
{
    return pen_reduction_leaves(gather->options.reduction, parameter);
}

static size_t most_elements(const struct pen_gather *gather)
{
    const struct pen_phantom *phantom = gather->options.phantom;
    return phantom == NULL ? PIECE_COUNT
                           : (size_t)INT_MAX / phantom->value_size;
}

static void cut_parameter(struct pen_gather *gather, size_t parameter)
{
    size_t most = most_elements(gather);
    const struct pen_network_parameter *it = parameter_of(gather, parameter);
    uint32_t number = it->layer - gather->first_layer;
    struct layer *layer = &gather->layers[number];
    size_t total = pen_network_count(it);
    if (layer->end == 0)
        layer->first = gather->num_pieces;
    for (size_t first = 0; first < total; first += most)
        gather->pieces[gather->num_pieces++] = (struct piece){
            .parameter = parameter,
            .first = first,
            .count = total - first < most ? total - first : most,
            .owner =
                gather->options.phantom != NULL
                    ? 0
                    : pen_reduction_owner(gather->options.reduction, parameter),
            .layer = number};
    layer->end = gather->num_pieces;
}

/* Parameters come layer by layer. */
static pen_status make_pieces(struct pen_gather *gather)
{
    size_t num = pen_network_num_parameters(gather->options.network);
    size_t most = 0;
    gather->first_layer = parameter_of(gather, 0)->layer;
    gather->num_layers =
        parameter_of(gather, num - 1)->layer - gather->first_layer + 1;
    for (size_t i = 0; i < num; i++)
        most += pen_network_count(parameter_of(gather, i)) / PIECE_COUNT + 1;
    gather->layers = calloc(gather->num_layers, sizeof *gather->layers);
    gather->pieces = calloc(most + 1, sizeof *gather->pieces);
    if (gather->layers == NULL || gather->pieces == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < num; i++)
        if (is_gathered(gather, i))
            cut_parameter(gather, i);
    return PEN_OK;
}

static uint32_t channel_of(const struct pen_gather *gather,
                           const struct lane *lane)
{
    return (uint32_t)(lane - gather->lanes) * PEN_REDUCTION_CHANNELS +
           VALUE_CHANNEL;
}

static pen_status make_sum(struct pen_gather *gather, struct lane *lane,
                           struct pen_group *group, struct pen_sum **out)
{
    const struct pen_sum_options options = {.group = group,
                                            .channel = channel_of(gather, lane),
                                            .route = PEN_SUM_FAST,
                                            .is_phantom = true,
                                            .most = most_elements(gather)};
    return pen_sum_create(&options, out);
}

static pen_status make_sums(struct pen_gather *gather, struct lane *lane)
{
    struct pen_group *all = gather->options.group;
    uint32_t size = gather->options.size;
    if (size == all->size)
        return make_sum(gather, lane, all, &lane->sum);
    pen_status status =
        make_sum(gather, lane, &gather->within.group, &lane->sum);
    if (status == PEN_OK)
        status = make_sum(gather, lane, &gather->across.group, &lane->spread);
    return status;
}

static pen_status make_lanes(struct pen_gather *gather)
{
    pen_status status = PEN_OK;
    size_t largest = pen_network_largest(gather->options.network);
    for (int i = 0; i < LANES && status == PEN_OK; i++) {
        struct lane *lane = &gather->lanes[i];
        if (gather->options.phantom != NULL) {
            status = make_sums(gather, lane);
            continue;
        }
        lane->requests =
            calloc(gather->options.group->size, sizeof *lane->requests);
        status = lane->requests == NULL
                     ? PEN_NOMEM
                     : pen_mirror_init(
                           &lane->mirror,
                           pen_network_engine(gather->options.network),
                           largest < PIECE_COUNT ? largest : PIECE_COUNT);
    }
    return status;
}

pen_status pen_gather_create(const struct pen_gather_options *options,
                             struct pen_gather **out, struct pen_text *why)
{
    struct pen_gather *gather = calloc(1, sizeof *gather);
    if (gather == NULL)
        return PEN_NOMEM;
    gather->options = *options;
    uint32_t own = own_group(gather), size = options->size;
    pen_subgroup_init(&gather->within, options->group, own * size, 1, size);
    pen_subgroup_init(&gather->across, options->group,
                      options->group->self % size, size,
                      options->group->size / size);
    pen_status status = PEN_OK;
    if (options->phantom == NULL)
        status = pen_turns_create(options->network, options->reduction,
                                  PEN_PART_VALUE, &gather->turns, why);
    if (status == PEN_OK)
        status = make_pieces(gather);
    if (status == PEN_OK)
        status = make_lanes(gather);
    if (status == PEN_OK)
        *out = gather;
    else
        pen_gather_free(gather);
    return status;
}

void pen_gather_free(struct pen_gather *gather)
{
    if (gather == NULL)
        return;
    for (int i = 0; i < LANES; i++) {
        pen_mirror_release(&gather->lanes[i].mirror);
        free(gather->lanes[i].requests);
        pen_sum_free(gather->lanes[i].sum);
        pen_sum_free(gather->lanes[i].spread);
    }
    pen_turns_free(gather->turns);
    free(gather->layers);
    free(gather->pieces);
    free(gather);
}

size_t pen_gather_bytes(const struct pen_gather *gather)
{
    return gather->turns == NULL ? 0 : pen_turns_bytes(gather->turns);
}

/* ---- layers ---- */

static struct layer *layer_of(const struct pen_gather *gather, uint32_t layer)
{
    PEN_BUG_UNLESS(layer >= gather->first_layer &&
                   layer - gather->first_layer < gather->num_layers);
    return &gather->layers[layer - gather->first_layer];
}

/* Gives up the place of a layer; see N2. */
static void drop(struct layer *layer)
{
    PEN_BUG_UNLESS(!layer->is_there || layer->num_missing == 0);
    layer->is_there = false;
}

void pen_gather_forget(struct pen_gather *gather)
{
    for (uint32_t i = 0; i < gather->num_layers; i++)
        drop(&gather->layers[i]);
}

/* N1: two layers that follow each other stay. */
void pen_gather_want(struct pen_gather *gather, uint32_t layer)
{
    struct layer *wanted = layer_of(gather, layer);
    uint32_t number = layer - gather->first_layer;
    if (wanted->is_there)
        return;
    for (uint32_t i = 0; i < gather->num_layers; i++)
        if (i + 1 != number && i != number + 1)
            drop(&gather->layers[i]);
    wanted->is_there = wanted->is_new = true;
    wanted->num_missing = 0;
    for (size_t i = wanted->first; i < wanted->end; i++)
        wanted->num_missing += !is_own(gather, &gather->pieces[i]);
    if (wanted->first == wanted->end)
        return;
    PEN_BUG_UNLESS(gather->num_asked < MOST_ASKED);
    if (gather->num_asked == 0)
        gather->next = wanted->first;
    gather->asked[gather->num_asked++] = number;
    pen_gather_poll(gather);
}

static bool is_asked(const struct pen_gather *gather, uint32_t number)
{
    for (uint32_t i = 0; i < gather->num_asked; i++)
        if (gather->asked[i] == number)
            return true;
    return false;
}

bool pen_gather_has(const struct pen_gather *gather, uint32_t layer)
{
    const struct layer *it = layer_of(gather, layer);
    return it->is_there && it->num_missing == 0 &&
           !is_asked(gather, layer - gather->first_layer);
}

void pen_gather_use(struct pen_gather *gather, uint32_t layer)
{
    const struct pen_network *network = gather->options.network;
    struct pen_engine *engine = pen_network_engine(network);
    struct layer *it = layer_of(gather, layer);
    if (!it->is_new || gather->turns == NULL)
        return;
    it->is_new = false;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++)
        if (parameter_of(gather, i)->layer == layer &&
            pen_turns_has(gather->turns, i))
            engine->ops->parameter_value_changed(
                engine, parameter_of(gather, i)->parameter);
}

/* ---- pieces ---- */

static void show_piece(struct pen_gather *gather, struct lane *lane)
{
    const struct piece *piece = lane->piece;
    const struct pen_mirror_piece shown = {
        .parameter = parameter_of(gather, piece->parameter)->parameter,
        .part = PEN_PART_VALUE,
        .first = piece->first,
        .count = piece->count};
    if (is_own(gather, piece))
        pen_mirror_open(&lane->mirror, &shown);
    else
        pen_mirror_cover(&lane->mirror, &shown);
}

/* Sets out a piece once its mirror shows it; never waits for the engine. */
static void set_out_when_shown(struct pen_gather *gather, struct lane *lane)
{
    struct pen_group *group = gather->options.group;
    uint32_t channel = channel_of(gather, lane);
    const struct piece *piece = lane->piece;
    if (!pen_mirror_is_ready(&lane->mirror))
        return;
    lane->is_waiting = false;
    void *values = pen_mirror_at(&lane->mirror);
    size_t bytes = piece->count * sizeof(float);
    if (!is_own(gather, piece)) {
        uint32_t from = source_of(gather, piece);
        pen_group_receive(group, from, channel, values, bytes,
                          &lane->requests[from]);
        return;
    }
    uint32_t size = gather->options.size, own = own_group(gather);
    uint32_t count = gather->is_spreading ? group->size / size : size;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t to = gather->is_spreading
                          ? keeper_in(gather, (own + i) % count, piece)
                          : own * size + (group->self + i) % size;
        pen_group_send(group, to, channel, values, bytes, &lane->requests[to]);
    }
}

static struct pen_sum *phantom_sum(const struct pen_gather *gather,
                                   const struct lane *lane)
{
    return gather->is_spreading ? lane->spread : lane->sum;
}

/* Each member sends its share to all others of its group; or of what a place in
 * the groups keeps to those with the same place. */
static void set_out_phantom(const struct pen_gather *gather, struct lane *lane)
{
    uint64_t count = lane->piece->count, size = gather->options.size;
    uint64_t place = gather->options.group->self % size;
    if (gather->is_spreading)
        count = count * (place + 1) / size - count * place / size;
    const struct pen_sum_job job = {.way = PEN_SUM_OUT,
                                    .count = (size_t)count,
                                    .element_bytes =
                                        gather->options.phantom->value_size};
    pen_sum_begin(phantom_sum(gather, lane), &job);
}

static bool is_finished(struct pen_gather *gather, struct lane *lane)
{
    const struct piece *piece = lane->piece;
    if (gather->options.phantom != NULL) {
        if (pen_sum_poll(phantom_sum(gather, lane)) != PEN_OK)
            return false;
        if (!gather->is_spreading)
            gather->layers[piece->layer].num_missing--;
        return true;
    }
    if (!pen_group_is_done(gather->options.group, lane->requests,
                           gather->options.group->size))
        return false;
    if (!is_own(gather, piece)) {
        pen_mirror_put(&lane->mirror);
        if (!gather->is_spreading)
            gather->layers[piece->layer].num_missing--;
    }
    return true;
}

/* The next layer that was asked for, when all of the first has set out. */
static void turn_to_next(struct pen_gather *gather)
{
    if (gather->next < gather->layers[gather->asked[0]].end)
        return;
    gather->num_asked--;
    for (uint32_t i = 0; i < gather->num_asked; i++)
        gather->asked[i] = gather->asked[i + 1];
    if (gather->num_asked > 0)
        gather->next = gather->layers[gather->asked[0]].first;
}

static void set_out(struct pen_gather *gather, struct lane *lane,
                    const struct piece *piece)
{
    lane->piece = piece;
    if (gather->options.phantom != NULL) {
        set_out_phantom(gather, lane);
        return;
    }
    lane->is_waiting = true;
    show_piece(gather, lane);
    set_out_when_shown(gather, lane);
}

/* Spreads pieces that this member owns, or keeps for another owner. */
static void spread_pieces(struct pen_gather *gather)
{
    while (gather->next < gather->num_pieces) {
        const struct piece *piece = &gather->pieces[gather->next];
        struct lane *lane = &gather->lanes[gather->num_set_out % LANES];
        bool is_here =
            gather->options.phantom != NULL ||
            pen_reduction_keeps(gather->options.reduction, piece->parameter);
        if (is_here && lane->piece != NULL)
            return;
        gather->next++;
        gather->num_set_out++;
        if (is_here)
            set_out(gather, lane, piece);
    }
    for (int i = 0; i < LANES; i++)
        if (gather->lanes[i].piece != NULL)
            return;
    gather->is_spreading = false;
}

void pen_gather_spread(struct pen_gather *gather)
{
    PEN_BUG_UNLESS(pen_gather_is_done(gather));
    gather->is_spreading = gather->options.size < gather->options.group->size;
    gather->next = 0;
    pen_gather_poll(gather);
}

static void start_pieces(struct pen_gather *gather)
{
    while (gather->num_asked > 0) {
        struct lane *lane = &gather->lanes[gather->num_set_out % LANES];
        if (lane->piece != NULL)
            return;
        gather->num_set_out++;
        set_out(gather, lane, &gather->pieces[gather->next++]);
        turn_to_next(gather);
    }
}

void pen_gather_poll(struct pen_gather *gather)
{
    for (int i = 0; i < LANES; i++) {
        struct lane *lane = &gather->lanes[i];
        if (lane->piece == NULL)
            continue;
        if (lane->is_waiting)
            set_out_when_shown(gather, lane);
        else if (is_finished(gather, lane))
            lane->piece = NULL;
    }
    if (gather->is_spreading)
        spread_pieces(gather);
    else
        start_pieces(gather);
}

bool pen_gather_is_done(const struct pen_gather *gather)
{
    for (int i = 0; i < LANES; i++)
        if (gather->lanes[i].piece != NULL)
            return false;
    return gather->num_asked == 0 && !gather->is_spreading;
}
