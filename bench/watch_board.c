/*
 * What a rank pays for telling where it stands: nanoseconds per
 * pen_board_note(). One line: best and median of the rounds.
 */
#include "measure.h"

#include "watch/board.h"

#include <unistd.h>

enum { ROUNDS = 101, NOTES = 100000 };

int main(void)
{
    char job[64];
    double nanoseconds[ROUNDS];
    struct pen_board *board = NULL;
    snprintf(job, sizeof job, "bench-%d", (int)getpid());
    const struct pen_board_options options = {
        .job = job, .host = "localhost", .num_local = 1, .deadline_sec = 1};
    stop_unless(pen_board_create(&options, &board, NULL) == PEN_OK,
                "there is no board");
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ms();
        for (uint32_t i = 0; i < NOTES; i++)
            pen_board_note(board, 1, i, PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY);
        nanoseconds[round] = 1e6 * (now_ms() - begin) / NOTES;
    }
    qsort(nanoseconds, ROUNDS, sizeof *nanoseconds, by_size);
    printf("note\tbest %.1f ns\tmedian %.1f ns\n", nanoseconds[0],
           nanoseconds[ROUNDS / 2]);
    pen_board_free(board);
    return 0;
}
