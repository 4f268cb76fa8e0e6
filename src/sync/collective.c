#include "sync/collective.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

/* The bytes of a member follow this head. */
struct message {
    uint64_t length;
};

enum state { IDLE, SUMMING, GATHERING };

struct pen_collective {
    struct pen_group *peers;
    uint32_t channel;
    size_t most_gathered; /* bytes of a member */
    size_t stride;        /* from one member's message to the next */
    enum state state;

    struct pen_sum *sum;

    unsigned char *sent; /* one message, or one for each member */
    unsigned char *received;
    struct pen_group_request *sends;
    struct pen_group_request *receives;
};

/* ---- making ---- */

static size_t gathered_bytes(const struct pen_collective *collective)
{
    return collective->most_gathered > 0
               ? collective->stride * collective->peers->size
               : 0;
}

size_t pen_collective_bytes(const struct pen_collective *collective)
{
    return pen_sum_bytes(collective->sum) + 2 * gathered_bytes(collective);
}

static pen_status make_room(struct pen_collective *collective)
{
    size_t size = collective->peers->size;
    collective->sent = calloc(1, gathered_bytes(collective) + 1);
    collective->received = calloc(1, gathered_bytes(collective) + 1);
    collective->sends = calloc(size, sizeof *collective->sends);
    collective->receives = calloc(size, sizeof *collective->receives);
    bool is_made = collective->sent != NULL && collective->received != NULL &&
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
    collective->most_gathered = most_gathered;
    collective->stride =
        (sizeof(struct message) + most_gathered + 63) / 64 * 64;
    const struct pen_sum_options options = {.group = peers,
                                            .channel = channel,
                                            .route = PEN_SUM_SHARES,
                                            .most = most};
    pen_status status = make_room(collective);
    if (status == PEN_OK)
        status = pen_sum_create(&options, &collective->sum);
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
    pen_sum_free(collective->sum);
    free(collective->sent);
    free(collective->received);
    free(collective->sends);
    free(collective->receives);
    free(collective);
}

/* ---- sums ---- */

void pen_collective_sum(struct pen_collective *collective, float *values,
                        size_t count)
{
    struct pen_sum_job job = {.way = PEN_SUM_BOTH, .count = count};
    job.values = values;
    if (collective->peers->has_lost)
        return;
    PEN_BUG_UNLESS(collective->state == IDLE);
    collective->state = SUMMING;
    pen_sum_begin(collective->sum, &job);
}

double pen_collective_sum_bytes(uint32_t num_members, double num_floats)
{
    return 2 * (num_members - 1.0) / num_members * num_floats * sizeof(float);
}

double pen_collective_sum_legs(uint32_t num_members, double num_floats)
{
    if (num_members == 1)
        return 0;
    return num_floats / num_members * sizeof(float) > PEN_SUM_LONG_SHARE
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

/* ---- progress ---- */

static bool is_quiet(struct pen_collective *collective)
{
    struct pen_group *peers = collective->peers;
    if (collective->state == SUMMING)
        return pen_sum_poll(collective->sum) == PEN_OK;
    bool have_left = pen_group_is_done(peers, collective->sends, peers->size);
    return pen_group_is_done(peers, collective->receives, peers->size) &&
           have_left;
}

bool pen_collective_poll(struct pen_collective *collective)
{
    if (collective->state != IDLE && is_quiet(collective))
        collective->state = IDLE;
    return collective->state == IDLE;
}

static bool is_over(void *context)
{
    return pen_collective_poll(context);
}

void pen_collective_wait(struct pen_collective *collective)
{
    pen_group_wait(collective->peers, is_over, collective);
}
