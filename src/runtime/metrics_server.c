/*
 * HTTP by libmicrohttpd, which reads and writes whenever the thread here lets
 * it. The library limits only how long a connection may be silent; this file
 * ends one that sends a byte per second to stay open.
 */
#include "runtime/metrics_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_CONNECTIONS 4
#define MOST_REQUEST_BYTES 4096 /* with what is kept to answer it */
#define MOST_MS 2000            /* of a connection */
#define MOST_WAITING 16         /* until they are taken or refused */
#define LOWEST_PRIORITY 19

struct connection {
    int socket;     /* -1: this place is free */
    int64_t end_ms; /* of its time; INT64_MAX: it has been told */
};

struct pen_metrics_server {
    pthread_mutex_t lock; /* guards metrics; held for a copy of it alone */
    struct pen_metrics metrics;

    uint16_t port;
    pthread_t thread;
    int wake; /* readable when the thread shall end */
    /* Used by the thread alone, while it runs. */
    struct MHD_Daemon *daemon;
    struct connection connections[MOST_CONNECTIONS];
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- one request ---- */

static void print_page(struct pen_metrics_server *server, struct pen_text *page)
{
    pthread_mutex_lock(&server->lock);
    struct pen_metrics metrics = server->metrics;
    pthread_mutex_unlock(&server->lock);
    pen_metrics_print(&metrics, page);
}

static enum MHD_Result send_text(struct MHD_Connection *connection,
                                 unsigned code, struct pen_text *text)
{
    struct MHD_Response *response = NULL;
    enum MHD_Result result = MHD_NO;
    if (!text->has_failed)
        response = MHD_create_response_from_buffer(text->length, text->bytes,
                                                   MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            PEN_METRICS_CONTENT_TYPE);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

/* Called once the head of a request is there; a body is never read. */
static enum MHD_Result answer(void *context, struct MHD_Connection *connection,
                              const char *path, const char *method,
                              const char *version, const char *body,
                              size_t *body_length, void **request_context)
{
    (void)version;
    (void)body;
    (void)request_context;
    const struct pen_metrics_request request = {
        method, path,
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                    MHD_HTTP_HEADER_HOST)};
    struct pen_text text = PEN_TEXT_EMPTY;
    *body_length = 0; /* of it, there is nothing left to do */
    unsigned code = pen_metrics_judge(&request);
    if (code == MHD_HTTP_OK)
        print_page(context, &text);
    else
        pen_text_add(&text, "%u: only GET /metrics is supported\n", code);
    enum MHD_Result result = send_text(connection, code, &text);
    pen_text_release(&text);
    return result;
}

/* ---- connections ---- */

static struct connection *find(struct pen_metrics_server *server, int socket)
{
    for (size_t i = 0; i < MOST_CONNECTIONS; i++)
        if (server->connections[i].socket == socket)
            return &server->connections[i];
    return NULL;
}

/* Accepts a connection that waits, or closes it where there is no place. */
static enum MHD_Result accepts(void *context, const struct sockaddr *address,
                               socklen_t length)
{
    (void)address;
    (void)length;
    return find(context, -1) != NULL ? MHD_YES : MHD_NO;
}

static void note_connection(void *context, struct MHD_Connection *connection,
                            void **socket_context,
                            enum MHD_ConnectionNotificationCode code)
{
    struct pen_metrics_server *server = context;
    struct connection *place;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        place = *socket_context;
        if (place != NULL)
            place->socket = -1;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    place = find(server, -1);
    *socket_context = place;
    if (place != NULL)
        *place = (struct connection){(int)info->connect_fd, now_ms() + MOST_MS};
}

/* To libmicrohttpd it looks as if the other side had gone. */
static void end_overdue(struct pen_metrics_server *server)
{
    int64_t now = now_ms();
    for (size_t i = 0; i < MOST_CONNECTIONS; i++) {
        struct connection *it = &server->connections[i];
        if (it->socket < 0 || it->end_ms > now)
            continue;
        shutdown(it->socket, SHUT_RDWR);
        it->end_ms = INT64_MAX;
    }
}

/* ---- the thread ---- */

/* Milliseconds until the thread has something to do; -1: for ever. */
static int wait_ms(struct pen_metrics_server *server)
{
    MHD_UNSIGNED_LONG_LONG theirs;
    int64_t wait = INT64_MAX;
    int64_t now = now_ms();
    for (size_t i = 0; i < MOST_CONNECTIONS; i++) {
        const struct connection *it = &server->connections[i];
        if (it->socket >= 0 && it->end_ms != INT64_MAX &&
            it->end_ms - now < wait)
            wait = it->end_ms > now ? it->end_ms - now : 0;
    }
    if (MHD_get_timeout(server->daemon, &theirs) == MHD_YES &&
        theirs < (MHD_UNSIGNED_LONG_LONG)wait)
        wait = (int64_t)theirs;
    return wait > INT_MAX ? -1 : (int)wait;
}

static void *serve(void *context)
{
    struct pen_metrics_server *server = context;
    struct pollfd polls[2] = {
        {.fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                   ->epoll_fd,
         .events = POLLIN},
        {.fd = server->wake, .events = POLLIN}};
    /* Linux means this thread: readers must not slow down the training. */
    setpriority(PRIO_PROCESS, 0, LOWEST_PRIORITY);
    while (polls[1].revents == 0) {
        (void)poll(polls, 2, wait_ms(server));
        end_overdue(server);
        MHD_run(server->daemon);
    }
    return NULL;
}

/* Starts the thread with signals blocked: they are for the main thread. */
static int start_thread(struct pen_metrics_server *server)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&server->thread, NULL, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* ---- start and end ---- */

static void say_why(int error, uint16_t port, struct pen_text *why)
{
    const char *advice = "";
    if (error == EADDRINUSE)
        advice = "; give another port, or 0 for a free one";
    if (error == EACCES)
        advice = "; give a port from 1024 on, or 0 for a free one";
    pen_why(why, "cannot serve metrics on port %u: %s%s", (unsigned)port,
            strerror(error), advice);
}

/* A socket that only this machine can reach, or -1. */
static int listen_on(uint16_t *port, struct pen_text *why)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(*port)};
    socklen_t length = sizeof address;
    const int yes = 1; /* connections that have ended do not count */
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 &&
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(listener, (const struct sockaddr *)&address, length) == 0 &&
        listen(listener, MOST_WAITING) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &length) == 0) {
        *port = ntohs(address.sin_port);
        return listener;
    }
    say_why(errno, *port, why);
    if (listener >= 0)
        close(listener);
    return -1;
}

