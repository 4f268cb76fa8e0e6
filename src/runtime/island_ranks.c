#include "runtime/island_ranks.h"

#include <stdlib.h>
#include <string.h>

enum { CHANNEL = 0, FIRST = 0 };

#define MOST_SENT ((size_t)1 << 28) /* bytes of a message */

/* A tensor of a member, and where it is. */
struct pen__island_piece {
    uint64_t key;
    uint64_t count;
    uint32_t member;
    uint32_t number; /* of that member's */
    size_t in_member;
    size_t in_whole;
};

bool pen__island_is_first(const struct pen__island_ranks *ranks)
{
    return ranks->setting->peers->self == FIRST;
}

static uint32_t num_ranks(const struct pen__island_ranks *ranks)
{
    return ranks->setting->peers->size;
}

/* ---- messages ---- */

struct sending {
    struct pen_group *peers;
    struct pen_group_request request;
};

static bool has_arrived(void *context)
{
    struct sending *it = context;
    return pen_group_test(it->peers, &it->request) != PEN_BUSY;
}

static void send_to(struct pen__island_ranks *ranks, uint32_t to,
                    const void *from, size_t length)
{
    struct sending it = {.peers = ranks->setting->peers};
    for (size_t at = 0; at < length; at += MOST_SENT) {
        size_t left = length - at;
        pen_group_send(it.peers, to, CHANNEL, (const char *)from + at,
                       left < MOST_SENT ? left : MOST_SENT, &it.request);
        pen_group_wait(it.peers, has_arrived, &it);
    }
}

static void receive_from(struct pen__island_ranks *ranks, uint32_t from,
                         void *out, size_t length)
{
    struct sending it = {.peers = ranks->setting->peers};
    for (size_t at = 0; at < length; at += MOST_SENT) {
        size_t left = length - at;
        pen_group_receive(it.peers, from, CHANNEL, (char *)out + at,
                          left < MOST_SENT ? left : MOST_SENT, &it.request);
        pen_group_wait(it.peers, has_arrived, &it);
    }
}

void pen__island_share(struct pen__island_ranks *ranks, void *bytes,
                       size_t length)
{
    if (!pen__island_is_first(ranks)) {
        receive_from(ranks, FIRST, bytes, length);
        return;
    }
    for (uint32_t k = 1; k < num_ranks(ranks); k++)
        send_to(ranks, k, bytes, length);
}

pen_status pen__island_gather_status(struct pen__island_ranks *ranks,
                                     pen_status status)
{
    uint64_t word = status;
    if (!pen__island_is_first(ranks)) {
        send_to(ranks, FIRST, &word, sizeof word);
        return status;
    }
    for (uint32_t k = 1; k < num_ranks(ranks); k++) {
        receive_from(ranks, k, &word, sizeof word);
        if (status == PEN_OK && !ranks->setting->peers->has_lost)
            status = (pen_status)word;
    }
    return status;
}

/* ---- vectors ---- */

/* Copies a piece out of the vector of a member into that of all. */
static void put(const struct pen__island_ranks *ranks, uint32_t member,
                const float *part, float *whole)
{
    for (size_t i = 0; i < ranks->num_pieces; i++) {
        const struct pen__island_piece *it = &ranks->pieces[i];
        if (it->member == member)
            memcpy(whole + it->in_whole, part + it->in_member,
                   it->count * sizeof *part);
    }
}

static void pick(const struct pen__island_ranks *ranks, uint32_t member,
                 const float *whole, float *part)
{
    for (size_t i = 0; i < ranks->num_pieces; i++) {
        const struct pen__island_piece *it = &ranks->pieces[i];
        if (it->member == member)
            memcpy(part + it->in_member, whole + it->in_whole,
                   it->count * sizeof *part);
    }
}

void pen__island_gather(struct pen__island_ranks *ranks, const float *vector,
                        float *whole)
{
    if (!pen__island_is_first(ranks)) {
        send_to(ranks, FIRST, vector, ranks->setting->count * sizeof *vector);
        return;
    }
    put(ranks, FIRST, vector, whole);
    for (uint32_t k = 1; k < num_ranks(ranks); k++) {
        receive_from(ranks, k, ranks->part,
                     ranks->counts[k] * sizeof *ranks->part);
        put(ranks, k, ranks->part, whole);
    }
}

void pen__island_scatter(struct pen__island_ranks *ranks, float *whole,
                         float *vector)
{
    if (!pen__island_is_first(ranks)) {
        receive_from(ranks, FIRST, vector,
                     ranks->setting->count * sizeof *vector);
        return;
    }
    pick(ranks, FIRST, whole, vector);
    for (uint32_t k = 1; k < num_ranks(ranks); k++) {
        pick(ranks, k, whole, ranks->part);
        send_to(ranks, k, ranks->part, ranks->counts[k] * sizeof *ranks->part);
    }
}

/* ---- which rank has what ---- */

