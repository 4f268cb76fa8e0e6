/*
 * DSSP, dynamic stale synchronous parallel: as ssp.c, with a bound between
 * s_low and s_high. When the fastest worker is more than s_low clocks ahead,
 * the server chooses how many more, r in 0..s_high - s_low, it may take before
 * it waits: with the last times between pushes, I_f of the fastest and I_s of
 * the slowest, the r for which
 *
 *   wait(r) = time from now + r I_f to the next push of the slowest,
 *             which come at (its last) + I_s, + 2 I_s, ...
 *
 * is least. No worker that is more than s_high ahead gets an answer, so that at
 * any time the clocks differ by s_high + 1 at most. Published: bounds about 3
 * and 15.
 *
 * With s_low = s_high it is SSP.
 */
#include "sync/server.h"

#include "base/clock.h"

#include <stdlib.h>

enum { LOW, HIGH };

static const struct pen_sync_option options[] = {
    [LOW] = {"s_low", 3, 0, 1e9, true,
             "clocks by which a worker may always be ahead"},
    [HIGH] = {"s_high", 15, 0, 1e9, true, "largest number of clocks ahead"},
};

/* The pace of a worker, as a server knows it. */
struct pace {
    int64_t last_ns; /* time of its last push; 0: none */
    int64_t between_ns;
    uint64_t granted; /* pushes beyond the lower bound */
};

struct paces {
    uint64_t low;
    uint64_t high;
    struct pace of[];
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    (void)mean;
    pen_server_cost(of, out);
    out->staleness = of->options[HIGH];
    out->waits_for_slowest = true;
}

static uint32_t slowest_of(const struct pen_sync *server)
{
    uint64_t slowest = pen_server_slowest(server);
    uint32_t worker = 0;
    while (pen_server_clock(server, worker) != slowest)
        worker++;
    return worker;
}

/* Returns the time from `at` to the next push of a worker. */
static int64_t until_push(const struct pace *pace, int64_t at)
{
    int64_t late = (at - pace->last_ns) % pace->between_ns;
    return late == 0 ? 0 : pace->between_ns - late;
}

/* Chooses r: among equal waits the smallest. */
static uint64_t choose(const struct paces *paces, const struct pace *fast,
                       const struct pace *slow)
{
    uint64_t best = 0;
    int64_t least = INT64_MAX;
    if (fast->between_ns <= 0 || slow->between_ns <= 0)
        return 0;
    for (uint64_t r = 0; r <= paces->high - paces->low && r < 1000; r++) {
        int64_t wait =
            until_push(slow, fast->last_ns + (int64_t)r * fast->between_ns);
        if (wait < least) {
            least = wait;
            best = r;
        }
    }
    return best;
}

static void note_push(struct pace *pace)
{
    int64_t now = pen_clock_ns();
    pace->between_ns = pace->last_ns == 0 ? 0 : now - pace->last_ns;
    pace->last_ns = now;
}

static uint64_t allow(void *context, const struct pen_sync *server,
                      uint32_t worker)
{
    struct paces *paces = context;
    struct pace *pace = &paces->of[worker];
    uint64_t clock = pen_server_clock(server, worker);
    note_push(pace);
    if (clock - pen_server_slowest(server) <= paces->low) {
        pace->granted = 0;
        return paces->low;
    }
    if (pace->granted == 0 && clock == pen_server_fastest(server))
        pace->granted = choose(paces, pace, &paces->of[slowest_of(server)]);
    if (pace->granted == 0)
        return paces->low;
    pace->granted--;
    return paces->high;
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    const double *option = setting->options.at;
    uint32_t size = setting->peers->size;
    if (option[LOW] > option[HIGH]) {
        pen_why(why, "dssp: s_low %g is above s_high %g", option[LOW],
                option[HIGH]);
        return PEN_INVALID;
    }
    size_t bytes = sizeof(struct paces) + size * sizeof(struct pace);
    struct paces *paces = calloc(1, bytes);
    if (paces == NULL)
        return PEN_NOMEM;
    paces->low = (uint64_t)option[LOW];
    paces->high = (uint64_t)option[HIGH];
    const struct pen_server_rules rules = {.scale = 1 / (float)size,
                                           .is_together = option[HIGH] == 0,
                                           .allow = allow,
                                           .context = paces,
                                           .context_bytes = bytes};
    return pen_server_init(sync, setting, &rules);
}

const struct pen_sync_method pen_sync_dssp = {
    .name = "dssp",
    .title = "the same with a bound that follows the speeds",
    .paper = "Zhao et al., Dynamic Stale Synchronous Parallel Distributed "
             "Training for Deep Learning, 2019, arXiv:1908.11848",
    .is = PEN_SYNC_OWN_STEP | PEN_SYNC_IS_FREE | PEN_SYNC_NEEDS_SGD,
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .init = init,
    PEN_SERVER_HOOKS,
};
