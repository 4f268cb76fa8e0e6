#include "runtime/reduction.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "runtime/all_reduce.h"
#include "runtime/gradients.h"
#include "runtime/sparse_rows.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    size_t parameter;
    size_t first;
    size_t count;
    size_t width; /* of its rows, where those that are zero stay; else 0 */
    uint32_t owner;
    uint32_t layer;
    bool is_tied; /* comes last, when its gradient is whole */
};

/* A piece under way. */
struct lane {
    struct piece *piece;          /* NULL: free */
    bool is_waiting;              /* for its mirror, before it sets out */
    bool is_coming_back;          /* the second half of its way */
    struct pen_mirror mirror;     /* of the piece on this member */
    struct pen_request *requests; /* one per member */
    float *staged;                /* of the owner: one piece per member;
                                     the first is a message with rows */
    struct pen_all_reduce *fast;  /* does it all instead; or NULL */
};

struct pen_reduction {
    struct pen_reduction_options options;
    uint32_t *ranks;
    uint32_t *owners;   /* per parameter, where sharded */
    size_t piece_count; /* elements, at most */
    size_t stride;      /* from one that is staged to the next */
    struct piece *pieces;
    size_t num_pieces;
    size_t num_started;
    size_t num_ready; /* of the pieces in their order */
    size_t num_plain; /* before the tied ones */
    bool is_sharing;  /* values, not gradients */
    struct lane lanes[PEN_REDUCTION_LANES];
    float *block;
    float **sums; /* per member, while one sums */
};

/* ---- who owns what ---- */

static size_t count_of(const struct pen_reduction *reduction, size_t parameter)
{
    const struct pen_network_parameter *it =
        pen_network_parameter(reduction->options.network, parameter);
    return it->is_value_only ? 0 : pen_network_count(it);
}

/* The first of those who have least to sum so far. */
static uint32_t find_idlest(const size_t *loads, uint32_t num_members)
{
    uint32_t idlest = 0;
    for (uint32_t k = 1; k < num_members; k++)
        if (loads[k] < loads[idlest])
            idlest = k;
    return idlest;
}

/* The largest first, each to who has least so far. */
static pen_status choose_owners(struct pen_reduction *reduction)
{
    uint32_t num_members = reduction->options.num_members;
    size_t num = pen_network_num_parameters(reduction->options.network);
    size_t *loads = calloc(num_members, sizeof *loads);
    bool *is_done = calloc(num, sizeof *is_done);
    reduction->owners = calloc(num, sizeof *reduction->owners);
    bool is_made =
        loads != NULL && is_done != NULL && reduction->owners != NULL;
    for (size_t round = 0; round < num && is_made; round++) {
        size_t largest = num;
        for (size_t i = 0; i < num; i++)
            if (!is_done[i] &&
                (largest == num ||
                 count_of(reduction, i) > count_of(reduction, largest)))
                largest = i;
        uint32_t least = find_idlest(loads, num_members);
        is_done[largest] = true;
        reduction->owners[largest] = least;
        loads[least] += count_of(reduction, largest);
    }
    free(loads);
    free(is_done);
    return is_made ? PEN_OK : PEN_NOMEM;
}

bool pen_reduction_owns(const struct pen_reduction *reduction, size_t parameter)
{
    return reduction->owners == NULL ||
           reduction->owners[parameter] == reduction->options.member;
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

/* Of rows that may stay; 0 where all go. Rows that are cut do not stay. */
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
    for (size_t first = 0; first < total; first += length) {
        size_t left = total - first;
        reduction->pieces[reduction->num_pieces++] =
            (struct piece){.parameter = parameter,
                           .first = first,
                           .count = left < length ? left : length,
                           .width = width_of(reduction, parameter),
                           .layer = it->layer,
                           .is_tied = it == pen_network_tied(network)};
    }
}

