/*
 * The board of a node: one shared memory object,
 *
 *   line 0      how it was made, how many have come
 *   line 1      words about the end of the job
 *   line 2 + i  what local rank i does
 *   then        a lock per rank, which it holds until it leaves
 *
 * While it has a name, a process that opens or removes it holds its flock(). A
 * rank locks the byte of its line with fcntl() for as long as it lives: the
 * kernel gives the lock back when the process ends, however it ends, so the
 * lock shows which ranks are alive where process numbers may have been given
 * out again or mean something else (containers that share /dev/shm).
 *
 * The locks that follow the lines are robust mutexes: they wake up a waiter
 * when their owner ends. The kernel does that first of all, before it takes the
 * memory of the process apart and closes its files, and notifies other
 * processes only after that. Launchers learn of it from closed files.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): clocklock */
#include "watch/board.h"

#include "base/bug.h"
#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_BYTES = 64,
    HEAD_LINES = 2,
    MOST_RANKS = 1 << 16, /* most ranks of one node */
    MAGIC = 0x50424431,   /* "PBD1" */
    POLL_NS = 1000000
};

#define FOLDER "/dev/shm"
#define PREFIX "penstock-board-"

/*
 * An empty board older than this belongs to a process that died at once; a
 * younger one is still being made.
 */
#define EMPTY_SEC 60

struct head {
    _Atomic uint32_t magic; /* set last: 0 while it is being made */
    uint32_t num_local;
    _Atomic uint32_t num_come;
};

/*
 * The fields are relaxed: a reader needs to know roughly where a rank is now,
 * and exactly once nothing moves any more. Position, state and peer share one
 * word, so that they are always of the same moment.
 */
struct line {
    _Alignas(LINE_BYTES) _Atomic uint32_t rank;
    _Atomic int32_t pid; /* 0 until the rank has come */
    _Atomic uint64_t step;
    _Atomic uint64_t where; /* position, state, waits_for: 32, 8, 24 bits */
    _Atomic int64_t since_ns;
    _Atomic int32_t socket;
    _Atomic int32_t watcher;
    _Atomic uint32_t row;
};

struct life {
    _Alignas(LINE_BYTES) pthread_mutex_t lock;
};

struct memory {
    _Alignas(LINE_BYTES) struct head head;
    _Alignas(LINE_BYTES) _Atomic uint32_t words[PEN_BOARD_WORDS];
    struct line lines[];
};

_Static_assert(sizeof(struct line) == LINE_BYTES, "a line is a cache line");
_Static_assert(sizeof(struct memory) == (size_t)HEAD_LINES * LINE_BYTES,
               "the head has two lines");

struct pen_board {
    struct memory *memory;
    size_t bytes;
    struct line *own; /* in the memory */
    int handle;
    uint32_t local_rank;
    uint32_t num_local;
    bool is_whole_job; /* all ranks are of this node */
    bool has_joined;
    char *host;
};

const char *pen_board_state_words(enum pen_board_state state)
{
    static const char *const table[PEN_BOARD_STATES] = {
#define PEN_BOARD_STATE_WORDS(name, words) [PEN_BOARD_##name] = words,
        PEN_BOARD_STATE_TABLE(PEN_BOARD_STATE_WORDS)
#undef PEN_BOARD_STATE_WORDS
    };
    PEN_BUG_UNLESS(state < PEN_BOARD_STATES);
    return table[state];
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static size_t size_for(uint32_t num_local)
{
    return sizeof(struct memory) +
           num_local * (sizeof(struct line) + sizeof(struct life));
}

static pthread_mutex_t *life_of(const struct pen_board *board,
                                uint32_t local_rank)
{
    struct life *lives = (struct life *)&board->memory->lines[board->num_local];
    return &lives[local_rank].lock;
}

/* ---- which ranks are alive ---- */

static struct flock lock_of(uint32_t local_rank)
{
    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)local_rank,
                          .l_len = 1};
}

/*
 * Returns whether another process has locked one of these bytes; length 0: any.
 */
