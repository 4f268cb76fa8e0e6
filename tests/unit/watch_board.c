/*
 * The board of a node opens when all its ranks have come, in whatever order,
 * and leaves nothing behind. Ranks are processes here, too.
 */
#include "support/support.h"

#include "watch/board.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4 };

static void pause_msec(long msec)
{
    struct timespec pause = {.tv_sec = msec / 1000,
                             .tv_nsec = msec % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Whether the board still has its name; *mode is that of its file. */
static bool has_name(const struct pen_board_options *options, mode_t *mode)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct stat info;
    pen_text_add_string(&path, "/dev/shm");
    assert_int_equal(pen__board_name(options, &path, NULL), PEN_OK);
    bool is_there = stat(pen_text_string(&path), &info) == 0;
    *mode = is_there ? info.st_mode & 07777u : 0;
    pen_text_release(&path);
    return is_there;
}

static void expect_name(const struct pen_board_options *options, bool is_there)
{
    mode_t mode;
    assert_int_equal(has_name(options, &mode), is_there);
}

/* One test has one job, unless it wants several. */
static void name_job(char *job, size_t size, const char *word)
{
    snprintf(job, size, "%s-%d", word, (int)getpid());
}

static struct pen_board_options options_of(const char *job, uint32_t rank)
{
    return (struct pen_board_options){.job = job,
                                      .host = "test-host",
                                      .rank = 100 + rank,
                                      .local_rank = rank,
                                      .num_local = RANKS,
                                      .deadline_sec = 20};
}

/* A child's exit code: 0, or the status of opening. */
static pid_t start(const struct pen_board_options *options,
                   int (*act)(struct pen_board *board))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    struct pen_board *board = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_board_create(options, &board, &why);
    if (status != PEN_OK)
        printf("%s\n", pen_text_string(&why));
    fflush(stdout);
    int code = status == PEN_OK ? act(board) : (int)status;
    pen_board_free(board);
    pen_text_release(&why);
    _exit(code);
}

static int code_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Waits until a rank has said this step. */
static void await_step(const struct pen_board *board, uint32_t i, uint64_t step)
{
    while (pen_board_read(board, i).step < step)
        pause_msec(1);
}

/* Until a rank has come. */
static void await_name(const struct pen_board_options *options)
{
    mode_t mode;
    while (!has_name(options, &mode))
        pause_msec(1);
    assert_int_equal(mode, 0600);
    pause_msec(50);
}

/* Until this process has the board in its memory; a moment to register. */
static void await_mapped(pid_t pid, const struct pen_board_options *options)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    char path[64];
    bool is_mapped = false;
    assert_int_equal(pen__board_name(options, &name, NULL), PEN_OK);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    while (!is_mapped) {
        char line[512];
        FILE *maps = fopen(path, "r");
        assert_non_null(maps);
        while (fgets(line, sizeof line, maps) != NULL)
            if (strstr(line, pen_text_string(&name)) != NULL)
                is_mapped = true;
        fclose(maps);
        pause_msec(1);
    }
    pen_text_release(&name);
    pause_msec(500);
}

static int write_and_read(struct pen_board *board)
{
    uint32_t own = pen_board_own(board);
    pen_board_note(board, 1000 + own, 7 * own, PEN_BOARD_WAITING, own + 1);
    for (uint32_t i = 0; i < pen_board_count(board); i++) {
        await_step(board, i, 1000);
        struct pen_board_entry entry = pen_board_read(board, i);
        if (entry.rank != 100 + i || entry.step != 1000 + i ||
            entry.position != 7 * i || entry.state != PEN_BOARD_WAITING ||
            entry.waits_for != i + 1 || entry.since_ns <= 0)
            return 10;
        if (i == own && entry.pid != getpid())
            return 11;
    }
    pen_board_count_up(board, PEN_BOARD_HANG_REPORTED);
    while (pen_board_word(board, PEN_BOARD_HANG_REPORTED) < RANKS)
        pause_msec(1);
    return 0;
}

