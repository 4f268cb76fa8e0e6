#include "sync/collective.h"

#include "base/bug.h"
#include "base/clones.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a member travel behind their number. */
struct message {
    uint64_t length;
};

enum state { IDLE, SUMMING, RETURNING, GATHERING };

/* Bytes of a share from which on members take turns. */
#define LONG_SHARE ((size_t)1 << 19)

struct pen_collective {
    struct pen_group *peers;
    uint32_t channel;
    size_t most;          /* floats of a sum */
    size_t share;         /* of them, at most */
    size_t most_gathered; /* bytes of a member */
    size_t stride;        /* from one member's message to the next */
    enum state state;

    uint32_t turn; /* 0: all at once */
    float *values; /* of the sum under way */
    size_t count;
    float *staged; /* what the others have of this member's share */
    float **sums;

    unsigned char *sent; /* one message, or one for each member */
    unsigned char *received;
    struct pen_group_request *sends;
    struct pen_group_request *receives;
};

PEN_CLONES void pen_sync_add(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* ---- making ---- */

void pen_collective_share(uint32_t num_members, uint32_t member, size_t count,
                          size_t *first, size_t *share)
{
    PEN_BUG_UNLESS(num_members > 0);
    size_t begin = count * member / num_members;
    *first = begin;
    *share = count * ((size_t)member + 1) / num_members - begin;
}

static size_t staged_bytes(const struct pen_collective *collective)
{
    return collective->share * collective->peers->size * sizeof(float);
}

static size_t gathered_bytes(const struct pen_collective *collective)
{
    return collective->most_gathered > 0
               ? collective->stride * collective->peers->size
               : 0;
}

size_t pen_collective_bytes(const struct pen_collective *collective)
{
    return staged_bytes(collective) + 2 * gathered_bytes(collective);
}

static pen_status make_room(struct pen_collective *collective)
{
    size_t size = collective->peers->size;
    collective->staged = calloc(1, staged_bytes(collective) + 1);
    collective->sums = calloc(size, sizeof *collective->sums);
    collective->sent = calloc(1, gathered_bytes(collective) + 1);
    collective->received = calloc(1, gathered_bytes(collective) + 1);
    collective->sends = calloc(size, sizeof *collective->sends);
    collective->receives = calloc(size, sizeof *collective->receives);
    bool is_made = collective->staged != NULL && collective->sums != NULL &&
                   collective->sent != NULL && collective->received != NULL &&
                   collective->sends != NULL && collective->receives != NULL;
    return is_made ? PEN_OK : PEN_NOMEM;
}

pen_status pen_collective_create(struct pen_group *peers, uint32_t channel,
                                 size_t most, size_t most_gathered,
                                 struct pen_collective **out)
{
    struct pen_collective *collective = calloc(1, sizeof *collective);
    if (collective == NULL)
        return PEN_NOMEM;
    collective->peers = peers;
    collective->channel = channel;
    collective->most = most;
    collective->share = (most + peers->size - 1) / peers->size;
    collective->most_gathered = most_gathered;
    collective->stride =
        (sizeof(struct message) + most_gathered + 63) / 64 * 64;
    pen_status status = make_room(collective);
    if (status == PEN_OK)
        *out = collective;
    else
        pen_collective_free(collective);
    return status;
}

void pen_collective_free(struct pen_collective *collective)
{
    if (collective == NULL)
        return;
    free(collective->staged);
    free(collective->sums);
    free(collective->sent);
    free(collective->received);
    free(collective->sends);
    free(collective->receives);
    free(collective);
}

/* ---- sums ---- */

static size_t share_of(const struct pen_collective *collective, uint32_t member,
                       float **values)
{
    size_t first, share;
    pen_collective_share(collective->peers->size, member, collective->count,
                         &first, &share);
    *values = collective->values + first;
    return share;
}

static bool takes_turns(const struct pen_collective *collective)
{
    return collective->share * sizeof(float) > LONG_SHARE &&
           collective->count * sizeof(float) / collective->peers->size >
               LONG_SHARE;
}

/* Sends to one member and receives from another, `turn` before this one. */
static void send_share(struct pen_collective *collective, uint32_t turn)
{
    struct pen_group *peers = collective->peers;
    bool is_back = collective->state == RETURNING;
    uint32_t to = (peers->self + turn) % peers->size;
    uint32_t from = (peers->self + peers->size - turn) % peers->size;
    uint32_t channel = collective->channel + is_back;
    float *sent, *received;
    size_t num_sent = share_of(collective, is_back ? peers->self : to, &sent);
    size_t num_received =
        share_of(collective, is_back ? from : peers->self, &received);
    if (!is_back)
        received = collective->staged + from * collective->share;
    pen_group_receive(peers, from, channel, received,
                      num_received * sizeof(float),
                      &collective->receives[from]);
    pen_group_send(peers, to, channel, sent, num_sent * sizeof(float),
                   &collective->sends[to]);
}

static void send_shares(struct pen_collective *collective)
{
    collective->turn = takes_turns(collective) ? 1 : 0;
    if (collective->turn > 0)
        send_share(collective, collective->turn);
    for (uint32_t i = 1; i < collective->peers->size && collective->turn == 0;
         i++)
        send_share(collective, i);
}

/* True when there was a further turn to take. */
static bool take_turn(struct pen_collective *collective)
{
    if (collective->turn == 0 || collective->state == GATHERING ||
        collective->turn + 1 == collective->peers->size)
        return false;
    send_share(collective, ++collective->turn);
    return true;
}

/* Every member's values of a share to who adds it. */
void pen_collective_sum(struct pen_collective *collective, float *values,
                        size_t count)
{
    if (collective->peers->has_lost)
        return;
    PEN_BUG_UNLESS(collective->state == IDLE && count <= collective->most);
    collective->values = values;
    collective->count = count;
    if (collective->peers->size == 1)
        return;
    collective->state = SUMMING;
    send_shares(collective);
}

static void add_up(struct pen_collective *collective)
{
    const struct pen_group *peers = collective->peers;
    float *own;
    size_t count = share_of(collective, peers->self, &own);
    for (uint32_t k = 0; k < peers->size; k++)
        collective->sums[k] =
            k == peers->self ? own : collective->staged + k * collective->share;
    for (uint32_t step = 1; step < peers->size; step *= 2)
        for (uint32_t k = 0; k + step < peers->size; k += 2 * step)
            pen_sync_add(collective->sums[k], collective->sums[k + step],
                         count);
    if (collective->sums[0] != own)
        memcpy(own, collective->sums[0], count * sizeof *own);
}

static void turn_back(struct pen_collective *collective)
{
    add_up(collective);
    collective->state = RETURNING;
    send_shares(collective);
}

double pen_collective_sum_bytes(uint32_t num_members, double num_floats)
{
    return 2 * (num_members - 1.0) / num_members * num_floats * sizeof(float);
}

double pen_collective_sum_legs(uint32_t num_members, double num_floats)
{
    if (num_members == 1)
        return 0;
    return num_floats / num_members * sizeof(float) > LONG_SHARE
               ? 2 * (num_members - 1.0)
               : 2;
}

/* ---- gathers and scatters ---- */

static unsigned char *message_of(const struct pen_collective *collective,
                                 unsigned char *block, uint32_t member)
{
    return block + member * collective->stride;
}

static void write_message(const struct pen_collective *collective,
                          unsigned char *message, const void *bytes,
                          size_t length)
{
    struct message head = {length};
    PEN_BUG_UNLESS(length <= collective->most_gathered);
    memcpy(message, &head, sizeof head);
    if (length > 0)
        memcpy(message + sizeof head, bytes, length);
}

static void receive_messages(struct pen_collective *collective)
{
    struct pen_group *peers = collective->peers;
    PEN_BUG_UNLESS(collective->state == IDLE || peers->has_lost);
    collective->state = GATHERING;
    for (uint32_t k = 0; k < peers->size; k++)
        if (k != peers->self)
            pen_group_receive(peers, k, collective->channel,
                              message_of(collective, collective->received, k),
                              sizeof(struct message) +
                                  collective->most_gathered,
                              &collective->receives[k]);
}

static void send_message(struct pen_collective *collective, uint32_t to,
                         const unsigned char *message, size_t length)
{
    pen_group_send(collective->peers, to, collective->channel, message,
                   sizeof(struct message) + length, &collective->sends[to]);
}

void pen_collective_gather(struct pen_collective *collective, const void *bytes,
                           size_t length)
{
    struct pen_group *peers = collective->peers;
    receive_messages(collective);
    write_message(collective, collective->sent, bytes, length);
    write_message(collective,
                  message_of(collective, collective->received, peers->self),
                  bytes, length);
    for (uint32_t i = 1; i < peers->size; i++)
        send_message(collective, (peers->self + i) % peers->size,
                     collective->sent, length);
}

void pen_collective_scatter(struct pen_collective *collective,
                            const void *const *pieces, const size_t *lengths)
{
    struct pen_group *peers = collective->peers;
    receive_messages(collective);
    write_message(collective,
                  message_of(collective, collective->received, peers->self),
                  pieces[peers->self], lengths[peers->self]);
    for (uint32_t i = 1; i < peers->size; i++) {
        uint32_t k = (peers->self + i) % peers->size;
        unsigned char *message = message_of(collective, collective->sent, k);
        write_message(collective, message, pieces[k], lengths[k]);
        send_message(collective, k, message, lengths[k]);
    }
}

const void *pen_collective_received(const struct pen_collective *collective,
                                    uint32_t member, size_t *length)
{
    const unsigned char *message =
        message_of(collective, collective->received, member);
    struct message head;
    memcpy(&head, message, sizeof head);
    PEN_BUG_UNLESS(head.length <= collective->most_gathered);
    *length = (size_t)head.length;
    return message + sizeof head;
}

/* ---- going on ---- */

static bool is_quiet(struct pen_collective *collective)
{
    bool is_done = true;
    for (uint32_t k = 0; k < collective->peers->size; k++)
        if (!pen_group_is_done(collective->peers, &collective->sends[k], 1) ||
            !pen_group_is_done(collective->peers, &collective->receives[k], 1))
            is_done = false;
    return is_done;
}

bool pen_collective_poll(struct pen_collective *collective)
{
    if (collective->state == IDLE)
        return true;
    if (!is_quiet(collective))
        return false;
    if (take_turn(collective))
        return pen_collective_poll(collective);
    if (collective->state == SUMMING) {
        turn_back(collective);
        return pen_collective_poll(collective);
    }
    collective->state = IDLE;
    return true;
}

static bool is_over(void *context)
{
    return pen_collective_poll(context);
}

void pen_collective_wait(struct pen_collective *collective)
{
    pen_group_wait(collective->peers, is_over, collective);
}