/* Shared pieces differ in length: every member sums an equal share of them. */
static pen_status give_owners(struct pen_reduction *reduction)
{
    uint32_t num_members = reduction->options.num_members;
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
    uint32_t num_members = reduction->options.num_members;
    size_t num = pen_network_num_parameters(reduction->options.network);
    size_t largest = 0;
    for (size_t i = 0; i < num; i++)
        if (count_of(reduction, i) > largest)
            largest = count_of(reduction, i);
    reduction->piece_count = reduction->options.phantom != NULL
                                 ? phantom_piece(reduction, largest)
                                 : pen_needs_piece(num_members, largest);
    reduction->stride =
        reduction->piece_count + (reduction->options.is_sparse ? 1 : 0);
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

/* Sums in whatever order; owners need theirs whole. */
static bool is_fast(const struct pen_reduction *reduction)
{
    const struct pen_reduction_options *options = &reduction->options;
    return options->phantom != NULL ||
           (options->is_fast && !options->is_sharded);
}

/*
 * A lane has tags of its own: of two pieces under way the second may be summed
 * first.
 */
static struct pen_tag tag_of(const struct pen_reduction *reduction,
                             const struct lane *lane, enum pen_tag_kind kind)
{
    return (struct pen_tag){kind,
                            reduction->options.part * PEN_REDUCTION_LANES +
                                (uint32_t)(lane - reduction->lanes)};
}

static struct pen_all_reduce_options
fast_options(const struct pen_reduction *reduction, const struct lane *lane)
{
    const struct pen_reduction_options *options = &reduction->options;
    return (struct pen_all_reduce_options){
        .transport = options->transport,
        .ranks = reduction->ranks,
        .num_members = options->num_members,
        .member = options->member,
        .tag = tag_of(reduction, lane, PEN_TAG_GRADIENT),
        .most = reduction->piece_count,
        .is_phantom = options->phantom != NULL};
}

size_t pen_reduction_bytes(const struct pen_reduction *reduction)
{
    size_t lanes = PEN_REDUCTION_LANES;
    struct pen_all_reduce_options fast =
        fast_options(reduction, &reduction->lanes[0]);
    return is_fast(reduction) ? lanes * pen_all_reduce_bytes(&fast)
                              : lanes * reduction->options.num_members *
                                    reduction->stride * sizeof(float);
}

static pen_status make_fast_lanes(struct pen_reduction *reduction)
{
    pen_status status = PEN_OK;
    for (int i = 0; i < PEN_REDUCTION_LANES && status == PEN_OK; i++) {
        struct lane *lane = &reduction->lanes[i];
        struct pen_all_reduce_options options = fast_options(reduction, lane);
        status = pen_all_reduce_create(&options, &lane->fast);
    }
    return status;
}

static pen_status make_lanes(struct pen_reduction *reduction)
{
    size_t num_members = reduction->options.num_members;
    reduction->sums = calloc(num_members, sizeof *reduction->sums);
    reduction->block = malloc(pen_reduction_bytes(reduction) + 1);
    if (reduction->sums == NULL || reduction->block == NULL)
        return PEN_NOMEM;
    memset(reduction->block, 0, pen_reduction_bytes(reduction));
    for (size_t i = 0; i < PEN_REDUCTION_LANES; i++) {
        struct lane *lane = &reduction->lanes[i];
        lane->requests = calloc(num_members, sizeof *lane->requests);
        if (lane->requests == NULL)
            return PEN_NOMEM;
        lane->staged = reduction->block + i * num_members * reduction->stride;
    }
    return PEN_OK;
}

static pen_status make_mirrors(struct pen_reduction *reduction)
{
    pen_status status = PEN_OK;
    for (int i = 0; i < PEN_REDUCTION_LANES && status == PEN_OK; i++)
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
    size_t bytes = options->num_members * sizeof *reduction->ranks;
    reduction->options = *options;
    reduction->ranks = malloc(bytes);
    pen_status status = reduction->ranks == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        memcpy(reduction->ranks, options->ranks, bytes);
    if (status == PEN_OK && options->is_sharded && options->phantom == NULL)
        status = choose_owners(reduction);
    if (status == PEN_OK)
        status = make_pieces(reduction);
    if (status == PEN_OK)
        status = is_fast(reduction) ? make_fast_lanes(reduction)
                                    : make_lanes(reduction);
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
    for (int i = 0; i < PEN_REDUCTION_LANES; i++) {
        free(reduction->lanes[i].requests);
        pen_mirror_release(&reduction->lanes[i].mirror);
        pen_all_reduce_free(reduction->lanes[i].fast);
    }
    free(reduction->block);
    free(reduction->sums);
    free(reduction->pieces);
    free(reduction->owners);
    free(reduction->ranks);
    free(reduction);
}

/* ---- the way of a piece ---- */

static bool is_own(const struct pen_reduction *reduction,
                   const struct piece *piece)
{
    return piece->owner == reduction->options.member;
}

/* Values have no rows that are zero. */
static bool is_sparse(const struct pen_reduction *reduction,
                      const struct piece *piece)
{
    return piece->width > 0 && !reduction->is_sharing;
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

static size_t rows_of(const struct piece *piece)
{
    return piece->count / piece->width;
}

/* What is sent of a piece: where it lies, and its bytes. */
static const void *message_of(const struct pen_reduction *reduction,
                              const struct lane *lane, size_t *bytes)
{
    const struct piece *piece = lane->piece;
    const float *own = pen_mirror_at(&lane->mirror);
    *bytes = piece->count * sizeof(float);
    if (!is_sparse(reduction, piece))
        return own;
    *bytes =
        pen_sparse_rows_pack(own, rows_of(piece), piece->width, lane->staged);
    return lane->staged;
}

/* To members from `first` on and below `end`, but for this one. */
static void send_to(struct pen_reduction *reduction, struct lane *lane,
                    uint32_t first, uint32_t end, enum pen_tag_kind kind)
{
    size_t bytes;
    const void *message = message_of(reduction, lane, &bytes);
    for (uint32_t k = first; k < end; k++)
        if (k != reduction->options.member)
            pen_transport_send(reduction->options.transport,
                               reduction->ranks[k],
                               tag_of(reduction, lane, kind), message, bytes,
                               &lane->requests[k]);
}

static void send_to_others(struct pen_reduction *reduction, struct lane *lane,
                           enum pen_tag_kind kind)
{
    send_to(reduction, lane, 0, reduction->options.num_members, kind);
}

static void receive_from(struct pen_reduction *reduction, struct lane *lane,
                         uint32_t member, enum pen_tag_kind kind, float *to)
{
    const struct piece *piece = lane->piece;
    size_t bytes = is_sparse(reduction, piece)
                       ? pen_sparse_rows_most(rows_of(piece), piece->width)
                       : piece->count * sizeof(float);
    pen_transport_receive(
        reduction->options.transport, reduction->ranks[member],
        tag_of(reduction, lane, kind), to, bytes, &lane->requests[member]);
}

/* Of a phantom only lengths are known. */
static void set_out_fast(struct pen_reduction *reduction, struct lane *lane)
{
    const struct pen_reduction_options *options = &reduction->options;
    const struct pen_phantom *phantom = options->phantom;
    size_t count = lane->piece->count;
    enum pen_all_reduce_way way = !options->is_sharded ? PEN_ALL_REDUCE_BOTH
                                  : reduction->is_sharing
                                      ? PEN_ALL_REDUCE_GATHER
                                      : PEN_ALL_REDUCE_SCATTER;
    if (phantom == NULL)
        pen_all_reduce_begin(lane->fast, way, pen_mirror_at(&lane->mirror),
                             count, sizeof(float));
    else
        pen_all_reduce_begin(lane->fast, way, NULL, count,
                             reduction->is_sharing ? phantom->value_size
                                                   : phantom->gradient_size);
}

/* To the owner; or, with values, to everybody else at once. */
static void set_out(struct pen_reduction *reduction, struct lane *lane)
{
    uint32_t owner = lane->piece->owner;
    if (lane->fast != NULL) {
        set_out_fast(reduction, lane);
        return;
    }
    lane->is_coming_back = reduction->is_sharing;
    if (reduction->is_sharing) {
        if (is_own(reduction, lane->piece))
            send_to_others(reduction, lane, PEN_TAG_VALUE);
        else
            receive_from(reduction, lane, owner, PEN_TAG_VALUE,
                         pen_mirror_at(&lane->mirror));
        return;
    }
    if (!is_own(reduction, lane->piece)) {
        send_to(reduction, lane, owner, owner + 1, PEN_TAG_GRADIENT);
        return;
    }
    for (uint32_t k = 0; k < reduction->options.num_members; k++)
        if (k != owner)
            receive_from(reduction, lane, k, PEN_TAG_GRADIENT,
                         lane->staged + k * reduction->stride);
}

/* Messages to pieces, each where it lies; the place of the own one is free. */
static void fill_in_zeros(struct pen_reduction *reduction, struct lane *lane)
{
    size_t rows = rows_of(lane->piece), width = lane->piece->width;
    uint32_t own = reduction->options.member;
    float *aside = lane->staged + own * reduction->stride;
    for (uint32_t k = 0; k < reduction->options.num_members; k++) {
        float *staged = lane->staged + k * reduction->stride;
        if (k == own)
            continue;
        memcpy(aside, staged, pen_sparse_rows_bytes(staged, rows, width));
        pen_sparse_rows_unpack(aside, rows, width, staged);
    }
}

/* In the order of the tree, whoever owns the piece. */
static void sum_up(struct pen_reduction *reduction, struct lane *lane)
{
    uint32_t count = reduction->options.num_members;
    float *own = pen_mirror_at(&lane->mirror);
    if (is_sparse(reduction, lane->piece))
        fill_in_zeros(reduction, lane);
    for (uint32_t k = 0; k < count; k++)
        reduction->sums[k] = k == reduction->options.member
                                 ? own
                                 : lane->staged + k * reduction->stride;
    for (uint32_t step = 1; step < count; step *= 2)
        for (uint32_t k = 0; k + step < count; k += 2 * step)
            pen_add_floats(reduction->sums[k], reduction->sums[k + step],
                           lane->piece->count);
    if (reduction->sums[0] != own)
        memcpy(own, reduction->sums[0], lane->piece->count * sizeof *own);
    pen_mirror_put(&lane->mirror);
}

/* The piece is back; rows of it may lie in a message still. */
static void arrive(struct pen_reduction *reduction, struct lane *lane)
{
    const struct piece *piece = lane->piece;
    if (is_own(reduction, piece))
        return;
    if (is_sparse(reduction, piece))
        pen_sparse_rows_unpack(lane->staged, rows_of(piece), piece->width,
                               pen_mirror_at(&lane->mirror));
    pen_mirror_put(&lane->mirror);
}

/* The first half is done: true when there is a second. */
static bool turn_back(struct pen_reduction *reduction, struct lane *lane)
{
    bool is_owner = is_own(reduction, lane->piece);
    if (lane->is_coming_back) {
        arrive(reduction, lane);
        return false;
    }
    if (is_owner)
        sum_up(reduction, lane);
    if (reduction->options.is_sharded)
        return false;
    lane->is_coming_back = true;
    if (is_owner)
        send_to_others(reduction, lane, PEN_TAG_SUM);
    else
        receive_from(reduction, lane, lane->piece->owner, PEN_TAG_SUM,
                     is_sparse(reduction, lane->piece)
                         ? lane->staged
                         : pen_mirror_at(&lane->mirror));
    return true;
}

static bool is_quiet(struct pen_reduction *reduction, struct lane *lane)
{
    bool is_done = true;
    for (uint32_t k = 0; k < reduction->options.num_members; k++)
        if (pen_transport_test(reduction->options.transport,
                               &lane->requests[k]) != PEN_OK)
            is_done = false;
    return is_done;
}

/* Never waits for the engine. */
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
    if (lane->fast == NULL)
        return is_quiet(reduction, lane) && !turn_back(reduction, lane);
    if (!pen_all_reduce_poll(lane->fast))
        return false;
    if (reduction->options.phantom == NULL)
        pen_mirror_put(&lane->mirror);
    return true;
}

/* Piece n takes lane n modulo their number, on all members. */
static void start_pieces(struct pen_reduction *reduction)
{
    while (reduction->num_started < reduction->num_ready) {
        struct lane *lane =
            &reduction->lanes[reduction->num_started % PEN_REDUCTION_LANES];
        if (lane->piece != NULL)
            return;
        lane->piece = &reduction->pieces[reduction->num_started++];
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
    for (int i = 0; i < PEN_REDUCTION_LANES; i++) {
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

bool pen_reduction_is_done(const struct pen_reduction *reduction)
{
    for (int i = 0; i < PEN_REDUCTION_LANES; i++)
        if (reduction->lanes[i].piece != NULL)
            return false;
    return reduction->num_started == reduction->num_ready;
}
