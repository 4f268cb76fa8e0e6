#ifndef PEN_CLI_SCHEDULE_H
#define PEN_CLI_SCHEDULE_H

#include "cli/program/cli.h"
#include "cli/program/line.h"
#include "schedule/costs.h"
#include "schedule/generators.h"
#include "schedule/schedule.h"
#include "schedule/time.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * `penstock schedule COMMAND`: one file per command, one table of commands
 * (schedule.c), one table of options (args.c).
 */
enum pen__schedule_verb {
    PEN__LIST = 1 << 0,
    PEN__MAKE = 1 << 1,
    PEN__SEARCH = 1 << 2,
    PEN__CHECK = 1 << 3,
    PEN__TIME = 1 << 4,
    PEN__DRAW = 1 << 5,
    PEN__COMPARE = 1 << 6,
    PEN__CONVERT = 1 << 7
};

/* Options not given are 0, NULL or false; costs are always there. */
struct pen__schedule_args {
    uint32_t stages;
    uint32_t microbatches;
    uint32_t chunks;
    uint32_t slices;
    uint32_t batches;
    uint32_t group_size;
    uint32_t send_window;
    uint32_t seed;
    double memory_limit;
    double seconds;
    const char *placement;
    const char *replicas_text;
    const char *costs_text;
    const char *memory_text;
    const char *output;
    uint32_t replicas[PEN_MAX_REPLICATED]; /* of replicas_text */
    uint32_t num_replicated;
    bool has_vertical_sync;
    bool recomputes;
    bool has_all_ranks;
    bool is_forced;
    struct pen__rest words; /* the words other than options */
    enum pen__schedule_verb verb;
    struct pen_costs costs; /* of costs_text and memory_text */
    bool has_memory;        /* one of them names the memory of the ops */
};

/* Lists the options of a command; returns how many there are. */
size_t pen__schedule_fields(enum pen__schedule_verb verb,
                            struct pen__field out[PEN__FIELDS_MAX]);

/* Checks after the last word which options are missing, and reads the costs. */
void pen__schedule_check_args(void *args, const struct argp_state *state);

/* Returns --costs as given, or the default in the same form. */
const char *pen__costs_words(const struct pen__schedule_args *args);

/*
 * Returns the generator of this name. When there is none, an error suggests the
 * nearest name and NULL is returned.
 */
const struct pen_generator *pen__find_generator(const char *name);

/*
 * Generates, lowers and verifies. Options that mean nothing to this generator
 * are kept from it. On failure (it refuses, its schedule is wrong, or a rank
 * holds more than `limit`, 0 for none) *out is untouched.
 */
pen_status pen__make_verified(const struct pen__schedule_args *args,
                              const struct pen_generator *generator,
                              double limit, struct pen_schedule **out,
                              struct pen_text *why);

/* Loads and, when it has neither sends nor receives, lowers a schedule. */
pen_status pen__load_lowered(const char *path, struct pen_schedule **out,
                             struct pen_text *why);

/* Says on stderr that sends and receives were added to a file's schedule. */
void pen__report_lowered(const char *path);

/* Says on stderr that the schedule was written, unless to stdout. */
void pen__report_written(const struct pen_schedule *schedule, const char *path);

/* The figures of a line about a timed schedule. */
struct pen__summary {
    uint32_t fullest; /* rank that holds the most activations */
    double peak;      /* of that rank, in A */
    uint32_t versions;
};

struct pen__summary pen__summarise(const struct pen_timing *timing);

/*
 * Makes the JSON of makespan, span, bubble, peak, versions and the array of
 * ranks.
 */
json_t *pen__timing_json(const struct pen_timing *timing);

int pen__schedule_list(const struct pen__schedule_args *args);
int pen__schedule_make(const struct pen__schedule_args *args);
int pen__schedule_search(const struct pen__schedule_args *args);
int pen__schedule_check(const struct pen__schedule_args *args);
int pen__schedule_time(const struct pen__schedule_args *args);
int pen__schedule_draw(const struct pen__schedule_args *args);
int pen__schedule_compare(const struct pen__schedule_args *args);
int pen__schedule_convert(const struct pen__schedule_args *args);

#endif
