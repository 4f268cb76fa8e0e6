#include "support/thread_group.h"

#include "base/bug.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A send or a receive that waits for the other. */
struct post {
    bool is_send;
    uint32_t from;
    uint32_t to;
    uint32_t channel;
    const void *sent;
    void *received;
    size_t length;
    bool is_done;
    struct post *next;  /* that waits, too */
    struct post *older; /* of all that have not been tested to their end */
    struct post *newer;
};

/* On its way into a window. */
struct put {
    struct pen_group_window *window;
    size_t first;
    size_t length;
    void *bytes;
    struct put *next;
};

struct pen_group_window {
    unsigned char *bytes;
    uint32_t number; /* the same at all members */
};

struct member {
    struct pen_group group; /* first: it is its member */
    struct thread_world *world;
    struct put *puts; /* into windows of this one, oldest first */
    struct pen_group_window *windows[8];
    uint32_t num_windows;
};

struct thread_world {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t num_moves;
    struct post *posts;
    struct post *newest;
    uint32_t lost; /* or PEN_GROUP_NOBODY */
    uint32_t num_members;
    uint32_t num_met; /* at a window's making or closing */
    uint64_t num_meetings;
    struct member *members;
};

static struct member *member_of(struct pen_group *group)
{
    return (struct member *)group;
}

static void lock(struct thread_world *world)
{
    pthread_mutex_lock(&world->lock);
}

static void unlock(struct thread_world *world)
{
    pthread_mutex_unlock(&world->lock);
}

static void move(struct thread_world *world)
{
    world->num_moves++;
    pthread_cond_broadcast(&world->moved);
}

/* ---- messages ---- */

static bool is_match(const struct post *a, const struct post *b)
{
    return a->is_send != b->is_send && a->from == b->from && a->to == b->to &&
           a->channel == b->channel;
}

static void post(struct pen_group *group, struct post wanted,
                 struct pen_group_request *request)
{
    struct thread_world *world = member_of(group)->world;
    struct post *own = malloc(sizeof *own);
    PEN_BUG_UNLESS(own != NULL);
    *own = wanted;
    memcpy(request->handle, &own, sizeof(struct post *));
    lock(world);
    own->older = world->newest;
    if (own->older != NULL)
        own->older->newer = own;
    world->newest = own;
    struct post **at = &world->posts;
    while (*at != NULL && !is_match(*at, own))
        at = &(*at)->next;
    struct post *other = *at;
    if (other == NULL) {
        *at = own;
    } else {
        struct post *from = own->is_send ? own : other;
        struct post *to = own->is_send ? other : own;
        PEN_BUG_UNLESS(from->length <= to->length);
        if (from->length > 0)
            memcpy(to->received, from->sent, from->length);
        *at = other->next;
        own->is_done = other->is_done = true;
    }
    move(world);
    unlock(world);
}

static void group_send(struct pen_group *group, uint32_t to, uint32_t channel,
                       const void *bytes, size_t length,
                       struct pen_group_request *request)
{
    post(group,
         (struct post){.is_send = true,
                       .from = group->self,
                       .to = to,
                       .channel = channel,
                       .sent = bytes,
                       .length = length},
         request);
}

static void group_receive(struct pen_group *group, uint32_t from,
                          uint32_t channel, void *bytes, size_t length,
                          struct pen_group_request *request)
{
    post(group,
         (struct post){.from = from,
                       .to = group->self,
                       .channel = channel,
                       .received = bytes,
                       .length = length},
         request);
}

/* By the owner of the windows, who alone reads them. */
static void deliver(struct member *member)
{
    lock(member->world);
    struct put *puts = member->puts;
    member->puts = NULL;
    unlock(member->world);
    while (puts != NULL) {
        struct put *next = puts->next;
        memcpy(puts->window->bytes + puts->first, puts->bytes, puts->length);
        free(puts->bytes);
        free(puts);
        puts = next;
    }
}

static void forget(struct thread_world *world, struct post *post)
{
    if (post->newer != NULL)
        post->newer->older = post->older;
    else
        world->newest = post->older;
    if (post->older != NULL)
        post->older->newer = post->newer;
    free(post);
}

static pen_status group_test(struct pen_group *group,
                             struct pen_group_request *request)
{
    struct member *member = member_of(group);
    struct thread_world *world = member->world;
    struct post *own;
    deliver(member);
    memcpy(&own, request->handle, sizeof(struct post *));
    lock(world);
    uint32_t lost = world->lost;
    bool is_done = own == NULL || own->is_done;
    if (lost == PEN_GROUP_NOBODY && is_done && own != NULL) {
        memset(request->handle, 0, sizeof request->handle);
        forget(world, own);
    }
    unlock(world);
    if (lost != PEN_GROUP_NOBODY)
        return pen_group_lose(group, lost);
    return is_done ? PEN_OK : PEN_BUSY;
}

