#ifndef PEN_GROUP_GROUP_H
#define PEN_GROUP_GROUP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Some processes that work together, and the way from one to another: messages
 * that are posted and tested, and memory that others may write. Members are
 * numbered from 0. The runtime makes groups on MPI (runtime/transport_group.h);
 * tests make groups of threads.
 *
 * A send is complete when its receive is posted and not before. Messages
 * between two members on one channel arrive in the order in which they were
 * sent.
 *
 * When a member is lost, that stays so (has_lost): nothing is posted any more,
 * every test and wait answers PEN_LOST at once, and what came is void. Code
 * between two points at which pen_group_status() is asked need not care.
 */
struct pen_group;

#define PEN_GROUP_NOBODY UINT32_MAX
#define PEN_GROUP_NEVER INT64_MAX

/* Something under way: zeroed at first. It may not move in between. */
struct pen_group_request {
    _Alignas(16) unsigned char handle[64];
};

/* Memory of a member that the others write: see expose(). */
struct pen_group_window;

struct pen_group_ops {
    /* Where bytes are NULL and there is a length, the message has no contents:
     * for simulated groups alone. */
    void (*send)(struct pen_group *group, uint32_t to, uint32_t channel,
                 const void *bytes, size_t length,
                 struct pen_group_request *request);
    /* The message may be shorter than `length`. */
    void (*receive)(struct pen_group *group, uint32_t from, uint32_t channel,
                    void *bytes, size_t length,
                    struct pen_group_request *request);
    /* PEN_OK when it is done, or was not under way; PEN_BUSY; PEN_LOST, by
     * pen_group_lose(). Never waits. */
    pen_status (*test)(struct pen_group *group,
                       struct pen_group_request *request);
    /* Looks again and again until is_done() says so; others may compute.
     * PEN_OK; PEN_LOST as above; PEN_BUSY at `end_ns` of pen_clock_ns(). */
    pen_status (*wait)(struct pen_group *group, bool (*is_done)(void *context),
                       void *context, int64_t end_ns);

    /*
     * One-sided: all members expose `length` bytes each, at the same time;
     * INVALID where that cannot be had.
     * put() returns at once and `bytes` may change afterwards; bytes of one
     * put may arrive apart, but those of a later put never before. close() is
     * called by all, and waits for all.
     */
    pen_status (*expose)(struct pen_group *group, size_t length,
                         struct pen_group_window **out);
    void *(*window_bytes)(struct pen_group_window *window);
    void (*put)(struct pen_group *group, struct pen_group_window *window,
                uint32_t to, size_t first, const void *bytes, size_t length);
    void (*close)(struct pen_group *group, struct pen_group_window *window);
};

struct pen_group {
    const struct pen_group_ops *ops;
    uint32_t size;  /* members */
    uint32_t self;  /* the number of this one */
    uint32_t epoch; /* of the mesh that it was made for (core/mesh.h) */
    bool has_lost;  /* a member */
    uint32_t lost;  /* its number, or PEN_GROUP_NOBODY where it is unknown */
    /* Payload, counted where it is sent. */
    uint64_t num_bytes;
    uint64_t num_messages;
};

/* Marks a member as lost, for a backend; NOBODY: one of them, or of others. */
static inline pen_status pen_group_lose(struct pen_group *group,
                                        uint32_t member)
{
    group->has_lost = true;
    group->lost = member;
    return PEN_LOST;
}

static inline void pen_group_send(struct pen_group *group, uint32_t to,
                                  uint32_t channel, const void *bytes,
                                  size_t length,
                                  struct pen_group_request *request)
{
    if (group->has_lost)
        return;
    group->num_bytes += length;
    group->num_messages++;
    group->ops->send(group, to, channel, bytes, length, request);
}

static inline void pen_group_receive(struct pen_group *group, uint32_t from,
                                     uint32_t channel, void *bytes,
                                     size_t length,
                                     struct pen_group_request *request)
{
    if (!group->has_lost)
        group->ops->receive(group, from, channel, bytes, length, request);
}

static inline pen_status pen_group_test(struct pen_group *group,
                                        struct pen_group_request *request)
{
    return group->has_lost ? PEN_LOST : group->ops->test(group, request);
}

/* Tests all of some requests; true when all of them are done. */
static inline bool pen_group_is_done(struct pen_group *group,
                                     struct pen_group_request *requests,
                                     size_t count)
{
    bool is_done = !group->has_lost;
    for (size_t i = 0; i < count; i++)
        if (pen_group_test(group, &requests[i]) != PEN_OK)
            is_done = false;
    return is_done;
}

static inline pen_status pen_group_wait_until(struct pen_group *group,
                                              bool (*is_done)(void *context),
                                              void *context, int64_t end_ns)
{
    return group->has_lost ? PEN_LOST
                           : group->ops->wait(group, is_done, context, end_ns);
}

static inline void pen_group_wait(struct pen_group *group,
                                  bool (*is_done)(void *context), void *context)
{
    (void)pen_group_wait_until(group, is_done, context, PEN_GROUP_NEVER);
}

/*
 * Returns whether the data received since the members met can be used: PEN_OK
 * or PEN_LOST.
 */
static inline pen_status pen_group_status(const struct pen_group *group)
{
    return group->has_lost ? PEN_LOST : PEN_OK;
}

static inline void pen_group_put(struct pen_group *group,
                                 struct pen_group_window *window, uint32_t to,
                                 size_t first, const void *bytes, size_t length)
{
    if (group->has_lost)
        return;
    group->num_bytes += length;
    group->num_messages++;
    group->ops->put(group, window, to, first, bytes, length);
}

#endif
