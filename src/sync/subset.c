#include "sync/subset.h"

#include "base/bug.h"

static struct pen_subset *subset_of(struct pen_peers *peers)
{
    return (struct pen_subset *)peers;
}

static void send_to(struct pen_peers *peers, uint32_t to, uint32_t channel,
                    const void *bytes, size_t length,
                    struct pen_peers_request *request)
{
    struct pen_subset *subset = subset_of(peers);
    pen_peers_send(subset->all, to * subset->stride, channel, bytes, length,
                   request);
}

static void receive_from(struct pen_peers *peers, uint32_t from,
                         uint32_t channel, void *bytes, size_t length,
                         struct pen_peers_request *request)
{
    struct pen_subset *subset = subset_of(peers);
    pen_peers_receive(subset->all, from * subset->stride, channel, bytes,
                      length, request);
}

static bool test(struct pen_peers *peers, struct pen_peers_request *request)
{
    return pen_peers_test(subset_of(peers)->all, request);
}

static pen_status wait_until(struct pen_peers *peers,
                             bool (*is_done)(void *context), void *context)
{
    pen_peers_wait(subset_of(peers)->all, is_done, context);
    return pen_peers_status(subset_of(peers)->all);
}

static const struct pen_peers_ops ops = {
    .send = send_to, .receive = receive_from, .test = test, .wait = wait_until};

void pen_subset_init(struct pen_subset *subset, struct pen_peers *all,
                     uint32_t stride)
{
    PEN_BUG_UNLESS(all->self % stride == 0);
    *subset =
        (struct pen_subset){.peers = {.ops = &ops,
                                      .size = (all->size + stride - 1) / stride,
                                      .self = all->self / stride},
                            .all = all,
                            .stride = stride};
}
