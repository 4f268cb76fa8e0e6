#include "runtime/reduction.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "group/sum.h"
#include "group/tree.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 32 }; /* of a member */

struct piece {
    size_t parameter;
    size_t first;
    size_t count;
    size_t place; /* in the nodes of uneven shares */
    size_t width; /* of its rows, where those that are zero stay; else 0 */
    uint32_t owner;
    uint32_t layer;
    bool is_tied; /* comes last, when its gradient is whole */
};

/* A piece under way. */
struct lane {
    void *nodes[MOST_NODES];  /* of uneven shares: those before the piece */
    struct piece *piece;      /* NULL: free */
    bool is_waiting;          /* for its mirror, before it sets out */
    struct pen_mirror mirror; /* of the piece on this member */
    struct pen_sum *sum;
};

struct pen_reduction {
    struct pen_reduction_options options;
    uint32_t *owners;   /* per parameter, where sharded */
    size_t piece_count; /* elements, at most */
    struct piece *pieces;
    size_t num_pieces;
    size_t num_started;
    size_t num_ready; /* of the pieces in their order */
    size_t num_plain; /* before the tied ones */
    bool is_sharing;  /* values, not gradients */
    struct lane lanes[PEN_REDUCTION_LANES];
};

static uint32_t count_lanes(const struct pen_reduction *reduction)
{
    return reduction->options.phantom != NULL ? PEN_REDUCTION_PHANTOMS
                                              : PEN_REDUCTION_LANES;
}

/* ---- owners ---- */

static size_t count_of(const struct pen_reduction *reduction, size_t parameter)
{
    const struct pen_network_parameter *it =
        pen_network_parameter(reduction->options.network, parameter);
    bool is_summed =
        !it->is_value_only && it->num_dealt == reduction->options.num_dealt;
    return is_summed ? pen_network_count(it) : 0;
}

/* The first of the members that have least to sum so far. */
static uint32_t find_idlest(const size_t *loads, uint32_t num_members)
{
    uint32_t idlest = 0;
    for (uint32_t k = 1; k < num_members; k++)
        if (loads[k] < loads[idlest])
            idlest = k;
    return idlest;
}

/*
 * Elements that belong to one owner, by the first parameter that has some of
 * them, 0 by the others: the rank that writes a tensor has all of its pieces.
 */
static size_t *count_together(const struct pen_reduction *reduction,
                              size_t *firsts)
{
    const struct pen_network *network = reduction->options.network;
    size_t num = pen_network_num_parameters(network);
    size_t *counts = calloc(num, sizeof *counts);
    for (size_t i = 0; i < num && counts != NULL; i++) {
        uint32_t tensor = pen_network_parameter(network, i)->slices[0].tensor;
        firsts[i] = 0;
        while (pen_network_parameter(network, firsts[i])->slices[0].tensor !=
               tensor)
            firsts[i]++;
        counts[firsts[i]] += count_of(reduction, i);
    }
    return counts;
}

/*
 * Ranks of a tensor group have pieces of the same tensors, but for biases and
 * positions, which the first piece has alone. Their owners are chosen by whole
 * tensors, so that all of the group choose alike: the largest first, each to
 * the member with least so far.
 */
struct candidate {
    uint32_t tensor;
    uint64_t count; /* 0: it follows another one, or is not trained here */
};

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a;
    const struct candidate *right = b;
    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return left->tensor < right->tensor ? -1 : 1;
}

static uint64_t elements_of(const struct pen_model *model, uint32_t tensor)
{
    struct pen_tensor_info info;
    uint64_t count = 1;
    pen_model_tensor(model, tensor, &info);
    for (uint32_t i = 0; i < info.form->num_dims; i++)
        count *= info.form->shape[i];
    return count;
}

static bool is_of_expert(const struct pen_tensor_info *info)
{
    return info->form->tail != NULL || info->form->is_stacked;
}