static bool is_locked(int handle, uint32_t first, off_t length)
{
    struct flock lock = lock_of(first);
    lock.l_len = length;
    return fcntl(handle, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool pen_board_is_alive(const struct pen_board *board, uint32_t local_rank)
{
    return local_rank == board->local_rank ||
           is_locked(board->handle, local_rank, 1);
}

static int init_lives(const struct pen_board *board)
{
    pthread_mutexattr_t kind;
    int error = pthread_mutexattr_init(&kind);
    if (error != 0)
        return error;
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    for (uint32_t i = 0; i < board->num_local && error == 0; i++)
        error = pthread_mutex_init(life_of(board, i), &kind);
    pthread_mutexattr_destroy(&kind);
    return error;
}

enum pen_board_fate pen_board_await_end(struct pen_board *board,
                                        uint32_t local_rank, int milliseconds)
{
    PEN_BUG_UNLESS(local_rank != board->local_rank);
    pthread_mutex_t *life = life_of(board, local_rank);
    int64_t end_ns = now_ns() + (int64_t)milliseconds * 1000000;
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000),
                                 .tv_nsec = (long)(end_ns % 1000000000)};
    int error = pthread_mutex_clocklock(life, CLOCK_MONOTONIC, &end);
    if (error == ETIMEDOUT)
        return PEN_BOARD_LIVES;
    /*
     * The lock goes back in the state in which it was found, so that the next
     * caller gets the same answer.
     */
    if (error == 0 || error == EOWNERDEAD)
        pthread_mutex_unlock(life);
    return error == 0 ? PEN_BOARD_LEFT : PEN_BOARD_DIED;
}

/* ---- boards of jobs that have ended ---- */

static bool is_abandoned(int handle)
{
    struct stat info;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return fstat(handle, &info) == 0 &&
           (info.st_size != 0 || now.tv_sec - info.st_mtime > EMPTY_SEC) &&
           !is_locked(handle, 0, 0);
}

/*
 * Leaves alone boards of other users, boards in use, and files it cannot judge.
 */
static void remove_if_abandoned(const char *name)
{
    int handle = shm_open(name, O_RDWR | O_NOFOLLOW, 0);
    if (handle < 0)
        return;
    if (flock(handle, LOCK_EX | LOCK_NB) == 0 && is_abandoned(handle))
        shm_unlink(name);
    close(handle);
}

/* Skips `own`: closing it here would give back a lock of this process. */
static void remove_abandoned(const char *own)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct dirent *entry;
    DIR *folder = opendir(FOLDER);
    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL) {
        pen_text_clear(&name);
        pen_text_add(&name, "/%s", entry->d_name);
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            !name.has_failed && strcmp(pen_text_string(&name), own) != 0)
            remove_if_abandoned(pen_text_string(&name));
    }
    closedir(folder);
    pen_text_release(&name);
}

/* ---- opening ---- */

static pen_status fail(struct pen_text *why, const char *what)
{
    pen_why(why, "the board of this node: %s: %s", what, strerror(errno));
    return PEN_IO;
}

pen_status pen__board_name(const struct pen_board_options *options,
                           struct pen_text *name, struct pen_text *why)
{
    struct pen_text place = PEN_TEXT_EMPTY;
    char hash[PEN_HASH_SIZE];
    pen_text_add(&place, "%s\n%s\n%ld", options->job, options->host,
                 (long)getuid());
    pen_status status =
        place.has_failed ? PEN_NOMEM
                         : pen_hash_bytes(place.bytes, place.length, hash, why);
    if (status == PEN_OK)
        pen_text_add(name, "/" PREFIX "%.32s", hash);
    pen_text_release(&place);
    return status == PEN_OK && name->has_failed ? PEN_NOMEM : status;
}

/*
 * Holds the flock() until the handle is closed or unlocked. Returns false when
 * the name is gone meanwhile: the caller opens it once more.
 */
