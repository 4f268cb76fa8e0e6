/*
 * Not a test: makes traces whose cause is known, for tests/cli/view.sh.
 *
 *   trace_files [-r] DIR SCHEDULE STEPS PREDICTED|none TRUTH...
 *
 * There is one truth per replica; -r: ranks are numbered replica by replica.
 */
#include "support/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_REPLICAS 128

static void stop_unless(pen_status status, const struct pen_text *why)
{
    if (status == PEN_OK)
        return;
    fprintf(stderr, "trace_files: %s\n", pen_text_string(why));
    exit(1);
}

int main(int argc, char **argv)
{
    bool is_by_replica = argc > 1 && strcmp(argv[1], "-r") == 0;
    argc -= is_by_replica;
    argv += is_by_replica;
    if (argc < 6 || argc > 5 + MOST_REPLICAS) {
        fprintf(stderr, "usage: trace_files [-r] DIR SCHEDULE STEPS "
                        "PREDICTED|none TRUTH...\n");
        return 2;
    }
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_costs predicted;
    struct pen_costs truth[MOST_REPLICAS];
    struct synthetic synthetic = {.truth = truth,
                                  .num_replicas = (uint32_t)argc - 5,
                                  .num_steps = (uint32_t)atoi(argv[3]),
                                  .is_by_replica = is_by_replica};
    stop_unless(pen_schedule_load(argv[2], &schedule, &why), &why);
    synthetic.schedule = schedule;
    pen_costs_init(&predicted);
    if (strcmp(argv[4], "none") != 0) {
        stop_unless(pen_costs_read(argv[4], &predicted, &why), &why);
        synthetic.predicted = &predicted;
    }
    for (int i = 5; i < argc; i++) {
        pen_costs_init(&truth[i - 5]);
        stop_unless(pen_costs_read(argv[i], &truth[i - 5], &why), &why);
    }
    stop_unless(write_synthetic(&synthetic, argv[1], &why), &why);
    for (int i = 5; i < argc; i++)
        pen_costs_release(&truth[i - 5]);
    pen_costs_release(&predicted);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return 0;
}
