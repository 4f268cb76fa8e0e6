#include "holder/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_SEC 10

static pen_status ask(struct pen_holder_client *client,
                      const struct pen_holder_message *question, int given,
                      struct pen_holder_message *answer, int *got,
                      struct pen_text *why)
{
    int descriptor = -1;
    pen_status status = pen_holder_send(client->socket, question, given);
    if (status == PEN_OK)
        status = pen_holder_receive(client->socket, answer, &descriptor, why);
    if (status == PEN_OK && got != NULL)
        *got = descriptor;
    else if (descriptor >= 0)
        close(descriptor);
    if (status == PEN_LOST || status == PEN_BUSY) {
        pen_why(why, "the holder of committed steps does not answer");
        return PEN_LOST;
    }
    if (status == PEN_OK && answer->kind == PEN_HOLDER_REFUSED) {
        pen_why(why, "%s", answer->text);
        return PEN_INVALID;
    }
    return status;
}

static pen_status open_socket(const char *path, int *out, struct pen_text *why)
{
    struct timeval limit = {.tv_sec = ANSWER_SEC};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        pen_why(why, "the path of a socket has at most %zu bytes: %s",
                sizeof address.sun_path - 1, path);
        return PEN_INVALID;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int it = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (it >= 0) {
        setsockopt(it, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(it, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    if (it >= 0 &&
        connect(it, (struct sockaddr *)&address, sizeof address) == 0) {
        *out = it;
        return PEN_OK;
    }
    pen_why(why, "cannot reach the holder of committed steps at %s: %s", path,
            strerror(errno));
    if (it >= 0)
        close(it);
    return PEN_IO;
}

pen_status pen_holder_connect(const char *path, uint64_t epoch, uint32_t rank,
                              uint32_t num_ranks, struct pen_holder_client *out,
                              struct pen_text *why)
{
    struct pen_holder_client client = {
        .socket = -1, .epoch = epoch, .rank = rank, .num_ranks = num_ranks};
    struct pen_holder_message answer;
    struct pen_holder_message hello = pen_holder_message_of(PEN_HOLDER_HELLO);
    hello.epoch = epoch;
    hello.rank = rank;
    hello.num_ranks = num_ranks;
    pen_status status = open_socket(path, &client.socket, why);
    if (status != PEN_OK)
        return status;
    status = ask(&client, &hello, -1, &answer, NULL, why);
    if (status == PEN_OK)
        *out = client;
    else
        close(client.socket);
    return status;
}

pen_status pen_holder_offer(struct pen_holder_client *client,
                            const struct pen_shard *shard, struct pen_text *why)
{
    struct pen_holder_message answer;
    struct pen_holder_message offer = pen_holder_message_of(PEN_HOLDER_SHARD);
    return ask(client, &offer, shard->descriptor, &answer, NULL, why);
}

pen_status pen_holder_offer_copy(struct pen_holder_client *client,
                                 const struct pen_shard *shard,
                                 struct pen_text *why)
{
    struct pen_holder_message answer;
    struct pen_holder_message offer = pen_holder_message_of(PEN_HOLDER_SHARD);
    offer.is_copy = 1;
    return ask(client, &offer, shard->descriptor, &answer, NULL, why);
}

pen_status pen_holder_tell_commit(struct pen_holder_client *client,
                                  uint64_t step, bool drops_older)
{
    struct pen_holder_message commit =
        pen_holder_message_of(PEN_HOLDER_COMMITTED);
    commit.step = step;
    commit.drops_older = drops_older;
    pen_status status = pen_holder_send(client->socket, &commit, -1);
    return status == PEN_BUSY ? PEN_OK : status;
}

pen_status pen_holder_list(struct pen_holder_client *client, uint32_t index,
                           struct pen_holder_message *out, struct pen_text *why)
{
    struct pen_holder_message question = pen_holder_message_of(PEN_HOLDER_LIST);
    question.index = index;
    return ask(client, &question, -1, out, NULL, why);
}

pen_status pen_holder_fetch(struct pen_holder_client *client, uint64_t epoch,
                            uint32_t rank, uint64_t step, struct pen_shard *out,
                            struct pen_text *why)
{
    int descriptor = -1;
    struct pen_holder_message answer;
    struct pen_holder_message question =
        pen_holder_message_of(PEN_HOLDER_FETCH);
    question.epoch = epoch;
    question.rank = rank;
    question.step = step;
    pen_status status = ask(client, &question, -1, &answer, &descriptor, why);
    if (status == PEN_OK)
        status = pen_shard_open(descriptor, out, why);
    if (status != PEN_OK && descriptor >= 0)
        close(descriptor);
    return status;
}

void pen_holder_leave(struct pen_holder_client *client, bool is_done)
{
    struct pen_holder_message goodbye =
        pen_holder_message_of(PEN_HOLDER_GOODBYE);
    goodbye.is_done = is_done;
    if (client->socket >= 0) {
        pen_holder_send(client->socket, &goodbye, -1);
        close(client->socket);
    }
    *client = PEN_HOLDER_CLIENT_NONE;
}
