#include "sync/two_sided.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

enum { SCATTER, GATHER };

/* The lengths of messages come before them. */
enum { HEADER_BYTES = 8 };

struct two_sided {
    const struct pen_coding *coding;
    struct pen_compression setting;
    size_t block;        /* values that are coded together */
    float *error;        /* per float of the vector */
    float *owner_error;  /* per float of the own shares, tensor by tensor */
    size_t *firsts;      /* of a tensor there, then the total */
    float *mean;         /* of a block */
    unsigned char *code; /* for all members, one after the other */
    size_t code_bytes;
    const void **pieces; /* of it */
    size_t *lengths;
};

static size_t code_length(const struct pen_coding *coding,
                          const double *options, uint32_t num_members,
                          uint32_t member, size_t count)
{
    size_t first, share, block = coding->block(options);
    pen_sum_share(num_members, member, count, &first, &share);
    size_t length = share / block * coding->length(block);
    return length + (share % block > 0 ? coding->length(share % block) : 0);
}

/*
 * Returns the length of the message to the owner `member`, which is that of the
 * message from it.
 */
static size_t message_length(const struct pen_coding *coding,
                             const struct pen_compression *setting,
                             uint32_t member)
{
    size_t length = 0;
    for (size_t i = 0; i < setting->num_tensors; i++)
        length += code_length(coding, setting->options.at, setting->peers->size,
                              member, setting->tensors[i].count);
    return length;
}

/* Bytes of all messages are shared evenly here; they differ by rounding. */
void pen_two_sided_cost(const struct pen_coding *coding,
                        const struct pen_sync_case *of,
                        struct pen_mean_cost *out)
{
    double others = of->num_replicas - 1.0;
    double code = 0;
    for (size_t i = 0; i < of->num_shapes; i++)
        for (uint32_t k = 0; k < of->num_replicas; k++)
            code += (double)code_length(coding, of->options, of->num_replicas,
                                        k, of->shapes[i][0] * of->shapes[i][1]);
    double part = code / of->num_replicas;
    out->bytes = 2 * others * (part + HEADER_BYTES);
    out->legs = of->num_replicas > 1 ? 2 : 0;
    out->extra =
        of->num_weights * (1 + 1.0 / of->num_replicas) * sizeof(float) +
        3 * code;
    out->encode_sec = coding->passes * of->num_weights * sizeof(float) /
                      of->core_bytes_per_sec;
}

void pen_two_sided_sizes(const struct pen_coding *coding,
                         const struct pen_compression *setting, size_t *sum,
                         size_t *gathered)
{
    *sum = 0;
    *gathered = 0;
    for (uint32_t k = 0; k < setting->peers->size; k++) {
        size_t length = message_length(coding, setting, k);
        if (length > *gathered)
            *gathered = length;
    }
}

/* ---- making ---- */

void pen_two_sided_free(void *state)
{
    struct two_sided *it = state;
    free(it->error);
    free(it->owner_error);
    free(it->firsts);
    free(it->mean);
    free(it->code);
    free(it->pieces);
    free(it->lengths);
    free(it);
}

/* Returns the place of a member's share of a tensor in the vector. */
static size_t share_of(const struct two_sided *it, uint32_t member,
                       size_t tensor, size_t *count)
{
    const struct pen_sync_tensor *of = &it->setting.tensors[tensor];
    size_t first;
    pen_sum_share(it->setting.peers->size, member, of->count, &first, count);
    return of->first - it->setting.base + first;
}

static pen_status lay_out_shares(struct two_sided *it)
{
    size_t count, sum = 0;
    it->firsts = calloc(it->setting.num_tensors + 1, sizeof *it->firsts);
    if (it->firsts == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < it->setting.num_tensors; i++) {
        (void)share_of(it, it->setting.peers->self, i, &count);
        sum += count;
        it->firsts[i + 1] = sum;
    }
    it->owner_error = calloc(sum + 1, sizeof *it->owner_error);
    return it->owner_error != NULL ? PEN_OK : PEN_NOMEM;
}

static pen_status lay_out_pieces(struct two_sided *it)
{
    uint32_t size = it->setting.peers->size;
    it->pieces = calloc(size, sizeof *it->pieces);
    it->lengths = calloc(size, sizeof *it->lengths);
    if (it->pieces == NULL || it->lengths == NULL)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < size; k++) {
        it->lengths[k] = message_length(it->coding, &it->setting, k);
        it->code_bytes += it->lengths[k];
    }
    it->code = calloc(1, it->code_bytes + 1);
    if (it->code == NULL)
        return PEN_NOMEM;
    const unsigned char *at = it->code;
    for (uint32_t k = 0; k < size; k++) {
        it->pieces[k] = at;
        at += it->lengths[k];
    }
    return PEN_OK;
}

