/*
 * A writer that is killed at any moment leaves a whole slot with the right
 * bytes, and its last two steps wherever it was not writing.
 */
#include "support/support.h"

#include "base/random.h"
#include "holder/shard.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOT_BYTES = 400000, KILLS = 200, NUM_BLOCKS = 2 };

static void fill(unsigned char *bytes, uint64_t step)
{
    for (size_t i = 0; i < SLOT_BYTES; i++)
        bytes[i] = (unsigned char)(step + i);
}

static unsigned char elsewhere[SLOT_BYTES];

static void commit(struct pen_shard *shard, uint64_t step)
{
    uint32_t checks[NUM_BLOCKS];
    uint32_t slot = pen_shard_begin(shard);
    unsigned char *bytes = pen_shard_slot(shard, slot);
    fill(bytes, step);
    for (size_t i = 0; i < NUM_BLOCKS; i++)
        checks[i] = pen_shard_check_block(bytes, SLOT_BYTES, i);
    pen_shard_commit(shard, slot, step, checks);
}

/* Commits until it is killed; the pipe says that the first step is there. */
static pid_t start_writer(struct pen_shard *shard)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        commit(shard, 1);
        if (write(ready[1], "x", 1) == 1)
            for (uint64_t step = 2;; step++) {
                commit(shard, step);
                fill(elsewhere, step); /* what a step computes */
            }
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void expect_whole(const struct pen_shard *shard, unsigned char *wanted,
                         uint32_t *torn)
{
    uint64_t steps[PEN_SHARD_SLOTS];
    for (uint32_t i = 0; i < PEN_SHARD_SLOTS; i++) {
        steps[i] = pen_shard_step(shard, i);
        if (steps[i] == 0)
            continue;
        assert_true(pen_shard_verify(shard, i));
        fill(wanted, steps[i]);
        assert_memory_equal(pen_shard_slot(shard, i), wanted, SLOT_BYTES);
    }
    assert_true(steps[0] > 0 || steps[1] > 0);
    if (steps[0] > 0 && steps[1] > 0)
        assert_int_equal(llabs((long long)steps[0] - (long long)steps[1]), 1);
    else
        (*torn)++;
}

static void a_killed_writer_leaves_a_whole_slot(void **state)
{
    (void)state;
    struct pen_random random = {20261118};
    uint32_t torn = 0;
    for (int i = 0; i < KILLS; i++) {
        struct pen_shard shard = PEN_SHARD_NONE;
        struct pen_shard_about about = {
            .epoch = 1, .rank = 0, .num_ranks = 1, .slot_bytes = SLOT_BYTES};
        assert_int_equal(pen_shard_create(&about, &shard, NULL), PEN_OK);
        pid_t writer = start_writer(&shard);
        struct timespec pause = {.tv_nsec =
                                     (long)pen_random_below(&random, 3000000)};
        nanosleep(&pause, NULL);
        kill(writer, SIGKILL);
        waitpid(writer, NULL, 0);
        expect_whole(&shard, elsewhere, &torn);
        pen_shard_close(&shard);
    }
    printf("%u of %d writers were killed inside a slot\n", torn, KILLS);
    assert_true(torn > 0 && torn < KILLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_writer_leaves_a_whole_slot)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
