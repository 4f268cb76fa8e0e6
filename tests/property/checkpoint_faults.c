/*
 * Whichever system call of a save fails, and wherever the process is killed:
 * a whole step is there afterwards, never a mixture, and the next save works.
 * The linker puts the functions named __wrap_ in place of the real ones.
 */
#include "support/folder.h"
#include "support/support.h"

#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --------------------------------------------------------- system calls */

enum mode { COUNT, FAIL, KILL, TEAR };

static struct {
    enum mode mode;
    long at; /* the call that is hit, from 1 */
    long calls;
    bool is_dirty[1024]; /* by handle: written and not synced */
    int num_names;       /* made in a directory and not synced */
    bool is_early;       /* a step got its name before it was on disk */
    bool is_unsure;      /* the name itself is not */
} faults;

static void arm(enum mode mode, long at)
{
    memset(&faults, 0, sizeof faults);
    faults.mode = mode;
    faults.at = at;
}

/* True if this call has to fail. */
static bool is_hit(int error)
{
    if (++faults.calls != faults.at || faults.mode == COUNT)
        return false;
    if (faults.mode != FAIL)
        _exit(9);
    errno = error;
    return true;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...);
int __real_close(int handle);
int __wrap_close(int handle);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
ssize_t __real_pwrite(int handle, const void *bytes, size_t count, off_t at);
ssize_t __wrap_pwrite(int handle, const void *bytes, size_t count, off_t at);
ssize_t __real_read(int handle, void *bytes, size_t count);
ssize_t __wrap_read(int handle, void *bytes, size_t count);
int __wrap_fsync(int handle);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_unlinkat(int directory, const char *path, int flags);
int __wrap_unlinkat(int directory, const char *path, int flags);

int __wrap_open(const char *path, int flags, ...)
{
    if (is_hit(ENOSPC))
        return -1;
    faults.num_names += (flags & O_CREAT) != 0;
    return __real_open(path, flags, 0666);
}

int __wrap_openat(int directory, const char *path, int flags, ...)
{
    return is_hit(EACCES) ? -1 : __real_openat(directory, path, flags);
}

int __wrap_close(int handle)
{
    int failed = is_hit(EIO);
    return __real_close(handle) != 0 || failed ? -1 : 0;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return is_hit(ENOSPC) ? -1 : __real_mkdir(path, mode);
}

ssize_t __wrap_pwrite(int handle, const void *bytes, size_t count, off_t at)
{
    faults.is_dirty[handle] = true;
    if (faults.mode == TEAR && faults.calls + 1 == faults.at)
        __real_pwrite(handle, bytes, count / 2, at);
    return is_hit(ENOSPC) ? -1 : __real_pwrite(handle, bytes, count, at);
}

ssize_t __wrap_read(int handle, void *bytes, size_t count)
{
    return is_hit(EIO) ? -1 : __real_read(handle, bytes, count);
}

/* Nobody pulls the plug here, so nothing is really synced. */
int __wrap_fsync(int handle)
{
    struct stat about;
    if (is_hit(EIO))
        return -1;
    faults.is_dirty[handle] = false;
    if (fstat(handle, &about) == 0 && S_ISDIR(about.st_mode))
        faults.num_names = faults.is_unsure = 0;
    return 0;
}

static void look_at_name(const char *to)
{
    const char *slash = strrchr(to, '/');
    faults.num_names++;
    if (slash == NULL || strncmp(slash, "/step-", 6) != 0)
        return;
    faults.is_unsure = true;
    faults.is_early |= faults.num_names > 1;
    for (size_t i = 0; i < sizeof faults.is_dirty; i++)
        faults.is_early |= faults.is_dirty[i];
}

int __wrap_rename(const char *from, const char *to)
{
    if (is_hit(EIO) || __real_rename(from, to) != 0)
        return -1;
    look_at_name(to);
    return 0;
}

/* The only one that is called this way is renameat2. */
long __wrap_syscall(long number, ...)
{
    va_list args;
    va_start(args, number);
    int from_folder = va_arg(args, int);
    const char *from = va_arg(args, const char *);
    int to_folder = va_arg(args, int);
    const char *to = va_arg(args, const char *);
    unsigned flags = va_arg(args, unsigned);
    va_end(args);
    if (is_hit(EINVAL) ||
        __real_syscall(number, from_folder, from, to_folder, to, flags) != 0)
        return -1;
    look_at_name(to);
    return 0;
}

int __wrap_unlink(const char *path)
{
    return is_hit(EIO) ? -1 : __real_unlink(path);
}

int __wrap_unlinkat(int directory, const char *path, int flags)
{
    return is_hit(EIO) ? -1 : __real_unlinkat(directory, path, flags);
}

/* ---------------------------------------------------------------- saves */

static char run[sizeof folder + 20]; /* a new one for each scene */

enum { NUM_TENSORS = 3, NUM_FLOATS = 4 };

static const uint64_t shape[] = {NUM_FLOATS};
static const struct pen_checkpoint_tensor tensors[NUM_TENSORS] = {
    {{"a", PEN_DTYPE_F32, 1, shape}, true, 0},
    {{"b", PEN_DTYPE_F32, 1, shape}, true, 0},
    {{"c", PEN_DTYPE_F32, 1, shape}, true, 0}};

static pen_status put_all(struct pen_checkpoint_writer *writer, float value,
                          struct pen_text *why)
{
    pen_status status =
        pen_checkpoint_add_file(writer, "config.json", "{}", 2, why);
    for (size_t i = 0; status == PEN_OK && i < 2 * NUM_TENSORS; i++) {
        float values[NUM_FLOATS] = {value, value, value, value};
        status = pen_checkpoint_put(writer, i % 2, i / 2, values, sizeof values,
                                    why);
    }
    return status;
}