pen_status pen_two_sided_create(const struct pen_coding *coding,
                                const struct pen_compression *setting,
                                void **out, struct pen_text *why)
{
    if (coding->check != NULL &&
        coding->check(setting->options.at, why) != PEN_OK)
        return PEN_INVALID;
    struct two_sided *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->coding = coding;
    it->setting = *setting;
    it->block = coding->block(setting->options.at);
    it->error = calloc(setting->count + 1, sizeof *it->error);
    it->mean = calloc(it->block, sizeof *it->mean);
    pen_status status =
        it->error != NULL && it->mean != NULL ? PEN_OK : PEN_NOMEM;
    if (status == PEN_OK)
        status = lay_out_shares(it);
    if (status == PEN_OK)
        status = lay_out_pieces(it);
    if (status == PEN_OK)
        *out = it;
    else
        pen_two_sided_free(it);
    return status;
}

size_t pen_two_sided_bytes(const void *state)
{
    const struct two_sided *it = state;
    return (it->setting.count + it->firsts[it->setting.num_tensors] +
            it->block) *
               sizeof(float) +
           it->code_bytes;
}

/* ---- rounds ---- */

static size_t block_at(const struct two_sided *it, size_t count, size_t first)
{
    return count - first < it->block ? count - first : it->block;
}

/* Encodes the vector, for its owners. */
static void encode_all(struct two_sided *it, const float *vector)
{
    unsigned char *to = it->code;
    for (uint32_t k = 0; k < it->setting.peers->size; k++)
        for (size_t i = 0; i < it->setting.num_tensors; i++) {
            size_t count, at = share_of(it, k, i, &count);
            for (size_t j = 0; j < count; j += it->block) {
                size_t part = block_at(it, count, j);
                it->coding->encode(vector + at + j, it->error + at + j, part,
                                   to);
                to += it->coding->length(part);
            }
        }
}

/*
 * Computes the mean of a block of the own shares, whose codes are in the
 * messages of all members.
 */
static void find_mean(struct two_sided *it,
                      const struct pen_collective *received, size_t first,
                      size_t count)
{
    uint32_t size = it->setting.peers->size;
    for (uint32_t k = 0; k < size; k++) {
        size_t length;
        const unsigned char *code =
            pen_collective_received(received, k, &length);
        PEN_BUG_UNLESS(length == it->lengths[it->setting.peers->self]);
        it->coding->decode(code + first, count, 1.0f / (float)size, k > 0,
                           it->mean);
    }
}

/* Does the owner's part, block by block; leaves the code of the means. */
static void code_means(struct two_sided *it,
                       const struct pen_collective *received)
{
    size_t at = 0;
    for (size_t i = 0; i < it->setting.num_tensors; i++) {
        float *error = it->owner_error + it->firsts[i];
        size_t count = it->firsts[i + 1] - it->firsts[i];
        for (size_t j = 0; j < count; j += it->block) {
            size_t part = block_at(it, count, j);
            find_mean(it, received, at, part);
            it->coding->encode(it->mean, error + j, part, it->code + at);
            at += it->coding->length(part);
        }
    }
}

/* Decodes the message of an owner. */
static void deliver(const struct two_sided *it,
                    const struct pen_collective *received, uint32_t owner,
                    float *vector)
{
    size_t length;
    const unsigned char *code =
        pen_collective_received(received, owner, &length);
    PEN_BUG_UNLESS(length == it->lengths[owner]);
    for (size_t i = 0; i < it->setting.num_tensors; i++) {
        size_t count, at = share_of(it, owner, i, &count);
        for (size_t j = 0; j < count; j += it->block) {
            size_t part = block_at(it, count, j);
            it->coding->decode(code, part, 1, false, vector + at + j);
            code += it->coding->length(part);
        }
    }
}

void pen_two_sided_encode(void *state, uint32_t round, uint64_t step,
                          float *vector, struct pen_round *out)
{
    struct two_sided *it = state;
    (void)step;
    if (round == SCATTER) {
        encode_all(it, vector);
        *out = (struct pen_round){.kind = PEN_ROUND_SCATTER,
                                  .pieces = it->pieces,
                                  .lengths = it->lengths};
    } else {
        *out =
            (struct pen_round){.kind = PEN_ROUND_GATHER,
                               .bytes = it->code,
                               .length = it->lengths[it->setting.peers->self]};
    }
}

void pen_two_sided_decode(void *state, uint32_t round, uint64_t step,
                          const struct pen_collective *received, float *vector)
{
    struct two_sided *it = state;
    (void)step;
    if (round == SCATTER)
        code_means(it, received);
    else
        for (uint32_t k = 0; k < it->setting.peers->size; k++)
            deliver(it, received, k, vector);
}

void pen_two_sided_states(void *state, struct pen_sync_states *out)
{
    struct two_sided *it = state;
    size_t num_tensors = it->setting.num_tensors;
    pen_sync_compression_state(&it->setting, "error", it->error, out);
    pen_sync_states_add(
        out, &(struct pen_sync_state){.name = "owner_error",
                                      .kind = PEN_STATE_PER_TENSOR,
                                      .first_tensor = it->setting.first_tensor,
                                      .num_tensors = num_tensors,
                                      .floats = it->owner_error,
                                      .firsts = it->firsts,
                                      .count = it->firsts[num_tensors]});
}
