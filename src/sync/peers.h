#ifndef PEN_SYNC_PEERS_H
#define PEN_SYNC_PEERS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The other replicas, and the way to them: messages that are posted and tested,
 * and memory that others may write. The runtime makes one on MPI; tests make
 * one of threads. Members are numbered from 0; the same part of the model lies
 * behind each of them.
 *
 * A send is complete when its receive is posted and not before; messages
 * between two members on one channel arrive in the order in which they were
 * sent.
 *
 * When a member is lost, that stays so (has_lost): nothing is posted any more,
 * every wait ends at once, and what a method makes of it is void. The hooks of
 * methods need not care; the code that calls them asks pen_peers_status().
 */
struct pen_peers;

/* Something under way: zeroed at first. It may not move in between. */
struct pen_peers_request {
    _Alignas(16) unsigned char handle[64];
};

/* Memory of a member that the others write: see pen_peers_expose(). */
struct pen_peers_window;

struct pen_peers_ops {
    void (*send)(struct pen_peers *peers, uint32_t to, uint32_t channel,
                 const void *bytes, size_t length,
                 struct pen_peers_request *request);
    /* What arrives may be shorter. */
    void (*receive)(struct pen_peers *peers, uint32_t from, uint32_t channel,
                    void *bytes, size_t length,
                    struct pen_peers_request *request);
    /* True when it is done, or was not under way. Never waits. */
    bool (*test)(struct pen_peers *peers, struct pen_peers_request *request);
    /* Looks again and again until is_done() says so; others may compute.
     * PEN_LOST when a member is lost. */
    pen_status (*wait)(struct pen_peers *peers, bool (*is_done)(void *context),
                       void *context);

    /*
     * One-sided: all members expose `length` bytes each, at the same time;
     * INVALID where that cannot be had.
     * put() returns at once and `bytes` may change afterwards; bytes of one
     * put may arrive apart, but those of a later put never before. close() is
     * called by all, and waits for all.
     */
    pen_status (*expose)(struct pen_peers *peers, size_t length,
                         struct pen_peers_window **out);
    void *(*window_bytes)(struct pen_peers_window *window);
    void (*put)(struct pen_peers *peers, struct pen_peers_window *window,
                uint32_t to, size_t first, const void *bytes, size_t length);
    void (*close)(struct pen_peers *peers, struct pen_peers_window *window);
};

struct pen_peers {
    const struct pen_peers_ops *ops;
    uint32_t size; /* members */
    uint32_t self; /* the number of this one */
    bool has_lost; /* a member */
    /* Payload, counted where it is sent. */
    uint64_t num_bytes;
    uint64_t num_messages;
};

static inline void pen_peers_send(struct pen_peers *peers, uint32_t to,
                                  uint32_t channel, const void *bytes,
                                  size_t length,
                                  struct pen_peers_request *request)
{
    if (peers->has_lost)
        return;
    peers->num_bytes += length;
    peers->num_messages++;
    peers->ops->send(peers, to, channel, bytes, length, request);
}

static inline void pen_peers_receive(struct pen_peers *peers, uint32_t from,
                                     uint32_t channel, void *bytes,
                                     size_t length,
                                     struct pen_peers_request *request)
{
    if (!peers->has_lost)
        peers->ops->receive(peers, from, channel, bytes, length, request);
}

static inline bool pen_peers_test(struct pen_peers *peers,
                                  struct pen_peers_request *request)
{
    return !peers->has_lost && peers->ops->test(peers, request);
}

static inline void pen_peers_wait(struct pen_peers *peers,
                                  bool (*is_done)(void *context), void *context)
{
    if (!peers->has_lost)
        peers->has_lost = peers->ops->wait(peers, is_done, context) == PEN_LOST;
}

/* Whether what came since the members met can be used: PEN_OK or PEN_LOST. */
static inline pen_status pen_peers_status(const struct pen_peers *peers)
{
    return peers->has_lost ? PEN_LOST : PEN_OK;
}

static inline void pen_peers_put(struct pen_peers *peers,
                                 struct pen_peers_window *window, uint32_t to,
                                 size_t first, const void *bytes, size_t length)
{
    if (peers->has_lost)
        return;
    peers->num_bytes += length;
    peers->num_messages++;
    peers->ops->put(peers, window, to, first, bytes, length);
}

#endif
