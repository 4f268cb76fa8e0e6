/*
 * Random block: of every tensor all replicas draw the same block, from seed,
 * step and tensor, and find its exact mean; the rest waits in the error e_i,
 *
 *   a_i = g_i + e_i     sent: mean of a_i over the block     e_i <- the rest
 *
 * A block has `rank` times rows plus columns of its tensor, what PowerSGD of
 * that rank would send; it may wrap around the end. Vectors go whole. No
 * indices travel, and sums can be formed on the way.
 */
#include "base/random.h"
#include "sync/compressor.h"

#include <stdlib.h>
#include <string.h>

enum { RANK };

static const struct pen_sync_option options[] = {
    [RANK] = {"rank", 2, 1, 1e6, true, "values per row and column of a tensor"},
};

struct block {
    size_t first; /* in the vector */
    size_t count; /* of the tensor */
    size_t length;
    uint64_t key;
};

struct random_block {
    struct pen_compression setting;
    struct block *blocks;
    float *error;
    float *sent;
    size_t num_sent;
};

static size_t block_length(double rank, size_t rows, size_t columns)
{
    double wanted = rank * (double)(rows + columns);
    size_t count = rows * columns;
    return rows == 1 || columns == 1 || wanted >= (double)count
               ? count
               : (size_t)wanted;
}

static size_t sum_length(const struct pen_compression *setting)
{
    size_t sum = 0;
    for (size_t i = 0; i < setting->num_tensors; i++)
        sum += block_length(setting->options.at[RANK], setting->tensors[i].rows,
                            setting->tensors[i].columns);
    return sum;
}

static void cost(const struct pen_sync_case *of, struct pen_mean_cost *out)
{
    double sum = 0;
    for (size_t i = 0; i < of->num_shapes; i++)
        sum += (double)block_length(of->options[RANK], of->shapes[i][0],
                                    of->shapes[i][1]);
    out->bytes = pen_collective_sum_bytes(of->num_replicas, sum);
    out->legs = pen_collective_sum_legs(of->num_replicas, sum);
    out->extra = (of->num_weights + 2 * sum) * sizeof(float);
    out->encode_sec = of->num_weights * sizeof(float) / of->core_bytes_per_sec;
}

static void sizes(const struct pen_compression *setting, size_t *sum,
                  size_t *gathered)
{
    *sum = sum_length(setting);
    *gathered = 0;
}

static void release(void *state)
{
    struct random_block *it = state;
    free(it->blocks);
    free(it->error);
    free(it->sent);
    free(it);
}

static void lay_out(struct random_block *it)
{
    const struct pen_compression *setting = &it->setting;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        it->blocks[i] = (struct block){
            .first = tensor->first - setting->base,
            .count = tensor->count,
            .length = block_length(setting->options.at[RANK], tensor->rows,
                                   tensor->columns),
            .key = tensor->key};
    }
}

static pen_status create(const struct pen_compression *setting, void **out,
                         struct pen_text *why)
{
    (void)why;
    struct random_block *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->setting = *setting;
    it->num_sent = sum_length(setting);
    it->blocks = calloc(setting->num_tensors + 1, sizeof *it->blocks);
    it->error = calloc(setting->count + 1, sizeof *it->error);
    it->sent = calloc(it->num_sent + 1, sizeof *it->sent);
    if (it->blocks == NULL || it->error == NULL || it->sent == NULL) {
        release(it);
        return PEN_NOMEM;
    }
    lay_out(it);
    *out = it;
    return PEN_OK;
}

static size_t bytes(const void *state)
{
    const struct random_block *it = state;
    return (it->setting.count + it->num_sent) * sizeof(float);
}

/* Returns where the block of a step begins in its tensor. */
static size_t start_of(const struct random_block *it, const struct block *block,
                       uint64_t step)
{
    struct pen_random random = {it->setting.seed};
    random.state ^= pen_random_next(&(struct pen_random){step});
    random.state ^= pen_random_next(&(struct pen_random){~block->key});
    return (size_t)(pen_random_unit(&random) * (double)block->count);
}

/* Return the two parts of a block that wraps; the second may be empty. */
static size_t part_before_end(const struct block *block, size_t start)
{
    size_t left = block->count - start;
    return block->length < left ? block->length : left;
}

static void encode(void *state, uint32_t round, uint64_t step, float *vector,
                   struct pen_round *out)
{
    struct random_block *it = state;
    float *to = it->sent;
    (void)round;
    pen_add_floats(it->error, vector, it->setting.count);
    for (size_t i = 0; i < it->setting.num_tensors; i++) {
        const struct block *block = &it->blocks[i];
        float *error = it->error + block->first;
        size_t start = start_of(it, block, step);
        size_t part = part_before_end(block, start);
        memcpy(to, error + start, part * sizeof *to);
        memset(error + start, 0, part * sizeof *to);
        memcpy(to + part, error, (block->length - part) * sizeof *to);
        memset(error, 0, (block->length - part) * sizeof *to);
        to += block->length;
    }
    *out = (struct pen_round){
        .kind = PEN_ROUND_SUM, .floats = it->sent, .count = it->num_sent};
}

static void decode(void *state, uint32_t round, uint64_t step,
                   const struct pen_collective *received, float *vector)
{
    struct random_block *it = state;
    float share = 1.0f / (float)it->setting.peers->size;
    const float *from = it->sent;
    (void)round;
    (void)received;
    memset(vector, 0, it->setting.count * sizeof *vector);
    for (size_t i = 0; i < it->num_sent; i++)
        it->sent[i] *= share;
    for (size_t i = 0; i < it->setting.num_tensors; i++) {
        const struct block *block = &it->blocks[i];
        size_t start = start_of(it, block, step);
        size_t part = part_before_end(block, start);
        memcpy(vector + block->first + start, from, part * sizeof *from);
        memcpy(vector + block->first, from + part,
               (block->length - part) * sizeof *from);
        from += block->length;
    }
}

static void states(void *state, struct pen_sync_states *out)
{
    struct random_block *it = state;
    pen_sync_compression_state(&it->setting, "error", it->error, out);
}

const struct pen_compressor pen_compressor_random_block = {
    .name = "random-block",
    .title = "the exact mean of a random block of each tensor",
    .paper = "Eghlidi and Jaggi, Sparse Communication for Training Deep "
             "Networks, 2020, arXiv:2009.09271",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .num_rounds = 1,
    .cost = cost,
    .sizes = sizes,
    .create = create,
    .free = release,
    .bytes = bytes,
    .encode = encode,
    .decode = decode,
    .states = states,
};
