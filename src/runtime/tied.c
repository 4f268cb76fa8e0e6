#include "runtime/tied.h"

#include "base/bug.h"
#include "engine/mirror.h"

#include <stdlib.h>
#include <string.h>

/* One replica's rows under way: their number and words, and the rows. */
struct parcel {
    int32_t *words; /* the first is their number */
    char *rows;
    struct pen_request requests[2];
};

struct pen_tied {
    struct pen_tied_options options;
    uint32_t peer; /* world rank of the other end */
    size_t capacity;
    size_t row_bytes;
    uint32_t num_parcels; /* of the head: one per logical replica */
    uint32_t first;       /* of these, among those of the head's weights */
    bool has_value;       /* the embedding has it from this copy's head */
    struct parcel *parcels;
    uint32_t steps_left; /* of the pass, whose gradients are yet to come */
    uint32_t num_values; /* parameters that are tied */
    struct pen_request *values;   /* of each */
    struct pen_mirror *head;      /* of its values, as sent; where it is here */
    struct pen_mirror *embedding; /* likewise, as received */
};

static struct pen_engine *engine_of(const struct pen_tied *tied)
{
    return pen_network_engine(tied->options.head != NULL
                                  ? tied->options.head
                                  : tied->options.embedding);
}

static bool is_local(const struct pen_tied *tied)
{
    return tied->options.head != NULL && tied->options.embedding != NULL;
}

static size_t word_bytes(const struct pen_tied *tied)
{
    return (tied->capacity + 1) * sizeof(int32_t);
}

static pen_status make_parcel(const struct pen_tied *tied,
                              struct parcel *parcel, bool with_rows)
{
    parcel->words =
        pen_engine_take(engine_of(tied), PEN_PLACE_STAGING, word_bytes(tied));
    if (parcel->words == NULL)
        return PEN_NOMEM;
    if (!with_rows)
        return PEN_OK;
    parcel->rows = pen_engine_take(engine_of(tied), PEN_PLACE_STAGING,
                                   tied->capacity * tied->row_bytes);
    return parcel->rows == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status make_parcels(struct pen_tied *tied)
{
    bool is_head = tied->options.head != NULL;
    if (is_local(tied))
        return PEN_OK;
    tied->num_parcels =
        is_head ? pen_layout_copy_share(&tied->options.layout) : 1;
    tied->parcels = calloc(tied->num_parcels, sizeof *tied->parcels);
    pen_status status = tied->parcels == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t i = 0; i < tied->num_parcels && status == PEN_OK; i++)
        status = make_parcel(tied, &tied->parcels[i], is_head);
    return status;
}

/* The pieces of the tied matrix of one end; there may be none here. */
static pen_status make_mirrors(struct pen_network *network, uint32_t count,
                               struct pen_mirror **out)
{
    if (network == NULL)
        return PEN_OK;
    const struct pen_network_parameter *tied = pen_network_tied(network);
    *out = calloc(count, sizeof **out);
    pen_status status = *out == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++)
        status = pen_mirror_init(&(*out)[i], pen_network_engine(network),
                                 pen_network_count(&tied[i]));
    return status;
}

static void free_mirrors(struct pen_mirror *mirrors, uint32_t count)
{
    for (uint32_t i = 0; i < count && mirrors != NULL; i++)
        pen_mirror_release(&mirrors[i]);
    free(mirrors);
}

pen_status pen_tied_create(const struct pen_tied_options *options,
                           struct pen_tied **out)
{
    const struct pen_shape *shape = &options->layout.shape;
    struct pen_network *network =
        options->head != NULL ? options->head : options->embedding;
    struct pen_tied *tied = calloc(1, sizeof *tied);
    if (tied == NULL)
        return PEN_NOMEM;
    uint32_t parts = pen_shape_parts(shape);
    uint32_t other =
        options->copy * parts + (options->head != NULL ? 0 : parts - 1);
    tied->options = *options;
    tied->peer = pen_layout_peer(&options->layout, other);
    tied->has_value =
        pen_shape_keeper(shape, options->copy * parts) == options->copy * parts;
    tied->first = options->copy % pen_shape_users(shape, parts - 1) *
                  pen_layout_copy_share(&options->layout);
    tied->capacity = pen_network_gathered_capacity(network);
    tied->row_bytes = pen_network_model(network)->hidden * sizeof(float);
    tied->num_values = pen_network_num_tied(network);
    tied->values = calloc(tied->num_values, sizeof *tied->values);
    pen_status status = tied->values == NULL ? PEN_NOMEM : make_parcels(tied);
    if (status == PEN_OK)
        status = make_mirrors(options->head, tied->num_values, &tied->head);
    if (status == PEN_OK)
        status = make_mirrors(options->embedding, tied->num_values,
                              &tied->embedding);
    if (status == PEN_OK)
        *out = tied;
    else
        pen_tied_free(tied);
    return status;
}

