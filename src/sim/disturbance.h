#ifndef PEN_SIM_DISTURBANCE_H
#define PEN_SIM_DISTURBANCE_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Everything that may go wrong in a simulated cluster. The options and the seed
 * decide all of it: the same ones give the same run.
 */

/* Its operations take `factor` times as long. */
struct pen_slow_rank {
    uint32_t rank;
    double factor;
};

/* Links of this name, or of a rank, have 1/factor of the bandwidth. */
struct pen_slow_link {
    char name[64]; /* "rank-17.network", "rank-17" for all of them */
    double factor;
};

/*
 * A host or a link that fails at some time. Ranks are not notified: those on
 * the host stop, and messages that start on the link later do not arrive.
 */
struct pen_failure {
    char name[64]; /* "rank-17" the host, "rank-17.network" the link */
    double at_sec;
};

/*
 * Messages of another job, one after the other without a pause, until something
 * fails.
 */
struct pen_background {
    uint32_t from;
    uint32_t to;
    double bytes; /* of one message */
};

#define PEN_DISTURBANCES_MAX 256u

struct pen_disturbances {
    struct pen_slow_rank slow_ranks[PEN_DISTURBANCES_MAX];
    uint32_t num_slow_ranks;
    struct pen_slow_link slow_links[PEN_DISTURBANCES_MAX];
    uint32_t num_slow_links;
    struct pen_failure failures[PEN_DISTURBANCES_MAX];
    uint32_t num_failures;
    struct pen_background background[PEN_DISTURBANCES_MAX];
    uint32_t num_background;
    double jitter; /* share by which each operation varies, one deviation */
    uint64_t seed;
};

/*
 * Parse a user's option: "17=2.0", "rank-17.network=4", "rank-3@0.25",
 * "1-9:1MB". Each adds one disturbance.
 */
pen_status pen_disturbances_add_slow_rank(struct pen_disturbances *to,
                                          const char *text,
                                          struct pen_text *why);
pen_status pen_disturbances_add_slow_link(struct pen_disturbances *to,
                                          const char *text,
                                          struct pen_text *why);
pen_status pen_disturbances_add_failure(struct pen_disturbances *to,
                                        const char *text, struct pen_text *why);
pen_status pen_disturbances_add_background(struct pen_disturbances *to,
                                           const char *text,
                                           struct pen_text *why);

bool pen_disturbances_are_none(const struct pen_disturbances *all);

/* Returns the factor for the seconds of the number-th operation of a rank. */
double pen_disturbances_factor(const struct pen_disturbances *all,
                               uint32_t rank, uint64_t number);

/*
 * Returns whether a link between two ranks has failed by now. Sums of single
 * numbers over all ranks do not call this.
 */
bool pen_disturbances_cut(const struct pen_disturbances *all, uint32_t from,
                          uint32_t to);

/*
 * Slows links down, and starts what fails things and sends in the background.
 * The platform is made; the simulation has not begun. INVALID when a name is
 * not there.
 */
pen_status pen_disturbances_start(const struct pen_disturbances *all,
                                  struct pen_text *why);

#endif
