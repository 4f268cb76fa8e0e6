/*
 * The process of a holder: one thread, one poll().
 *
 *   client: connected ─ HELLO ─► rank ─ SHARD ─► held ─ GOODBYE, closed ─► gone
 *
 * Clients that have not said HELLO may LIST and FETCH. Shards belong to the
 * table, not to the clients: they stay when the client is gone.
 *
 * A holder without a parent is at the epoch of the latest rank, and ends when
 * the last rank has said that the training is done, or when none is connected
 * for a time.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): accept4, ucred */
#include "holder/holder.h"

#include "base/clock.h"
#include "holder/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_CLIENTS 8192u
#define ALONE_MS 500

struct rank {
    uint64_t epoch;
    uint32_t rank;
    uint32_t num_ranks; /* 0: has not said HELLO */
    uint64_t step;      /* last committed */
};

struct client {
    int socket; /* -1: gone, but its events are not delivered */
    struct rank rank;
    bool has_left;
    bool owes_connected; /* events that the parent has not got yet */
    bool owes_committed;
    bool owes_end;
};

struct held {
    struct pen_shard shard;
    struct pen_shard_about about;
};

struct server {
    int listener;
    int control;
    int events;
    uint64_t epoch;
    struct client *clients; /* room for MAX_CLIENTS, as all below */
    size_t num_clients;
    struct held *held; /* PEN_HOLDER_MAX_SHARDS */
    size_t num_held;
    struct pollfd *polls; /* MAX_CLIENTS + 3 */
    int64_t limit_ns;     /* without a parent and a rank; 0: has a parent */
    int64_t used_ns;      /* when a rank was last there */
    bool is_done;         /* no launch follows */
};

/* ---- events ---- */

/* Sends an event; returns false when the parent has to read first. */
static bool send_event(struct server *server, const struct rank *rank,
                       enum pen_holder_kind kind)
{
    struct pen_holder_message event = pen_holder_message_of(kind);
    if (server->events < 0)
        return true;
    event.epoch = rank->epoch;
    event.rank = rank->rank;
    event.num_ranks = rank->num_ranks;
    event.step = rank->step;
    return pen_holder_send(server->events, &event, -1) != PEN_BUSY;
}

static void deliver(struct server *server, struct client *client)
{
    if (client->owes_connected)
        client->owes_connected =
            !send_event(server, &client->rank, PEN_HOLDER_CONNECTED);
    if (!client->owes_connected && client->owes_committed)
        client->owes_committed =
            !send_event(server, &client->rank, PEN_HOLDER_COMMITTED);
    if (!client->owes_connected && !client->owes_committed && client->owes_end)
        client->owes_end =
            !send_event(server, &client->rank,
                        client->has_left ? PEN_HOLDER_LEFT : PEN_HOLDER_GONE);
}

static bool owes(const struct client *client)
{
    return client->owes_connected || client->owes_committed || client->owes_end;
}

/* ---- clients ---- */

static void end_client(struct server *server, struct client *client)
{
    if (client->socket < 0)
        return;
    close(client->socket);
    client->socket = -1;
    client->owes_end = client->rank.num_ranks > 0;
    deliver(server, client);
}

/* Cuts off a client (H1). */
static void cut_off(struct client *client)
{
    if (client->rank.num_ranks == 0)
        return;
    if (client->socket >= 0)
        close(client->socket);
    *client = (struct client){.socket = -1};
}

static void forget_ended(struct server *server)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->num_clients; i++)
        if (server->clients[i].socket >= 0 || owes(&server->clients[i]))
            server->clients[kept++] = server->clients[i];
    server->num_clients = kept;
}

static bool is_same_user(int socket)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           peer.uid == geteuid();
}

static void accept_all(struct server *server)
{
    for (;;) {
        int socket =
            accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0)
            return;
        if (server->num_clients < MAX_CLIENTS && is_same_user(socket))
            server->clients[server->num_clients++] =
                (struct client){.socket = socket};
        else
            close(socket);
    }
}

/* ---- the table ---- */

