/*
 * The first layer: rows of the token table, plus those of the positions.
 *
 * Where the head uses the same table, its gradient is the sum over all
 * micro-batches of the head's part plus that of the embedding's. The latter is
 * zero but for the tokens of the step, so it is gathered in a small table with
 * one row for each of them and added when the step ends.
 *
 * In a model that is cut, every piece has the rows of some words; what it has
 * not is zero, and the rows of all pieces are added. The first piece has the
 * positions. A member with a part of the rows outputs that part, and gathers
 * the others for the gradients.
 */
#include "network/stream.h"

#include "base/bug.h"

#include <stdlib.h>

struct embedding {
    struct pen__layer base;
    size_t elements;     /* of the output, of all rows */
    size_t output_bytes; /* of these, not aligned */
    size_t others;       /* in the scratch: of pieces; or rows of all members */
    int32_t first_word;  /* of those that the pieces here have */
    size_t num_words;

    /* Only where the head uses the table too. */
    struct pen_engine *engine; /* of `gathered` */
    struct pen_parameter *gathered;
    bool is_tied_elsewhere; /* and the head is of another network */
    size_t num_gathered;
    size_t capacity;
    int32_t *row_of_token; /* in `gathered`; -1: none yet */
    int32_t *token_of_row; /* in staging, as the next two */
    int32_t *rows;         /* of the tokens of a micro-batch */
    void *gathered_rows;   /* NULL where they are seen where they lie */
    size_t row_bytes;      /* of one that was gathered */

    uint32_t num_pieces;
    struct pen_embedding tables[];
};

static struct embedding *embedding_of(struct pen__layer *layer)
{
    return (struct embedding *)layer;
}

static void free_embedding(struct pen__layer *layer)
{
    struct embedding *embedding = embedding_of(layer);
    struct pen_engine *engine = embedding->engine;
    if (embedding->gathered != NULL)
        engine->ops->parameter_free(engine, embedding->gathered);
    pen_engine_give(engine, PEN_PLACE_STAGING, embedding->token_of_row,
                    embedding->capacity * sizeof(int32_t));
    pen_engine_give(engine, PEN_PLACE_STAGING, embedding->rows,
                    embedding->tables[0].rows * sizeof(int32_t));
    pen_engine_give(engine, PEN_PLACE_STAGING, embedding->gathered_rows,
                    embedding->capacity * embedding->row_bytes);
    free(embedding->row_of_token);
    free(embedding);
}

/* The table of a piece, at the positions of a chunk. */
static struct pen_embedding table_at(const struct embedding *embedding,
                                     uint32_t piece, uint32_t chunk)
{
    struct pen_embedding table = embedding->tables[piece];
    table.first_position = chunk * table.sequence;
    return table;
}

/* Bytes of an output up to a chunk of the pass. */
static size_t chunk_at(const struct embedding *embedding,
                       const struct pen__chunks *chunks, uint32_t index)
{
    return embedding->output_bytes / chunks->count * index;
}

static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    const struct embedding *embedding = embedding_of(layer);
    const struct pen__chunks chunks = pen__chunks_of(pass);
    void *others = pen__at(pass->scratch, embedding->others);
    (void)x;
    if (y == NULL)
        return;
    for (uint32_t n = 0; n < chunks.count; n++)
        for (uint32_t i = 0; i < embedding->num_pieces; i++) {
            struct pen_embedding table =
                table_at(embedding, i, chunks.numbers[n]);
            void *out = pen__piece_result(pass->tensor, i,
                                          embedding->output_bytes, y, others);
            pass->engine->ops->embedding_forward(
                pass->engine, &table, pass->microbatch->ids + n * table.rows,
                pen__at(out, chunk_at(embedding, &chunks, n)));
        }
    pen__sum_pieces(pass, embedding->elements, y, others);
}

/* Does nothing: no layer comes before this one. */
static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    (void)layer;
    (void)pass;
    (void)x;
    (void)dy;
    (void)dx;
}

/* Words of pieces that are elsewhere have the row -1, which no table has. */
static void find_rows(struct embedding *embedding, const int32_t *ids)
{
    for (size_t i = 0; i < embedding->tables[0].rows; i++) {
        embedding->rows[i] = -1;
        if ((size_t)(ids[i] - embedding->first_word) >= embedding->num_words)
            continue;
        int32_t *row = &embedding->row_of_token[ids[i]];
        if (*row < 0) {
            PEN_BUG_UNLESS(embedding->num_gathered < embedding->capacity);
            embedding->token_of_row[embedding->num_gathered] = ids[i];
            *row = (int32_t)embedding->num_gathered++;
        }
        embedding->rows[i] = *row;
    }
}

