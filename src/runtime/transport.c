#include "runtime/transport.h"

#include "base/bug.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "watch/watchdog.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(((struct pen_request *)0)->handle),
               "a request of MPI fits into the handle");

/* smpirun leaves no sign in the environment of the ranks it simulates. */
#ifdef SMPI_H
#define PEN__HAS_SIMULATED_MPI true
#else
#define PEN__HAS_SIMULATED_MPI false
#endif

/*
 * MPICH 4 and libraries made from it keep puts with the rank that made them
 * until it flushes; looking after messages does not send them. They would stay
 * there while the rank waits for others, which wait for them.
 */
#ifdef MPICH_VERSION
#define PEN__KEEPS_PUTS true
#else
#define PEN__KEEPS_PUTS false
#endif

/* State that only a simulated MPI needs. */
struct simulated {
    struct pen_request **under_way;
    MPI_Request *handles; /* room for theirs, and for the timer */
    size_t count;
    size_t capacity;
    bool has_moved;  /* something began or ended since the last pause */
    int64_t seen_ns; /* when all of them were looked at */

    /* A message to oneself that takes as long as an operation. */
    MPI_Request timer[2];
    bool has_timer;
};

/* The first loss of a rank, which is final. */
struct losses {
    const struct pen_board *board; /* or NULL */
    bool has_lost;
    uint32_t member; /* of the world, or PEN_BOARD_NOBODY */
};

struct pen_transport {
    bool has_mpi;
    uint32_t rank;
    uint32_t size;
    uint32_t most_tags;
    MPI_Comm all;
    MPI_Comm checks; /* of the same ranks, where has_checksums */
    bool has_checksums;
    uint32_t first; /* of the whole: this one's rank 0 */
    bool is_part;   /* of another, which began MPI and will end it */
    uint64_t own_sent[PEN_TAG_KINDS]; /* bytes */
    uint64_t *sent;                   /* those of the whole */
    void (*told)(void *context, uint32_t to, size_t length); /* or NULL */
    void *told_context;

    struct losses own_losses;
    struct losses *losses; /* those of the whole */

    struct simulated own;
    struct simulated *simulated; /* that of the whole */
};

static uint32_t most_tags(MPI_Comm all)
{
    int *most = NULL;
    int is_there = 0;
    MPI_Comm_get_attr(all, MPI_TAG_UB, (void *)&most, &is_there);
    return is_there && most != NULL && *most > 32767 ? (uint32_t)*most : 32767;
}

/* Linux lets sleeps last 50 us longer, as long as many a message takes. */
static void sleep_exactly(void)
{
#ifdef __linux__
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
#endif
}

static void start_mpi(struct pen_transport *transport)
{
    int given, rank, size;
    sleep_exactly();
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    transport->has_mpi = true;
    transport->all = MPI_COMM_WORLD;
    /* Communicators that are made of this one inherit it. */
    if (!PEN__HAS_SIMULATED_MPI)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    transport->rank = (uint32_t)rank;
    transport->size = (uint32_t)size;
    transport->most_tags = most_tags(transport->all);
}

pen_status pen_transport_open_alone(struct pen_transport **out)
{
    struct pen_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL)
        return PEN_NOMEM;
    transport->size = 1;
    transport->most_tags = UINT32_MAX;
    transport->simulated = &transport->own;
    transport->sent = transport->own_sent;
    transport->losses = &transport->own_losses;
    transport->losses->member = PEN_BOARD_NOBODY;
    *out = transport;
    return PEN_OK;
}

/* MPI is not used where no launcher has started several processes. */
static bool is_launched(const struct pen_launch *launch)
{
    return launch->launcher != PEN_LAUNCHER_NONE || PEN__HAS_SIMULATED_MPI;
}

pen_status pen_transport_open(const struct pen_launch *launch,
                              struct pen_transport **out, struct pen_text *why)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    struct pen_transport *transport = NULL;
    pen_status status = pen_transport_open_alone(&transport);
    if (status == PEN_OK && is_launched(launch)) {
        start_mpi(transport);
        MPI_Get_library_version(library, &length);
        status = pen_launch_check(launch, transport->size, library,
                                  pen_launch_is_first(launch) ? why : NULL);
    }
    if (status == PEN_OK)
        *out = transport;
    else
        pen_transport_close(transport);
    return status;
}