static bool is_connected(const struct server *server, uint64_t epoch,
                         uint32_t rank)
{
    for (size_t i = 0; i < server->num_clients; i++) {
        const struct client *it = &server->clients[i];
        if (it->socket >= 0 && it->rank.num_ranks > 0 &&
            it->rank.epoch == epoch && it->rank.rank == rank)
            return true;
    }
    return false;
}

/* Finds a shard that has the step; 0: any. */
static struct held *find_held(struct server *server, uint64_t epoch,
                              uint32_t rank, uint64_t step)
{
    uint32_t slot;
    for (size_t i = 0; i < server->num_held; i++)
        if (server->held[i].about.epoch == epoch &&
            server->held[i].about.rank == rank &&
            (step == 0 || pen_shard_find(&server->held[i].shard, step, &slot)))
            return &server->held[i];
    return NULL;
}

/* Drops older shards (H2). */
static void drop_older(struct server *server)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->num_held; i++)
        if (server->held[i].about.epoch < server->epoch)
            pen_shard_close(&server->held[i].shard);
        else
            server->held[kept++] = server->held[i];
    server->num_held = kept;
}

static struct pen_holder_message entry_of(struct server *server, uint32_t index)
{
    struct pen_holder_message entry = pen_holder_message_of(PEN_HOLDER_ENTRY);
    entry.index = index;
    entry.count = (uint32_t)server->num_held;
    if (index >= server->num_held)
        return entry;
    const struct held *it = &server->held[index];
    entry.epoch = it->about.epoch;
    entry.rank = it->about.rank;
    entry.num_ranks = it->about.num_ranks;
    entry.num_bytes = it->shard.num_bytes;
    entry.is_connected = is_connected(server, entry.epoch, entry.rank);
    memcpy(entry.run, it->about.run, sizeof entry.run);
    for (uint32_t i = 0; i < PEN_SHARD_SLOTS; i++)
        entry.steps[i] = pen_shard_step(&it->shard, i);
    return entry;
}

static void begin_epoch(struct server *server, uint64_t epoch)
{
    server->epoch = epoch;
    server->is_done = false;
    for (size_t i = 0; i < server->num_clients; i++)
        cut_off(&server->clients[i]);
}

/* ---- messages: each is answered by what it returns ---- */

static struct pen_holder_message ok(void)
{
    return pen_holder_message_of(PEN_HOLDER_OK);
}

static struct pen_holder_message refuse(const char *reason)
{
    struct pen_holder_message answer =
        pen_holder_message_of(PEN_HOLDER_REFUSED);
    snprintf(answer.text, sizeof answer.text, "%s", reason);
    return answer;
}

static struct pen_holder_message
take_hello(struct server *server, struct client *client,
           const struct pen_holder_message *message)
{
    struct pen_holder_message answer;
    if (server->limit_ns > 0 && message->epoch > server->epoch)
        begin_epoch(server, message->epoch);
    if (message->epoch != server->epoch) {
        answer = refuse("");
        snprintf(answer.text, sizeof answer.text,
                 "the holder is at epoch %" PRIu64
                 " and takes no rank of epoch %" PRIu64,
                 server->epoch, message->epoch);
        return answer;
    }
    if (client->rank.num_ranks > 0 || message->num_ranks == 0)
        return refuse("a rank says hello once, with its number of ranks");
    if (is_connected(server, message->epoch, message->rank))
        return refuse("another process is this rank of this epoch");
    client->rank = (struct rank){.epoch = message->epoch,
                                 .rank = message->rank,
                                 .num_ranks = message->num_ranks};
    client->owes_connected = true;
    return ok();
}

static const char *fault_of_memory(struct server *server,
                                   const struct pen_shard_about *about,
                                   const struct rank *rank, bool is_copy)
{
    if (is_copy)
        return about->epoch > rank->epoch ? "the copy is of a later epoch"
                                          : NULL;
    if (about->epoch != rank->epoch || about->rank != rank->rank ||
        about->num_ranks != rank->num_ranks)
        return "the memory is that of another rank or epoch";
    return find_held(server, rank->epoch, rank->rank, 0) == NULL
               ? NULL
               : "the memory of this rank is held already";
}

