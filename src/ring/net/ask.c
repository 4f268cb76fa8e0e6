/* Keys, and questions to a coordinator: commands that end after one answer. */
#include "ring/net/commands.h"
#include "ring/net/net.h"

#include "base/clock.h"

#include <string.h>

#define PATIENCE INT64_C(20000000000)

pen_status pen_ring_make_key(const char *path, const char *address,
                             struct pen_text *line, struct pen_text *why)
{
    struct pen__ring_peer peer;
    char host[PEN__ADDRESS_SIZE];
    char port[6];
    if (address != NULL && !pen__ring_split_address(address, host, port)) {
        pen_why(why, "%s is not an address; give HOST:PORT", address);
        return PEN_INVALID;
    }
    pen_status status = pen__tls_make_key(path, &peer, why);
    if (status != PEN_OK)
        return status;
    if (address != NULL)
        strncpy(peer.address, address, sizeof peer.address - 1);
    pen__ring_public_print(&peer, line);
    return PEN_OK;
}

struct question {
    struct pen__net *net;
    const char *address;
    const struct pen__ask *ask;
    struct pen__ring_status *answer;
    struct pen_text *why;
    uint32_t node;
    pen_status status; /* PEN_BUSY: no answer yet */
};

static pen_status judge(void *context, uint32_t node,
                        const struct pen__hello *hello, struct pen_text *why)
{
    (void)context;
    (void)hello;
    if (node >= PEN_RING_ISLANDS && node < PEN_RING_NODES)
        return PEN_OK;
    pen_why(why, "this is not a coordinator");
    return PEN_INVALID;
}

/* The connection is open. */
static void ask(void *context, uint32_t node)
{
    struct question *question = context;
    struct pen__frame frame = {.kind = PEN__FRAME_ASK};
    frame.as.ask = *question->ask;
    if (question->node == UINT32_MAX)
        pen__net_send(question->net, node, &frame);
    question->node = node;
}

static void take(void *context, uint32_t node, const struct pen__frame *frame)
{
    (void)node;
    struct question *question = context;
    *question->answer = frame->as.status;
    question->status = PEN_OK;
}

static void lost(void *context, uint32_t node, const char *words)
{
    (void)node;
    struct question *question = context;
    if (question->status != PEN_BUSY)
        return;
    pen_why(question->why, "%s: %s", question->address, words);
    question->status = PEN_LOST;
}

static pen_status wait_for(struct question *question)
{
    int64_t end = pen_clock_ns() + PATIENCE / 4;
    while (question->status == PEN_BUSY) {
        pen_status status = pen__net_turn(question->net, end, question->why);
        if (status != PEN_OK)
            return status;
        if (question->status == PEN_BUSY && pen_clock_ns() > end) {
            pen_why(question->why, "%s does not answer", question->address);
            return PEN_LATE;
        }
    }
    return question->status;
}

/* Asks any coordinator that has a key in the folder. */
static pen_status ask_over(const struct pen__net_options *options,
                           struct question *question)
{
    pen_status status = pen__net_create(options, &question->net, question->why);
    if (status == PEN_OK)
        status = pen__net_dial(question->net, PEN__NET_ANY, question->address,
                               question->why);
    if (status == PEN_OK)
        status = wait_for(question);
    pen__net_free(question->net);
    return status;
}

pen_status pen_ring_ask(const char *address, const char *key, const char *keys,
                        const struct pen__ask *order,
                        struct pen__ring_status *out, struct pen_text *why)
{
    struct pen__ring_keys known;
    struct pen__tls *tls = NULL;
    struct pen_ring_limits limits;
    struct question question = {.address = address,
                                .ask = order,
                                .answer = out,
                                .why = why,
                                .node = UINT32_MAX,
                                .status = PEN_BUSY};
    pen_ring_limits_init(&limits, PATIENCE);
    pen_status status = pen__ring_keys_read(keys, &known, why);
    if (status == PEN_OK)
        status = pen__tls_create(key, &tls, why);
    if (status != PEN_OK)
        return status;
    const struct pen__net_options options = {
        .tls = tls,
        .keys = &known,
        .limits = &limits,
        .kinds = pen__frame_bit(PEN__FRAME_STATUS),
        .most_queued = PEN__WIRE_MOST,
        .context = &question,
        .judge = judge,
        .take = take,
        .has_room = ask,
        .lost = lost};
    status = ask_over(&options, &question);
    pen__tls_free(tls);
    return status;
}