/* Tensors of these layers that no piece here begins with may be those of others
 * of the group. Experts that are dealt out are alike in a group; ranks with
 * other ones choose owners for everything else and must not count them. */
static void list_candidates(const struct pen_network *network,
                            uint32_t num_dealt, struct candidate *out)
{
    const struct pen_model *model = pen_network_model(network);
    size_t num = pen_network_num_parameters(network);
    uint32_t first = pen_network_parameter(network, 0)->layer;
    uint32_t last = pen_network_parameter(network, num - 1)->layer;
    bool deals = pen_network_dealt_bytes(network) > 0;
    for (uint32_t t = 0; t < model->num_tensors; t++) {
        struct pen_tensor_info info;
        pen_model_tensor(model, t, &info);
        bool is_here = info.layer >= first && info.layer <= last &&
                       num_dealt == 1 && !(deals && is_of_expert(&info));
        out[t] = (struct candidate){t, is_here ? elements_of(model, t) : 0};
    }
    for (size_t i = 0; i < num; i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (it->num_dealt != num_dealt)
            continue;
        for (size_t k = 1; k < it->num_slices; k++) {
            uint32_t follower = it->slices[k].tensor;
            out[it->slices[0].tensor].count += out[follower].count;
            out[follower].count = 0;
        }
        struct candidate *own = &out[it->slices[0].tensor];
        if (it->is_value_only)
            own->count = 0;
        else if (own->count == 0) /* tied to another stage's */
            own->count = elements_of(model, own->tensor);
    }
}

static pen_status choose_by_tensors(struct pen_reduction *reduction)
{
    const struct pen_network *network = reduction->options.network;
    uint32_t num_members = reduction->options.group->size;
    uint32_t num_tensors = pen_network_model(network)->num_tensors;
    size_t num = pen_network_num_parameters(network);
    struct candidate *all = calloc(num_tensors, sizeof *all);
    uint32_t *owners = calloc(num_tensors, sizeof *owners);
    size_t *loads = calloc(num_members, sizeof *loads);
    reduction->owners = calloc(num, sizeof *reduction->owners);
    bool is_made = all != NULL && owners != NULL && loads != NULL &&
                   reduction->owners != NULL;
    if (is_made) {
        list_candidates(network, reduction->options.num_dealt, all);
        qsort(all, num_tensors, sizeof *all, compare_candidates);
    }
    for (uint32_t t = 0; t < num_tensors && is_made && all[t].count > 0; t++) {
        uint32_t least = find_idlest(loads, num_members);
        owners[all[t].tensor] = least;
        loads[least] += (size_t)all[t].count;
    }
    for (size_t i = 0; i < num && is_made; i++)
        reduction->owners[i] =
            owners[pen_network_parameter(network, i)->slices[0].tensor];
    free(all);
    free(owners);
    free(loads);
    return is_made ? PEN_OK : PEN_NOMEM;
}

/* Chooses owners: the largest first, each to the member with least so far. */
static pen_status choose_owners(struct pen_reduction *reduction)
{
    if (reduction->options.is_cut)
        return choose_by_tensors(reduction);
    uint32_t num_members = reduction->options.group->size;
    size_t num = pen_network_num_parameters(reduction->options.network);
    size_t *loads = calloc(num_members, sizeof *loads);
    size_t *firsts = calloc(num, sizeof *firsts);
    size_t *counts = firsts == NULL ? NULL : count_together(reduction, firsts);
    bool *is_done = calloc(num, sizeof *is_done);
    reduction->owners = calloc(num, sizeof *reduction->owners);
    bool is_made = loads != NULL && counts != NULL && is_done != NULL &&
                   reduction->owners != NULL;
    for (size_t round = 0; round < num && is_made; round++) {
        size_t largest = num;
        for (size_t i = 0; i < num; i++)
            if (!is_done[i] && firsts[i] == i &&
                (largest == num || counts[i] > counts[largest]))
                largest = i;
        if (largest == num)
            break;
        uint32_t least = find_idlest(loads, num_members);
        is_done[largest] = true;
        reduction->owners[largest] = least;
        loads[least] += counts[largest];
    }
    for (size_t i = 0; i < num && is_made; i++)
        reduction->owners[i] = reduction->owners[firsts[i]];
    free(loads);
    free(firsts);
    free(counts);
    free(is_done);
    return is_made ? PEN_OK : PEN_NOMEM;
}