/* Takes the descriptor. */
static struct pen_holder_message take_shard(struct server *server,
                                            struct client *client, bool is_copy,
                                            int descriptor)
{
    struct held held = {.shard = PEN_SHARD_NONE};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_holder_message answer = ok();
    if (client->rank.num_ranks == 0)
        answer = refuse("a rank says hello before it hands over memory");
    else if (server->num_held >= PEN_HOLDER_MAX_SHARDS)
        answer = refuse("the holder has no room for another shard");
    else if (pen_shard_open(descriptor, &held.shard, &why) != PEN_OK)
        answer = refuse(pen_text_string(&why));
    else
        descriptor = -1;
    if (answer.kind == PEN_HOLDER_OK) {
        pen_shard_describe(&held.shard, &held.about);
        const char *fault =
            fault_of_memory(server, &held.about, &client->rank, is_copy);
        if (fault != NULL)
            answer = refuse(fault);
    }
    if (answer.kind == PEN_HOLDER_OK)
        server->held[server->num_held++] = held;
    else
        pen_shard_close(&held.shard);
    if (descriptor >= 0)
        close(descriptor);
    pen_text_release(&why);
    return answer;
}

static void take_commit(struct server *server, struct client *client,
                        const struct pen_holder_message *message)
{
    if (client->rank.num_ranks == 0)
        return;
    client->rank.step = message->step;
    client->owes_committed = true;
    if (message->drops_older != 0)
        drop_older(server);
}

/* Answers a fetch; `lent` is a descriptor that goes with the answer. */
static struct pen_holder_message
take_fetch(struct server *server, const struct pen_holder_message *message,
           int *lent)
{
    const struct held *it =
        find_held(server, message->epoch, message->rank, message->step);
    if (it == NULL)
        return refuse("the holder has no memory of this rank and epoch");
    *lent = it->shard.descriptor;
    return entry_of(server, (uint32_t)(it - server->held));
}

/* Takes a message and returns the answer; NONE: there is none. */
static struct pen_holder_message
answer_message(struct server *server, struct client *client,
               const struct pen_holder_message *message, int descriptor,
               int *lent)
{
    if (message->kind == PEN_HOLDER_SHARD)
        return take_shard(server, client, message->is_copy != 0, descriptor);
    if (descriptor >= 0)
        close(descriptor);
    switch (message->kind) {
    case PEN_HOLDER_HELLO:
        return take_hello(server, client, message);
    case PEN_HOLDER_LIST:
        return entry_of(server, message->index);
    case PEN_HOLDER_FETCH:
        return take_fetch(server, message, lent);
    case PEN_HOLDER_COMMITTED:
        take_commit(server, client, message);
        return pen_holder_message_of(PEN_HOLDER_NONE);
    case PEN_HOLDER_GOODBYE:
        client->has_left = true;
        server->is_done |= message->is_done != 0;
        return pen_holder_message_of(PEN_HOLDER_NONE);
    default:
        return refuse("ranks do not send this message");
    }
}

static void hear_client(struct server *server, struct client *client)
{
    struct pen_holder_message message;
    int descriptor = -1;
    int lent = -1;
    pen_status status =
        pen_holder_receive(client->socket, &message, &descriptor, NULL);
    if (status == PEN_BUSY)
        return;
    if (status != PEN_OK) { /* H3, H4 */
        if (descriptor >= 0)
            close(descriptor);
        end_client(server, client);
        return;
    }
    struct pen_holder_message answer =
        answer_message(server, client, &message, descriptor, &lent);
    if (answer.kind != PEN_HOLDER_NONE &&
        pen_holder_send(client->socket, &answer, lent) != PEN_OK)
        end_client(server, client);
    deliver(server, client);
}

/* ---- the parent ---- */

static struct pen_holder_message take_epoch(struct server *server,
                                            uint64_t epoch)
{
    if (epoch <= server->epoch)
        return refuse("the next epoch must be later than the current one");
    begin_epoch(server, epoch);
    return ok();
}