void pen_tied_free(struct pen_tied *tied)
{
    if (tied == NULL)
        return;
    for (uint32_t i = 0; i < tied->num_parcels && tied->parcels != NULL; i++) {
        struct parcel *parcel = &tied->parcels[i];
        pen_engine_give(engine_of(tied), PEN_PLACE_STAGING, parcel->words,
                        word_bytes(tied));
        pen_engine_give(engine_of(tied), PEN_PLACE_STAGING, parcel->rows,
                        tied->capacity * tied->row_bytes);
    }
    free_mirrors(tied->head, tied->num_values);
    free_mirrors(tied->embedding, tied->num_values);
    free(tied->values);
    free(tied->parcels);
    free(tied);
}

size_t pen_tied_bytes(const struct pen_tied *tied)
{
    size_t each = word_bytes(tied);
    if (tied->options.head != NULL)
        each += tied->capacity * tied->row_bytes;
    return tied->num_parcels * each;
}

void pen_tied_set_executor(struct pen_tied *tied, struct pen_executor *executor)
{
    tied->options.executor = executor;
}

bool pen_tied_is_head(const struct pen_tied *tied,
                      const struct pen_network *network)
{
    return tied->options.head == network;
}

bool pen_tied_is_embedding(const struct pen_tied *tied,
                           const struct pen_network *network)
{
    return tied->options.embedding == network;
}

uint32_t pen_tied_copy(const struct pen_tied *tied)
{
    return tied->options.copy;
}

/* ---- waiting ---- */

struct pending {
    struct pen_transport *transport;
    struct pen_request *requests;
    int count;
};

static bool is_done(void *context)
{
    const struct pending *pending = context;
    bool all = true;
    for (int i = 0; i < pending->count; i++)
        if (pen_transport_test(pending->transport, &pending->requests[i]) !=
            PEN_OK)
            all = false;
    return all;
}

static pen_status await(struct pen_tied *tied, struct pen_request *requests,
                        int count)
{
    struct pending pending = {tied->options.transport, requests, count};
    return pen_executor_wait(tied->options.executor, is_done, &pending,
                             tied->peer);
}

/* ---- gradients ---- */

/* The words and the rows of a replica, or the value, of this copy. */
static struct pen_tag tag_of(const struct pen_tied *tied, uint32_t what)
{
    return (struct pen_tag){PEN_TAG_TIED, tied->options.copy * 3 + what};
}

enum { WORDS, ROWS, VALUE };

/* Posts the receives of a step, once the engine has read those before. */
static void post_receives(struct pen_tied *tied)
{
    pen_engine_await(engine_of(tied));
    for (uint32_t i = 0; i < tied->num_parcels; i++) {
        struct parcel *parcel = &tied->parcels[i];
        pen_transport_receive(tied->options.transport, tied->peer,
                              tag_of(tied, WORDS), parcel->words,
                              word_bytes(tied), &parcel->requests[0]);
        pen_transport_receive(tied->options.transport, tied->peer,
                              tag_of(tied, ROWS), parcel->rows,
                              tied->capacity * tied->row_bytes,
                              &parcel->requests[1]);
    }
}

static bool is_receiving(const struct pen_tied *tied)
{
    return tied->options.head != NULL && !is_local(tied);
}

void pen_tied_begin(struct pen_tied *tied, uint32_t steps)
{
    tied->steps_left = steps;
    if (is_receiving(tied))
        post_receives(tied);
}

static pen_status send_rows(struct pen_tied *tied, size_t count,
                            const int32_t *words, const void *rows)
{
    struct parcel *parcel = &tied->parcels[0];
    pen_engine_await(engine_of(tied));
    parcel->words[0] = (int32_t)count;
    memcpy(parcel->words + 1, words, count * sizeof *words);
    pen_transport_send(tied->options.transport, tied->peer, tag_of(tied, WORDS),
                       parcel->words, (count + 1) * sizeof *words,
                       &parcel->requests[0]);
    pen_transport_send(tied->options.transport, tied->peer, tag_of(tied, ROWS),
                       rows, count * tied->row_bytes, &parcel->requests[1]);
    return await(tied, parcel->requests, 2);
}

