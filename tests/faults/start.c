/*
 * A library to be loaded before a program (LD_PRELOAD): one rank is stopped,
 * killed or put to sleep at one place of its start.
 *
 *   PEN_START=RANK:PLACE:ACT
 *
 *   begin      before main() of penstock-train
 *   init       in MPI_Init
 *   NAME       when a file of this name is opened for the first time
 *   send-N     in the N-th message that is sent
 *
 *   stop, kill, sleep
 *
 * An accident that happened leaves the file that PEN_START_MARK names.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): RTLD_NEXT */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static bool has_happened;

static const char *own_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank != NULL ? rank : getenv("PMI_RANK");
}

static bool is_penstock_train(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    return strstr(path, "/penstock-train") != NULL;
}

/* Whether it is this rank's turn at this place; *act is what is to happen. */
static bool is_turn(const char *place, char act[16])
{
    char rank[16], where[64];
    const char *wish = getenv("PEN_START");
    return !has_happened && wish != NULL && own_rank() != NULL &&
           is_penstock_train() &&
           sscanf(wish, "%15[^:]:%63[^:]:%15s", rank, where, act) == 3 &&
           strcmp(rank, own_rank()) == 0 && strcmp(where, place) == 0;
}

static void leave_mark(void)
{
    const char *path = getenv("PEN_START_MARK");
    FILE *mark = path == NULL ? NULL : fopen(path, "w");
    if (mark == NULL)
        return;
    fprintf(mark, "%d\n", (int)getpid());
    fclose(mark);
}

static void be_at(const char *place)
{
    char act[16];
    if (!is_turn(place, act))
        return;
    has_happened = true;
    leave_mark();
    if (strcmp(act, "stop") == 0)
        raise(SIGSTOP);
    else if (strcmp(act, "kill") == 0)
        raise(SIGKILL);
    else
        for (;;)
            pause();
}

__attribute__((constructor)) static void begin(void)
{
    be_at("begin");
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *given)
{
    be_at("init");
    return PMPI_Init_thread(argc, argv, wanted, given);
}

int MPI_Isend(const void *bytes, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request *request)
{
    static int number;
    char place[32];
    snprintf(place, sizeof place, "send-%d", ++number);
    be_at(place);
    return PMPI_Isend(bytes, count, type, to, tag, comm, request);
}

static void be_at_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    be_at(slash != NULL ? slash + 1 : path);
}

int open(const char *path, int flags, ...)
{
    int (*next)(const char *path, int flags, ...);
    *(void **)&next = dlsym(RTLD_NEXT, "open");
    va_list rest;
    va_start(rest, flags);
    unsigned mode =
        (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    be_at_file(path);
    return next(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *path, const char *mode);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    be_at_file(path);
    return next(path, mode);
}