void pen_transport_close(struct pen_transport *transport)
{
    if (transport == NULL)
        return;
    bool is_whole = !transport->losses->has_lost; /* or MPI waits for ever */
    if (transport->has_checksums && is_whole)
        MPI_Comm_free(&transport->checks);
    if (transport->has_mpi && transport->is_part && is_whole)
        MPI_Comm_free(&transport->all);
    else if (transport->has_mpi && is_whole)
        MPI_Finalize();
    free(transport->own.under_way);
    free(transport->own.handles);
    free(transport);
}

/* A signal reaches the process, not an object. */
static volatile sig_atomic_t abort_code;

static void leave(int number)
{
    (void)number;
    _exit((int)abort_code);
}

/* Libraries may wait in MPI_Abort() for a rank that is on its way out. */
static void leave_soon(int code)
{
    enum { ABORT_SEC = 2 };
    struct sigaction action = {.sa_handler = leave};
    abort_code = code;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(ABORT_SEC);
}

void pen_transport_abort(struct pen_transport *transport, int code)
{
    if (transport->has_mpi) {
        if (!PEN__HAS_SIMULATED_MPI)
            leave_soon(code);
        MPI_Abort(transport->all, code);
    }
    exit(code);
}

uint32_t pen_transport_rank(const struct pen_transport *transport)
{
    return transport->rank;
}

uint32_t pen_transport_size(const struct pen_transport *transport)
{
    return transport->size;
}

/* ---- losses ---- */

void pen_transport_guard(struct pen_transport *transport,
                         const struct pen_board *board)
{
    transport->losses->board = board;
}

static void lose(struct pen_transport *transport, uint32_t member)
{
    if (transport->losses->has_lost)
        return;
    transport->losses->has_lost = true;
    transport->losses->member = member;
}

/* An error of MPI about a rank, or PEN_BOARD_NOBODY: any of them. */
static void take_code(struct pen_transport *transport, uint32_t peer, int code)
{
    int kind = MPI_SUCCESS;
    if (code == MPI_SUCCESS || PEN__HAS_SIMULATED_MPI)
        return;
    MPI_Error_class(code, &kind);
    PEN_BUG_UNLESS(kind != MPI_ERR_TRUNCATE);
    lose(transport,
         peer == PEN_BOARD_NOBODY ? PEN_BOARD_NOBODY : transport->first + peer);
}

bool pen_transport_has_lost(const struct pen_transport *transport)
{
    struct losses *losses = transport->losses;
    if (!losses->has_lost && pen_board_has_lost(losses->board)) {
        losses->has_lost = true;
        losses->member = pen_board_word(losses->board, PEN_BOARD_LOST) - 1;
    }
    return losses->has_lost;
}

uint32_t pen_transport_lost(const struct pen_transport *transport)
{
    uint32_t rank = transport->losses->member - transport->first;
    return rank < transport->size ? rank : PEN_BOARD_NOBODY;
}

/* ---- tags ---- */

pen_status pen_transport_check_tags(const struct pen_transport *transport,
                                    uint32_t count, struct pen_text *why)
{
    uint64_t needed = (uint64_t)count * PEN_TAG_KINDS;
    if (needed <= transport->most_tags)
        return PEN_OK;
    pen_why(why,
            "this MPI has tags up to %u, but %u stages or replicas need "
            "%llu; use fewer",
            transport->most_tags, count, (unsigned long long)needed);
    return PEN_INVALID;
}

static int tag_of(struct pen_tag tag)
{
    return (int)(tag.number * PEN_TAG_KINDS + (unsigned)tag.kind);
}

/* ---- what is under way ---- */

static MPI_Request *handle_of(struct pen_request *request)
{
    return (MPI_Request *)(void *)request->handle;
}

static void *grow(struct pen_transport *transport, void *old, size_t bytes)
{
    void *grown = realloc(old, bytes);
    if (grown == NULL)
        pen_transport_abort(transport, EXIT_FAILURE);
    return grown;
}

static void make_room(struct pen_transport *transport)
{
    struct simulated *it = transport->simulated;
    it->capacity = 2 * it->capacity + 16;
    it->under_way =
        grow(transport, it->under_way, it->capacity * sizeof *it->under_way);
    it->handles =
        grow(transport, it->handles, (it->capacity + 1) * sizeof *it->handles);
}

static void note(struct pen_transport *transport, struct pen_request *request)
{
    struct simulated *it = transport->simulated;
    if (it->count == it->capacity)
        make_room(transport);
    it->under_way[it->count++] = request;
    it->has_moved = true;
}

static void forget(struct simulated *it, const struct pen_request *request)
{
    size_t at = 0;
    while (it->under_way[at] != request)
        at++;
    it->under_way[at] = it->under_way[--it->count];
    it->has_moved = true;
}