static void backward_chunk(struct embedding *embedding,
                           const struct pen__pass *pass, uint32_t chunk,
                           const int32_t *ids, const void *dy)
{
    const struct pen_engine_ops *ops = pass->engine->ops;
    if (embedding->gathered != NULL) {
        struct pen_embedding table = table_at(embedding, 0, chunk);
        find_rows(embedding, ids);
        table.tokens = embedding->gathered;
        table.first = 0;
        ops->embedding_backward(pass->engine, &table, embedding->rows, dy);
        return;
    }
    for (uint32_t i = 0; i < embedding->num_pieces; i++) {
        struct pen_embedding table = table_at(embedding, i, chunk);
        ops->embedding_backward(pass->engine, &table, ids, dy);
    }
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct embedding *embedding = embedding_of(layer);
    const struct pen__chunks chunks = pen__chunks_of(pass);
    const void *all =
        pen__gather_rows(pass, embedding->output_bytes, dy,
                         pen__at(pass->scratch, embedding->others));
    (void)x;
    for (uint32_t n = 0; n < chunks.count; n++)
        backward_chunk(embedding, pass, chunks.numbers[n],
                       pass->microbatch->ids + n * embedding->tables[0].rows,
                       (const char *)all + chunk_at(embedding, &chunks, n));
}

/*
 * The gathered rows, for operations at once, for the host once a later mark is
 * reached.
 */
static const void *gathered_rows(struct embedding *embedding)
{
    struct pen_engine *engine = embedding->engine;
    struct pen_parameter_shape shape;
    engine->ops->parameter_shape(embedding->gathered, &shape);
    return engine->ops->parameter_read(
        engine, embedding->gathered, PEN_PART_GRADIENT, 0,
        embedding->num_gathered * shape.columns, embedding->gathered_rows);
}

/* Clears the gathered rows, once the engine has read words and rows. */
static void clear_gathered(struct embedding *embedding)
{
    pen_engine_await(embedding->engine);
    embedding->engine->ops->gradient_clear(embedding->engine,
                                           embedding->gathered);
    for (size_t row = 0; row < embedding->num_gathered; row++)
        embedding->row_of_token[embedding->token_of_row[row]] = -1;
    embedding->num_gathered = 0;
}

static void finish_gradients(struct pen__layer *layer,
                             struct pen_engine *engine)
{
    struct embedding *embedding = embedding_of(layer);
    if (embedding->gathered == NULL || embedding->is_tied_elsewhere)
        return;
    const void *rows = gathered_rows(embedding);
    for (uint32_t i = 0; i < embedding->num_pieces; i++)
        engine->ops->gradient_add_rows(
            engine, embedding->tables[i].tokens, embedding->tables[i].first,
            embedding->num_gathered, embedding->token_of_row, rows);
    clear_gathered(embedding);
}

void pen_network_gathered(struct pen_network *network, size_t *count,
                          const int32_t **words, const void **rows)
{
    *count = 0;
    *words = NULL;
    *rows = NULL;
    if (network->gathering == NULL)
        return;
    struct embedding *embedding = embedding_of(network->gathering);
    *count = embedding->num_gathered;
    *words = embedding->token_of_row;
    *rows = gathered_rows(embedding);
}

void pen_network_clear_gathered(struct pen_network *network)
{
    if (network->gathering != NULL)
        clear_gathered(embedding_of(network->gathering));
}