/* Returns false when the parent is gone or wants the holder to end. */
static bool hear_parent(struct server *server)
{
    struct pen_holder_message message;
    struct pen_holder_message answer;
    int descriptor = -1;
    pen_status status =
        pen_holder_receive(server->control, &message, &descriptor, NULL);
    if (descriptor >= 0)
        close(descriptor);
    if (status != PEN_OK)
        return status == PEN_BUSY;
    if (message.kind == PEN_HOLDER_EPOCH)
        answer = take_epoch(server, message.epoch);
    else if (message.kind == PEN_HOLDER_LIST)
        answer = entry_of(server, message.index);
    else
        answer = refuse("the parent does not send this message");
    return pen_holder_send(server->control, &answer, -1) == PEN_OK;
}

/* ---- the loop ---- */

static size_t list_polls(struct server *server)
{
    short events = 0;
    for (size_t i = 0; i < server->num_clients; i++) {
        server->polls[3 + i] =
            (struct pollfd){.fd = server->clients[i].socket, .events = POLLIN};
        if (owes(&server->clients[i]))
            events = POLLOUT;
    }
    server->polls[0] = (struct pollfd){.fd = server->control, .events = POLLIN};
    server->polls[1] =
        (struct pollfd){.fd = server->listener, .events = POLLIN};
    server->polls[2] = (struct pollfd){.fd = server->events, .events = events};
    return 3 + server->num_clients;
}

/*
 * Returns false when there is no parent and the steps are not needed any more.
 */
static bool is_needed(struct server *server)
{
    int64_t now_ns = pen_clock_ns();
    for (size_t i = 0; i < server->num_clients; i++)
        if (server->clients[i].socket >= 0 &&
            server->clients[i].rank.num_ranks > 0)
            server->used_ns = now_ns;
    return server->limit_ns == 0 || server->used_ns == now_ns ||
           (!server->is_done && now_ns - server->used_ns < server->limit_ns);
}

/*
 * Reads ranks before the parent: the answer to a question counts all that they
 * have sent.
 */
static bool turn(struct server *server)
{
    size_t count = list_polls(server);
    size_t num_clients = server->num_clients;
    if (poll(server->polls, count, server->limit_ns > 0 ? ALONE_MS : -1) < 0)
        return errno == EINTR;
    for (size_t i = 0; i < num_clients; i++) {
        if (server->polls[3 + i].revents != 0)
            hear_client(server, &server->clients[i]);
        else
            deliver(server, &server->clients[i]);
    }
    if (server->polls[1].revents != 0)
        accept_all(server);
    bool goes_on = server->polls[0].revents == 0 || hear_parent(server);
    forget_ended(server);
    return goes_on && is_needed(server);
}

/*
 * Removes the socket. Without a parent the folder is the holder's, unless nodes
 * share it.
 */
static void unlink_socket(const struct server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    if (getsockname(server->listener, (struct sockaddr *)&address, &length) !=
        0)
        return;
    unlink(address.sun_path);
    char *slash = strrchr(address.sun_path, '/');
    if (server->limit_ns > 0 && slash != NULL) {
        *slash = '\0';
        rmdir(address.sun_path);
    }
}

void pen__holder_serve(const struct pen__holder_ends *ends, uint64_t epoch,
                       int64_t limit_ns)
{
    struct server server = {.listener = ends->listener,
                            .control = ends->control,
                            .events = ends->events,
                            .epoch = epoch,
                            .limit_ns = limit_ns,
                            .used_ns = pen_clock_ns()};
    server.clients = calloc(MAX_CLIENTS, sizeof *server.clients);
    server.held = calloc(PEN_HOLDER_MAX_SHARDS, sizeof *server.held);
    server.polls = calloc(MAX_CLIENTS + 3, sizeof *server.polls);
    while (server.clients != NULL && server.held != NULL &&
           server.polls != NULL && turn(&server))
        continue;
    unlink_socket(&server);
    for (size_t i = 0; i < server.num_held; i++)
        pen_shard_close(&server.held[i].shard);
    free(server.clients);
    free(server.held);
    free(server.polls);
}