/* Until something moves, or for a while where there is an end. */
static void sleep_until_moved(struct thread_world *world, uint64_t seen,
                              bool has_end)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    lock(world);
    while (world->num_moves == seen)
        if (!has_end)
            pthread_cond_wait(&world->moved, &world->lock);
        else if (pthread_cond_timedwait(&world->moved, &world->lock, &until) !=
                 0)
            break;
    unlock(world);
}

static pen_status group_wait(struct pen_group *group,
                             bool (*is_done)(void *context), void *context,
                             int64_t end_ns)
{
    struct member *member = member_of(group);
    struct thread_world *world = member->world;
    for (;;) {
        lock(world);
        uint64_t seen = world->num_moves;
        uint32_t lost = world->lost;
        unlock(world);
        deliver(member);
        if (lost != PEN_GROUP_NOBODY)
            return pen_group_lose(group, lost);
        if (is_done(context))
            return PEN_OK;
        if (pen_clock_ns() >= end_ns)
            return PEN_BUSY;
        sleep_until_moved(world, seen, end_ns != PEN_GROUP_NEVER);
    }
}

/* ---- windows ---- */

static void meet(struct member *member)
{
    struct thread_world *world = member->world;
    lock(world);
    uint64_t meeting = world->num_meetings;
    if (++world->num_met == world->num_members) {
        world->num_met = 0;
        world->num_meetings++;
        move(world);
    }
    while (world->num_meetings == meeting)
        pthread_cond_wait(&world->moved, &world->lock);
    unlock(world);
}

static pen_status group_expose(struct pen_group *group, size_t length,
                               struct pen_group_window **out)
{
    struct member *member = member_of(group);
    struct pen_group_window *window = calloc(1, sizeof *window);
    PEN_BUG_UNLESS(window != NULL && member->num_windows < 8);
    window->bytes = calloc(1, length + 1);
    PEN_BUG_UNLESS(window->bytes != NULL);
    window->number = member->num_windows;
    lock(member->world);
    member->windows[member->num_windows++] = window;
    unlock(member->world);
    meet(member);
    *out = window;
    return PEN_OK;
}

static void *group_window_bytes(struct pen_group_window *window)
{
    return window->bytes;
}

static void group_put(struct pen_group *group, struct pen_group_window *window,
                      uint32_t to, size_t first, const void *bytes,
                      size_t length)
{
    struct thread_world *world = member_of(group)->world;
    struct put *put = malloc(sizeof *put);
    PEN_BUG_UNLESS(put != NULL);
    *put = (struct put){.first = first, .length = length};
    put->bytes = malloc(length + 1);
    PEN_BUG_UNLESS(put->bytes != NULL);
    memcpy(put->bytes, bytes, length);
    lock(world);
    put->window = world->members[to].windows[window->number];
    struct put **at = &world->members[to].puts;
    while (*at != NULL)
        at = &(*at)->next;
    *at = put;
    move(world);
    unlock(world);
}

static void group_close(struct pen_group *group,
                        struct pen_group_window *window)
{
    struct member *member = member_of(group);
    meet(member);
    deliver(member);
    free(window->bytes);
    free(window);
}

static const struct pen_group_ops ops = {.send = group_send,
                                         .receive = group_receive,
                                         .test = group_test,
                                         .wait = group_wait,
                                         .expose = group_expose,
                                         .window_bytes = group_window_bytes,
                                         .put = group_put,
                                         .close = group_close};

/* ---- the world ---- */

struct thread_world *thread_world_create(uint32_t num_members)
{
    struct thread_world *world = calloc(1, sizeof *world);
    PEN_BUG_UNLESS(world != NULL);
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->moved, NULL);
    world->num_members = num_members;
    world->lost = PEN_GROUP_NOBODY;
    world->members = calloc(num_members, sizeof *world->members);
    PEN_BUG_UNLESS(world->members != NULL);
    for (uint32_t i = 0; i < num_members; i++)
        world->members[i] = (struct member){.group = {.ops = &ops,
                                                      .size = num_members,
                                                      .self = i,
                                                      .lost = PEN_GROUP_NOBODY},
                                            .world = world};
    return world;
}

void thread_world_free(struct thread_world *world)
{
    PEN_BUG_UNLESS(world->newest == NULL || world->lost != PEN_GROUP_NOBODY);
    while (world->newest != NULL)
        forget(world, world->newest);
    pthread_mutex_destroy(&world->lock);
    pthread_cond_destroy(&world->moved);
    free(world->members);
    free(world);
}

void thread_world_lose(struct thread_world *world, uint32_t member)
{
    lock(world);
    world->lost = member;
    move(world);
    unlock(world);
}

struct pen_group *thread_world_group(struct thread_world *world,
                                     uint32_t member)
{
    return &world->members[member].group;
}
