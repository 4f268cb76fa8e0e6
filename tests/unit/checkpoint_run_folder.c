/*
 * The folder of a run has one owner at a time, holds steps of one run, and
 * keeps as many of them as it is told to.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/draft.h"
#include "checkpoint/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OLD PEN_SOURCE_DIR "/tests/old/0.1.0/checkpoint"
#define RUN_A "00000000000000a1"
#define RUN_B "00000000000000b2"

/* What a lock fails with; 0: it is the system's. */
static int lock_error;

int __wrap_fcntl(int handle, int command, ...);
int __wrap_fcntl64(int handle, int command, ...);

int __wrap_fcntl64(int handle, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (lock_error == 0)
        return (int)syscall(SYS_fcntl, handle, command, argument);
    errno = lock_error;
    return -1;
}

int __wrap_fcntl(int handle, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    return __wrap_fcntl64(handle, command, argument);
}

/* Whoever has the lock keeps it, or gives it back after so many pauses. */
static int num_pauses;
static struct pen_run_folder *leaving;

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted;
    (void)left;
    if (++num_pauses == 7 && leaving != NULL)
        pen_run_folder_release(leaving);
    return 0;
}

static char run[sizeof folder + 8];

static void shell(const char *command)
{
    char line[600];
    snprintf(line, sizeof line, "cd %s && { %s; }", folder, command);
    if (system(line) != 0)
        fail_msg("%s", line);
}

