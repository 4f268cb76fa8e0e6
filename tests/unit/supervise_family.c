/* Processes of a launch are found and ended, whoever their parent is. */
#include "support/support.h"

#include "supervise/family.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_NS INT64_C(10000000000)

/* A child whose own child stays when it ends itself. */
static void start_orphan(void)
{
    int ends[2];
    char letter;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            if (write(ends[1], "x", 1) != 1)
                _exit(1);
            pause();
        }
        _exit(0);
    }
    assert_int_equal(read(ends[0], &letter, 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
}

static void orphans_and_stopped_processes_are_killed(void **state)
{
    (void)state;
    struct pen_family family = PEN_FAMILY_EMPTY;
    start_orphan();
    pid_t stopped = fork();
    if (stopped == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(stopped, NULL, WUNTRACED), stopped);
    pid_t other = fork();
    if (other == 0) {
        pause();
        _exit(0);
    }
    family.others = &other;
    family.num_others = 1;
    assert_int_equal(pen_family_scan(&family), PEN_OK);
    assert_int_equal(family.count, 2);
    pen_family_look(&family, 5);
    for (size_t i = 0; i < family.count; i++)
        assert_int_equal(family.members[i].stopped_ns,
                         family.members[i].pid == stopped ? 5 : 0);
    assert_true(pen_family_kill(&family, 0, LIMIT_NS));
    for (size_t i = 0; i < family.count; i++) {
        assert_true(family.members[i].has_status);
        assert_int_equal(WTERMSIG(family.members[i].status), SIGKILL);
        assert_int_equal(waitpid(family.members[i].pid, NULL, 0),
                         family.members[i].pid);
    }
    pen_family_release(&family);
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

static void a_spared_process_lives(void **state)
{
    (void)state;
    struct pen_family family = PEN_FAMILY_EMPTY;
    pid_t spared = fork();
    if (spared == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(pen_family_scan(&family), PEN_OK);
    assert_true(pen_family_kill(&family, spared, LIMIT_NS));
    assert_int_equal(waitpid(spared, NULL, WNOHANG), 0);
    assert_int_equal(pen_family_ranks(&family), 0);
    assert_true(pen_family_kill(&family, 0, LIMIT_NS));
    assert_int_equal(waitpid(spared, NULL, 0), spared);
    pen_family_release(&family);
}

static int adopt(void **state)
{
    (void)state;
    return pen_family_adopt(NULL) == PEN_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orphans_and_stopped_processes_are_killed),
        cmocka_unit_test(a_spared_process_lives),
    };
    return cmocka_run_group_tests(tests, adopt, NULL);
}
