#include "sync/server.h"

#include "base/bug.h"
#include "sync/collective.h"

#include <stdlib.h>
#include <string.h>

enum { TO_SERVER, TO_WORKER, SHARES }; /* channels */

enum kind {
    PUSH,   /* a gradient follows */
    TELL,   /* the weights that the worker has follow; no answer */
    SETTLE, /* nothing more until all have sent this */
};

struct head {
    uint64_t kind;
    double learning_rate;
};

_Static_assert(sizeof(struct head) == PEN_SERVER_HEAD_BYTES, "as documented");

/* A message: its head, then up to a share of floats. */
struct message {
    struct head head;
    float floats[];
};

/* A worker as its server sees it. */
struct pen_server_worker {
    struct message *message; /* that is received */
    struct pen_group_request receive;
    bool is_heard; /* the receive is posted */
    float *answer;
    struct pen_group_request send;
    uint64_t clock;
    uint64_t allowed; /* clocks ahead of the slowest, for its answer */
    bool is_waiting;
    bool is_settled;
};

/* A server as a worker sees it. */
struct pen_server_link {
    size_t first; /* its share */
    size_t count;
    struct message *message; /* that is sent */
    struct pen_group_request send;
    struct pen_group_request receive;
};

/* ---- making ---- */

static uint32_t size_of(const struct pen_sync *server)
{
    return server->setting->peers->size;
}

static uint32_t self_of(const struct pen_sync *server)
{
    return server->setting->peers->self;
}

static size_t message_bytes(size_t share)
{
    return (sizeof(struct message) + share * sizeof(float) + 15) / 16 * 16;
}

static size_t all_messages_bytes(const struct pen_sync *server)
{
    size_t bytes = size_of(server) * message_bytes(server->share);
    for (uint32_t k = 0; k < size_of(server); k++)
        bytes += message_bytes(server->links[k].count);
    return bytes;
}