bool pen_reduction_owns(const struct pen_reduction *reduction, size_t parameter)
{
    return reduction->owners == NULL ||
           reduction->owners[parameter] == reduction->options.group->self;
}

uint32_t pen_reduction_owner(const struct pen_reduction *reduction,
                             size_t parameter)
{
    return reduction->owners[parameter];
}

bool pen_reduction_leaves(const struct pen_reduction *reduction,
                          size_t parameter)
{
    const struct pen_network *network = reduction->options.network;
    const struct pen_network_parameter *it =
        pen_network_parameter(network, parameter);
    return it->num_dealt == reduction->options.num_dealt &&
           pen_network_is_of_one_layer(network, it);
}

static bool is_gathered(const struct pen_reduction *reduction, size_t parameter)
{
    return reduction->options.gathered_by > 0 &&
           pen_reduction_leaves(reduction, parameter);
}

bool pen_reduction_keeps(const struct pen_reduction *reduction,
                         size_t parameter)
{
    const struct pen_reduction_options *options = &reduction->options;
    return !is_gathered(reduction, parameter) ||
           reduction->owners[parameter] % options->gathered_by ==
               options->group->self % options->gathered_by;
}

/* ---- pieces ---- */

static int compare_pieces(const void *a, const void *b)
{
    const struct piece *left = a;
    const struct piece *right = b;
    if (left->is_tied != right->is_tied)
        return left->is_tied ? 1 : -1;
    if (left->layer != right->layer)
        return left->layer > right->layer ? -1 : 1;
    if (left->parameter != right->parameter)
        return left->parameter < right->parameter ? -1 : 1;
    return left->first < right->first ? -1 : left->first > right->first;
}

/*
 * Row width for sparse sending, or 0 for dense. Rows split across pieces are
 * sent dense.
 */
static size_t width_of(const struct pen_reduction *reduction, size_t parameter)
{
    const struct pen_network_parameter *it =
        pen_network_parameter(reduction->options.network, parameter);
    return reduction->options.is_sparse && it->has_sparse_gradient &&
                   it->columns <= reduction->piece_count
               ? it->columns
               : 0;
}

/* Elements of the pieces of a parameter, at most. */
static size_t piece_length(const struct pen_reduction *reduction,
                           size_t parameter)
{
    size_t width = width_of(reduction, parameter);
    return width == 0 ? reduction->piece_count
                      : reduction->piece_count / width * width;
}

static void cut_parameter(struct pen_reduction *reduction, size_t parameter)
{
    const struct pen_network *network = reduction->options.network;
    const struct pen_network_parameter *it =
        pen_network_parameter(network, parameter);
    size_t total = count_of(reduction, parameter);
    size_t length = piece_length(reduction, parameter);
    size_t place =
        reduction->options.shares == NULL
            ? 0
            : pen_gradients_place(reduction->options.gradients, parameter);
    for (size_t first = 0; first < total; first += length) {
        size_t left = total - first;
        reduction->pieces[reduction->num_pieces++] =
            (struct piece){.parameter = parameter,
                           .first = first,
                           .count = left < length ? left : length,
                           .place = place + first,
                           .width = width_of(reduction, parameter),
                           .layer = it->layer,
                           .is_tied = pen_network_is_tied(network, it)};
    }
}