/* Begins a request. False when nothing may be posted any more. */
static bool begin(struct pen_transport *transport, uint32_t peer,
                  struct pen_request *request)
{
    if (pen_transport_has_lost(transport))
        return false;
    PEN_BUG_UNLESS(!request->is_active && transport->has_mpi);
    request->is_active = true;
    request->peer = peer;
    *handle_of(request) = MPI_REQUEST_NULL;
    if (PEN__HAS_SIMULATED_MPI)
        note(transport, request);
    return true;
}

static void end(struct pen_transport *transport, struct pen_request *request)
{
    request->is_active = false;
    if (PEN__HAS_SIMULATED_MPI)
        forget(transport->simulated, request);
}

/* ---- waiting ---- */

/*
 * Blocks until a request is done, so that the simulator can see a deadlock:
 * tests would never end. A request that ends here is MPI's null request for the
 * next test. Does not block where something has moved, as the caller may have
 * more to do first.
 */
static void await_any(struct simulated *it)
{
    int count = (int)it->count;
    int done = MPI_UNDEFINED;
    bool has_moved = it->has_moved;
    it->has_moved = false;
    if (has_moved || count == 0)
        return;
    for (int i = 0; i < count; i++)
        it->handles[i] = *handle_of(it->under_way[i]);
    MPI_Waitany(count, it->handles, &done, MPI_STATUS_IGNORE);
    if (done != MPI_UNDEFINED)
        *handle_of(it->under_way[done]) = it->handles[done];
}