static bool lock_named(int handle)
{
    struct stat info;
    while (flock(handle, LOCK_EX) != 0)
        if (errno != EINTR)
            return false;
    return fstat(handle, &info) == 0 && info.st_nlink != 0;
}

/*
 * Opens the object of this name, with its flock() held. An object that has
 * bytes but no living rank was left by an earlier start of the same name.
 */
static pen_status open_locked(const char *name, int *out, struct pen_text *why)
{
    for (;;) {
        struct stat info;
        int handle = shm_open(name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (handle < 0)
            return fail(why, name);
        if (lock_named(handle)) {
            if (fstat(handle, &info) == 0 &&
                (info.st_size == 0 || is_locked(handle, 0, 0))) {
                *out = handle;
                return PEN_OK;
            }
            shm_unlink(name);
        }
        close(handle);
    }
}

/* Maps the object. The first rank sets its length; all others check it. */
static pen_status map(struct pen_board *board, struct pen_text *why)
{
    struct stat info;
    if (fstat(board->handle, &info) != 0)
        return fail(why, "its size");
    bool is_first = info.st_size == 0;
    if (is_first) {
        /*
         * Unlike ftruncate(), posix_fallocate() fails at once when there is no
         * room.
         */
        errno = posix_fallocate(board->handle, 0, (off_t)board->bytes);
        if (errno != 0)
            return fail(why, "room in " FOLDER);
    }
    if (!is_first && info.st_size != (off_t)board->bytes) {
        pen_why(why,
                "the board of this node: this rank expects %u ranks on it, "
                "others another number",
                board->num_local);
        return PEN_INVALID;
    }
    void *memory = mmap(NULL, board->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                        board->handle, 0);
    if (memory == MAP_FAILED)
        return fail(why, "mapping it");
    board->memory = memory;
    if (is_first) {
        errno = init_lives(board);
        if (errno != 0)
            return fail(why, "its locks");
        board->memory->head.num_local = board->num_local;
        atomic_store(&board->memory->head.magic, MAGIC);
    }
    return PEN_OK;
}

/* Takes the line of this rank; the caller holds the flock(). */
static pen_status join(struct pen_board *board,
                       const struct pen_board_options *options,
                       struct pen_text *why)
{
    struct memory *memory = board->memory;
    struct flock lock = lock_of(board->local_rank);
    board->own = &memory->lines[board->local_rank];
    if (atomic_load(&memory->head.magic) != MAGIC ||
        memory->head.num_local != board->num_local) {
        pen_why(why, "the board of this node is of another program");
        return PEN_INVALID;
    }
    if (atomic_load(&board->own->pid) != 0 ||
        fcntl(board->handle, F_SETLK, &lock) != 0) {
        pen_why(why,
                "the board of this node: local rank %u is taken by rank %u, "
                "process %d",
                board->local_rank, atomic_load(&board->own->rank),
                atomic_load(&board->own->pid));
        return PEN_INVALID;
    }
    errno = pthread_mutex_lock(life_of(board, board->local_rank));
    if (errno != 0)
        return fail(why, "its lock");
    board->has_joined = true;
    atomic_store(&board->own->rank, options->rank);
    atomic_store(&board->own->socket, options->socket);
    pen_board_note(board, 0, PEN_BOARD_NO_OP, PEN_BOARD_STARTING,
                   PEN_BOARD_NOBODY);
    atomic_store(&board->own->pid, (int32_t)getpid());
    atomic_fetch_add(&memory->head.num_come, 1);
    return PEN_OK;
}

/* Returns a rank that came and ended without saying so, or num_local. */
static uint32_t first_dead(const struct pen_board *board)
{
    uint32_t i = 0;
    while (i < board->num_local &&
           (atomic_load(&board->memory->lines[i].pid) == 0 ||
            pen_board_is_alive(board, i) ||
            pen_board_read(board, i).state == PEN_BOARD_FINISHED))
        i++;
    return i;
}

/*
 * Lists the ranks that have not come. Their world ranks are known only where
 * all ranks of the job are on this node: launchers number them alike there.
 */
static void add_missing(const struct pen_board *board, struct pen_text *out)
{
    enum { MOST_NAMED = 8 };
    uint32_t count = 0;
    for (uint32_t i = 0; i < board->num_local; i++) {
        if (atomic_load(&board->memory->lines[i].pid) != 0)
            continue;
        if (count < MOST_NAMED)
            pen_text_add(out, "%s%srank %u", count == 0 ? "" : ", ",
                         board->is_whole_job ? "" : "local ", i);
        else if (count == MOST_NAMED)
            pen_text_add_string(out, " and others");
        count++;
    }
}

static void name_missing(const struct pen_board *board, double deadline_sec,
                         struct pen_text *why)
{
    struct pen_text names = PEN_TEXT_EMPTY;
    add_missing(board, &names);
    pen_why(why,
            "%s on %s did not start within %.3g s, while %u of %u ranks wait: "
            "look whether its process is stopped, or reads its program from a "
            "slow disk",
            pen_text_string(&names), board->host, deadline_sec,
            atomic_load(&board->memory->head.num_come), board->num_local);
    pen_text_release(&names);
}

static bool is_missing_one(const struct pen_board *board)
{
    return atomic_load(&board->memory->head.num_come) < board->num_local;
}

/* A rank that gives up says so, since the others are about to give up, too. */
static pen_status await_others(struct pen_board *board, double deadline_sec,
                               struct pen_text *why)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    int64_t end = now_ns() + (int64_t)(1e9 * deadline_sec);
    while (is_missing_one(board)) {
        uint32_t dead = first_dead(board);
        /*
         * Once all ranks have come, one of them may have ended without an
         * error.
         */
        if (dead < board->num_local && is_missing_one(board)) {
            pen_why(why, "rank %u on %s died while the job started",
                    atomic_load(&board->memory->lines[dead].rank), board->host);
            return PEN_IO;
        }
        if (now_ns() > end) {
            name_missing(board, deadline_sec, why);
            pen_board_note(board, 0, PEN_BOARD_NO_OP, PEN_BOARD_FINISHED,
                           PEN_BOARD_NOBODY);
            return PEN_LATE;
        }
        nanosleep(&pause, NULL);
    }
    return PEN_OK;
}