/* Shared pieces differ in length: every member sums an equal share of them. */
static pen_status give_owners(struct pen_reduction *reduction)
{
    uint32_t num_members = reduction->options.group->size;
    size_t *loads = calloc(num_members, sizeof *loads);
    if (loads == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < reduction->num_pieces; i++) {
        struct piece *piece = &reduction->pieces[i];
        piece->owner = reduction->owners != NULL
                           ? reduction->owners[piece->parameter]
                           : find_idlest(loads, num_members);
        loads[piece->owner] += piece->count;
        reduction->num_plain += !piece->is_tied;
    }
    free(loads);
    return PEN_OK;
}

/* A whole array, unless half of it is more than a message may have. */
static size_t phantom_piece(const struct pen_reduction *reduction,
                            size_t largest)
{
    const struct pen_phantom *phantom = reduction->options.phantom;
    size_t size = phantom->gradient_size > phantom->value_size
                      ? phantom->gradient_size
                      : phantom->value_size;
    size_t most = 2 * ((size_t)INT_MAX / size);
    return largest < most ? largest : most;
}

static pen_status make_pieces(struct pen_reduction *reduction)
{
    uint32_t num_members = reduction->options.group->size;
    size_t num = pen_network_num_parameters(reduction->options.network);
    size_t largest = 0;
    for (size_t i = 0; i < num; i++)
        if (count_of(reduction, i) > largest)
            largest = count_of(reduction, i);
    reduction->piece_count = reduction->options.phantom != NULL
                                 ? phantom_piece(reduction, largest)
                                 : pen_needs_piece(num_members, largest);
    size_t most = 0;
    for (size_t i = 0; i < num && largest > 0; i++)
        most += count_of(reduction, i) / piece_length(reduction, i) + 1;
    reduction->pieces = calloc(most + 1, sizeof *reduction->pieces);
    if (reduction->pieces == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < num; i++)
        cut_parameter(reduction, i);
    qsort(reduction->pieces, reduction->num_pieces, sizeof *reduction->pieces,
          compare_pieces);
    return give_owners(reduction);
}

/* ---- making ---- */

/* Whether sums may have any order; owners need theirs whole. */
static bool is_fast(const struct pen_reduction *reduction)
{
    const struct pen_reduction_options *options = &reduction->options;
    return options->phantom != NULL ||
           (options->is_fast && !options->is_sharded);
}

/*
 * A lane has channels of its own: of two pieces under way the second may be
 * summed first.
 */
static struct pen_sum_options sum_options(const struct pen_reduction *reduction,
                                          uint32_t lane)
{
    const struct pen_reduction_options *options = &reduction->options;
    return (struct pen_sum_options){.group = options->group,
                                    .channel = lane * PEN_REDUCTION_CHANNELS,
                                    .leaves = options->shares,
                                    .route = is_fast(reduction) ? PEN_SUM_FAST
                                                                : PEN_SUM_OWNER,
                                    .is_sparse = options->is_sparse,
                                    .is_phantom = options->phantom != NULL,
                                    .most = reduction->piece_count};
}

size_t pen_reduction_bytes(const struct pen_reduction *reduction)
{
    return count_lanes(reduction) * pen_sum_bytes(reduction->lanes[0].sum);
}

static pen_status make_lanes(struct pen_reduction *reduction)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < count_lanes(reduction) && status == PEN_OK; i++) {
        const struct pen_sum_options options = sum_options(reduction, i);
        status = pen_sum_create(&options, &reduction->lanes[i].sum);
    }
    return status;
}

static pen_status make_mirrors(struct pen_reduction *reduction)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < count_lanes(reduction) && status == PEN_OK; i++)
        status = pen_mirror_init(&reduction->lanes[i].mirror,
                                 pen_network_engine(reduction->options.network),
                                 reduction->piece_count);
    return status;
}

