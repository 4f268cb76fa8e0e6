/*
 * What a link gives, by TCP alone: round trips of one byte, and bytes per
 * second in one direction.
 *
 *   link serve PORT            serves one connection, then ends
 *   link ping ADDRESS PORT N   prints least, median and most of N round trips
 *                              in ms; those after the first, which also waits
 *                              for addresses
 *   link stream ADDRESS PORT S prints payload bytes per second that arrived,
 *                              over S seconds behind half a second of start
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PINGS = 10000, BLOCK = 1 << 17, ATTEMPTS = 100 };

static const double start_sec = 0.5;

static _Noreturn void stop(const char *what)
{
    perror(what);
    exit(1);
}

static double now_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct sockaddr_in address_of(const char *host, const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        stop(host);
    return address;
}

static int new_socket(void)
{
    const int one = 1;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    if (file < 0)
        stop("socket");
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return file;
}

/* The server may still be on its way. */
static int reach(const char *host, const char *port)
{
    const struct sockaddr_in address = address_of(host, port);
    const struct timespec pause = {.tv_nsec = 50000000};
    for (int i = 0; i < ATTEMPTS; i++) {
        int file = new_socket();
        if (connect(file, (const struct sockaddr *)&address, sizeof address) ==
            0)
            return file;
        close(file);
        nanosleep(&pause, NULL);
    }
    stop(host);
}

/* ---- who is asked ---- */

/* After "p" every byte comes back; after "s" the bytes are counted. */
static void answer_pings(int file)
{
    char byte;
    while (read(file, &byte, 1) == 1)
        if (write(file, &byte, 1) != 1)
            return;
}

/* Tells bytes per second, as a double, at the end of the stream. */
static void count_stream(int file)
{
    static char block[BLOCK];
    double begin = now_sec();
    double first = 0;
    double last = 0;
    double bytes = 0;
    ssize_t length;
    while ((length = read(file, block, sizeof block)) > 0) {
        last = now_sec();
        if (last - begin < start_sec)
            continue;
        if (first > 0)
            bytes += (double)length;
        else
            first = last;
    }
    double rate = last > first ? bytes / (last - first) : 0;
    if (write(file, &rate, sizeof rate) != sizeof rate)
        stop("answer");
}

static void serve(const char *port)
{
    const struct sockaddr_in address = address_of("0.0.0.0", port);
    int listener = new_socket();
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) !=
            0 ||
        listen(listener, 1) != 0)
        stop("listen");
    int file = accept(listener, NULL, NULL);
    char kind;
    if (file < 0 || read(file, &kind, 1) != 1)
        stop("accept");
    const int one = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (kind == 'p')
        answer_pings(file);
    else
        count_stream(file);
    close(file);
    close(listener);
}

/* ---- who asks ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ping(int file, int count)
{
    static double trips_ms[MAX_PINGS];
    char byte = 'p';
    if (count < 1 || count > MAX_PINGS || write(file, &byte, 1) != 1)
        stop("ping");
    for (int i = -1; i < count; i++) {
        double begin = now_sec();
        if (write(file, &byte, 1) != 1 || read(file, &byte, 1) != 1)
            stop("ping");
        if (i >= 0)
            trips_ms[i] = (now_sec() - begin) * 1e3;
    }
    qsort(trips_ms, (size_t)count, sizeof *trips_ms, by_size);
    printf("%.3f %.3f %.3f\n", trips_ms[0], trips_ms[count / 2],
           trips_ms[count - 1]);
}

static void stream(int file, double seconds)
{
    static char block[BLOCK];
    double rate;
    if (write(file, "s", 1) != 1)
        stop("stream");
    double end = now_sec() + start_sec + seconds;
    while (now_sec() < end)
        if (write(file, block, sizeof block) < 0)
            stop("stream");
    shutdown(file, SHUT_WR);
    if (read(file, &rate, sizeof rate) != sizeof rate)
        stop("answer");
    printf("%.0f\n", rate);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        serve(argv[2]);
    else if (argc == 5 && strcmp(argv[1], "ping") == 0)
        ping(reach(argv[2], argv[3]), atoi(argv[4]));
    else if (argc == 5 && strcmp(argv[1], "stream") == 0)
        stream(reach(argv[2], argv[3]), atof(argv[4]));
    else
        return 2;
    return 0;
}
