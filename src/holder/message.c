#include "holder/message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAGIC 0x444c4850u /* "PHLD" */
#define VERSION 2u
#define MAX_DESCRIPTORS 4

struct pen_holder_message pen_holder_message_of(enum pen_holder_kind kind)
{
    struct pen_holder_message message;
    memset(&message, 0, sizeof message);
    message.magic = MAGIC;
    message.version = VERSION;
    message.kind = (uint16_t)kind;
    return message;
}

/* Returns whether the bytes are printable ASCII that ends within its room. */
static bool is_text(const char *text, size_t room)
{
    const char *end = memchr(text, '\0', room);
    for (const char *c = text; end != NULL && c < end; c++)
        if (*c < ' ' || *c > '~')
            return false;
    return end != NULL;
}

static const char *fault_of(const struct pen_holder_message *message)
{
    if (message->magic != MAGIC || message->version != VERSION)
        return "is of another version";
    if (message->kind == PEN_HOLDER_NONE || message->kind >= PEN_HOLDER_KINDS)
        return "has an unknown kind";
    if (message->num_ranks > PEN_HOLDER_MAX_RANKS)
        return "has too many ranks";
    if (message->num_ranks > 0 && message->rank >= message->num_ranks)
        return "has a rank that is not below its number of ranks";
    if (message->num_ranks == 0 && message->rank >= PEN_HOLDER_MAX_RANKS)
        return "has a rank out of bounds";
    if (message->is_connected > 1 || message->drops_older > 1 ||
        message->is_copy > 1 || message->is_done > 1)
        return "has a flag that is neither 0 nor 1";
    if (!is_text(message->run, sizeof message->run) ||
        !is_text(message->text, sizeof message->text))
        return "has text that is not printable";
    return NULL;
}

pen_status pen_holder_message_parse(const void *bytes, size_t length,
                                    struct pen_holder_message *out,
                                    struct pen_text *why)
{
    struct pen_holder_message message;
    if (length != sizeof message) {
        pen_why(why, "the message has %zu bytes; it must have %zu", length,
                sizeof message);
        return PEN_INVALID;
    }
    memcpy(&message, bytes, sizeof message);
    const char *fault = fault_of(&message);
    if (fault != NULL) {
        pen_why(why, "the message %s", fault);
        return PEN_INVALID;
    }
    *out = message;
    return PEN_OK;
}

/* Room for the descriptors that travel with a packet, aligned as its header. */
union beside {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
};

static pen_status status_of_errno(void)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
        return PEN_BUSY;
    return PEN_LOST;
}

pen_status pen_holder_send(int socket, const struct pen_holder_message *message,
                           int descriptor)
{
    union beside beside;
    struct iovec bytes = {(void *)message, sizeof *message};
    struct msghdr packet = {.msg_iov = &bytes, .msg_iovlen = 1};
    if (descriptor >= 0) {
        memset(&beside, 0, sizeof beside);
        packet.msg_control = &beside;
        packet.msg_controllen = CMSG_SPACE(sizeof descriptor);
        struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    ssize_t count;
    do
        count = sendmsg(socket, &packet, MSG_NOSIGNAL);
    while (count < 0 && errno == EINTR);
    return count < 0 ? status_of_errno() : PEN_OK;
}

/* Keeps the first descriptor and closes all others. */
static int take_descriptor(struct msghdr *packet)
{
    int kept = -1;
    for (struct cmsghdr *it = CMSG_FIRSTHDR(packet); it != NULL;
         it = CMSG_NXTHDR(packet, it)) {
        if (it->cmsg_level != SOL_SOCKET || it->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (it->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(it) + i * sizeof descriptor,
                   sizeof descriptor);
            if (kept < 0)
                kept = descriptor;
            else
                close(descriptor);
        }
    }
    return kept;
}

pen_status pen_holder_receive(int socket, struct pen_holder_message *out,
                              int *descriptor, struct pen_text *why)
{
    union beside beside;
    char room[sizeof *out + 1]; /* a longer packet is noticed */
    struct iovec bytes = {room, sizeof room};
    struct msghdr packet = {.msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = &beside,
                            .msg_controllen = sizeof beside};
    ssize_t count;
    *descriptor = -1;
    do
        count = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return status_of_errno();
    *descriptor = take_descriptor(&packet);
    if (count == 0)
        return PEN_LOST;
    return pen_holder_message_parse(room, (size_t)count, out, why);
}