/* Two shards of weights, two of moments, all of them full of `value`. */
static pen_status save(uint64_t step, float value, uint32_t keep,
                       struct pen_text *why)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_checkpoint_keep newest = {.count = keep};
    pen_status status = pen_checkpoint_create(run, step, tensors, NUM_TENSORS,
                                              1, 32, &writer, why);
    if (status != PEN_OK)
        return status;
    status = put_all(writer, value, why);
    if (status == PEN_OK)
        status = pen_checkpoint_finish(writer, &newest, why);
    else
        pen_checkpoint_abandon(writer);
    pen_checkpoint_keep_release(&newest);
    return status;
}

static void save_well(uint64_t step, float value)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    arm(COUNT, 0);
    if (save(step, value, 0, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

/* The value all tensors of the step have; fails on a mixture. */
static float value_of(const struct pen_checkpoint *checkpoint)
{
    float first;
    memcpy(&first, pen_weights_find(checkpoint->model, "a")->bytes,
           sizeof first);
    for (size_t i = 0; i < NUM_TENSORS; i++) {
        char name[20];
        snprintf(name, sizeof name, "%s.moment1", tensors[i].spec.name);
        const struct pen_safetensor *found[] = {
            pen_weights_find(checkpoint->model, tensors[i].spec.name),
            pen_weights_find(checkpoint->optimizer, name)};
        for (size_t j = 0; j < 2 * NUM_FLOATS; j++)
            assert_memory_equal(&first,
                                found[j / NUM_FLOATS]->bytes +
                                    j % NUM_FLOATS * sizeof first,
                                sizeof first);
    }
    return first;
}

/* The newest whole step and its value. */
static uint64_t look(float *value)
{
    struct pen_checkpoint *checkpoint = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    arm(COUNT, 0);
    if (pen_checkpoint_open(run, NULL, &checkpoint, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    /* A name is only given to what is whole. */
    assert_string_equal("", pen_text_string(&checkpoint->skipped));
    uint64_t step = checkpoint->manifest.step;
    *value = value_of(checkpoint);
    pen_checkpoint_close(checkpoint);
    return step;
}

static bool has_leftovers(void)
{
    DIR *names = opendir(run);
    bool has_some = false;
    for (struct dirent *name; (name = readdir(names)) != NULL;)
        has_some |= strncmp(name->d_name, ".tmp-", 5) == 0;
    closedir(names);
    return has_some;
}

/* ---------------------------------------------------------------- cases */

/* Step 1 is there; step 2, if old is not 0, with that value. */
struct scene {
    float old;
    uint32_t keep;
};

static void set_scene(const struct scene *scene)
{
    static int number;
    snprintf(run, sizeof run, "%s/%d", folder, number++);
    save_well(1, 1);
    if (scene->old != 0)
        save_well(2, scene->old);
}

static void check_scene(const struct scene *scene, bool was_saved, long at)
{
    float value = 0;
    uint64_t step = look(&value);
    if (step == 1 && (value != 1 || scene->old != 0 || was_saved))
        fail_msg("call %ld: step 2 is gone", at);
    if (step == 2 && value != 3 && (value != scene->old || was_saved))
        fail_msg("call %ld: step 2 has the value %g", at, (double)value);
    save_well(3, 4);
    assert_int_equal(3, look(&value));
    assert_false(has_leftovers());
}

static size_t count_handles(void)
{
    size_t count = 0;
    for (int i = 0; i < 100; i++)
        count += fcntl(i, F_GETFD) != -1;
    return count;
}

/* How many calls one save makes; also that it syncs before it renames. */
static long count_calls(const struct scene *scene)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    set_scene(scene);
    arm(COUNT, 0);
    if (save(2, 3, scene->keep, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_false(faults.is_early);
    assert_false(faults.is_unsure);
    assert_true(faults.calls > 60);
    return faults.calls;
}

static void fail_everywhere(const struct scene *scene)
{
    long calls = count_calls(scene);
    long num_failures = 0;
    for (long at = 1; at <= calls; at++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        set_scene(scene);
        size_t handles = count_handles();
        arm(FAIL, at);
        pen_status status = save(2, 3, scene->keep, &why);
        assert_int_equal(handles, count_handles());
        assert_int_equal(status == PEN_OK, why.length == 0);
        num_failures += status != PEN_OK;
        check_scene(scene, status == PEN_OK, at);
        pen_text_release(&why);
    }
    print_message("%ld calls, %ld failures reported\n", calls, num_failures);
}

static void end_everywhere(const struct scene *scene, enum mode mode)
{
    long calls = count_calls(scene);
    for (long at = 1; at <= calls; at++) {
        int code = 0;
        set_scene(scene);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            arm(mode, at);
            save(2, 3, scene->keep, NULL);
            _exit(0);
        }
        assert_int_equal(child, waitpid(child, &code, 0));
        assert_int_equal(9, WEXITSTATUS(code));
        check_scene(scene, false, at);
    }
}

static const struct scene fresh = {.old = 0};
static const struct scene replacing = {.old = 2};
static const struct scene thinning = {.old = 0, .keep = 1};

static void a_call_that_fails_costs_no_step(void **state)
{
    (void)state;
    fail_everywhere(&fresh);
    fail_everywhere(&replacing);
    fail_everywhere(&thinning);
}

static void a_kill_costs_no_step(void **state)
{
    (void)state;
    end_everywhere(&fresh, KILL);
    end_everywhere(&replacing, KILL);
    end_everywhere(&thinning, KILL);
}

static void half_a_write_costs_no_step(void **state)
{
    (void)state;
    end_everywhere(&fresh, TEAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_fails_costs_no_step),
        cmocka_unit_test(a_kill_costs_no_step),
        cmocka_unit_test(half_a_write_costs_no_step)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