/* Takes the socket in any case. One connection more, to be refused. */
static struct MHD_Daemon *start_daemon(struct pen_metrics_server *server,
                                       int listener)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL, 0, accepts, server, answer, server,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listener,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS + 1,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MOST_REQUEST_BYTES,
        MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_END);
}

static void release(struct pen_metrics_server *server)
{
    if (server->daemon != NULL)
        MHD_stop_daemon(server->daemon);
    if (server->wake >= 0)
        close(server->wake);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

static pen_status start(struct pen_metrics_server *server, struct pen_text *why)
{
    int listener = listen_on(&server->port, why);
    if (listener < 0)
        return PEN_IO;
    server->wake = eventfd(0, EFD_CLOEXEC);
    server->daemon = start_daemon(server, listener);
    if (server->wake >= 0 && server->daemon != NULL &&
        start_thread(server) == 0)
        return PEN_OK;
    pen_why(why, "cannot start the metrics server: no memory or no thread");
    return PEN_NOMEM;
}

pen_status pen_metrics_server_create(uint16_t port,
                                     const struct pen_metrics *metrics,
                                     struct pen_metrics_server **out,
                                     struct pen_text *why)
{
    struct pen_metrics_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return PEN_NOMEM;
    pthread_mutex_init(&server->lock, NULL);
    server->metrics = *metrics;
    server->wake = -1;
    server->port = port;
    for (size_t i = 0; i < MOST_CONNECTIONS; i++)
        server->connections[i].socket = -1;
    pen_status status = start(server, why);
    if (status == PEN_OK)
        *out = server;
    else
        release(server);
    return status;
}

void pen_metrics_server_free(struct pen_metrics_server *server)
{
    const uint64_t one = 1;
    if (server == NULL)
        return;
    ssize_t written = write(server->wake, &one, sizeof one);
    (void)written;
    pthread_join(server->thread, NULL);
    release(server);
}

uint16_t pen_metrics_server_port(const struct pen_metrics_server *server)
{
    return server->port;
}

void pen_metrics_server_publish(struct pen_metrics_server *server,
                                const struct pen_metrics *metrics)
{
    if (pthread_mutex_trylock(&server->lock) != 0)
        return;
    server->metrics = *metrics;
    pthread_mutex_unlock(&server->lock);
}
