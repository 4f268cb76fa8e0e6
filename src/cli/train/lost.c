#include "cli/train/lost.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <time.h>

/* MPI may hear of a death before the watchdog does. */
#define REPORT_NS INT64_C(1000000000)

static bool is_reported(const struct pen_board *board)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    int64_t end = pen_clock_ns() + REPORT_NS;
    while (board != NULL && !pen_board_has_lost(board) && pen_clock_ns() < end)
        nanosleep(&nap, NULL);
    return pen_board_has_lost(board);
}

_Noreturn void pen__end_lost(struct pen_transport *transport,
                             const struct pen_board *board,
                             struct pen_watchdog *watchdog)
{
    uint32_t member = pen_transport_lost(transport);
    if (watchdog != NULL && is_reported(board))
        pen_watchdog_leave(watchdog);
    if (member == PEN_BOARD_NOBODY)
        pen_log(PEN_LOG_ERROR,
                "rank %" PRIu32 " cannot reach another rank any more; the job "
                "ends",
                pen_transport_rank(transport));
    else
        pen_log(PEN_LOG_ERROR,
                "rank %" PRIu32 " cannot reach rank %" PRIu32
                " any more; the job ends",
                pen_transport_rank(transport), member);
    pen_transport_abort(transport, PEN_EXIT_PEER_DIED);
}
