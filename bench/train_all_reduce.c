/*
 * Sums over ranks: ours (group/sum.h, the fast route) against MPI_Iallreduce()
 * that is polled likewise, in turns; four lanes under way as in a step, or one.
 * Rank 0 prints the medians in ms of a round and ours / theirs.
 *
 *   mpirun -n 4 train_all_reduce [MB of a piece] [rounds]
 */
#include "measure.h"

#include "group/sum.h"
#include "runtime/transport_group.h"

#include <mpi.h>
#include <string.h>

enum { MOST_LANES = 4, PIECES = 8, MOST_ROUNDS = 101 };

struct setting {
    struct pen_transport *transport;
    struct pen_group *group;
    size_t count;
    int num_lanes;
    float *values[MOST_LANES];
    struct pen_sum *ours[MOST_LANES];
    MPI_Comm theirs[MOST_LANES];
    MPI_Request requests[MOST_LANES];
};

static void set_up(struct setting *it, size_t count)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_launch launch = pen_launch_read_own();
    stop_unless(pen_transport_open(&launch, &it->transport, &why) == PEN_OK,
                "no MPI");
    uint32_t size = pen_transport_size(it->transport);
    stop_unless(size > 1 && size <= 256, "2 to 256 ranks are needed");
    const struct pen_transport_group_options all = {
        .transport = it->transport,
        .first = {PEN_TAG_GRADIENT, 0},
        .num_kinds = 1};
    stop_unless(pen_transport_group_all(&all, &it->group) == PEN_OK,
                "no memory");
    it->count = count;
    for (uint32_t i = 0; i < MOST_LANES; i++) {
        const struct pen_sum_options options = {.group = it->group,
                                                .channel = i,
                                                .route = PEN_SUM_FAST,
                                                .most = count};
        stop_unless(pen_sum_create(&options, &it->ours[i]) == PEN_OK,
                    "no memory");
        MPI_Comm_dup(MPI_COMM_WORLD, &it->theirs[i]);
        it->values[i] = calloc(count, sizeof(float));
        stop_unless(it->values[i] != NULL, "no memory");
    }
}

static void tear_down(struct setting *it)
{
    for (int i = 0; i < MOST_LANES; i++) {
        pen_sum_free(it->ours[i]);
        MPI_Comm_free(&it->theirs[i]);
        free(it->values[i]);
    }
    pen_transport_group_free(it->group);
    pen_transport_close(it->transport);
}

static void begin(struct setting *it, int lane, int is_ours)
{
    const struct pen_sum_job job = {
        .way = PEN_SUM_BOTH, .values = it->values[lane], .count = it->count};
    if (is_ours)
        pen_sum_begin(it->ours[lane], &job);
    else
        MPI_Iallreduce(MPI_IN_PLACE, it->values[lane], (int)it->count,
                       MPI_FLOAT, MPI_SUM, it->theirs[lane],
                       &it->requests[lane]);
}

static int is_done(struct setting *it, int lane, int is_ours)
{
    int done = 0;
    if (is_ours)
        return pen_sum_poll(it->ours[lane]) == PEN_OK;
    MPI_Test(&it->requests[lane], &done, MPI_STATUS_IGNORE);
    return done;
}

/* Piece n takes lane n modulo their number, on all ranks. */
static double time_round(struct setting *it, int is_ours)
{
    int is_busy[MOST_LANES] = {0};
    int started = 0, left = PIECES;
    if (pen_transport_meet(it->transport) != PEN_OK)
        abort();
    double begun = now_ms(), idle = begun;
    while (left > 0) {
        int before = left;
        for (int i = 0; i < it->num_lanes; i++)
            if (is_busy[i] && is_done(it, i, is_ours)) {
                is_busy[i] = 0;
                left--;
            }
        while (started < PIECES && !is_busy[started % it->num_lanes]) {
            is_busy[started % it->num_lanes] = 1;
            begin(it, started++ % it->num_lanes, is_ours);
        }
        if (left < before)
            idle = now_ms();
        pen_transport_pause(it->transport, (int64_t)(1e6 * (now_ms() - idle)));
    }
    if (pen_transport_meet(it->transport) != PEN_OK)
        abort();
    return now_ms() - begun;
}

static void compare(struct setting *it, int num_lanes, int num_rounds)
{
    double times[2][MOST_ROUNDS];
    it->num_lanes = num_lanes;
    for (int round = -1; round < num_rounds; round++)
        for (int is_ours = 0; is_ours < 2; is_ours++) {
            double ms = time_round(it, is_ours);
            if (round >= 0)
                times[is_ours][round] = ms;
        }
    if (pen_transport_rank(it->transport) != 0)
        return;
    for (int i = 0; i < 2; i++)
        qsort(times[i], (size_t)num_rounds, sizeof times[i][0], by_size);
    double theirs = times[0][num_rounds / 2], ours = times[1][num_rounds / 2];
    printf("%u ranks, %d pieces of %.3g MB, %d at once: ours %.2f ms, "
           "MPI_Iallreduce %.2f ms, ratio %.3f\n",
           pen_transport_size(it->transport), PIECES, 4e-6 * (double)it->count,
           num_lanes, ours, theirs, ours / theirs);
}

int main(int argc, char **argv)
{
    struct setting setting;
    double megabytes = argc > 1 ? strtod(argv[1], NULL) : 4;
    int num_rounds = argc > 2 ? atoi(argv[2]) : 7;
    memset(&setting, 0, sizeof setting);
    stop_unless(megabytes > 0 && megabytes <= 1000 && num_rounds > 0 &&
                    num_rounds <= MOST_ROUNDS,
                "usage: train_all_reduce [MB of a piece] [rounds]");
    set_up(&setting, (size_t)(megabytes * 1e6 / sizeof(float)));
    compare(&setting, 1, num_rounds);
    compare(&setting, MOST_LANES, num_rounds);
    tear_down(&setting);
    return 0;
}