pen_status pen_reduction_create(const struct pen_reduction_options *options,
                                struct pen_reduction **out)
{
    struct pen_reduction *reduction = calloc(1, sizeof *reduction);
    if (reduction == NULL)
        return PEN_NOMEM;
    pen_status status = PEN_OK;
    reduction->options = *options;
    if (options->is_sharded && options->phantom == NULL)
        status = choose_owners(reduction);
    if (status == PEN_OK)
        status = make_pieces(reduction);
    if (status == PEN_OK)
        status = make_lanes(reduction);
    if (status == PEN_OK && options->phantom == NULL)
        status = make_mirrors(reduction);
    if (status == PEN_OK)
        *out = reduction;
    else
        pen_reduction_free(reduction);
    return status;
}

void pen_reduction_free(struct pen_reduction *reduction)
{
    if (reduction == NULL)
        return;
    for (uint32_t i = 0; i < count_lanes(reduction); i++) {
        pen_mirror_release(&reduction->lanes[i].mirror);
        pen_sum_free(reduction->lanes[i].sum);
    }
    free(reduction->pieces);
    free(reduction->owners);
    free(reduction);
}

/* ---- the way of a piece ---- */

static bool is_own(const struct pen_reduction *reduction,
                   const struct piece *piece)
{
    return piece->owner == reduction->options.group->self;
}

/* Values from elsewhere replace those that are here. */
static void show_piece(struct pen_reduction *reduction, struct lane *lane)
{
    const struct piece *piece = lane->piece;
    const struct pen_mirror_piece shown = {
        .parameter =
            pen_network_parameter(reduction->options.network, piece->parameter)
                ->parameter,
        .part = reduction->is_sharing ? PEN_PART_VALUE : PEN_PART_GRADIENT,
        .is_second = reduction->options.has_second && !reduction->is_sharing,
        .first = piece->first,
        .count = piece->count};
    if (reduction->is_sharing && !is_own(reduction, piece))
        pen_mirror_cover(&lane->mirror, &shown);
    else
        pen_mirror_open(&lane->mirror, &shown);
}

/* The sums of uneven shares that the engine does not have. */
static void show_nodes(const struct pen_reduction *reduction, struct lane *lane)
{
    const struct pen_reduction_options *options = &reduction->options;
    uint32_t first = 0, self = options->group->self;
    if (options->shares == NULL || reduction->is_sharing)
        return;
    for (uint32_t k = 0; k < self; k++)
        first += options->shares[k];
    uint32_t count = pen_tree_count_nodes(first, first + options->shares[self]);
    float *const *nodes = pen_gradients_nodes(options->gradients);
    PEN_BUG_UNLESS(count <= MOST_NODES);
    for (uint32_t i = 0; i + 1 < count; i++)
        lane->nodes[i] = nodes[i] + lane->piece->place;
}

/*
 * Gradients go to the owner and, unless it keeps them, back; values go from the
 * owner to all. With phantoms only lengths are known, and values have no rows
 * that are zero.
 */
static void set_out(struct pen_reduction *reduction, struct lane *lane)
{
    const struct pen_phantom *phantom = reduction->options.phantom;
    const struct piece *piece = lane->piece;
    bool is_sharing = reduction->is_sharing;
    show_nodes(reduction, lane);
    const struct pen_sum_job job = {
        .way = is_sharing                      ? PEN_SUM_OUT
               : reduction->options.is_sharded ? PEN_SUM_IN
                                               : PEN_SUM_BOTH,
        .values = phantom == NULL ? pen_mirror_at(&lane->mirror) : NULL,
        .count = piece->count,
        .nodes = lane->nodes,
        .owner = piece->owner,
        .width = is_sharing ? 0 : piece->width,
        .element_bytes = phantom == NULL ? 0
                         : is_sharing    ? phantom->value_size
                                         : phantom->gradient_size,
        .further_channel = is_sharing ? 1 : 0};
    pen_sum_begin(lane->sum, &job);
}

/* Whether the piece has other numbers than those that set out. */
static bool has_changed(const struct pen_reduction *reduction,
                        const struct lane *lane)
{
    return is_fast(reduction) ||
           (is_own(reduction, lane->piece)
                ? !reduction->is_sharing
                : reduction->is_sharing || !reduction->options.is_sharded);
}

