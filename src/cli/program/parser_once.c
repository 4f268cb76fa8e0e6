/*
 * One error of a command line for all ranks of a job, before MPI_Init(): ranks
 * of one node with the same error meet at a board (watch/board.h) that is
 * named after it.
 *
 *   rank 0             prints, then goes to the board, where the others see it
 *   first of its node  waits for the launcher to end the job, then prints
 *   others             print nothing, if the first of the node has the same
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): memfd_create */
#include "cli/program/parser_once.h"

#include "base/text.h"
#include "watch/board.h"
#include "watch/launch_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Ranks start at most this far apart; the first has printed by then. */
#define PATIENCE_SEC 3.0

static struct {
    struct pen_launch launch;
    int file; /* of what is kept */
    int out;  /* stdout and stderr as they were */
    int err;
    bool is_on;
    bool is_registered;
} kept;

static void restore(void)
{
    fflush(stdout);
    fflush(stderr);
    dup2(kept.out, STDOUT_FILENO);
    dup2(kept.err, STDERR_FILENO);
    close(kept.out);
    close(kept.err);
    kept.is_on = false;
}

static void read_kept(struct pen_text *out)
{
    char block[4096];
    ssize_t length;
    lseek(kept.file, 0, SEEK_SET);
    while ((length = read(kept.file, block, sizeof block)) > 0)
        pen_text_add_bytes(out, block, (size_t)length);
    close(kept.file);
}

static void print_to(FILE *stream, const struct pen_text *text)
{
    fwrite(pen_text_string(text), 1, text->length, stream);
    fflush(stream);
}

static void print_named(const struct pen_text *text)
{
    fprintf(stderr, "penstock: rank %" PRIu32 ":\n", kept.launch.rank);
    print_to(stderr, text);
}

/*
 * Returns whether all ranks of this node have the same text. *out may be NULL.
 */
static bool meet(const struct pen_text *text, struct pen_board **out)
{
    struct pen_text job = PEN_TEXT_EMPTY;
    struct pen_text unused = PEN_TEXT_EMPTY;
    const struct pen_launch *launch = &kept.launch;
    pen_status status = PEN_INVALID;
    pen_launch_job_own(launch, &job);
    if (job.length > 0 && launch->local_size != PEN_LAUNCH_UNKNOWN &&
        launch->local_rank != PEN_LAUNCH_UNKNOWN) {
        pen_text_add(&job, "\n%s", pen_text_string(text));
        const struct pen_board_options options = {
            .job = pen_text_string(&job),
            .host = "this node",
            .rank = launch->rank,
            .local_rank = launch->local_rank,
            .num_local = launch->local_size,
            .deadline_sec = PATIENCE_SEC};
        status = pen_board_create(&options, out, &unused);
    }
    pen_text_release(&job);
    pen_text_release(&unused);
    return status == PEN_OK;
}

static void wait_for_launcher(void)
{
    const struct timespec pause = {.tv_sec = 1};
    nanosleep(&pause, NULL);
}

static void print_once(const struct pen_text *text)
{
    struct pen_board *board = NULL;
    bool is_first = kept.launch.rank == 0;
    if (is_first)
        print_to(stderr, text);
    bool is_common = meet(text, &board);
    if (!is_first && is_common && kept.launch.local_rank != 0) {
        (void)pen_board_await_end(board, 0, (int)(1e3 * PATIENCE_SEC));
    } else if (!is_first) {
        if (is_common)
            wait_for_launcher();
        print_named(text);
    }
    pen_board_free(board);
}

/*
 * Prints help on the first rank, and a mistake on all whose mistake is not
 * printed yet.
 */
static void at_exit(int code, void *unused)
{
    (void)unused;
    struct pen_text text = PEN_TEXT_EMPTY;
    if (!kept.is_on)
        return;
    restore();
    read_kept(&text);
    if (code == 0 && kept.launch.rank == 0)
        print_to(stdout, &text);
    else if (code != 0)
        print_once(&text);
    pen_text_release(&text);
}

void pen__once_begin(void)
{
    kept.launch = pen_launch_read_own();
    if (kept.is_on || kept.launch.rank == PEN_LAUNCH_UNKNOWN ||
        kept.launch.size == PEN_LAUNCH_UNKNOWN || kept.launch.size < 2)
        return;
    if (!kept.is_registered && on_exit(at_exit, NULL) != 0)
        return;
    kept.is_registered = true;
    kept.file = memfd_create("penstock", MFD_CLOEXEC);
    if (kept.file < 0)
        return;
    fflush(stdout);
    fflush(stderr);
    kept.out = dup(STDOUT_FILENO);
    kept.err = dup(STDERR_FILENO);
    dup2(kept.file, STDOUT_FILENO);
    dup2(kept.file, STDERR_FILENO);
    kept.is_on = true;
}

void pen__once_end(void)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (!kept.is_on)
        return;
    restore();
    read_kept(&text);
    if (kept.launch.rank == 0)
        print_to(stderr, &text);
    pen_text_release(&text);
}
