/*
 * What all stores of rings promise, asked of one of them:
 *
 *     ring_stores contract STORE     reads, swaps, watches, leases; STORE is
 *                                    new, or `memory`
 *     ring_stores count STORE N I    adds 1 to the epoch N times, beside others
 *                                    with another I, from 0 to 15
 *     ring_stores crash FILE N       kills a writer of a journal N times: no
 *                                    revision that it was told of is lost
 *     ring_stores damage FILE        a journal that is cut anywhere, or has any
 *                                    byte changed
 */
#define _GNU_SOURCE /* usleep */
#include "ring/stores/stores.h"
#include "base/file.h"
#include "base/random.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

#define MUST(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);             \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static struct pen_ring_memory memory;

static struct pen_ring_store open_store(const char *name)
{
    struct pen_ring_store store;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (strcmp(name, "memory") == 0) {
        pen_ring_memory_init(&memory, &store);
        return store;
    }
    if (pen_ring_store_open(name, false, &store, &why) != PEN_OK) {
        printf("%s\n", pen_text_string(&why));
        exit(1);
    }
    return store;
}

static uint64_t read_store(const struct pen_ring_store *store,
                           struct pen_ring_record *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    uint64_t revision = 0;
    if (store->read(store->target, out, &revision, &why) != PEN_OK) {
        printf("%s\n", pen_text_string(&why));
        exit(1);
    }
    return revision;
}

static bool swap_store(const struct pen_ring_store *store, uint64_t revision,
                       const struct pen_ring_record *record)
{
    bool is_done = false;
    MUST(store->swap(store->target, revision, record, &is_done, NULL) ==
         PEN_OK);
    return is_done;
}

static bool is_later(const struct pen_ring_store *store, uint64_t revision)
{
    bool is = false;
    MUST(store->watch(store->target, revision, &is, NULL) == PEN_OK);
    return is;
}

/* Numbers of all sizes. */
static void fill(struct pen_ring_record *record, uint64_t seed)
{
    struct pen_random random = {.state = seed};
    *record = (struct pen_ring_record){.epoch = seed,
                                       .members = 0x8005,
                                       .revoked = 0x12,
                                       .round = seed,
                                       .round_epoch = 1,
                                       .contributors = 0x8001};
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        record->incarnations[i] = pen_random_next(&random) >> (1 + 3 * i);
        record->cursors[i] = pen_random_next(&random) >> 1;
        if (!pen_ring_has(record->contributors, i))
            continue;
        struct pen_ring_offer *offer = &record->offers[i];
        offer->first = pen_random_next(&random) >> 2;
        offer->last = offer->first + i;
        offer->tokens = pen_random_next(&random) >> 1;
        offer->num_fragments = PEN_RING_FRAGMENTS;
        for (size_t k = 0; k < 4; k++)
            offer->hash.words[k] = pen_random_next(&random);
    }
    for (size_t k = 0; k < 4; k++)
        record->hash.words[k] = pen_random_next(&random);
}

static bool is_same(const struct pen_ring_record *a,
                    const struct pen_ring_record *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- the contract ---- */

static bool lease(const struct pen_ring_store *store, uint32_t holder,
                  int64_t duration)
{
    bool is_granted = false;
    MUST(store->lease(store->target, holder, duration, &is_granted, NULL) ==
         PEN_OK);
    return is_granted;
}

static void check_lease(const struct pen_ring_store *store)
{
    MUST(lease(store, 16, 2 * SECOND));
    MUST(!lease(store, 17, 2 * SECOND));
    MUST(lease(store, 16, 2 * SECOND));
    /* When the first one says no more, the second one gets it in the end. */
    bool is_granted = false;
    for (int i = 0; i < 600 && !is_granted; i++) {
        memory.now += SECOND / 10;
        usleep(100000);
        is_granted = lease(store, 17, 2 * SECOND);
    }
    MUST(is_granted);
    MUST(!lease(store, 16, 2 * SECOND));
}

static int contract(const char *name)
{
    struct pen_ring_store store = open_store(name);
    struct pen_ring_record empty = {0}, first, second, found;
    fill(&first, 7);
    fill(&second, 8);
    MUST(read_store(&store, &found) == 1 && is_same(&found, &empty));
    MUST(!is_later(&store, 1));
    MUST(!swap_store(&store, 2, &first));
    MUST(swap_store(&store, 1, &first));
    MUST(!swap_store(&store, 1, &second));
    MUST(read_store(&store, &found) == 2 && is_same(&found, &first));
    MUST(is_later(&store, 1) && !is_later(&store, 2));
    MUST(swap_store(&store, 2, &second));
    check_lease(&store);
    MUST(read_store(&store, &found) == 3 && is_same(&found, &second));
    store.close(store.target);
    if (strcmp(name, "memory") != 0) {
        store = open_store(name);
        MUST(read_store(&store, &found) == 3 && is_same(&found, &second));
        store.close(store.target);
    }
    printf("%s: as promised\n", name);
    return 0;
}

/* ---- several at a time ---- */

/*
 * No answer may mean either; the mark of this process in the record tells which
 * it was.
 */
static int count(const char *name, uint64_t wanted, uint64_t number)
{
    struct pen_ring_store store = open_store(name);
    struct pen_ring_record record;
    uint64_t num_conflicts = 0, num_silent = 0;
    for (uint64_t i = 0; i < wanted;) {
        uint64_t revision = 0;
        bool is_done = false;
        if (store.read(store.target, &record, &revision, NULL) != PEN_OK) {
            num_silent++;
            continue;
        }
        if (record.incarnations[number] == i + 1) {
            i++; /* the one without an answer was done */
            continue;
        }
        record.epoch++;
        record.incarnations[number] = i + 1;
        if (store.swap(store.target, revision, &record, &is_done, NULL) !=
            PEN_OK)
            num_silent++;
        else if (is_done)
            i++;
        else
            num_conflicts++;
    }
    printf("%" PRIu64 " swaps, %" PRIu64 " lost to another one, %" PRIu64
           " without an answer\n",
           wanted, num_conflicts, num_silent);
    store.close(store.target);
    return 0;
}

/* ---- a writer that dies ---- */

static void write_until_killed(const char *name, int told)
{
    struct pen_ring_store store = open_store(name);
    struct pen_ring_record record;
    uint64_t revision = read_store(&store, &record);
    for (;;) {
        fill(&record, revision);
        MUST(swap_store(&store, revision, &record));
        revision++;
        MUST(write(told, &revision, sizeof revision) == sizeof revision);
    }
}

static uint64_t kill_writer(const char *name, struct pen_random *random)
{
    int pair[2];
    uint64_t told = 0;
    MUST(pipe(pair) == 0);
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        write_until_killed(name, pair[1]);
        _exit(1);
    }
    close(pair[1]);
    MUST(read(pair[0], &told, sizeof told) == sizeof told);
    usleep((useconds_t)(pen_random_next(random) % 30000));
    kill(pid, SIGKILL);
    while (read(pair[0], &told, sizeof told) == sizeof told)
        ;
    close(pair[0]);
    MUST(waitpid(pid, NULL, 0) == pid);
    return told;
}