/* Yield first, then sleep, so that ranks on the same core can compute. */
static void pause_briefly(int64_t waited_ns)
{
    enum { YIELD_NS = 20000, NAP_NS = 40000 };
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (waited_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

void pen_transport_pause(struct pen_transport *transport, int64_t waited_ns)
{
    if (PEN__HAS_SIMULATED_MPI)
        await_any(transport->simulated);
    else
        pause_briefly(waited_ns);
}

/*
 * SMPI has no wait that ends at some time. A message over the loopback, which
 * has PEN__TIMER_RATE bytes a second and carries nothing else, takes as long as
 * it has bytes; SMPI adds an envelope. One of 2 s is the longest.
 */
#define PEN__TIMER_RATE 1e9
#define PEN__ENVELOPE 16

static void set_timer(struct pen_transport *transport, int64_t duration_ns)
{
    struct simulated *it = transport->simulated;
    int tag = tag_of((struct pen_tag){PEN_TAG_STATE, 0});
    double bytes = 1e-9 * (double)duration_ns * PEN__TIMER_RATE - PEN__ENVELOPE;
    char none = 0;
    MPI_Irecv(&none, 0, MPI_BYTE, (int)transport->rank, tag, transport->all,
              &it->timer[0]);
    MPI_Isend(&none, (int)fmax(0, fmin(bytes, INT_MAX)), MPI_BYTE,
              (int)transport->rank, tag, transport->all, &it->timer[1]);
    it->has_timer = true;
}

static bool await_timer(struct pen_transport *transport, int64_t end_ns)
{
    struct simulated *it = transport->simulated;
    int count = 0, done = MPI_UNDEFINED;
    if (it->capacity == 0)
        make_room(transport);
    if (!it->has_timer)
        set_timer(transport, end_ns - pen_clock_ns());
    for (size_t i = 0; i < it->count; i++)
        it->handles[count++] = *handle_of(it->under_way[i]);
    it->handles[count++] = it->timer[1];
    MPI_Waitany(count, it->handles, &done, MPI_STATUS_IGNORE);
    if (done != count - 1) {
        *handle_of(it->under_way[done]) = it->handles[done];
        return false;
    }
    MPI_Wait(&it->timer[0], MPI_STATUS_IGNORE);
    it->has_timer = false;
    return end_ns - pen_clock_ns() <= PEN__ENVELOPE; /* or it was cut */
}

static bool sleep_briefly(int64_t end_ns)
{
    enum { SLICE_NS = 500000 };
    int64_t left = end_ns - pen_clock_ns();
    struct timespec some = {.tv_nsec =
                                (long)(left < SLICE_NS ? left : SLICE_NS)};
    if (left > 0)
        nanosleep(&some, NULL);
    return pen_clock_ns() >= end_ns;
}

static bool sleep_all(int64_t end_ns)
{
    int64_t left = end_ns - pen_clock_ns();
    struct timespec all = {.tv_sec = left / 1000000000,
                           .tv_nsec = left % 1000000000};
    if (left > 0)
        nanosleep(&all, NULL);
    return true;
}

bool pen_transport_nap(struct pen_transport *transport, int64_t end_ns,
                       bool is_watchful)
{
    if (!PEN__HAS_SIMULATED_MPI || !transport->has_mpi)
        return sleep_briefly(end_ns);
    return is_watchful || transport->simulated->has_timer
               ? await_timer(transport, end_ns)
               : sleep_all(end_ns);
}

/* ---- messages ---- */

/*
 * One element of `length` bytes, where they are more than a count can say: a
 * type of blocks, and of the bytes that are left.
 */
static MPI_Datatype long_type(size_t length)
{
    enum { BLOCK = 1 << 20 };
    MPI_Datatype block, blocks, type;
    int lengths[] = {1, (int)(length % BLOCK)};
    MPI_Aint places[] = {0, (MPI_Aint)(length / BLOCK * BLOCK)};
    PEN_BUG_UNLESS(length / BLOCK <= INT_MAX);
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    MPI_Type_contiguous((int)(length / BLOCK), block, &blocks);
    MPI_Datatype types[] = {blocks, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, places, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&block);
    MPI_Type_free(&blocks);
    return type;
}

void pen_transport_watch(struct pen_transport *transport,
                         void (*told)(void *context, uint32_t to,
                                      size_t length),
                         void *context)
{
    transport->told = told;
    transport->told_context = context;
}

/* ---- checksums ---- */

pen_status pen_transport_add_checksums(struct pen_transport *transport,
                                       struct pen_text *why)
{
    if (PEN__HAS_SIMULATED_MPI) {
        pen_why(why, "--checksum-messages is for real messages, and this MPI "
                     "is simulated; leave it out");
        return PEN_INVALID;
    }
    if (!transport->has_mpi || transport->has_checksums)
        return PEN_OK;
    MPI_Comm_dup(transport->all, &transport->checks);
    transport->has_checksums = true;
    return PEN_OK;
}

static MPI_Request *check_handle_of(struct pen_request *request)
{
    return (MPI_Request *)(void *)request->check_handle;
}

/* The messages of one tag keep their order, and so do those of their checks. */
static void begin_check(struct pen_transport *transport, struct pen_tag tag,
                        const void *bytes, size_t length,
                        struct pen_request *request)
{
    request->has_check = transport->has_checksums;
    if (!request->has_check)
        return;
    request->tag = tag;
    *check_handle_of(request) = MPI_REQUEST_NULL;
    request->bytes = bytes;
    request->length = length;
}

static void send_check(struct pen_transport *transport,
                       struct pen_request *request)
{
    if (!request->has_check)
        return;
    request->is_received = false;
    request->check[0] = request->length;
    request->check[1] = pen_crc32c(request->bytes, request->length);
    take_code(transport, request->peer,
              MPI_Isend(request->check, (int)sizeof request->check, MPI_BYTE,
                        (int)request->peer, tag_of(request->tag),
                        transport->checks, check_handle_of(request)));
}

static void receive_check(struct pen_transport *transport,
                          struct pen_request *request)
{
    if (!request->has_check)
        return;
    request->is_received = true;
    take_code(transport, request->peer,
              MPI_Irecv(request->check, (int)sizeof request->check, MPI_BYTE,
                        (int)request->peer, tag_of(request->tag),
                        transport->checks, check_handle_of(request)));
}

static const char *const tag_names[PEN_TAG_KINDS] = {
    [PEN_TAG_ACT] = "activation for stage",
    [PEN_TAG_GRAD] = "gradient of an activation for stage",
    [PEN_TAG_EVICT] = "evicted stash of stage",
    [PEN_TAG_LOAD] = "returned stash of stage",
    [PEN_TAG_GRADIENT] = "gradient of weights, number",
    [PEN_TAG_SUM] = "summed gradient, number",
    [PEN_TAG_VALUE] = "weights, number",
    [PEN_TAG_TIED] = "tied matrix, number",
    [PEN_TAG_STATE] = "state, number",
    [PEN_TAG_REPLICA] = "message of the synchronisation, channel",
    [PEN_TAG_TOTAL] = "sum over all ranks, number",
    [PEN_TAG_AGREE] = "agreement, number",
    [PEN_TAG_MOVE] = "moved tensor, number",
    [PEN_TAG_COPY] = "copy of a committed step, number",
    [PEN_TAG_PROBE] = "figures of a probe, number",
    [PEN_TAG_TENSOR] = "piece of a tensor, number",
    [PEN_TAG_CONTEXT] = "keys and values, number",
    [PEN_TAG_EXPERT] = "rows for experts, number",
};

static _Noreturn void leave_damaged(struct pen_transport *transport,
                                    const struct pen_request *request,
                                    uint32_t found)
{
    pen_log(
        PEN_LOG_ERROR,
        "a message from rank %" PRIu32 " to rank %" PRIu32
        " was damaged on its way (%s %" PRIu32 ": %" PRIu64
        " bytes with CRC32C %08" PRIx32 " arrived, %" PRIu64 " with %08" PRIx32
        " had been sent); the job ends. Resume from a checkpoint (--load), "
        "and check the network and the memory of both machines",
        transport->first + request->peer, transport->first + transport->rank,
        tag_names[request->tag.kind], request->tag.number, request->length,
        found, request->check[0], (uint32_t)request->check[1]);
    pen_transport_abort(transport, PEN_EXIT_DAMAGED);
}

/*
 * True once the checksum of a message has come and is right; a wrong one ends
 * the job.
 */
static bool test_check(struct pen_transport *transport,
                       struct pen_request *request)
{
    int is_done = 1;
    if (!request->has_check)
        return true;
    int code = MPI_Test(check_handle_of(request), &is_done, MPI_STATUS_IGNORE);
    take_code(transport, request->peer, code);
    if (!is_done || code != MPI_SUCCESS)
        return false;
    request->has_check = false;
    if (!request->is_received)
        return true;
    uint32_t found = pen_crc32c(request->bytes, request->length);
    if (request->length != request->check[0] || found != request->check[1])
        leave_damaged(transport, request, found);
    return true;
}

/* ---- sending and receiving ---- */

static void count(struct pen_transport *transport, uint32_t to,
                  struct pen_tag tag, size_t length)
{
    transport->sent[tag.kind] += length;
    if (transport->told != NULL)
        transport->told(transport->told_context, to, length);
}

void pen_transport_send(struct pen_transport *transport, uint32_t to,
                        struct pen_tag tag, const void *bytes, size_t length,
                        struct pen_request *request)
{
    if (!begin(transport, to, request))
        return;
    count(transport, to, tag, length);
    begin_check(transport, tag, bytes, length, request);
    send_check(transport, request);
    bool is_long = length > INT_MAX;
    MPI_Datatype type = is_long ? long_type(length) : MPI_BYTE;
    take_code(transport, to,
              MPI_Isend(bytes, is_long ? 1 : (int)length, type, (int)to,
                        tag_of(tag), transport->all, handle_of(request)));
    if (is_long)
        MPI_Type_free(&type);
}

uint64_t pen_transport_sent(const struct pen_transport *transport,
                            enum pen_tag_kind kind)
{
    return transport->sent[kind];
}

void pen_transport_receive(struct pen_transport *transport, uint32_t from,
                           struct pen_tag tag, void *bytes, size_t length,
                           struct pen_request *request)
{
    if (!begin(transport, from, request))
        return;
    begin_check(transport, tag, bytes, length, request);
    receive_check(transport, request);
    bool is_long = length > INT_MAX;
    MPI_Datatype type = is_long ? long_type(length) : MPI_BYTE;
    take_code(transport, from,
              MPI_Irecv(bytes, is_long ? 1 : (int)length, type, (int)from,
                        tag_of(tag), transport->all, handle_of(request)));
    if (is_long)
        MPI_Type_free(&type);
}

void pen_transport_send_phantom(struct pen_transport *transport, uint32_t to,
                                struct pen_tag tag, const void *bytes,
                                size_t held, size_t length,
                                struct pen_request *request)
{
    PEN_BUG_UNLESS(PEN__HAS_SIMULATED_MPI && held <= length &&
                   length <= INT_MAX);
    if (!begin(transport, to, request))
        return;
    count(transport, to, tag, length);
    MPI_Isend(bytes == NULL ? "" : bytes, (int)length, MPI_BYTE, (int)to,
              tag_of(tag), transport->all, handle_of(request));
}

/*
 * Receives the first `held` bytes of a message. MPI calls the rest an error;
 * the simulator counts its time.
 */
void pen_transport_receive_phantom(struct pen_transport *transport,
                                   uint32_t from, struct pen_tag tag,
                                   void *bytes, size_t held, size_t length,
                                   struct pen_request *request)
{
    char none[1];
    PEN_BUG_UNLESS(PEN__HAS_SIMULATED_MPI && held <= length);
    if (!begin(transport, from, request))
        return;
    MPI_Irecv(held == 0 ? none : bytes, (int)held, MPI_BYTE, (int)from,
              tag_of(tag), transport->all, handle_of(request));
}

/*
 * SMPI's MPI_Iallreduce() sends everything from everyone to everyone, and its
 * values in place are lost. Nothing else of a rank is under way when all sum,
 * so that it may wait there.
 */
static void sum_at_once(struct pen_transport *transport, double *values,
                        size_t count)
{
    double *sums = grow(transport, NULL, count * sizeof *sums);
    MPI_Allreduce(values, sums, (int)count, MPI_DOUBLE, MPI_SUM,
                  transport->all);
    memcpy(values, sums, count * sizeof *sums);
    free(sums);
}

void pen_transport_sum(struct pen_transport *transport, double *values,
                       size_t count, struct pen_request *request)
{
    PEN_BUG_UNLESS(count <= INT_MAX);
    if (transport->size == 1)
        return;
    if (PEN__HAS_SIMULATED_MPI) {
        sum_at_once(transport, values, count);
        return;
    }
    if (!begin(transport, PEN_BOARD_NOBODY, request))
        return;
    request->has_check = false;
    take_code(transport, PEN_BOARD_NOBODY,
              MPI_Iallreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE,
                             MPI_SUM, transport->all, handle_of(request)));
}

/* ---- some of the ranks ---- */

/* Makes a communicator at the cost of these ranks only, not of all. */
static pen_status make_comm(const struct pen_transport *transport,
                            const uint32_t *ranks, uint32_t count,
                            struct pen_tag tag, MPI_Comm *out)
{
    MPI_Group all, some;
    int *list = calloc(count, sizeof *list);
    if (list == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        list[i] = (int)ranks[i];
    MPI_Comm_group(transport->all, &all);
    MPI_Group_incl(all, (int)count, list, &some);
    MPI_Comm_create_group(transport->all, some, tag_of(tag), out);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    free(list);
    return PEN_OK;
}

pen_status pen_transport_open_part(struct pen_transport *whole, uint32_t first,
                                   uint32_t count, struct pen_transport **out)
{
    MPI_Group all, some;
    int range[1][3] = {{(int)first, (int)(first + count) - 1, 1}};
    struct pen_tag tag = {PEN_TAG_REPLICA, 0};
    struct pen_transport *part = NULL;
    pen_status status = pen_transport_open_alone(&part);
    if (status != PEN_OK || !whole->has_mpi) {
        *out = part;
        return status;
    }
    part->has_mpi = part->is_part = true;
    part->rank = whole->rank - first;
    part->size = count;
    part->first = whole->first + first;
    part->most_tags = whole->most_tags;
    part->simulated = whole->simulated;
    part->sent = whole->sent;
    part->losses = whole->losses;
    MPI_Comm_group(whole->all, &all);
    MPI_Group_range_incl(all, 1, range, &some);
    MPI_Comm_create_group(whole->all, some, tag_of(tag), &part->all);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    *out = part;
    return PEN_OK;
}

/* ---- memory that others write ---- */

/* A copy of bytes on their way: MPI reads them until the request is done. */
struct put {
    MPI_Request request;
    void *bytes;
    size_t capacity;
};

struct pen_window {
    struct pen_transport *transport;
    MPI_Comm comm; /* of the ranks that have it */
    MPI_Win win;
    void *bytes;
    struct put *puts;
    size_t num_puts;
};

pen_status pen_window_create(struct pen_transport *transport,
                             const uint32_t *ranks, uint32_t count,
                             struct pen_tag tag, size_t length,
                             struct pen_window **out)
{
    struct pen_window *window = calloc(1, sizeof *window);
    if (window == NULL)
        return PEN_NOMEM;
    window->transport = transport;
    pen_status status = make_comm(transport, ranks, count, tag, &window->comm);
    if (status != PEN_OK) {
        free(window);
        return status;
    }
    int code = MPI_Win_allocate((MPI_Aint)length, 1, MPI_INFO_NULL,
                                window->comm, &window->bytes, &window->win);
    if (code != MPI_SUCCESS) {
        MPI_Comm_free(&window->comm);
        free(window);
        return PEN_INVALID;
    }
    if (!PEN__HAS_SIMULATED_MPI)
        MPI_Win_set_errhandler(window->win, MPI_ERRORS_RETURN);
    memset(window->bytes, 0, length);
    MPI_Win_lock_all(0, window->win);
    MPI_Win_sync(window->win);
    MPI_Barrier(window->comm);
    *out = window;
    return PEN_OK;
}

void pen_window_free(struct pen_window *window)
{
    if (window == NULL)
        return;
    MPI_Win_unlock_all(window->win); /* all puts of this rank have arrived */
    MPI_Win_free(&window->win);
    MPI_Comm_free(&window->comm);
    for (size_t i = 0; i < window->num_puts; i++) {
        if (window->puts[i].request != MPI_REQUEST_NULL)
            MPI_Wait(&window->puts[i].request, MPI_STATUS_IGNORE);
        free(window->puts[i].bytes);
    }
    free(window->puts);
    free(window);
}

/* Some libraries let bytes in, and out, only while they are asked something. */
void *pen_window_bytes(struct pen_window *window)
{
    int is_there;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, window->transport->all, &is_there,
               MPI_STATUS_IGNORE);
    if (PEN__KEEPS_PUTS)
        MPI_Win_flush_local_all(window->win); /* does not wait for the target */
    MPI_Win_sync(window->win);
    return window->bytes;
}

/* A put that is done with its bytes, or a new one. */
static struct put *free_put(struct pen_window *window)
{
    for (size_t i = 0; i < window->num_puts; i++) {
        int is_done = 1;
        if (window->puts[i].request != MPI_REQUEST_NULL)
            MPI_Test(&window->puts[i].request, &is_done, MPI_STATUS_IGNORE);
        if (is_done)
            return &window->puts[i];
    }
    window->puts = grow(window->transport, window->puts,
                        (window->num_puts + 1) * sizeof *window->puts);
    struct put *put = &window->puts[window->num_puts++];
    *put = (struct put){.request = MPI_REQUEST_NULL};
    return put;
}

/*
 * Accumulates to one place keep their order, which puts need not. Between
 * places MPI promises none without a flush, for which one would have to wait;
 * over one connection, as the libraries have it, they arrive as they left.
 */
void pen_window_put(struct pen_window *window, uint32_t to, size_t first,
                    const void *bytes, size_t length)
{
    struct put *put = free_put(window);
    PEN_BUG_UNLESS(length <= INT_MAX);
    if (put->capacity < length) {
        put->bytes = grow(window->transport, put->bytes, length);
        put->capacity = length;
    }
    if (length > 0)
        memcpy(put->bytes, bytes, length);
    take_code(window->transport, PEN_BOARD_NOBODY,
              MPI_Raccumulate(put->bytes, (int)length, MPI_BYTE, (int)to,
                              (MPI_Aint)first, (int)length, MPI_BYTE,
                              MPI_REPLACE, window->win, &put->request));
}

/*
 * A message takes time: if it is not done at some simulated time, it will not
 * be until that time advances. One look then serves for all messages; those
 * that are done have MPI's null request.
 */
static bool look_once(struct pen_transport *transport,
                      struct pen_request *request)
{
    struct simulated *it = transport->simulated;
    int64_t now = pen_clock_ns();
    int is_done = now != it->seen_ns;
    it->seen_ns = now;
    while (is_done) {
        int done = MPI_UNDEFINED;
        for (size_t i = 0; i < it->count; i++)
            it->handles[i] = *handle_of(it->under_way[i]);
        MPI_Testany((int)it->count, it->handles, &done, &is_done,
                    MPI_STATUS_IGNORE);
        if (done == MPI_UNDEFINED)
            break;
        *handle_of(it->under_way[done]) = it->handles[done];
        it->has_moved = true; /* for a caller that looked just before */
    }
    return *handle_of(request) == MPI_REQUEST_NULL;
}

/* A message may be shorter than its room. */
static bool test_message(struct pen_transport *transport,
                         struct pen_request *request)
{
    MPI_Status status;
    int is_done = 0, length;
    bool is_under_way = *handle_of(request) != MPI_REQUEST_NULL;
    take_code(transport, request->peer,
              MPI_Test(handle_of(request), &is_done, &status));
    if (is_done && is_under_way && request->has_check && request->is_received) {
        MPI_Get_count(&status, MPI_BYTE, &length);
        if (length >= 0 && request->length <= INT_MAX)
            request->length = (uint64_t)length;
    }
    return is_done;
}

pen_status pen_transport_test(struct pen_transport *transport,
                              struct pen_request *request)
{
    bool is_done = false;
    if (pen_transport_has_lost(transport))
        return PEN_LOST;
    if (!request->is_active)
        return PEN_OK;
    if (PEN__HAS_SIMULATED_MPI)
        is_done = look_once(transport, request);
    else
        is_done =
            test_message(transport, request) && test_check(transport, request);
    if (transport->losses->has_lost)
        return PEN_LOST;
    if (is_done)
        end(transport, request);
    return is_done ? PEN_OK : PEN_BUSY;
}

pen_status pen_transport_wait(struct pen_transport *transport,
                              struct pen_request *request)
{
    int64_t since = pen_clock_ns();
    pen_status status = pen_transport_test(transport, request);
    while (status == PEN_BUSY) {
        pen_transport_pause(transport, pen_clock_ns() - since);
        status = pen_transport_test(transport, request);
    }
    return status;
}

/*
 * Posted and tested like a message, since a call that waits inside MPI would
 * not end when a rank is lost. SMPI sees deadlocks in such calls alone.
 */
pen_status pen_transport_share(struct pen_transport *transport, void *bytes,
                               size_t length)
{
    struct pen_request request = {.is_active = false};
    PEN_BUG_UNLESS(length <= INT_MAX);
    if (transport->size == 1)
        return PEN_OK;
    if (PEN__HAS_SIMULATED_MPI) {
        MPI_Bcast(bytes, (int)length, MPI_BYTE, 0, transport->all);
        return PEN_OK;
    }
    if (begin(transport, PEN_BOARD_NOBODY, &request))
        take_code(transport, PEN_BOARD_NOBODY,
                  MPI_Ibcast(bytes, (int)length, MPI_BYTE, 0, transport->all,
                             handle_of(&request)));
    return pen_transport_wait(transport, &request);
}

pen_status pen_transport_meet(struct pen_transport *transport)
{
    struct pen_request request = {.is_active = false};
    if (transport->size == 1)
        return PEN_OK;
    if (PEN__HAS_SIMULATED_MPI) {
        MPI_Barrier(transport->all);
        return PEN_OK;
    }
    if (begin(transport, PEN_BOARD_NOBODY, &request))
        take_code(transport, PEN_BOARD_NOBODY,
                  MPI_Ibarrier(transport->all, handle_of(&request)));
    return pen_transport_wait(transport, &request);
}

/* ---- clocks ---- */

static const struct pen_tag clock_tag = {PEN_TAG_STATE, 2};

/* Waits without a pause, which would take longer than the message. */
static pen_status await_clock(struct pen_transport *transport,
                              struct pen_request *request)
{
    pen_status status = pen_transport_test(transport, request);
    while (status == PEN_BUSY) {
        pen_transport_pause(transport, 0);
        status = pen_transport_test(transport, request);
    }
    return status;
}

static pen_status send_clock(struct pen_transport *transport, uint32_t to,
                             int64_t clock)
{
    struct pen_request request = {.is_active = false};
    pen_transport_send(transport, to, clock_tag, &clock, sizeof clock,
                       &request);
    return await_clock(transport, &request);
}

static pen_status receive_clock(struct pen_transport *transport, uint32_t from,
                                int64_t *clock)
{
    struct pen_request request = {.is_active = false};
    pen_transport_receive(transport, from, clock_tag, clock, sizeof *clock,
                          &request);
    return await_clock(transport, &request);
}

/* Rank 0 answers with its clock. */
static pen_status serve_clock(struct pen_transport *transport, uint32_t rank)
{
    int64_t theirs;
    pen_status status = receive_clock(transport, rank, &theirs);
    return status == PEN_OK ? send_clock(transport, rank, pen_clock_ns())
                            : status;
}

int64_t pen_transport_clock_offset(struct pen_transport *transport)
{
    enum { TRIES = 20 };
    int64_t shortest = INT64_MAX, offset = 0;
    pen_status status = PEN_OK;
    for (uint32_t rank = 1; transport->rank == 0 && rank < transport->size;
         rank++)
        for (int i = 0; i < TRIES && status == PEN_OK; i++)
            status = serve_clock(transport, rank);
    for (int i = 0; i < TRIES && transport->rank > 0; i++) {
        int64_t theirs, begin = pen_clock_ns();
        status = send_clock(transport, 0, begin);
        if (status == PEN_OK)
            status = receive_clock(transport, 0, &theirs);
        int64_t end = pen_clock_ns();
        if (status != PEN_OK)
            return 0;
        if (end - begin >= shortest)
            continue;
        shortest = end - begin; /* the answer was made half way */
        offset = theirs - (begin + (end - begin) / 2);
    }
    return offset;
}