static int begin(void **state)
{
    (void)state;
    lock_error = num_pauses = 0;
    leaving = NULL;
    snprintf(run, sizeof run, "%s/run", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    lock_error = 0;
    shell("chmod -R u+w . && rm -rf run other");
    return 0;
}

static pen_status try_save(const char *id, uint64_t step,
                           struct pen_checkpoint_keep *keep,
                           struct pen_text *why)
{
    static const uint64_t shape[] = {2};
    const float values[2] = {(float)step, 1};
    const struct pen_checkpoint_tensor tensor = {
        {"w", PEN_DTYPE_F32, 1, shape}, false, 0};
    struct pen_checkpoint_writer *writer = NULL;
    pen_status status =
        pen_checkpoint_create(run, step, &tensor, 1, 0, 0, &writer, why);
    if (status != PEN_OK)
        return status;
    memcpy(pen_checkpoint_manifest(writer)->run, id, PEN_RUN_ID_SIZE);
    status = pen_checkpoint_put(writer, PEN_CHECKPOINT_WEIGHT, 0, values,
                                sizeof values, why);
    assert_int_equal(PEN_OK, status);
    return pen_checkpoint_finish(writer, keep, why);
}

static void save(const char *id, uint64_t step,
                 struct pen_checkpoint_keep *keep)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (try_save(id, step, keep, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static struct pen_checkpoint *load(const char *name)
{
    char path[sizeof folder + 40];
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint *checkpoint = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (pen_checkpoint_open(path, NULL, &checkpoint, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return checkpoint;
}

static struct pen_run_folder claim(const struct pen_checkpoint *loaded)
{
    struct pen_run_folder claimed = PEN_RUN_FOLDER_NONE;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_folder_claim(run, loaded, &claimed, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return claimed;
}

static void expect_refused(const struct pen_checkpoint *loaded,
                           const char *reason)
{
    struct pen_run_folder claimed = PEN_RUN_FOLDER_NONE;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_not_equal(PEN_OK,
                         pen_run_folder_claim(run, loaded, &claimed, &why));
    assert_int_equal(-1, claimed.handle);
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("expected %s, found %s", reason, pen_text_string(&why));
    pen_text_release(&why);
}

static unsigned mode_of(const char *name)
{
    struct stat about;
    char path[sizeof folder + 60];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(0, stat(path, &about));
    return about.st_mode & 0777u;
}

/* Lists the steps that are there, as "3 5 ". */
static const char *steps(void)
{
    static char text[200];
    struct pen_checkpoint_list list;
    size_t length = 0;
    assert_int_equal(PEN_OK, pen_checkpoint_list_load(run, &list, NULL));
    text[0] = '\0';
    for (size_t i = 0; i < list.count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%d ",
                                   (int)list.entries[i].step);
    pen_checkpoint_list_release(&list);
    return text;
}

static void only_the_owner_may_read_it(void **state)
{
    (void)state;
    mode_t before = umask(0);
    struct pen_run_folder claimed = claim(NULL);
    save(claimed.run, 1, NULL);
    pen_run_folder_release(&claimed);
    umask(before);
    assert_int_equal(0700, mode_of("run"));
    assert_int_equal(0600, mode_of("run/.lock"));
    assert_int_equal(0700, mode_of("run/step-00000001"));
    assert_int_equal(0600, mode_of("run/step-00000001/MANIFEST.json"));
    assert_int_equal(0600, mode_of("run/step-00000001/model.safetensors"));
}

static void a_file_is_not_written_through_a_link(void **state)
{
    (void)state;
    char path[sizeof folder + 16];
    snprintf(path, sizeof path, "%s/run/x", folder);
    shell("mkdir run && echo kept >other && ln -s ../other run/x.part");
    assert_int_equal(PEN_IO, pen_draft_write_file(path, "lost", 4, NULL));
    shell("[ \"$(cat other)\" = kept ] && [ ! -e run/x ]");
}

static void a_second_job_is_refused_by_name(void **state)
{
    (void)state;
    char host[65] = "";
    char reason[200];
    struct pen_run_folder first = claim(NULL);
    assert_true(first.has_lock);
    (void)gethostname(host, sizeof host - 1);
    snprintf(reason, sizeof reason,
             "/run is in use by another job (run %s, process %ld on %s): wait "
             "until it has ended, or give --save another folder",
             first.run, (long)getpid(), host);
    expect_refused(NULL, reason);
    pen_run_folder_release(&first);
    struct pen_run_folder second = claim(NULL);
    assert_string_not_equal(first.run, second.run);
    pen_run_folder_release(&second);
}

static void the_lock_of_a_dead_job_is_free(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        (void)claim(NULL);
        _exit(0);
    }
    assert_int_equal(child, waitpid(child, NULL, 0));
    struct pen_run_folder next = claim(NULL);
    pen_run_folder_release(&next);
}

static void a_job_that_is_ending_is_waited_for(void **state)
{
    (void)state;
    struct pen_run_folder first = claim(NULL);
    leaving = &first;
    struct pen_run_folder second = claim(NULL);
    assert_int_equal(7, num_pauses);
    pen_run_folder_release(&second);
}

static void a_holder_that_says_nonsense_is_not_repeated(void **state)
{
    (void)state;
    struct pen_run_folder first = claim(NULL);
    static const char *const texts[] = {"", "x", "\\033[2J 1 2", RUN_A,
                                        RUN_A " a;b 3"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char command[100];
        snprintf(command, sizeof command, "printf '%s' >run/.lock", texts[i]);
        shell(command);
        expect_refused(NULL, "/run is in use by another job: wait");
    }
    pen_run_folder_release(&first);
}

static void without_locks_the_folder_is_had_all_the_same(void **state)
{
    (void)state;
    static const int errors[] = {ENOLCK, EOPNOTSUPP, EINVAL, ENOSYS};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        lock_error = errors[i];
        struct pen_run_folder claimed = claim(NULL);
        assert_false(claimed.has_lock);
        pen_run_folder_release(&claimed);
    }
    lock_error = EAGAIN;
    expect_refused(NULL, "is in use by another job");
}

static void a_folder_that_cannot_be_written_is_refused(void **state)
{
    (void)state;
    shell("mkdir run && touch run/.lock && ln -s /nowhere/x run/.target");
    shell("rm run/.lock && ln -s .target run/.lock");
    expect_refused(NULL, "cannot open");
    shell("rm run/.lock && rmdir run/.lock 2>/dev/null; mkfifo run/.lock");
    expect_refused(NULL, "cannot");
    shell("rm -r run && touch run");
    expect_refused(NULL, "cannot open");
    shell("rm run");
    if (geteuid() == 0)
        return;
    shell("mkdir -m 500 run");
    expect_refused(NULL, "cannot open");
    shell("chmod 700 run && touch run/.lock && chmod 500 run");
    expect_refused(NULL, "no checkpoint can be saved: cannot write");
}

static void a_new_run_does_not_take_the_folder_of_another(void **state)
{
    (void)state;
    save(RUN_A, 500, NULL);
    expect_refused(NULL, "/run holds steps of another run (id " RUN_A
                         ", newest step 500): resume it with --load ");
    shell("rm run/step-00000500/MANIFEST.json");
    expect_refused(NULL, "(id unknown, newest step 500)");
}

static void resuming_in_the_folder_keeps_the_id(void **state)
{
    (void)state;
    save(RUN_A, 4, NULL);
    struct pen_checkpoint *loaded = load("run");
    struct pen_run_folder claimed = claim(loaded);
    assert_string_equal(RUN_A, claimed.run);
    pen_run_folder_release(&claimed);
    shell("cp -r run other && rm -r run/step-*");
    claimed = claim(loaded);
    assert_string_not_equal(RUN_A, claimed.run);
    pen_run_folder_release(&claimed);
    save(RUN_B, 3, NULL);
    expect_refused(loaded, "holds steps of another run (id " RUN_B
                           ", newest step 3) than ");
    pen_checkpoint_close(loaded);
}

static void newer_steps_are_not_overtaken(void **state)
{
    (void)state;
    save(RUN_A, 4, NULL);
    save(RUN_A, 9, NULL);
    struct pen_checkpoint *loaded = load("run/step-00000004");
    expect_refused(loaded,
                   "/run holds newer steps of this run (newest step 9) than ");
    shell("echo >>run/step-00000009/model.safetensors");
    struct pen_run_folder claimed = claim(loaded);
    assert_string_equal(RUN_A, claimed.run);
    pen_run_folder_release(&claimed);
    pen_checkpoint_close(loaded);
}

static void a_run_passes_over_its_damaged_steps(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    save(RUN_A, 4, NULL);
    save(RUN_A, 9, NULL);
    shell("f=run/step-00000009/model.safetensors; printf x | dd of=$f bs=1 "
          "seek=70 conv=notrunc status=none");
    struct pen_checkpoint *loaded = load("run");
    assert_int_equal(4, loaded->manifest.step);
    pen_checkpoint_describe_skipped(loaded, &text);
    assert_non_null(
        strstr(pen_text_string(&text), "/run/step-00000004 is used instead\n"));
    assert_non_null(
        strstr(pen_text_string(&text),
               "/run/step-00000009/model.safetensors is damaged: "));
    struct pen_run_folder claimed = claim(loaded);
    pen_run_folder_release(&claimed);
    pen_checkpoint_close(loaded);
    pen_text_release(&text);
}

static void steps_of_0_1_0_are_one_run(void **state)
{
    (void)state;
    shell("cp -r " OLD " run");
    struct pen_checkpoint *loaded = load("run");
    assert_int_equal(4, loaded->manifest.step);
    assert_string_equal(PEN_RUN_ID_OLD, loaded->manifest.run);
    struct pen_run_folder claimed = claim(loaded);
    assert_string_equal(PEN_RUN_ID_OLD, claimed.run);
    save(claimed.run, 6, NULL);
    pen_run_folder_release(&claimed);
    pen_checkpoint_close(loaded);
    loaded = load("run");
    assert_int_equal(6, loaded->manifest.step);
    /* Two runs of 0.1.0 are not told apart by their id. */
    shell("mv run other && cp -r " OLD " run");
    expect_refused(loaded, "holds steps of another run");
    pen_checkpoint_close(loaded);
    expect_refused(NULL, "holds steps of another run (id " PEN_RUN_ID_OLD
                         ", newest step 4)");
}

static void steps_of_several_runs_are_named(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint *checkpoint = NULL;
    save(RUN_A, 4, NULL);
    shell("mv run other");
    save(RUN_B, 3, NULL);
    save(RUN_B, 5, NULL);
    shell("mv other/step-00000004 run");
    assert_int_equal(PEN_INVALID,
                     pen_checkpoint_open(run, NULL, &checkpoint, &why));
    assert_non_null(strstr(pen_text_string(&why),
                           "holds steps of 2 runs (id " RUN_B
                           ", newest step 5; id " RUN_A ", newest step 4)"));
    pen_text_release(&why);
    /* One that cannot be loaded anyway is nobody's run. */
    shell("rm run/step-00000004/model.safetensors");
    checkpoint = load("run");
    assert_int_equal(5, checkpoint->manifest.step);
    expect_refused(checkpoint, "(id " RUN_A ", newest step 4) than ");
    pen_checkpoint_close(checkpoint);
}

static void a_step_is_not_written_among_those_of_another_run(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    save(RUN_A, 4, NULL);
    assert_int_equal(PEN_INVALID, try_save(RUN_B, 4, NULL, &why));
    assert_non_null(strstr(pen_text_string(&why),
                           "/run holds steps of another run than this one "
                           "(id " RUN_B ")"));
    assert_string_equal("4 ", steps());
    save(RUN_A, 5, NULL);
    pen_text_release(&why);
}

static void other_ranks_see_the_same_folder(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_run_folder claimed = claim(NULL);
    assert_int_equal(PEN_OK, pen_run_folder_join(run, claimed.run, &why));
    assert_int_equal(PEN_INVALID, pen_run_folder_join(run, RUN_A, &why));
    assert_non_null(
        strstr(pen_text_string(&why),
               " is not the folder that the job saves to: "
               "give --save a folder on a file system that all nodes "
               "share"));
    assert_int_equal(PEN_INVALID,
                     pen_run_folder_join("/nowhere", claimed.run, NULL));
    pen_run_folder_release(&claimed);
    pen_text_release(&why);
}

static void the_newest_verified_steps_are_kept(void **state)
{
    (void)state;
    struct pen_checkpoint_keep keep = {
        .count = 2, .has_loaded = true, .loaded = 1};
    for (uint64_t step = 1; step <= 5; step++)
        save(RUN_A, step, &keep);
    assert_string_equal("1 4 5 ", steps());
    /* Those of a resumed run are read once; a damaged one does not count. */
    pen_checkpoint_keep_release(&keep);
    shell("f=run/step-00000005/model.safetensors; printf x | dd of=$f bs=1 "
          "seek=70 conv=notrunc status=none");
    save(RUN_A, 6, &keep);
    assert_string_equal("1 4 5 6 ", steps());
    save(RUN_A, 7, &keep);
    assert_string_equal("1 6 7 ", steps());
    /* The loaded one is that of this run only. */
    keep.has_loaded = false;
    save(RUN_A, 8, &keep);
    assert_string_equal("7 8 ", steps());
    pen_checkpoint_keep_release(&keep);
}

static void only_steps_of_the_run_are_removed(void **state)
{
    (void)state;
    struct pen_checkpoint_keep keep = {.count = 1};
    save(RUN_A, 1, NULL);
    save(RUN_A, 2, NULL);
    save(RUN_A, 9, NULL); /* newer than what comes: not of this history */
    shell("mkdir run/step-00000003; mkdir run/notes; touch run/step-x");
    save(RUN_A, 4, &keep);
    assert_string_equal("3 4 9 ", steps());
    shell("[ -d run/notes ] && [ -e run/step-x ]");
    shell("[ \"$(ls -A run | grep -c '^\\.tmp-')\" = 0 ]");
    pen_checkpoint_keep_release(&keep);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_the_owner_may_read_it),
        TEST(a_file_is_not_written_through_a_link),
        TEST(a_second_job_is_refused_by_name),
        TEST(the_lock_of_a_dead_job_is_free),
        TEST(a_job_that_is_ending_is_waited_for),
        TEST(a_holder_that_says_nonsense_is_not_repeated),
        TEST(without_locks_the_folder_is_had_all_the_same),
        TEST(a_folder_that_cannot_be_written_is_refused),
        TEST(a_new_run_does_not_take_the_folder_of_another),
        TEST(resuming_in_the_folder_keeps_the_id),
        TEST(newer_steps_are_not_overtaken),
        TEST(a_run_passes_over_its_damaged_steps),
        TEST(steps_of_0_1_0_are_one_run),
        TEST(steps_of_several_runs_are_named),
        TEST(a_step_is_not_written_among_those_of_another_run),
        TEST(other_ranks_see_the_same_folder),
        TEST(the_newest_verified_steps_are_kept),
        TEST(only_steps_of_the_run_are_removed)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