pen_status pen_tied_hand_over(struct pen_tied *tied, uint32_t replica)
{
    pen_status status = PEN_OK;
    size_t count;
    const int32_t *words;
    const void *rows;
    pen_network_gathered(tied->options.embedding, &count, &words, &rows);
    if (is_local(tied))
        pen_gradients_join(tied->options.gradients, tied->first + replica,
                           count, words, rows);
    else
        status = send_rows(tied, count, words, rows);
    if (status == PEN_OK)
        pen_network_clear_gathered(tied->options.embedding);
    return status;
}

bool pen_tied_has_come(struct pen_tied *tied)
{
    bool has_come = true;
    for (uint32_t i = 0; i < tied->num_parcels && is_receiving(tied); i++) {
        struct pending pending = {tied->options.transport,
                                  tied->parcels[i].requests, 2};
        has_come = is_done(&pending) && has_come;
    }
    return has_come;
}

pen_status pen_tied_join(struct pen_tied *tied)
{
    if (!is_receiving(tied))
        return PEN_OK;
    for (uint32_t i = 0; i < tied->num_parcels; i++) {
        struct parcel *parcel = &tied->parcels[i];
        pen_status status = await(tied, parcel->requests, 2);
        if (status != PEN_OK)
            return status;
        PEN_BUG_UNLESS(parcel->words[0] >= 0 &&
                       (size_t)parcel->words[0] <= tied->capacity);
        pen_gradients_join(tied->options.gradients, tied->first + i,
                           (size_t)parcel->words[0], parcel->words + 1,
                           parcel->rows);
    }
    if (--tied->steps_left > 0)
        post_receives(tied);
    return PEN_OK;
}

/* ---- the value ---- */

static struct pen_mirror_piece value_of(const struct pen_network *network,
                                        uint32_t index)
{
    const struct pen_network_parameter *it = pen_network_tied(network) + index;
    return (struct pen_mirror_piece){.parameter = it->parameter,
                                     .part = PEN_PART_VALUE,
                                     .count = pen_network_count(it)};
}

void pen_tied_send_value(struct pen_tied *tied)
{
    if (!is_receiving(tied) || !tied->has_value)
        return;
    for (uint32_t i = 0; i < tied->num_values; i++) {
        const struct pen_mirror_piece value = value_of(tied->options.head, i);
        pen_transport_send(tied->options.transport, tied->peer,
                           tag_of(tied, VALUE),
                           pen_mirror_show(&tied->head[i], &value),
                           value.count * sizeof(float), &tied->values[i]);
    }
}

pen_status pen_tied_await_sent(struct pen_tied *tied)
{
    return await(tied, tied->values, (int)tied->num_values);
}

static void receive_value(struct pen_tied *tied, uint32_t index)
{
    const struct pen_mirror_piece value =
        value_of(tied->options.embedding, index);
    size_t bytes = value.count * sizeof(float);
    pen_mirror_cover(&tied->embedding[index], &value);
    float *to = pen_mirror_at(&tied->embedding[index]);
    if (is_local(tied)) {
        const struct pen_mirror_piece from =
            value_of(tied->options.head, index);
        memcpy(to, pen_mirror_show(&tied->head[index], &from), bytes);
    } else {
        pen_transport_receive(tied->options.transport, tied->peer,
                              tag_of(tied, VALUE), to, bytes,
                              &tied->values[index]);
    }
}

pen_status pen_tied_take_value(struct pen_tied *tied)
{
    struct pen_network *embedding =
        tied->has_value ? tied->options.embedding : NULL;
    for (uint32_t i = 0; i < tied->num_values && embedding != NULL; i++)
        receive_value(tied, i);
    pen_status status = await(tied, tied->values, (int)tied->num_values);
    for (uint32_t i = 0;
         i < tied->num_values && status == PEN_OK && embedding != NULL; i++) {
        struct pen_engine *engine = pen_network_engine(embedding);
        pen_mirror_put(&tied->embedding[i]);
        engine->ops->parameter_value_changed(
            engine, pen_network_tied(embedding)[i].parameter);
    }
    return status;
}
