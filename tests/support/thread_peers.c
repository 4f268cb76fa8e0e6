#include "support/thread_peers.h"

#include "base/bug.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    struct post *next;
};

/* On its way into a window. */
struct put {
    struct pen_peers_window *window;
    size_t first;
    size_t length;
    void *bytes;
    struct put *next;
};

struct pen_peers_window {
    unsigned char *bytes;
    uint32_t number; /* the same at all members */
};

struct member {
    struct pen_peers peers; /* first: they are their member */
    struct thread_world *world;
    struct put *puts; /* into windows of this one, oldest first */
    struct pen_peers_window *windows[8];
    uint32_t num_windows;
};

struct thread_world {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t num_moves;
    struct post *posts;
    uint32_t num_members;
    uint32_t num_met; /* at a window's making or closing */
    uint64_t num_meetings;
    struct member *members;
};

static struct member *member_of(struct pen_peers *peers)
{
    return (struct member *)peers;
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

static void post(struct pen_peers *peers, struct post wanted,
                 struct pen_peers_request *request)
{
    struct thread_world *world = member_of(peers)->world;
    struct post *own = malloc(sizeof *own);
    PEN_BUG_UNLESS(own != NULL);
    *own = wanted;
    memcpy(request->handle, &own, sizeof(struct post *));
    lock(world);
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

static void peers_send(struct pen_peers *peers, uint32_t to, uint32_t channel,
                       const void *bytes, size_t length,
                       struct pen_peers_request *request)
{
    post(peers,
         (struct post){.is_send = true,
                       .from = peers->self,
                       .to = to,
                       .channel = channel,
                       .sent = bytes,
                       .length = length},
         request);
}

static void peers_receive(struct pen_peers *peers, uint32_t from,
                          uint32_t channel, void *bytes, size_t length,
                          struct pen_peers_request *request)
{
    post(peers,
         (struct post){.from = from,
                       .to = peers->self,
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

static bool peers_test(struct pen_peers *peers,
                       struct pen_peers_request *request)
{
    struct member *member = member_of(peers);
    struct post *own;
    deliver(member);
    memcpy(&own, request->handle, sizeof(struct post *));
    if (own == NULL)
        return true;
    lock(member->world);
    bool is_done = own->is_done;
    unlock(member->world);
    if (is_done) {
        memset(request->handle, 0, sizeof request->handle);
        free(own);
    }
    return is_done;
}

static pen_status peers_wait(struct pen_peers *peers,
                             bool (*is_done)(void *context), void *context)
{
    struct member *member = member_of(peers);
    struct thread_world *world = member->world;
    for (;;) {
        lock(world);
        uint64_t seen = world->num_moves;
        unlock(world);
        deliver(member);
        if (is_done(context))
            return PEN_OK;
        lock(world);
        while (world->num_moves == seen)
            pthread_cond_wait(&world->moved, &world->lock);
        unlock(world);
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

static pen_status peers_expose(struct pen_peers *peers, size_t length,
                               struct pen_peers_window **out)
{
    struct member *member = member_of(peers);
    struct pen_peers_window *window = calloc(1, sizeof *window);
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

static void *peers_window_bytes(struct pen_peers_window *window)
{
    return window->bytes;
}

static void peers_put(struct pen_peers *peers, struct pen_peers_window *window,
                      uint32_t to, size_t first, const void *bytes,
                      size_t length)
{
    struct thread_world *world = member_of(peers)->world;
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

static void peers_close(struct pen_peers *peers,
                        struct pen_peers_window *window)
{
    struct member *member = member_of(peers);
    meet(member);
    deliver(member);
    free(window->bytes);
    free(window);
}

static const struct pen_peers_ops ops = {.send = peers_send,
                                         .receive = peers_receive,
                                         .test = peers_test,
                                         .wait = peers_wait,
                                         .expose = peers_expose,
                                         .window_bytes = peers_window_bytes,
                                         .put = peers_put,
                                         .close = peers_close};

/* ---- the world ---- */

struct thread_world *thread_world_create(uint32_t num_members)
{
    struct thread_world *world = calloc(1, sizeof *world);
    PEN_BUG_UNLESS(world != NULL);
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->moved, NULL);
    world->num_members = num_members;
    world->members = calloc(num_members, sizeof *world->members);
    PEN_BUG_UNLESS(world->members != NULL);
    for (uint32_t i = 0; i < num_members; i++)
        world->members[i] = (struct member){
            .peers = {.ops = &ops, .size = num_members, .self = i},
            .world = world};
    return world;
}

void thread_world_free(struct thread_world *world)
{
    PEN_BUG_UNLESS(world->posts == NULL);
    pthread_mutex_destroy(&world->lock);
    pthread_cond_destroy(&world->moved);
    free(world->members);
    free(world);
}

struct pen_peers *thread_world_peers(struct thread_world *world,
                                     uint32_t member)
{
    return &world->members[member].peers;
}