static int crash(const char *path, uint64_t times)
{
    struct pen_random random = {.state = (uint64_t)time(NULL)};
    struct pen_text name = PEN_TEXT_EMPTY;
    uint64_t revision = 1;
    pen_text_add(&name, "journal:%s", path);
    for (uint64_t i = 0; i < times; i++) {
        struct pen_ring_record found, wanted = {0};
        uint64_t told = kill_writer(pen_text_string(&name), &random);
        struct pen_ring_store store = open_store(pen_text_string(&name));
        revision = read_store(&store, &found);
        MUST(revision == told || revision == told + 1);
        fill(&wanted, revision - 1);
        MUST(is_same(&found, &wanted));
        store.close(store.target);
    }
    printf("%" PRIu64 " writers killed, %" PRIu64 " revisions, none lost\n",
           times, revision);
    pen_text_release(&name);
    return 0;
}

/* ---- damage ---- */

#define LINES 3u

static void write_bytes(const char *path, const char *bytes, size_t length)
{
    MUST(pen_file_write(path, bytes, length, NULL) == PEN_OK);
}

/* 0: refused. */
static uint64_t revision_of(const char *path)
{
    struct pen_ring_store store;
    struct pen_ring_record found, wanted;
    struct pen_text why = PEN_TEXT_EMPTY;
    uint64_t revision = 0;
    if (pen_ring_journal_open(path, true, &store, &why) != PEN_OK) {
        MUST(why.length > 0);
        pen_text_release(&why);
        return 0;
    }
    revision = read_store(&store, &found);
    fill(&wanted, revision);
    MUST(revision == 1 || is_same(&found, &wanted));
    store.close(store.target);
    return revision;
}

static int damage(const char *path)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_ring_store store;
    struct pen_ring_record record;
    uint64_t num_refused = 0;
    MUST(pen_ring_journal_open(path, false, &store, NULL) == PEN_OK);
    for (uint64_t i = 1; i <= LINES; i++) {
        fill(&record, i + 1);
        MUST(swap_store(&store, i, &record));
    }
    store.close(store.target);
    MUST(pen_file_read(path, 1 << 20, &text, NULL) == PEN_OK);
    char *bytes = malloc(text.length);
    MUST(bytes != NULL);
    memcpy(bytes, pen_text_string(&text), text.length);
    size_t lines = 0;
    for (size_t length = 0; length < text.length; length++) {
        write_bytes(path, bytes, length);
        MUST(revision_of(path) == lines + 1);
        lines += bytes[length] == '\n';
    }
    for (size_t i = 0; i < text.length; i++) {
        char kept = bytes[i];
        bytes[i] ^= (char)(1 << i % 8);
        write_bytes(path, bytes, text.length);
        uint64_t revision = revision_of(path);
        /* Without the end of the last line, that line was never written. */
        MUST(revision == 0 || (i + 1 == text.length && revision == LINES));
        num_refused += revision == 0;
        bytes[i] = kept;
    }
    printf("cut at %zu lengths; %" PRIu64 " of %zu changed bytes refused, one "
           "an unfinished line\n",
           text.length, num_refused, text.length);
    free(bytes);
    pen_text_release(&text);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t number = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    if (argc == 3 && strcmp(argv[1], "contract") == 0)
        return contract(argv[2]);
    if (argc == 5 && strcmp(argv[1], "count") == 0)
        return count(argv[2], number, strtoull(argv[4], NULL, 10) % 16);
    if (argc == 4 && strcmp(argv[1], "crash") == 0)
        return crash(argv[2], number);
    if (argc == 3 && strcmp(argv[1], "damage") == 0)
        return damage(argv[2]);
    fprintf(stderr, "usage: see the beginning of tests/ring/stores.c\n");
    return 2;
}
