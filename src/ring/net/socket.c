#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): accept4 */
#include "ring/net/connection.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128
#define SECOND INT64_C(1000000000)

static struct addrinfo *resolve(const char *address, int flags,
                                struct pen_text *why)
{
    char host[PEN__ADDRESS_SIZE];
    char port[6];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | flags};
    if (!pen__ring_split_address(address, host, port)) {
        pen_why(why, "%s is not an address; give HOST:PORT", address);
        return NULL;
    }
    int failed =
        getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &found);
    if (failed != 0)
        pen_why(why, "%s: %s", address, gai_strerror(failed));
    return failed == 0 ? found : NULL;
}

static void print_address(const struct sockaddr *address, socklen_t length,
                          char out[PEN__ADDRESS_SIZE])
{
    char host[64];
    char port[6];
    out[0] = '\0';
    if (getnameinfo(address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    bool is_six = strchr(host, ':') != NULL;
    snprintf(out, PEN__ADDRESS_SIZE, is_six ? "[%s]:%s" : "%s:%s", host, port);
}

int pen__socket_listen(const char *address, char told[PEN__ADDRESS_SIZE],
                       struct pen_text *why)
{
    struct addrinfo *found = resolve(address, AI_PASSIVE, why);
    if (found == NULL)
        return -1;
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    int on = 1;
    int handle =
        socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_done =
        handle >= 0 &&
        setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(handle, found->ai_addr, found->ai_addrlen) == 0 &&
        listen(handle, BACKLOG) == 0 &&
        getsockname(handle, (struct sockaddr *)&bound, &length) == 0;
    freeaddrinfo(found);
    if (is_done) {
        print_address((struct sockaddr *)&bound, length, told);
        return handle;
    }
    pen_why(why, "cannot listen on %s: %s", address, strerror(errno));
    if (handle >= 0)
        close(handle);
    return -1;
}

int pen__socket_dial(const char *address, struct pen_text *why)
{
    struct addrinfo *found = resolve(address, 0, why);
    if (found == NULL)
        return -1;
    int handle =
        socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_begun = handle >= 0 &&
                    (connect(handle, found->ai_addr, found->ai_addrlen) == 0 ||
                     errno == EINPROGRESS);
    freeaddrinfo(found);
    if (is_begun)
        return handle;
    pen_why(why, "cannot connect to %s: %s", address, strerror(errno));
    if (handle >= 0)
        close(handle);
    return -1;
}

int pen__socket_accept(int listener, char from[PEN__ADDRESS_SIZE])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int handle = accept4(listener, (struct sockaddr *)&address, &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (handle >= 0)
        print_address((struct sockaddr *)&address, length, from);
    return handle;
}

/* Makes the kernel probe a silent peer, so that a dead one is noticed. */
void pen__socket_set(int handle, int64_t patience)
{
    int on = 1;
    int seconds = (int)(patience / 4 / SECOND);
    unsigned millis = (unsigned)(patience / (SECOND / 1000));
    if (seconds < 1)
        seconds = 1;
    setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(handle, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(handle, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(handle, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, &millis, sizeof millis);
}
