/*
 * Ranks in a ring that pass a token with MPI, a board and a watchdog beside
 * them; one of them stops, dies or leaves with an error.
 *
 *   ring RANK STEP none|stop|kill|exit
 *
 * It goes through rows of a schedule, so the reports name ops.
 */
#include "schedule/costs.h"
#include "schedule/generators.h"
#include "watch/launch.h"
#include "watch/watchdog.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Every row has so many ops, and more. */
enum { STEPS = 50, OPS = 8, OP_USEC = 200 };

struct ring {
    int rank;
    int size;
    int victim;
    int step_of_accident;
    const char *accident;
    struct pen_board *board;
};

/* Tells the time of day first, for the script that waits for the end. */
static void suffer(const struct ring *ring)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (strcmp(ring->accident, "none") != 0)
        printf("accident at %lld.%03ld\n", (long long)now.tv_sec,
               now.tv_nsec / 1000000);
    fflush(stdout);
    if (strcmp(ring->accident, "stop") == 0)
        raise(SIGSTOP);
    else if (strcmp(ring->accident, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(ring->accident, "exit") == 0)
        _exit(3);
}

/* In every op each rank hands something to the next. */
static void take_step(const struct ring *ring, int step)
{
    uint32_t before = (uint32_t)((ring->rank + ring->size - 1) % ring->size);
    int after = (ring->rank + 1) % ring->size;
    int in = 0;
    for (uint32_t i = 0; i < OPS; i++) {
        pen_board_note(ring->board, (uint64_t)step, i, PEN_BOARD_COMPUTING,
                       PEN_BOARD_NOBODY);
        if (ring->rank == ring->victim && step == ring->step_of_accident &&
            i == OPS / 2)
            suffer(ring);
        usleep(OP_USEC);
        pen_board_note(ring->board, (uint64_t)step, i, PEN_BOARD_WAITING,
                       before);
        MPI_Sendrecv(&step, 1, MPI_INT, after, 0, &in, 1, MPI_INT, (int)before,
                     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    pen_board_note(ring->board, (uint64_t)step, PEN_BOARD_NO_OP,
                   PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The same for all ranks of one start, and for no other. */
static void agree_on_job(char *job, int size)
{
    snprintf(job, (size_t)size, "ring-%d-%.6f", (int)getpid(), MPI_Wtime());
    MPI_Bcast(job, size, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static int refuse(const struct pen_text *why)
{
    fprintf(stderr, "%s\n", pen_text_string(why));
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}

int main(int argc, char **argv)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_watchdog *watchdog = NULL;
    char job[64];
    char host[MPI_MAX_PROCESSOR_NAME];
    int length;
    const struct pen_launch launch = pen_launch_read_own();
    MPI_Init(&argc, &argv);
    if (argc != 4)
        return 2;
    struct ring ring = {.victim = atoi(argv[1]),
                        .step_of_accident = atoi(argv[2]),
                        .accident = argv[3]};
    MPI_Comm_rank(MPI_COMM_WORLD, &ring.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ring.size);
    MPI_Get_processor_name(host, &length);
    agree_on_job(job, sizeof job);
    struct pen_costs costs;
    pen_costs_init(&costs);
    const struct pen_generator_args args = {
        .ranks = (uint32_t)ring.size, .microbatches = 4, .costs = &costs};
    if (pen_generator_make(pen_generator_find("gpipe"), &args, &schedule,
                           &why) != PEN_OK)
        return refuse(&why);
    const struct pen_board_options place = {.job = job,
                                            .host = host,
                                            .rank = (uint32_t)ring.rank,
                                            .local_rank = (uint32_t)ring.rank,
                                            .num_local = (uint32_t)ring.size,
                                            .deadline_sec = 20,
                                            .socket = launch.socket};
    if (pen_board_create(&place, &ring.board, &why) != PEN_OK)
        return refuse(&why);
    const struct pen_watchdog_options options = {
        .board = ring.board,
        .schedule = schedule,
        .num_ranks = (uint32_t)ring.size,
        .hang_timeout_sec = PEN_HANG_TIMEOUT_DEFAULT};
    if (pen_watchdog_create(&options, &watchdog, &why) != PEN_OK)
        return refuse(&why);
    for (int step = 0; step < STEPS; step++) {
        double begin = MPI_Wtime();
        take_step(&ring, step);
        pen_watchdog_add_step(watchdog, MPI_Wtime() - begin);
    }
    pen_board_note(ring.board, STEPS, PEN_BOARD_NO_OP, PEN_BOARD_FINISHED,
                   PEN_BOARD_NOBODY);
    pen_watchdog_free(watchdog);
    pen_board_free(ring.board);
    pen_schedule_free(schedule);
    MPI_Finalize();
    return 0;
}
