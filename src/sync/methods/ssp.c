/*
 * SSP, stale synchronous parallel, on a parameter server (server.h): gradients
 * change the weights as they come,
 *
 *   w <- w - (eta / N) g_i(w as worker i got it)
 *
 * so that a clock of all N workers is one step, and a worker that is more than
 * s clocks ahead of the slowest gets its answer only when the slowest has come
 * near enough. At any time the clocks differ by s + 1 at most.
 *
 * With s = 0 the gradients of a clock are added in the order of members before
 * they change anything: synchronous SGD, whatever the speeds. With an s that is
 * never reached it is ASGD with the rate eta / N.
 */
#include "sync/server.h"

enum { S };

static const struct pen_sync_option options[] = {
    [S] = {"s", 3, 0, 1e9, true, "clocks by which a worker may be ahead"},
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    (void)mean;
    pen_server_cost(of, out);
    out->staleness = of->options[S];
    out->waits_for_slowest = true;
}

static uint64_t allow(void *context, const struct pen_sync *server,
                      uint32_t worker)
{
    (void)context;
    (void)worker;
    return (uint64_t)pen_server_setting(server)->options.at[S];
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    const struct pen_server_rules rules = {
        .scale = 1 / (float)setting->peers->size,
        .is_together = setting->options.at[S] == 0,
        .allow = allow};
    (void)why;
    return pen_server_init(sync, setting, &rules);
}

const struct pen_sync_method pen_sync_ssp = {
    .name = "ssp",
    .title = "asynchronous, at most s steps ahead of the slowest",
    .paper = "Ho et al., More Effective Distributed ML via a Stale Synchronous "
             "Parallel Parameter Server, 2013",
    .is = PEN_SYNC_OWN_STEP | PEN_SYNC_IS_FREE | PEN_SYNC_NEEDS_SGD,
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .init = init,
    PEN_SERVER_HOOKS,
};
