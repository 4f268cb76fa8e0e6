/*
 * Blocks of a slot that a thread copies while their source may be read, and
 * that the caller finishes: all of them, once, before the source changes.
 */
#include "support/support.h"

#include "base/crc32c.h"
#include "holder/copier.h"
#include "holder/shard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NUM_PIECES = 40, ROUNDS = 24 };

struct fixture {
    char *from;
    char *slot;
    size_t slot_bytes;
    struct pen_copier_piece pieces[NUM_PIECES];
    uint32_t *checks;
    int num_done; /* K2: read after finish() without a lock */
};

static void note_done(void *context)
{
    struct fixture *it = context;
    it->num_done++;
}

/* Pieces of odd lengths with gaps between them, over several blocks. */
static void set_up(struct fixture *it)
{
    size_t at = 100;
    *it = (struct fixture){.slot_bytes = 5 * PEN_SHARD_BLOCK_BYTES + 777};
    it->from = malloc(it->slot_bytes);
    it->slot = calloc(1, it->slot_bytes);
    it->checks = calloc(6, sizeof *it->checks);
    assert_non_null(it->from);
    assert_non_null(it->slot);
    assert_non_null(it->checks);
    for (size_t i = 0; i < NUM_PIECES; i++) {
        size_t length = 1 + i * 1601 % 64000;
        it->pieces[i] = (struct pen_copier_piece){
            .from = it->from + at, .to = it->slot + at, .num_bytes = length};
        at += length + i % 3 * 64;
    }
    assert_true(at < it->slot_bytes);
}

static void tear_down(struct fixture *it)
{
    free(it->from);
    free(it->slot);
    free(it->checks);
}

static void expect_copied(const struct fixture *it)
{
    for (size_t i = 0; i < NUM_PIECES; i++)
        assert_memory_equal(it->pieces[i].to, it->pieces[i].from,
                            it->pieces[i].num_bytes);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(it->checks[i],
                         pen_shard_check_block(it->slot, it->slot_bytes, i));
}

static void *help_too(void *copier)
{
    pen_copier_help(copier);
    return NULL;
}

static void help(struct pen_copier *copier)
{
    pthread_t second;
    assert_int_equal(0, pthread_create(&second, NULL, help_too, copier));
    pen_copier_help(copier);
    pthread_join(second, NULL);
}

/* Whether the thread is early or late, a slot has what it had at begin(). */
static void all_blocks_are_copied_before_the_source_changes(void **state)
{
    struct fixture it;
    struct pen_copier *copier = NULL;
    (void)state;
    set_up(&it);
    assert_int_equal(PEN_OK, pen_copier_create(&copier, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        const struct pen_copier_job job = {.slot = it.slot,
                                           .slot_bytes = it.slot_bytes,
                                           .pieces = it.pieces,
                                           .num_pieces = NUM_PIECES,
                                           .checks = it.checks,
                                           .done = note_done,
                                           .context = &it};
        memset(it.from, round + 1, it.slot_bytes);
        pen_copier_begin(copier, &job);
        if (round % 3 > 0) /* from "not begun" to "long done" */
            nanosleep(&(struct timespec){.tv_nsec = round % 3 * 50000L * round},
                      NULL);
        if (round % 2 == 0)
            help(copier);
        pen_copier_finish(copier);
        assert_int_equal(it.num_done, round + 1);
        expect_copied(&it);
        pen_copier_finish(copier); /* nothing is left */
        assert_int_equal(it.num_done, round + 1);
    }
    pen_copier_free(copier);
    tear_down(&it);
}

static void freeing_finishes(void **state)
{
    struct fixture it;
    struct pen_copier *copier = NULL;
    (void)state;
    set_up(&it);
    memset(it.from, 7, it.slot_bytes);
    assert_int_equal(PEN_OK, pen_copier_create(&copier, NULL));
    const struct pen_copier_job job = {.slot = it.slot,
                                       .slot_bytes = it.slot_bytes,
                                       .pieces = it.pieces,
                                       .num_pieces = NUM_PIECES,
                                       .checks = it.checks,
                                       .done = note_done,
                                       .context = &it};
    pen_copier_begin(copier, &job);
    pen_copier_free(copier); /* finishes */
    assert_int_equal(it.num_done, 1);
    expect_copied(&it);
    tear_down(&it);
    pen_copier_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_blocks_are_copied_before_the_source_changes),
        cmocka_unit_test(freeing_finishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