static void ranks_see_each_other_whoever_comes_first(void **state)
{
    (void)state;
    char job[64];
    pid_t pids[RANKS];
    struct pen_board_options options;
    name_job(job, sizeof job, "late");
    for (uint32_t i = 0; i < RANKS; i++) {
        options = options_of(job, RANKS - 1 - i);
        pids[i] = start(&options, write_and_read);
        if (i + 1 < RANKS)
            await_name(&options);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(code_of(pids[i]), 0);
    expect_name(&options, false);
}

static int say_it_again(struct pen_board *board)
{
    pen_board_note(board, 1, 2, PEN_BOARD_WAITING, 3);
    int64_t since_ns = pen_board_read(board, 0).since_ns;
    pause_msec(1);
    pen_board_note(board, 1, 2, PEN_BOARD_WAITING, 3);
    if (pen_board_read(board, 0).since_ns != since_ns)
        return 10;
    pen_board_note(board, 2, 2, PEN_BOARD_WAITING, 3);
    return pen_board_read(board, 0).since_ns > since_ns ? 0 : 11;
}

static void a_wait_begins_when_it_is_first_said(void **state)
{
    (void)state;
    char job[64];
    name_job(job, sizeof job, "again");
    struct pen_board_options options = options_of(job, 0);
    options.num_local = 1;
    assert_int_equal(code_of(start(&options, say_it_again)), 0);
}

/* Rank 1 leaves, rank 2 dies, rank 3 lives on until rank 0 has seen it all. */
static int end_as_told(struct pen_board *board)
{
    switch (pen_board_own(board)) {
    case 1:
        return 0;
    case 2:
        raise(SIGKILL);
        return 10;
    case 3:
        while (pen_board_word(board, PEN_BOARD_HANG) == 0)
            pause_msec(1);
        return 0;
    default:
        break;
    }
    bool is_right = pen_board_await_end(board, 1, 10000) == PEN_BOARD_LEFT &&
                    pen_board_await_end(board, 2, 10000) == PEN_BOARD_DIED &&
                    pen_board_await_end(board, 2, 10000) == PEN_BOARD_DIED &&
                    pen_board_await_end(board, 3, 20) == PEN_BOARD_LIVES &&
                    pen_board_is_alive(board, 3);
    while (pen_board_is_alive(board, 2)) /* some steps of the kernel later */
        pause_msec(1);
    pen_board_claim(board, PEN_BOARD_HANG, 1);
    return is_right ? 0 : 11;
}

static void the_end_of_a_rank_is_awaited(void **state)
{
    (void)state;
    char job[64];
    pid_t pids[RANKS];
    name_job(job, sizeof job, "ends");
    for (uint32_t i = 0; i < RANKS; i++) {
        struct pen_board_options options = options_of(job, i);
        pids[i] = start(&options, end_as_told);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(code_of(pids[i]), i == 2 ? -SIGKILL : 0);
}

static int claim_once(struct pen_board *board)
{
    uint32_t own = pen_board_own(board) + 1;
    bool is_mine = pen_board_claim(board, PEN_BOARD_HANG, own);
    bool is_first = pen_board_word(board, PEN_BOARD_HANG) == own;
    return is_mine == is_first ? 0 : 10;
}

static void one_rank_is_the_first(void **state)
{
    (void)state;
    char job[64];
    pid_t pids[RANKS];
    name_job(job, sizeof job, "claim");
    for (uint32_t i = 0; i < RANKS; i++) {
        struct pen_board_options options = options_of(job, i);
        pids[i] = start(&options, claim_once);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(code_of(pids[i]), 0);
}

/* Opens in this process and expects a refusal with these words. */
static void expect_refusal(const struct pen_board_options *options,
                           const char *words)
{
    struct pen_board *board = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_not_equal(pen_board_create(options, &board, &why), PEN_OK);
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("found '%s', expected '%s'", pen_text_string(&why), words);
    assert_null(board);
    pen_text_release(&why);
}

static void who_does_not_come_is_not_awaited_for_ever(void **state)
{
    (void)state;
    char job[64];
    name_job(job, sizeof job, "alone");
    struct pen_board_options options = options_of(job, 0);
    options.deadline_sec = 0.1;
    expect_refusal(&options,
                   "local rank 1, local rank 2, local rank 3 on test-host did "
                   "not start within 0.1 s, while 1 of 4 ranks wait");
    options.num_ranks = RANKS;
    expect_refusal(&options, "rank 1, rank 2, rank 3 on test-host did not");
    expect_name(&options, false);
}

/* None of them takes those that give up before it for dead. */
static void all_that_wait_name_the_one_that_is_missing(void **state)
{
    (void)state;
    char job[64];
    pid_t pids[RANKS];
    name_job(job, sizeof job, "missing");
    for (uint32_t i = 1; i < RANKS; i++) {
        struct pen_board_options options = options_of(job, i);
        options.deadline_sec = 2 + 0.2 * i;
        pids[i] = start(&options, write_and_read);
    }
    for (uint32_t i = 1; i < RANKS; i++)
        assert_int_equal(code_of(pids[i]), PEN_LATE);
}

static int do_nothing(struct pen_board *board)
{
    (void)board;
    return 0;
}

static void a_rank_that_dies_at_the_start_is_named(void **state)
{
    (void)state;
    char job[64];
    name_job(job, sizeof job, "dies");
    struct pen_board_options first = options_of(job, 2);
    struct pen_board_options second = options_of(job, 1);
    pid_t dies = start(&first, do_nothing);
    await_name(&first);
    pid_t stays = start(&second, do_nothing);
    await_mapped(stays, &second);
    kill(dies, SIGKILL);
    code_of(dies);
    assert_int_equal(code_of(stays), PEN_IO);
    expect_name(&first, false);
}

static void boards_of_dead_jobs_are_removed(void **state)
{
    (void)state;
    char job[64];
    char next_job[64];
    name_job(job, sizeof job, "dead");
    struct pen_board_options dead = options_of(job, 0);
    pid_t pid = start(&dead, do_nothing);
    await_name(&dead);
    kill(pid, SIGKILL);
    code_of(pid);
    name_job(next_job, sizeof next_job, "next");
    struct pen_board_options next = options_of(next_job, 0);
    next.num_local = 1;
    assert_int_equal(code_of(start(&next, do_nothing)), 0);
    expect_name(&dead, false);
}

static void a_job_of_the_same_name_starts_afresh(void **state)
{
    (void)state;
    char job[64];
    pid_t pids[RANKS];
    name_job(job, sizeof job, "again");
    struct pen_board_options dead = options_of(job, 3);
    pid_t pid = start(&dead, do_nothing);
    await_name(&dead);
    kill(pid, SIGKILL);
    code_of(pid);
    for (uint32_t i = 0; i < RANKS; i++) {
        struct pen_board_options options = options_of(job, i);
        pids[i] = start(&options, write_and_read);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(code_of(pids[i]), 0);
    expect_name(&dead, false);
}

static void boards_of_living_jobs_are_left_alone(void **state)
{
    (void)state;
    char job[64];
    char other_job[64];
    name_job(job, sizeof job, "lives");
    struct pen_board_options living = options_of(job, 0);
    pid_t pid = start(&living, do_nothing);
    await_name(&living);
    name_job(other_job, sizeof other_job, "other");
    struct pen_board_options other = options_of(other_job, 0);
    other.num_local = 1;
    assert_int_equal(code_of(start(&other, do_nothing)), 0);
    expect_name(&living, true);
    kill(pid, SIGKILL);
    code_of(pid);
    assert_int_equal(code_of(start(&other, do_nothing)), 0);
    expect_name(&living, false);
}

static void ranks_that_disagree_are_refused(void **state)
{
    (void)state;
    char job[64];
    name_job(job, sizeof job, "wrong");
    struct pen_board_options options = options_of(job, 0);
    pid_t pid = start(&options, do_nothing);
    await_name(&options);
    expect_refusal(&options, "local rank 0 is taken by rank 100");
    options.local_rank = 1;
    options.num_local = RANKS + 1;
    expect_refusal(&options, "this rank expects 5 ranks");
    kill(pid, SIGKILL);
    code_of(pid);
    options.num_local = 1;
    options.local_rank = 0;
    assert_int_equal(code_of(start(&options, do_nothing)), 0);
    expect_name(&options, false);
}

static void one_process_needs_no_board(void **state)
{
    (void)state;
    pen_board_note(NULL, 1, 2, PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY);
    pen_board_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_see_each_other_whoever_comes_first),
        cmocka_unit_test(a_wait_begins_when_it_is_first_said),
        cmocka_unit_test(the_end_of_a_rank_is_awaited),
        cmocka_unit_test(one_rank_is_the_first),
        cmocka_unit_test(who_does_not_come_is_not_awaited_for_ever),
        cmocka_unit_test(all_that_wait_name_the_one_that_is_missing),
        cmocka_unit_test(a_rank_that_dies_at_the_start_is_named),
        cmocka_unit_test(boards_of_dead_jobs_are_removed),
        cmocka_unit_test(a_job_of_the_same_name_starts_afresh),
        cmocka_unit_test(boards_of_living_jobs_are_left_alone),
        cmocka_unit_test(ranks_that_disagree_are_refused),
        cmocka_unit_test(one_process_needs_no_board),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
