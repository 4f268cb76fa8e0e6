/*
 * Part of a penstock-train for tests, in which every function of places.def is
 * called through here (the linker's --wrap). One call fails on one rank:
 *
 *   PEN_FAULT=FUNCTION:RANK:CALL:KIND
 *
 *   ENOSPC EIO   the function answers PEN_IO, with that error as its reason
 *   ENOMEM       it answers PEN_NOMEM, without a reason
 *   exit         the process exits
 *   kill stop segv
 *                it gets that signal
 *   alloc        its next allocation fails
 *   pwrite fsync rename mkdir open
 *                its next call of that name fails
 *
 * CALL counts calls of the function, or, with an s before it, is a checkpoint
 * whose first call of the function fails. A fault that happened leaves the file
 * that PEN_FAULT_MARK names. Under a supervisor the first launch alone has it.
 * The sources of the program know nothing of this.
 */
#include "base/status.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "the code that looks at arguments is for x86-64"
#endif

/* ---- calls ---- */

/*
 * Keeps the arguments, whatever they are, asks pen__fault_at(), and either
 * answers in place of the function or goes on in it as if nothing had been
 * between. At `saved`: six registers, last argument first, the return address,
 * then arguments on the stack.
 */
#define CALL(function, index)                                                  \
    __asm__(".text\n.globl __wrap_" #function "\n"                             \
            ".type __wrap_" #function ", @function\n"                          \
            "__wrap_" #function ":\n"                                          \
            "endbr64\n"                                                        \
            "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\n"           \
            "push %r9\n"                                                       \
            "mov %rsp, %rdx\n"                                                 \
            "sub $72, %rsp\n"                                                  \
            "movups %xmm0, (%rsp)\nmovups %xmm1, 16(%rsp)\n"                   \
            "movups %xmm2, 32(%rsp)\nmovups %xmm3, 48(%rsp)\n"                 \
            "lea .Lname_" #function "(%rip), %rdi\n"                           \
            "mov $" #index ", %esi\n"                                          \
            "call pen__fault_at\n"                                             \
            "mov %eax, %r11d\n"                                                \
            "movups (%rsp), %xmm0\nmovups 16(%rsp), %xmm1\n"                   \
            "movups 32(%rsp), %xmm2\nmovups 48(%rsp), %xmm3\n"                 \
            "add $72, %rsp\n"                                                  \
            "pop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"       \
            "test %r11d, %r11d\n"                                              \
            "jz __real_" #function "\n"                                        \
            "mov %r11d, %eax\n"                                                \
            "ret\n"                                                            \
            ".section .rodata\n"                                               \
            ".Lname_" #function ": .asciz \"" #function "\"\n"                 \
            ".text\n");

int pen__fault_at(const char *function, int why_index, const uintptr_t *saved);

/* Made of places.def, each function once. */
#include "rank_calls.h"

static struct pen_text *reason_of(const uintptr_t *saved, int index)
{
    if (index < 0)
        return NULL;
    uintptr_t value = index < 6 ? saved[5 - index] : saved[7 + (index - 6)];
    return (struct pen_text *)value; /* NOLINT(performance-no-int-to-ptr) */
}

/* ---- the fault ---- */

struct fault {
    char function[64];
    int rank;
    bool is_of_save;
    int call;
    char kind[16];
};

static atomic_int num_calls; /* of the function that is to fail */
static atomic_int num_saves;
static atomic_bool is_done;
static _Thread_local const char *armed; /* a call that is to fail next */
static _Thread_local char armed_kind[16];
static _Thread_local const void *armed_at; /* on the stack */

static bool read_fault(struct fault *fault)
{
    const char *text = getenv("PEN_FAULT");
    const char *epoch = getenv("PENSTOCK_EPOCH");
    char call[16];
    if (text == NULL || (epoch != NULL && strcmp(epoch, "1") != 0) ||
        sscanf(text, "%63[^:]:%d:%15[^:]:%15s", fault->function, &fault->rank,
               call, fault->kind) != 4)
        return false;
    fault->is_of_save = call[0] == 's';
    fault->call = atoi(call + fault->is_of_save);
    return true;
}

static int own_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL)
            return atoi(getenv(names[i]));
    return 0;
}

static void leave_mark(void)
{
    const char *path = getenv("PEN_FAULT_MARK");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file != NULL)
        fclose(file);
}

static bool is_due(const char *function, struct fault *fault)
{
    if (!read_fault(fault) || strcmp(fault->function, function) != 0 ||
        own_rank() != fault->rank || atomic_load(&is_done))
        return false;
    int count = fault->is_of_save ? atomic_load(&num_saves)
                                  : atomic_fetch_add(&num_calls, 1) + 1;
    return count == fault->call && !atomic_exchange(&is_done, true);
}

static const struct {
    const char *name;
    int number;
} signals[] = {{"kill", SIGKILL}, {"stop", SIGSTOP}, {"segv", SIGSEGV}};

static pen_status fail(const struct fault *fault, struct pen_text *why,
                       const void *at)
{
    if (strcmp(fault->kind, "exit") == 0) {
        leave_mark();
        exit(3);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcmp(fault->kind, signals[i].name) == 0) {
            leave_mark();
            kill(getpid(), signals[i].number);
            return PEN_OK; /* of one that was stopped and continues */
        }
    if (strcmp(fault->kind, "ENOMEM") == 0) {
        leave_mark();
        return PEN_NOMEM;
    }
    if (fault->kind[0] == 'E') {
        leave_mark();
        pen_why(why, "a file: %s",
                strerror(strcmp(fault->kind, "EIO") == 0 ? EIO : ENOSPC));
        return PEN_IO;
    }
    strcpy(armed_kind, fault->kind);
    armed = armed_kind;
    armed_at = at;
    return PEN_OK;
}

int pen__fault_at(const char *function, int why_index, const uintptr_t *saved)
{
    struct fault fault;
    if (armed != NULL && (const void *)saved >= armed_at)
        armed = NULL; /* this call is not inside of the one that was to fail */
    if (strcmp(function, "pen_checkpointer_begin") == 0)
        atomic_fetch_add(&num_saves, 1);
    return is_due(function, &fault)
               ? (int)fail(&fault, reason_of(saved, why_index), saved)
               : PEN_OK;
}

/* ---- calls of the system ---- */

static bool fails(const char *kind)
{
    if (armed == NULL || strcmp(armed, kind) != 0)
        return false;
    armed = NULL;
    leave_mark();
    return true;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
ssize_t __real_pwrite(int file, const void *bytes, size_t length, off_t at);
int __real_fsync(int file);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __real_open(const char *path, int flags, mode_t mode);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
ssize_t __wrap_pwrite(int file, const void *bytes, size_t length, off_t at);
int __wrap_fsync(int file);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_open(const char *path, int flags, ...);

void *__wrap_malloc(size_t size)
{
    return fails("alloc") ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails("alloc") ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails("alloc") ? NULL : __real_realloc(old, size);
}

ssize_t __wrap_pwrite(int file, const void *bytes, size_t length, off_t at)
{
    return fails("pwrite") ? refuse(ENOSPC)
                           : __real_pwrite(file, bytes, length, at);
}

int __wrap_fsync(int file)
{
    return fails("fsync") ? refuse(EIO) : __real_fsync(file);
}

int __wrap_rename(const char *from, const char *to)
{
    return fails("rename") ? refuse(EIO) : __real_rename(from, to);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return fails("mkdir") ? refuse(ENOSPC) : __real_mkdir(path, mode);
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails("open") ? refuse(ENOSPC) : __real_open(path, flags, mode);
}
