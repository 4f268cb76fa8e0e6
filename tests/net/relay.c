/*
 * A switch whose paths are long: hands Ethernet frames from one TAP device to
 * another, each after a delay that varies.
 *
 *   relay PORTS DELAY_USEC JITTER_USEC
 *
 *   tap0  ->  [ held for DELAY +- JITTER, one queue per pair ]  ->  tap1
 *
 * The devices tap0, tap1 and so on are there already, in the namespace of this
 * process. The last byte of an address is the port (fixed by tests/net/hosts);
 * frames for groups go to all others. Frames from one port to another never
 * overtake each other. Rates are not its business: tc has token buckets.
 *
 * It looks at its devices every TICK_NS while frames are held, which costs less
 * than to wake up for each, and a frame is up to two ticks late. Ends on
 * SIGTERM, with what it did on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_PORTS = 64,
    MAX_FRAME = 1536, /* MTU 1500, header, one VLAN tag */
    MAX_HELD = 1 << 16,
    TICK_NS = 250000
};

struct frame {
    struct frame *next;
    int64_t due_ns;
    size_t length;
    unsigned char bytes[MAX_FRAME];
};

/* What is under way from one port to another, first in, first out. */
struct path {
    struct frame *first;
    struct frame *last;
};

struct relay {
    int num_ports;
    int ports[MAX_PORTS]; /* file descriptors */
    int64_t delay_ns;
    int64_t jitter_ns;
    struct path paths[MAX_PORTS][MAX_PORTS]; /* from, to */
    struct frame *unused;
    size_t num_held;
    uint64_t random;
    uint64_t num_passed;
    uint64_t num_dropped; /* for want of room */
};

/* Set by the handler of SIGTERM, which can reach nothing else. */
static volatile sig_atomic_t is_over;

static void end(int signal_number)
{
    (void)signal_number;
    is_over = 1;
}

static _Noreturn void stop(const char *what)
{
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- frames ---- */

static void make_frames(struct relay *relay)
{
    struct frame *frames = calloc(MAX_HELD, sizeof *frames);
    if (frames == NULL)
        stop("frames");
    for (size_t i = 0; i < MAX_HELD; i++) {
        frames[i].next = relay->unused;
        relay->unused = &frames[i];
    }
}

static void let_go(struct relay *relay, struct frame *frame)
{
    frame->next = relay->unused;
    relay->unused = frame;
}

/* xorshift64: from -jitter to +jitter. */
static int64_t draw_jitter(struct relay *relay)
{
    relay->random ^= relay->random << 13;
    relay->random ^= relay->random >> 7;
    relay->random ^= relay->random << 17;
    int64_t width = 2 * relay->jitter_ns + 1;
    return (int64_t)(relay->random % (uint64_t)width) - relay->jitter_ns;
}

static void hold(struct relay *relay, struct path *path, struct frame *frame,
                 int64_t now)
{
    frame->due_ns = now + relay->delay_ns + draw_jitter(relay);
    frame->next = NULL;
    if (path->first == NULL) {
        path->first = frame;
    } else {
        if (frame->due_ns < path->last->due_ns)
            frame->due_ns = path->last->due_ns;
        path->last->next = frame;
    }
    path->last = frame;
    relay->num_held++;
}

static void hold_copy(struct relay *relay, struct path *path,
                      const struct frame *frame, int64_t now)
{
    struct frame *copy = relay->unused;
    if (copy == NULL) {
        relay->num_dropped++;
        return;
    }
    relay->unused = copy->next;
    copy->length = frame->length;
    memcpy(copy->bytes, frame->bytes, frame->length);
    hold(relay, path, copy, now);
}

/* Takes the frame. */
static void accept_frame(struct relay *relay, int from, struct frame *frame,
                         int64_t now)
{
    bool is_for_group = (frame->bytes[0] & 1) != 0;
    int to = frame->bytes[5];
    if (!is_for_group && to < relay->num_ports && to != from) {
        hold(relay, &relay->paths[from][to], frame, now);
        return;
    }
    for (int i = 0; is_for_group && i < relay->num_ports; i++)
        if (i != from)
            hold_copy(relay, &relay->paths[from][i], frame, now);
    let_go(relay, frame);
}

/* ---- ports ---- */

static int open_port(int port)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        stop("/dev/net/tun");
    snprintf(request.ifr_name, sizeof request.ifr_name, "tap%d", port);
    if (ioctl(file, TUNSETIFF, &request) != 0)
        stop(request.ifr_name);
    return file;
}

/* Everything that came in at a port. */
static void drain(struct relay *relay, int port, int64_t now)
{
    unsigned char waste[MAX_FRAME];
    for (;;) {
        struct frame *frame = relay->unused;
        ssize_t length = read(relay->ports[port],
                              frame != NULL ? frame->bytes : waste, MAX_FRAME);
        if (length < 0)
            return;
        if (frame == NULL) {
            relay->num_dropped++;
            continue;
        }
        if (length < 14)
            continue;
        relay->unused = frame->next;
        frame->length = (size_t)length;
        accept_frame(relay, port, frame, now);
    }
}

/* Everything whose time has come. */
static void release(struct relay *relay, struct path *path, int to, int64_t now)
{
    while (path->first != NULL && path->first->due_ns <= now) {
        struct frame *frame = path->first;
        ssize_t written = write(relay->ports[to], frame->bytes, frame->length);
        if (written == (ssize_t)frame->length)
            relay->num_passed++;
        else
            relay->num_dropped++;
        path->first = frame->next;
        relay->num_held--;
        let_go(relay, frame);
    }
}

static void pass(struct relay *relay)
{
    int64_t now = now_ns();
    for (int i = 0; i < relay->num_ports; i++)
        drain(relay, i, now);
    for (int i = 0; i < relay->num_ports; i++)
        for (int j = 0; j < relay->num_ports; j++)
            release(relay, &relay->paths[i][j], j, now);
}

/* A tick, or until a frame comes where none is held. */
static void await(const struct relay *relay)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    struct pollfd polls[MAX_PORTS];
    if (relay->num_held > 0) {
        nanosleep(&tick, NULL);
        return;
    }
    for (int i = 0; i < relay->num_ports; i++)
        polls[i] = (struct pollfd){.fd = relay->ports[i], .events = POLLIN};
    poll(polls, (nfds_t)relay->num_ports, 100);
}

/* Before those who compute, for they would lengthen the delay. */
static void hurry(void)
{
    const struct sched_param first = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        fprintf(stderr, "relay: no real time: %s\n", strerror(errno));
}

int main(int argc, char **argv)
{
    static struct relay relay = {.random = 88172645463325252u};
    const struct sigaction action = {.sa_handler = end};
    if (argc != 4 || atoi(argv[1]) < 1 || atoi(argv[1]) > MAX_PORTS ||
        atoll(argv[3]) < 0 || atoll(argv[3]) > atoll(argv[2])) {
        fprintf(stderr, "usage: relay PORTS DELAY_USEC JITTER_USEC\n");
        return 2;
    }
    relay.num_ports = atoi(argv[1]);
    relay.delay_ns = atoll(argv[2]) * 1000;
    relay.jitter_ns = atoll(argv[3]) * 1000;
    make_frames(&relay);
    for (int i = 0; i < relay.num_ports; i++)
        relay.ports[i] = open_port(i);
    sigaction(SIGTERM, &action, NULL);
    hurry();
    while (!is_over) {
        pass(&relay);
        await(&relay);
    }
    fprintf(stderr, "relay: %llu frames passed, %llu dropped\n",
            (unsigned long long)relay.num_passed,
            (unsigned long long)relay.num_dropped);
    return 0;
}
