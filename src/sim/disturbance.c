#include "sim/disturbance.h"

#include "base/random.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

#define MAX_RANK 10000000u /* devices that a cluster may have */
#define MIN_FACTOR 1e-3
#define MAX_FACTOR 1e6
#define MAX_SECONDS 1e9
#define MAX_BYTES 1e15
#define MAX_DEVIATIONS 3.0
#define LEAST_SHARE 0.05 /* of its seconds that jitter leaves an operation */

/* ---- words ---- */

static pen_status refuse(struct pen_text *why, const char *text,
                         const char *what, const char *example)
{
    pen_why(why, "'%s' %s, as in %s", text, what, example);
    return PEN_INVALID;
}

static pen_status refuse_more(struct pen_text *why, const char *what)
{
    pen_why(why, "there are more than %u %s", PEN_DISTURBANCES_MAX, what);
    return PEN_INVALID;
}

/* Reads a rank without leading zeros, and moves past it. */
static bool read_rank(const char **at, uint32_t *out)
{
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 8 || (digits > 1 && **at == '0'))
        return false;
    uint32_t rank = 0;
    for (size_t i = 0; i < digits; i++)
        rank = rank * 10 + (uint32_t)((*at)[i] - '0');
    *at += digits;
    *out = rank;
    return rank < MAX_RANK;
}

/* Reads a number and nothing else: no unit. */
static bool read_factor(const char *text, double *out)
{
    double factor;
    if (text[strspn(text, "0123456789.eE+-")] != '\0' ||
        !pen_unit_parse(PEN_UNIT_SECONDS, text, &factor))
        return false;
    *out = factor;
    return factor >= MIN_FACTOR && factor <= MAX_FACTOR;
}

/* Moves to the last `end`; what is before it is a name of a host or link. */
static bool read_name(const char **at, char end, char name[64])
{
    const char *behind = strrchr(*at, end);
    size_t length = behind == NULL ? 0 : (size_t)(behind - *at);
    if (length == 0 || length >= 64)
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((*at)[i] <= ' ' || (*at)[i] > '~')
            return false;
    }
    memcpy(name, *at, length);
    name[length] = '\0';
    *at = behind;
    return true;
}

pen_status pen_disturbances_add_slow_rank(struct pen_disturbances *to,
                                          const char *text,
                                          struct pen_text *why)
{
    static const char example[] = "17=2.0";
    struct pen_slow_rank slow;
    const char *at = text;
    if (!read_rank(&at, &slow.rank) || *at != '=')
        return refuse(why, text, "must be a rank and a factor", example);
    if (!read_factor(at + 1, &slow.factor))
        return refuse(why, text, "must have a factor from 0.001 to 1000000",
                      example);
    if (to->num_slow_ranks == PEN_DISTURBANCES_MAX)
        return refuse_more(why, "slow ranks");
    to->slow_ranks[to->num_slow_ranks++] = slow;
    return PEN_OK;
}

pen_status pen_disturbances_add_slow_link(struct pen_disturbances *to,
                                          const char *text,
                                          struct pen_text *why)
{
    static const char example[] = "rank-17.network=4";
    struct pen_slow_link slow;
    const char *at = text;
    if (!read_name(&at, '=', slow.name))
        return refuse(why, text, "must be a link and a factor", example);
    if (!read_factor(at + 1, &slow.factor))
        return refuse(why, text, "must have a factor from 0.001 to 1000000",
                      example);
    if (to->num_slow_links == PEN_DISTURBANCES_MAX)
        return refuse_more(why, "slow links");
    to->slow_links[to->num_slow_links++] = slow;
    return PEN_OK;
}

pen_status pen_disturbances_add_failure(struct pen_disturbances *to,
                                        const char *text, struct pen_text *why)
{
    static const char example[] = "rank-3@0.25";
    struct pen_failure failure;
    const char *at = text;
    if (!read_name(&at, '@', failure.name))
        return refuse(why, text,
                      "must be a host or link and the second of its failure",
                      example);
    if (!pen_unit_parse(PEN_UNIT_SECONDS, at + 1, &failure.at_sec) ||
        failure.at_sec > MAX_SECONDS)
        return refuse(why, text, "must have a time from 0 to 1e9 seconds",
                      example);
    if (to->num_failures == PEN_DISTURBANCES_MAX)
        return refuse_more(why, "failures");
    to->failures[to->num_failures++] = failure;
    return PEN_OK;
}

pen_status pen_disturbances_add_background(struct pen_disturbances *to,
                                           const char *text,
                                           struct pen_text *why)
{
    static const char example[] = "1-9:1MB";
    struct pen_background traffic;
    const char *at = text;
    if (!read_rank(&at, &traffic.from) || *at++ != '-' ||
        !read_rank(&at, &traffic.to) || *at != ':')
        return refuse(why, text, "must be two ranks and the size of a message",
                      example);
    if (traffic.from == traffic.to)
        return refuse(why, text, "must be two different ranks", example);
    if (!pen_unit_parse(PEN_UNIT_BYTES, at + 1, &traffic.bytes) ||
        traffic.bytes < 1 || traffic.bytes > MAX_BYTES)
        return refuse(why, text, "must have messages of 1 to 1e15 bytes",
                      example);
    if (to->num_background == PEN_DISTURBANCES_MAX)
        return refuse_more(why, "pairs with background traffic");
    to->background[to->num_background++] = traffic;
    return PEN_OK;
}

/* ---- factors ---- */

bool pen_disturbances_are_none(const struct pen_disturbances *all)
{
    return all->num_slow_ranks == 0 && all->num_slow_links == 0 &&
           all->num_failures == 0 && all->num_background == 0 &&
           all->jitter == 0;
}

/*
 * Returns a normal number that depends on these three values only, and not on
 * the order of calls.
 */
static double deviation(uint64_t seed, uint32_t rank, uint64_t number)
{
    struct pen_random random = {seed};
    random.state = pen_random_next(&random) + rank;
    random.state = pen_random_next(&random) + number;
    double pair[2];
    pen_random_normals(&random, pair);
    return fmax(-MAX_DEVIATIONS, fmin(MAX_DEVIATIONS, pair[0]));
}

double pen_disturbances_factor(const struct pen_disturbances *all,
                               uint32_t rank, uint64_t number)
{
    double factor = 1;
    if (all->jitter != 0)
        factor = fmax(LEAST_SHARE,
                      1 + all->jitter * deviation(all->seed, rank, number));
    for (uint32_t i = 0; i < all->num_slow_ranks; i++) {
        if (all->slow_ranks[i].rank == rank)
            factor *= all->slow_ranks[i].factor;
    }
    return factor;
}
