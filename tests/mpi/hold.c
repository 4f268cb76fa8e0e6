/*
 * A holder for tests, and what a supervisor would ask of it. Reads lines from
 * stdin and answers each with one on stdout:
 *
 *   mpi_hold SOCKET
 *
 *   epoch N    tells the next epoch
 *   wait N     waits until a rank has committed step N or a later one,
 *              or one is gone
 *   table      epochs, ranks and steps of all shards
 *   end N      waits until N ranks are gone
 *
 * The holder ends with this process.
 */
#include "holder/holder.h"

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MSEC = 120000 };

static int fail(const char *what, const struct pen_text *why)
{
    fprintf(stderr, "mpi_hold: %s: %s\n", what, pen_text_string(why));
    return 1;
}

/* False when none comes in time. */
static bool next_event(struct pen_holder *holder,
                       struct pen_holder_message *event)
{
    struct pollfd wait = {.fd = holder->events, .events = POLLIN};
    return poll(&wait, 1, LIMIT_MSEC) == 1 &&
           pen_holder_next_event(holder, event) == PEN_OK;
}

static void await_step(struct pen_holder *holder, uint64_t step)
{
    struct pen_holder_message event;
    while (next_event(holder, &event)) {
        if (event.kind == PEN_HOLDER_COMMITTED && event.step >= step) {
            printf("%" PRIu64 "\n", event.step);
            return;
        }
        if (event.kind == PEN_HOLDER_GONE || event.kind == PEN_HOLDER_LEFT)
            break;
    }
    printf("none\n");
}

static void await_ends(struct pen_holder *holder, uint64_t count)
{
    struct pen_holder_message event;
    uint64_t gone = 0;
    uint64_t left = 0;
    while (gone + left < count && next_event(holder, &event)) {
        gone += event.kind == PEN_HOLDER_GONE;
        left += event.kind == PEN_HOLDER_LEFT;
    }
    printf("%" PRIu64 " gone, %" PRIu64 " left\n", gone, left);
}

static void print_table(struct pen_holder *holder)
{
    struct pen_holder_message entry = {.count = 1};
    for (uint32_t i = 0; i < entry.count; i++)
        if (pen_holder_entry(holder, i, &entry, NULL) == PEN_OK &&
            i < entry.count)
            printf("epoch %" PRIu64 " rank %" PRIu32 " of %" PRIu32 ": %" PRIu64
                   " %" PRIu64 "; ",
                   entry.epoch, entry.rank, entry.num_ranks, entry.steps[0],
                   entry.steps[1]);
    printf("\n");
}

static bool answer(struct pen_holder *holder, const char *line,
                   struct pen_text *why)
{
    uint64_t number = 0;
    if (sscanf(line, "epoch %" SCNu64, &number) == 1) {
        if (pen_holder_set_epoch(holder, number, why) != PEN_OK)
            return false;
        struct pen_holder_message old;
        while (pen_holder_next_event(holder, &old) == PEN_OK)
            continue;
        printf("epoch %" PRIu64 "\n", number);
    } else if (sscanf(line, "wait %" SCNu64, &number) == 1) {
        await_step(holder, number);
    } else if (sscanf(line, "end %" SCNu64, &number) == 1) {
        await_ends(holder, number);
    } else {
        print_table(holder);
    }
    return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    struct pen_holder holder = PEN_HOLDER_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    char line[256];
    if (argc != 2)
        return 2;
    if (pen_holder_start(argv[1], 1, &holder, &why) != PEN_OK)
        return fail("starting", &why);
    printf("holding\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL)
        if (!answer(&holder, line, &why))
            return fail(line, &why);
    pen_holder_stop(&holder);
    pen_text_release(&why);
    return 0;
}