static int by_key(const void *a, const void *b)
{
    const struct pen__island_piece *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->member != y->member)
        return x->member < y->member ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static struct pen__island_piece *
own_pieces(const struct pen__island_ranks *ranks)
{
    const struct pen_sync_setting *setting = ranks->setting;
    struct pen__island_piece *list =
        calloc(setting->num_tensors + 1, sizeof *list);
    for (size_t i = 0; i < setting->num_tensors && list != NULL; i++)
        list[i] =
            (struct pen__island_piece){.key = setting->tensors[i].key,
                                       .count = setting->tensors[i].count,
                                       .member = setting->peers->self,
                                       .number = (uint32_t)i,
                                       .in_member = setting->tensors[i].first};
    return list;
}

/* Room for what comes is made before the next rank may send. */
static pen_status take_pieces(struct pen__island_ranks *ranks, uint32_t from)
{
    uint64_t count = 0;
    receive_from(ranks, from, &count, sizeof count);
    if (ranks->setting->peers->has_lost)
        return PEN_LOST;
    struct pen__island_piece *more = realloc(
        ranks->pieces, (ranks->num_pieces + count + 1) * sizeof *ranks->pieces);
    if (more == NULL)
        return PEN_NOMEM;
    ranks->pieces = more;
    receive_from(ranks, from, more + ranks->num_pieces, count * sizeof *more);
    for (size_t i = 0; i < count; i++)
        ranks->counts[from] += more[ranks->num_pieces + i].count;
    ranks->num_pieces += count;
    return ranks->setting->peers->has_lost ? PEN_LOST : PEN_OK;
}

/* Pieces of one key are one tensor. */
static void find_tensors(struct pen__island_ranks *ranks)
{
    for (size_t i = 0; i < ranks->num_pieces; i++) {
        struct pen__island_piece *it = &ranks->pieces[i];
        struct pen_sync_tensor *last =
            ranks->num_tensors == 0 ? NULL
                                    : &ranks->tensors[ranks->num_tensors - 1];
        it->in_whole = ranks->num_whole;
        ranks->num_whole += it->count;
        if (last == NULL || last->key != it->key)
            ranks->tensors[ranks->num_tensors++] =
                (struct pen_sync_tensor){.key = it->key,
                                         .rows = 1,
                                         .columns = it->count,
                                         .count = it->count,
                                         .first = it->in_whole};
        else
            last->columns = last->count += it->count;
    }
}

static pen_status lay_out(struct pen__island_ranks *ranks)
{
    size_t most = 0;
    qsort(ranks->pieces, ranks->num_pieces, sizeof *ranks->pieces, by_key);
    ranks->tensors = calloc(ranks->num_pieces + 1, sizeof *ranks->tensors);
    if (ranks->tensors == NULL)
        return PEN_NOMEM;
    find_tensors(ranks);
    for (uint32_t k = 1; k < num_ranks(ranks); k++)
        most = ranks->counts[k] > most ? ranks->counts[k] : most;
    ranks->part = calloc(most + 1, sizeof *ranks->part);
    return ranks->part == NULL ? PEN_NOMEM : PEN_OK;
}

/* Rank 0 asks one after the other, and stops asking when it fails. */
pen_status pen__island_ranks_init(struct pen__island_ranks *ranks,
                                  const struct pen_sync_setting *setting)
{
    *ranks = (struct pen__island_ranks){.setting = setting};
    uint64_t count = setting->num_tensors;
    struct pen__island_piece *own = own_pieces(ranks);
    if (!pen__island_is_first(ranks)) {
        count = own == NULL ? 0 : count;
        send_to(ranks, FIRST, &count, sizeof count);
        send_to(ranks, FIRST, own, count * sizeof *own);
        free(own);
        return own == NULL ? PEN_NOMEM : PEN_OK;
    }
    pen_status status = own == NULL ? PEN_NOMEM : PEN_OK;
    ranks->pieces = own;
    ranks->num_pieces = count;
    ranks->counts = calloc(num_ranks(ranks), sizeof *ranks->counts);
    if (ranks->counts == NULL)
        return PEN_NOMEM;
    ranks->counts[FIRST] = setting->count;
    for (uint32_t k = 1; k < num_ranks(ranks) && status == PEN_OK; k++)
        status = take_pieces(ranks, k);
    return status == PEN_OK ? lay_out(ranks) : status;
}

void pen__island_ranks_release(struct pen__island_ranks *ranks)
{
    free(ranks->pieces);
    free(ranks->counts);
    free(ranks->part);
    free(ranks->tensors);
}

size_t pen__island_ranks_bytes(const struct pen__island_ranks *ranks)
{
    size_t most = 0;
    for (uint32_t k = 1; ranks->counts != NULL && k < num_ranks(ranks); k++)
        most = ranks->counts[k] > most ? ranks->counts[k] : most;
    return most * sizeof(float);
}