/* Sets out a piece once its mirror shows it; never waits for the engine. */
static void set_out_when_shown(struct pen_reduction *reduction,
                               struct lane *lane)
{
    if (reduction->options.phantom == NULL &&
        !pen_mirror_is_ready(&lane->mirror))
        return;
    lane->is_waiting = false;
    set_out(reduction, lane);
}

/* The lane is free when its piece is back. */
static bool is_finished(struct pen_reduction *reduction, struct lane *lane)
{
    if (pen_sum_poll(lane->sum) != PEN_OK)
        return false;
    if (reduction->options.phantom == NULL && has_changed(reduction, lane))
        pen_mirror_put(&lane->mirror);
    return true;
}

/* Piece n takes lane n modulo their number, on all members. */
static void start_pieces(struct pen_reduction *reduction)
{
    while (reduction->num_started < reduction->num_ready) {
        struct lane *lane =
            &reduction->lanes[reduction->num_started % count_lanes(reduction)];
        if (lane->piece != NULL)
            return;
        lane->piece = &reduction->pieces[reduction->num_started++];
        if (reduction->is_sharing &&
            is_gathered(reduction, lane->piece->parameter)) {
            lane->piece = NULL;
            continue;
        }
        lane->is_waiting = true;
        if (reduction->options.phantom == NULL)
            show_piece(reduction, lane);
        set_out_when_shown(reduction, lane);
    }
}

/* ---- steps ---- */

void pen_reduction_begin(struct pen_reduction *reduction)
{
    PEN_BUG_UNLESS(pen_reduction_is_done(reduction));
    reduction->is_sharing = false;
    reduction->num_started = 0;
    reduction->num_ready = 0;
}

void pen_reduction_layer(struct pen_reduction *reduction, uint32_t layer)
{
    uint32_t last = layer > 0 ? layer : 1; /* an embedding gathers still */
    while (reduction->num_ready < reduction->num_plain &&
           reduction->pieces[reduction->num_ready].layer >= last)
        reduction->num_ready++;
}

void pen_reduction_start(struct pen_reduction *reduction)
{
    reduction->num_ready = reduction->num_plain;
}

void pen_reduction_start_tied(struct pen_reduction *reduction)
{
    reduction->num_ready = reduction->num_pieces;
}

void pen_reduction_share(struct pen_reduction *reduction)
{
    pen_reduction_begin(reduction);
    reduction->is_sharing = true;
    reduction->num_ready = reduction->num_pieces;
}

void pen_reduction_poll(struct pen_reduction *reduction)
{
    for (uint32_t i = 0; i < count_lanes(reduction); i++) {
        struct lane *lane = &reduction->lanes[i];
        if (lane->piece == NULL)
            continue;
        if (lane->is_waiting)
            set_out_when_shown(reduction, lane);
        else if (is_finished(reduction, lane))
            lane->piece = NULL;
    }
    start_pieces(reduction);
}

static bool is_behind(const struct piece *piece, uint32_t layer)
{
    return !piece->is_tied && piece->layer >= layer;
}

bool pen_reduction_has_left(const struct pen_reduction *reduction,
                            uint32_t layer)
{
    size_t next = reduction->num_started;
    if (next < reduction->num_pieces &&
        is_behind(&reduction->pieces[next], layer))
        return false;
    for (uint32_t i = 0; i < count_lanes(reduction); i++) {
        const struct piece *piece = reduction->lanes[i].piece;
        if (piece != NULL && is_behind(piece, layer) &&
            !is_own(reduction, piece))
            return false;
    }
    return true;
}

bool pen_reduction_is_done(const struct pen_reduction *reduction)
{
    for (uint32_t i = 0; i < count_lanes(reduction); i++)
        if (reduction->lanes[i].piece != NULL)
            return false;
    return reduction->num_started == reduction->num_ready;
}