static void swap_bytes(char *a, char *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Rows after the last one are zero on both sides. */
size_t pen_network_swap_gathered(struct pen_network *network, size_t count,
                                 int32_t *words, void *rows)
{
    struct embedding *embedding = embedding_of(network->gathering);
    struct pen_engine *engine = embedding->engine;
    struct pen_parameter_shape shape;
    size_t before = embedding->num_gathered;
    size_t most = count > before ? count : before;
    engine->ops->parameter_shape(embedding->gathered, &shape);
    char *own = engine->ops->parameter_read(
        engine, embedding->gathered, PEN_PART_GRADIENT, 0, most * shape.columns,
        embedding->gathered_rows);
    pen_engine_await(engine);
    swap_bytes(own, rows, most * embedding->row_bytes);
    if (!engine->ops->is_host)
        engine->ops->parameter_write(engine, embedding->gathered,
                                     PEN_PART_GRADIENT, 0, most * shape.columns,
                                     own);
    for (size_t row = 0; row < before; row++)
        embedding->row_of_token[embedding->token_of_row[row]] = -1;
    swap_bytes((char *)embedding->token_of_row, (char *)words,
               most * sizeof *words);
    for (size_t row = 0; row < count; row++)
        embedding->row_of_token[embedding->token_of_row[row]] = (int32_t)row;
    embedding->num_gathered = count;
    return before;
}

size_t pen_network_gathered_capacity(const struct pen_network *network)
{
    const struct pen_network_options *options = &network->options;
    size_t rows = options->batch * options->sequence;
    if (rows < options->step_rows)
        rows = options->step_rows;
    return rows < options->model->vocab ? rows : options->model->vocab;
}

static const struct pen__layer_ops embedding_ops = {
    .free = free_embedding,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .finish_gradients = finish_gradients,
};

static void *take_staging(const struct embedding *embedding, size_t bytes)
{
    return pen_engine_take(embedding->engine, PEN_PLACE_STAGING, bytes);
}

static pen_status create_gathered(struct embedding *embedding,
                                  const struct pen_network_options *options,
                                  size_t capacity, struct pen_text *why)
{
    size_t vocab = options->model->vocab;
    embedding->capacity = capacity;
    embedding->engine = options->engine;
    embedding->row_of_token = malloc(vocab * sizeof(int32_t));
    embedding->token_of_row =
        take_staging(embedding, embedding->capacity * sizeof(int32_t));
    embedding->rows =
        take_staging(embedding, embedding->tables[0].rows * sizeof(int32_t));
    if (embedding->row_of_token == NULL || embedding->token_of_row == NULL ||
        embedding->rows == NULL)
        return PEN_NOMEM;
    embedding->row_bytes =
        options->model->hidden *
        pen_precision_bytes(pen_precision_master(options->engine->dtype));
    if (!options->engine->ops->is_host) {
        embedding->gathered_rows =
            take_staging(embedding, embedding->capacity * embedding->row_bytes);
        if (embedding->gathered_rows == NULL)
            return PEN_NOMEM;
    }
    for (size_t token = 0; token < vocab; token++)
        embedding->row_of_token[token] = -1;
    struct pen_parameter_shape shape = {.use = PEN_PARAMETER_VECTORS,
                                        .rows = embedding->capacity,
                                        .columns = options->model->hidden};
    return options->engine->ops->parameter_create(options->engine, &shape, why,
                                                  &embedding->gathered);
}

static bool has_head(const struct pen_network_options *options)
{
    return options->first_layer + options->num_layers ==
           options->model->num_layers;
}

/* The rows of a piece's words; the first parameters of the network. */
static pen_status add_words(struct embedding *embedding,
                            struct pen_network *network, uint32_t layer,
                            uint32_t index, struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    struct pen_embedding *table = &embedding->tables[index];
    bool is_tied = options->model->has_tied_embeddings;
    const struct pen__part part = {
        PEN_PART_TOKEN_EMBEDDING,
        pen__cut_words(options, options->tensor.first + index)};
    table->sequence = pen__chunk_tokens(options);
    table->rows = pen__chunk_rows(options);
    table->first = (int32_t)part.cut.first;
    if (index == 0)
        embedding->first_word = table->first;
    embedding->num_words += part.cut.count;
    network->is_adding_values = embedding->is_tied_elsewhere;
    network->adding_piece = options->tensor.first + index;
    pen_status status =
        pen__add_parameter(network, layer,
                           is_tied && has_head(options) ? PEN_PARAMETER_DENSE
                                                        : PEN_PARAMETER_VECTORS,
                           &part, 1, &table->tokens, why);
    network->is_adding_values = false;
    network->adding_piece = 0;
    if (status == PEN_OK) {
        struct pen_network_parameter *added =
            &network->parameters[network->num_parameters - 1];
        added->has_sparse_gradient = !is_tied;
        added->is_of_both_ends = is_tied && has_head(options);
        added->has_anchor = options->subspace > 0;
    }
    return status;
}

static pen_status add_tables(struct embedding *embedding,
                             struct pen_network *network, uint32_t layer,
                             struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < embedding->num_pieces && status == PEN_OK; i++)
        status = add_words(embedding, network, layer, i, why);
    if (embedding->is_tied_elsewhere) {
        network->gathering = &embedding->base;
        network->tied_end = embedding->tables[0].tokens;
    }
    if (status == PEN_OK && options->tensor.first == 0)
        status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS,
                               PEN_PART_POSITION_EMBEDDING,
                               &embedding->tables[0].positions, why);
    if (status == PEN_OK && embedding->tables[0].positions != NULL)
        network->parameters[network->num_parameters - 1].has_anchor =
            options->subspace > 0;
    if (status == PEN_OK && options->model->has_tied_embeddings &&
        !options->is_forward_only)
        status = create_gathered(embedding, options,
                                 pen_network_gathered_capacity(network), why);
    return status;
}

pen_status pen__embedding_create(struct pen_network *network, uint32_t layer,
                                 struct pen__layer **out, struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    struct pen__shape shape = pen__shape_of(options);
    uint32_t count = options->tensor.count;
    struct embedding *embedding =
        calloc(1, sizeof *embedding + count * sizeof embedding->tables[0]);
    if (embedding == NULL)
        return PEN_NOMEM;
    embedding->is_tied_elsewhere =
        options->model->has_tied_embeddings && !has_head(options);
    embedding->base.ops = &embedding_ops;
    embedding->num_pieces = count;
    embedding->elements = shape.rows * shape.hidden;
    embedding->output_bytes = embedding->elements * shape.element;
    embedding->base.output_bytes =
        pen__align(shape.own_rows * shape.hidden * shape.element);
    embedding->base.scratch_bytes =
        pen__num_others(&options->tensor) * pen__align(embedding->output_bytes);
    pen_status status = add_tables(embedding, network, layer, why);
    if (status != PEN_OK) {
        free_embedding(&embedding->base);
        return status;
    }
    *out = &embedding->base;
    return PEN_OK;
}