/*
 * Opens, joins and waits. The last rank to come removes the name, as does a
 * failure.
 */
static pen_status enter(struct pen_board *board, const char *name,
                        const struct pen_board_options *options,
                        struct pen_text *why)
{
    pen_status status = open_locked(name, &board->handle, why);
    if (status != PEN_OK)
        return status;
    status = map(board, why);
    if (status == PEN_OK)
        status = join(board, options, why);
    if (status == PEN_OK &&
        atomic_load(&board->memory->head.num_come) == board->num_local)
        shm_unlink(name);
    flock(board->handle, LOCK_UN);
    if (status != PEN_OK)
        return status;
    status = await_others(board, options->deadline_sec, why);
    if (status != PEN_OK && lock_named(board->handle))
        shm_unlink(name);
    return status;
}

pen_status pen_board_create(const struct pen_board_options *options,
                            struct pen_board **out, struct pen_text *why)
{
    PEN_BUG_UNLESS(options->local_rank < options->num_local &&
                   options->num_local <= MOST_RANKS &&
                   options->rank < PEN_BOARD_NOBODY);
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_board *board = calloc(1, sizeof *board);
    if (board == NULL)
        return PEN_NOMEM;
    *board = (struct pen_board){.bytes = size_for(options->num_local),
                                .handle = -1,
                                .local_rank = options->local_rank,
                                .num_local = options->num_local,
                                .is_whole_job =
                                    options->num_ranks == options->num_local,
                                .host = strdup(options->host)};
    pen_status status =
        board->host == NULL ? PEN_NOMEM : pen__board_name(options, &name, why);
    if (status == PEN_OK) {
        remove_abandoned(pen_text_string(&name));
        status = enter(board, pen_text_string(&name), options, why);
    }
    pen_text_release(&name);
    if (status != PEN_OK) {
        pen_board_free(board);
        return status;
    }
    *out = board;
    return PEN_OK;
}