static pen_status make_vectors(struct pen_sync *server)
{
    const struct pen_sync_setting *setting = server->setting;
    const bool is_needed[PEN_SERVER_VECTORS] = {
        [PEN_SERVER_WEIGHTS] = true,
        [PEN_SERVER_MOMENTUM] = setting->optimizer.momentum > 0,
        [PEN_SERVER_KEPT] = server->rules.kept != NULL};
    for (int i = 0; i < PEN_SERVER_VECTORS; i++) {
        if (!is_needed[i])
            continue;
        server->vectors[i] = calloc(server->share + 1, sizeof(float));
        server->all[i] = pen_sync_vector(setting);
        if (server->vectors[i] == NULL || server->all[i] == NULL)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

static pen_status make_workers(struct pen_sync *server)
{
    uint32_t size = size_of(server);
    server->workers = calloc(size, sizeof *server->workers);
    server->links = calloc(size, sizeof *server->links);
    if (server->workers == NULL || server->links == NULL)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < size; k++)
        pen_sum_share(size, k, server->setting->count, &server->links[k].first,
                      &server->links[k].count);
    server->share = server->links[self_of(server)].count;
    server->messages = calloc(1, all_messages_bytes(server));
    server->answers = calloc(size * server->share + 1, sizeof(float));
    if (server->messages == NULL || server->answers == NULL)
        return PEN_NOMEM;
    unsigned char *at = server->messages;
    for (uint32_t k = 0; k < size; k++) {
        server->workers[k].answer = server->answers + k * server->share;
        server->workers[k].message = (struct message *)(void *)at;
        at += message_bytes(server->share);
        server->links[k].message = (struct message *)(void *)at;
        at += message_bytes(server->links[k].count);
    }
    return PEN_OK;
}

/* Shares of what is known of all. */
static void take_shares(struct pen_sync *server)
{
    size_t first = server->links[self_of(server)].first;
    for (int i = 0; i < PEN_SERVER_VECTORS; i++)
        if (server->vectors[i] != NULL)
            memcpy(server->vectors[i], server->all[i] + first,
                   server->share * sizeof(float));
}

pen_status pen_server_init(struct pen_sync *server,
                           const struct pen_sync_setting *setting,
                           const struct pen_server_rules *rules)
{
    server->setting = setting;
    server->rules = *rules;
    pen_status status = make_workers(server);
    if (status == PEN_OK)
        status = make_vectors(server);
    if (status != PEN_OK)
        return status;
    pen_sync_read_weights(setting, server->all[PEN_SERVER_WEIGHTS]);
    take_shares(server);
    return PEN_OK;
}

void pen_server_release(struct pen_sync *server)
{
    for (int i = 0; i < PEN_SERVER_VECTORS; i++) {
        free(server->vectors[i]);
        free(server->all[i]);
    }
    free(server->workers);
    free(server->links);
    free(server->messages);
    free(server->answers);
    free(server->rules.context);
}

size_t pen_server_bytes(const struct pen_sync *server)
{
    size_t bytes = all_messages_bytes(server) +
                   size_of(server) * server->share * sizeof(float) +
                   server->rules.context_bytes;
    for (int i = 0; i < PEN_SERVER_VECTORS; i++)
        if (server->vectors[i] != NULL)
            bytes += (server->share + server->setting->count) * sizeof(float);
    return bytes;
}

/* ---- asking ---- */

const struct pen_sync_setting *pen_server_setting(const struct pen_sync *server)
{
    return server->setting;
}

const float *pen_server_weights(const struct pen_sync *server)
{
    return server->vectors[PEN_SERVER_WEIGHTS];
}

float *pen_server_kept(struct pen_sync *server)
{
    return server->vectors[PEN_SERVER_KEPT];
}

uint64_t pen_server_clock(const struct pen_sync *server, uint32_t worker)
{
    return server->workers[worker].clock;
}

uint64_t pen_server_slowest(const struct pen_sync *server)
{
    uint64_t slowest = server->workers[0].clock;
    for (uint32_t k = 1; k < size_of(server); k++)
        if (server->workers[k].clock < slowest)
            slowest = server->workers[k].clock;
    return slowest;
}

uint64_t pen_server_fastest(const struct pen_sync *server)
{
    uint64_t fastest = 0;
    for (uint32_t k = 0; k < size_of(server); k++)
        if (server->workers[k].clock > fastest)
            fastest = server->workers[k].clock;
    return fastest;
}

/* ---- the server ---- */

static void hear(struct pen_sync *server, uint32_t k)
{
    struct pen_server_worker *worker = &server->workers[k];
    if (k == self_of(server))
        return;
    worker->is_heard = true;
    pen_group_receive(server->setting->peers, k, TO_SERVER, worker->message,
                      sizeof(struct head) + server->share * sizeof(float),
                      &worker->receive);
}

static void hear_all(struct pen_sync *server)
{
    for (uint32_t k = 0; k < size_of(server) && !server->is_open; k++) {
        server->workers[k].is_settled = false;
        hear(server, k);
    }
    server->is_open = true;
}

static void apply(struct pen_sync *server, const struct message *push)
{
    const struct pen_sync_optimizer *numbers = &server->setting->optimizer;
    float rate = (float)push->head.learning_rate;
    float mu = (float)numbers->momentum;
    float *weights = server->vectors[PEN_SERVER_WEIGHTS];
    float *velocity = server->vectors[PEN_SERVER_MOMENTUM];
    for (size_t i = 0; i < server->share; i++) {
        float g = server->rules.scale * push->floats[i];
        if (velocity != NULL) {
            velocity[i] = mu * velocity[i] + g;
            g = numbers->is_nesterov ? g + mu * velocity[i] : velocity[i];
        }
        weights[i] -= rate * g;
    }
}

/* Applies all pushes of a clock at once, when all have come. */
static void apply_together(struct pen_sync *server)
{
    struct message *sum = server->workers[0].message;
    for (uint32_t k = 1; k < size_of(server); k++)
        pen_add_floats(sum->floats, server->workers[k].message->floats,
                       server->share);
    apply(server, sum);
}

static void take_push(struct pen_sync *server, uint32_t k)
{
    const struct pen_server_rules *rules = &server->rules;
    struct pen_server_worker *worker = &server->workers[k];
    worker->clock++;
    worker->is_waiting = true;
    worker->allowed = rules->allow == NULL
                          ? UINT64_MAX
                          : rules->allow(rules->context, server, k);
    if (rules->correct != NULL)
        rules->correct(rules->context, k, worker->message->floats,
                       server->vectors[PEN_SERVER_WEIGHTS]);
    if (!rules->is_together)
        apply(server, worker->message);
    else if (pen_server_slowest(server) == pen_server_fastest(server))
        apply_together(server);
}

static void take(struct pen_sync *server, uint32_t k)
{
    const struct pen_server_rules *rules = &server->rules;
    struct pen_server_worker *worker = &server->workers[k];
    worker->is_heard = false;
    switch ((enum kind)worker->message->head.kind) {
    case PUSH:
        take_push(server, k);
        break;
    case TELL:
        rules->told(rules->context, k, worker->message->floats);
        hear(server, k);
        break;
    case SETTLE:
        worker->is_settled = true;
        break;
    }
}

static void answer(struct pen_sync *server, uint32_t k)
{
    const struct pen_server_rules *rules = &server->rules;
    struct pen_server_worker *worker = &server->workers[k];
    const float *weights = server->vectors[PEN_SERVER_WEIGHTS];
    size_t length = server->share * sizeof *weights;
    worker->is_waiting = false;
    if (rules->told != NULL)
        rules->told(rules->context, k, weights);
    if (k == self_of(server)) {
        memcpy(server->all[PEN_SERVER_WEIGHTS] + server->links[k].first,
               weights, length);
        return;
    }
    hear(server, k);
    memcpy(worker->answer, weights, length);
    pen_group_send(server->setting->peers, k, TO_WORKER, worker->answer, length,
                   &worker->send);
}

static void answer_all(struct pen_sync *server)
{
    struct pen_group *peers = server->setting->peers;
    uint64_t slowest = pen_server_slowest(server);
    for (uint32_t k = 0; k < peers->size; k++) {
        struct pen_server_worker *worker = &server->workers[k];
        if (worker->is_waiting && worker->clock - slowest <= worker->allowed &&
            pen_group_is_done(peers, &worker->send, 1))
            answer(server, k);
    }
}

/* Answers each eligible worker before accepting the next push. */
static void serve(struct pen_sync *server)
{
    struct pen_group *peers = server->setting->peers;
    answer_all(server);
    for (uint32_t k = 0; k < peers->size; k++)
        if (server->workers[k].is_heard &&
            pen_group_is_done(peers, &server->workers[k].receive, 1)) {
            take(server, k);
            answer_all(server);
        }
}

void pen_server_poll(struct pen_sync *server)
{
    if (server->has_left)
        return;
    hear_all(server);
    serve(server);
}

/* ---- the worker ---- */

/* Shares of a vector to all servers, or heads alone when it is NULL. */
static void send_all(struct pen_sync *server, struct head head,
                     const float *vector)
{
    struct pen_group *peers = server->setting->peers;
    for (uint32_t i = 0; i < peers->size; i++) {
        uint32_t k = (peers->self + i) % peers->size;
        struct pen_server_link *link = &server->links[k];
        size_t length = vector == NULL ? 0 : link->count * sizeof *vector;
        struct message *message =
            i == 0 ? server->workers[k].message : link->message;
        message->head = head;
        if (length > 0)
            memcpy(message->floats, vector + link->first, length);
        if (i == 0)
            take(server, k);
        else
            pen_group_send(peers, k, TO_SERVER, message, sizeof head + length,
                           &link->send);
    }
}

static bool is_quiet(struct pen_sync *server)
{
    struct pen_group *peers = server->setting->peers;
    bool is_done = true;
    for (uint32_t k = 0; k < peers->size; k++)
        if (!pen_group_is_done(peers, &server->links[k].send, 1) ||
            !pen_group_is_done(peers, &server->links[k].receive, 1))
            is_done = false;
    return is_done;
}

static bool is_answered(void *context)
{
    struct pen_sync *server = context;
    serve(server);
    return is_quiet(server) && !server->workers[self_of(server)].is_waiting;
}

static void wait_until(struct pen_sync *server, bool (*is_done)(void *context))
{
    pen_group_wait(server->setting->peers, is_done, server);
}

/*
 * Sends the weights of the workers to the servers after a restart: the servers
 * knew the same.
 */
static void send_weights(struct pen_sync *server)
{
    server->has_to_tell = false;
    pen_sync_read_weights(server->setting, server->all[PEN_SERVER_WEIGHTS]);
    send_all(server, (struct head){.kind = TELL},
             server->all[PEN_SERVER_WEIGHTS]);
    wait_until(server, is_answered);
}

static void read_gradients(const struct pen_sync_setting *setting, float *out)
{
    float decay = (float)setting->optimizer.weight_decay;
    pen_sync_read_gradients(setting, out);
    for (size_t i = 0; i < setting->num_tensors && decay > 0; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        for (size_t k = 0; k < it->count; k++)
            out[it->first + k] += decay * it->value[k];
    }
}

void pen_server_step(struct pen_sync *server, const struct pen_sync_step *at)
{
    struct pen_group *peers = server->setting->peers;
    float *vector = server->all[PEN_SERVER_WEIGHTS];
    hear_all(server);
    if (server->has_to_tell)
        send_weights(server);
    read_gradients(server->setting, vector);
    send_all(server, (struct head){PUSH, at->learning_rate}, vector);
    for (uint32_t k = 0; k < peers->size; k++)
        if (k != peers->self)
            pen_group_receive(peers, k, TO_WORKER,
                              vector + server->links[k].first,
                              server->links[k].count * sizeof *vector,
                              &server->links[k].receive);
    wait_until(server, is_answered);
    pen_sync_write_weights(server->setting, vector);
}

/* ---- settling ---- */

static bool are_all_settled(void *context)
{
    struct pen_sync *server = context;
    bool are_settled = true;
    serve(server);
    for (uint32_t k = 0; k < size_of(server); k++)
        if (!server->workers[k].is_settled ||
            !pen_group_is_done(server->setting->peers, &server->workers[k].send,
                               1))
            are_settled = false;
    return is_quiet(server) && are_settled;
}

static bool is_gathered(void *context)
{
    return is_quiet(context);
}

/*
 * Sends every share to all members. Nothing changes a share before all have
 * settled.
 */
static void gather(struct pen_sync *server, const float *share, float *all)
{
    struct pen_group *peers = server->setting->peers;
    size_t length = server->share * sizeof *share;
    memcpy(all + server->links[peers->self].first, share, length);
    for (uint32_t k = 0; k < peers->size; k++)
        if (k != peers->self)
            pen_group_receive(peers, k, SHARES, all + server->links[k].first,
                              server->links[k].count * sizeof *all,
                              &server->links[k].receive);
    for (uint32_t i = 1; i < peers->size; i++) {
        uint32_t k = (peers->self + i) % peers->size;
        pen_group_send(peers, k, SHARES, share, length, &server->links[k].send);
    }
    wait_until(server, is_gathered);
}

void pen_server_settle(struct pen_sync *server)
{
    hear_all(server);
    send_all(server, (struct head){.kind = SETTLE}, NULL);
    wait_until(server, are_all_settled);
    server->is_open = false;
    for (int i = 0; i < PEN_SERVER_VECTORS; i++)
        if (server->vectors[i] != NULL)
            gather(server, server->vectors[i], server->all[i]);
}

void pen_server_leave(struct pen_sync *server)
{
    pen_server_settle(server);
    server->has_left = true;
}

void pen_server_model(struct pen_sync *server, float *out)
{
    pen_server_settle(server);
    memcpy(out, server->all[PEN_SERVER_WEIGHTS],
           server->setting->count * sizeof *out);
}

void pen_server_states(struct pen_sync *server, struct pen_sync_states *out)
{
    const char *names[PEN_SERVER_VECTORS] = {
        [PEN_SERVER_WEIGHTS] = "server",
        [PEN_SERVER_MOMENTUM] = "server_momentum",
        [PEN_SERVER_KEPT] = server->rules.kept};
    for (int i = 0; i < PEN_SERVER_VECTORS; i++)
        if (server->vectors[i] != NULL)
            pen_sync_states_add_vector(out, names[i], true, server->all[i],
                                       server->setting->count);
}

void pen_server_restored(struct pen_sync *server, uint64_t steps)
{
    (void)steps;
    take_shares(server);
    server->has_to_tell = server->rules.told != NULL;
}

/* ---- cost ---- */

void pen_server_cost(const struct pen_sync_case *of, struct pen_sync_cost *out)
{
    double weights = of->num_weights * sizeof(float);
    double others = of->num_replicas - 1.0;
    out->bytes = 2 * others / of->num_replicas * weights +
                 others * PEN_SERVER_HEAD_BYTES;
    out->legs = of->num_replicas > 1 ? 2 : 0;
    out->extra = (4 + 1.0 / of->num_replicas) * weights +
                 of->num_moments * (1 + 1.0 / of->num_replicas) * weights;
}
