/*
 * A simulation in a process of its own. SimGrid begins once in a process, ends
 * it when it finds a deadlock, and writes what it likes: the result comes back
 * through a file without a name, and so do its words.
 */
#include "sim/simulation.h"

#include "sim/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The longest message: with its label it has fewer bytes than SMPI can count.
 */
#define MOST_MESSAGE (((size_t)1 << 31) - 1024)

/* The memory that the two processes share. */
struct shared {
    struct pen_sim_progress progress;
    char why[1024]; /* of a refusal */
};

static void run_child(const struct pen_simulation *simulation,
                      struct shared *shared, FILE *result, FILE *words)
{
    struct pen_sim_result found;
    struct pen_text why = PEN_TEXT_EMPTY;
    dup2(fileno(words), STDERR_FILENO);
    dup2(fileno(words), STDOUT_FILENO);
    pen_status status =
        pen__run_here(simulation, &shared->progress, &found, &why);
    if (status == PEN_OK && !pen__result_write(&found, result))
        status = PEN_IO;
    snprintf(shared->why, sizeof shared->why, "%s", pen_text_string(&why));
    _exit(status == PEN_OK ? 0 : 1); /* SimGrid's own end takes long */
}

/* ---- waiting for it ---- */

static int await_child(pid_t child, const struct pen_simulation *simulation,
                       const struct shared *shared)
{
    const struct timespec nap = {.tv_nsec = 20000000};
    int code = 0;
    while (waitpid(child, &code, WNOHANG) == 0) {
        nanosleep(&nap, NULL);
        if (simulation->progress != NULL)
            simulation->progress(simulation->progress_context,
                                 &shared->progress);
    }
    return code;
}

/* Adds the last line that SimGrid wrote, to help find the cause. */
static void add_last_words(FILE *words, struct pen_text *why)
{
    char line[512], last[512] = "nothing";
    rewind(words);
    while (fgets(line, sizeof line, words) != NULL)
        if (strstr(line, "CRITICAL") != NULL || strstr(line, "ERROR") != NULL)
            memcpy(last, line, sizeof last);
    last[strcspn(last, "\n")] = '\0';
    pen_why(why, "the simulation ended without a result; SimGrid said: %s",
            last);
}

static pen_status take_result(int code, const struct shared *shared,
                              FILE *result, FILE *words,
                              struct pen_sim_result *out, struct pen_text *why)
{
    if (WIFEXITED(code) && WEXITSTATUS(code) == 0) {
        rewind(result);
        if (pen__result_read(out, result))
            return PEN_OK;
        pen_sim_result_release(out);
    }
    if (shared->why[0] != '\0')
        pen_why(why, "%s", shared->why);
    else
        add_last_words(words, why);
    return PEN_INVALID;
}

static double now_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pen_status run_apart(const struct pen_simulation *simulation,
                            struct shared *shared, FILE *result, FILE *words,
                            struct pen_sim_result *out, struct pen_text *why)
{
    double begin = now_sec();
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    if (child < 0) {
        pen_why(why, "cannot start a process: %s", strerror(errno));
        return PEN_IO;
    }
    if (child == 0)
        run_child(simulation, shared, result, words);
    int code = await_child(child, simulation, shared);
    pen_status status = take_result(code, shared, result, words, out, why);
    if (status == PEN_OK)
        out->host_sec = now_sec() - begin;
    return status;
}

pen_status pen_simulate(const struct pen_simulation *simulation,
                        struct pen_sim_result *out, struct pen_text *why)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *result = tmpfile();
    FILE *words = tmpfile();
    pen_status status = PEN_IO;
    if (simulation->message_bytes > MOST_MESSAGE) {
        pen_why(why,
                "%zu bytes between two stages are too many for a simulated "
                "message; use a smaller micro-batch",
                simulation->message_bytes);
        status = PEN_INVALID;
    } else if (shared == MAP_FAILED || result == NULL || words == NULL)
        pen_why(why, "cannot make a temporary file: %s", strerror(errno));
    else
        status = run_apart(simulation, shared, result, words, out, why);
    if (result != NULL)
        fclose(result);
    if (words != NULL)
        fclose(words);
    if (shared != MAP_FAILED)
        munmap(shared, sizeof *shared);
    return status;
}