void pen_board_free(struct pen_board *board)
{
    if (board == NULL)
        return;
    if (board->has_joined)
        pthread_mutex_unlock(life_of(board, board->local_rank));
    if (board->memory != NULL)
        munmap(board->memory, board->bytes);
    if (board->handle >= 0)
        close(board->handle);
    free(board->host);
    free(board);
}

/* ---- writing and reading ---- */

void pen_board_note(struct pen_board *board, uint64_t step, uint32_t position,
                    enum pen_board_state state, uint32_t waits_for)
{
    if (board == NULL)
        return;
    struct line *line = board->own;
    uint64_t where = (uint64_t)position << 32 | (uint64_t)state << 24 |
                     (waits_for & PEN_BOARD_NOBODY);
    if (atomic_load_explicit(&line->step, memory_order_relaxed) == step &&
        atomic_load_explicit(&line->where, memory_order_relaxed) == where)
        return;
    atomic_store_explicit(&line->step, step, memory_order_relaxed);
    atomic_store_explicit(&line->where, where, memory_order_relaxed);
    atomic_store_explicit(&line->since_ns, now_ns(), memory_order_relaxed);
}

void pen_board_set_row(struct pen_board *board, uint32_t row)
{
    if (board != NULL)
        atomic_store(&board->own->row, row);
}

void pen_board_set_watcher(struct pen_board *board, int thread)
{
    atomic_store(&board->own->watcher, thread);
}

/* The state is always one that has words, whatever bytes the line holds. */
static enum pen_board_state state_of(uint64_t where)
{
    unsigned state = (unsigned)(where >> 24) & 0xffu;
    return state < PEN_BOARD_STATES ? (enum pen_board_state)state
                                    : PEN_BOARD_STARTING;
}

struct pen_board_entry pen_board_read(const struct pen_board *board,
                                      uint32_t local_rank)
{
    PEN_BUG_UNLESS(local_rank < board->num_local);
    struct line *line = &board->memory->lines[local_rank];
    uint64_t where = atomic_load_explicit(&line->where, memory_order_relaxed);
    return (struct pen_board_entry){
        .rank = atomic_load_explicit(&line->rank, memory_order_relaxed),
        .pid = atomic_load_explicit(&line->pid, memory_order_relaxed),
        .socket = atomic_load_explicit(&line->socket, memory_order_relaxed),
        .row = atomic_load_explicit(&line->row, memory_order_relaxed),
        .watcher = atomic_load_explicit(&line->watcher, memory_order_relaxed),
        .step = atomic_load_explicit(&line->step, memory_order_relaxed),
        .position = (uint32_t)(where >> 32),
        .state = state_of(where),
        .waits_for = (uint32_t)where & PEN_BOARD_NOBODY,
        .since_ns =
            atomic_load_explicit(&line->since_ns, memory_order_relaxed)};
}

const char *pen_board_host(const struct pen_board *board)
{
    return board->host;
}

uint32_t pen_board_count(const struct pen_board *board)
{
    return board->num_local;
}

uint32_t pen_board_own(const struct pen_board *board)
{
    return board->local_rank;
}

bool pen_board_has_lost(const struct pen_board *board)
{
    return board != NULL && pen_board_word(board, PEN_BOARD_LOST) != 0;
}

uint32_t pen_board_word(const struct pen_board *board, enum pen_board_word word)
{
    return atomic_load(&board->memory->words[word]);
}

bool pen_board_claim(struct pen_board *board, enum pen_board_word word,
                     uint32_t value)
{
    return pen_board_replace(board, word, 0, value);
}

bool pen_board_replace(struct pen_board *board, enum pen_board_word word,
                       uint32_t old, uint32_t value)
{
    return atomic_compare_exchange_strong(&board->memory->words[word], &old,
                                          value);
}

void pen_board_count_up(struct pen_board *board, enum pen_board_word word)
{
    atomic_fetch_add(&board->memory->words[word], 1);
}
