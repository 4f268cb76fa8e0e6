/*
 * ASGD, asynchronous SGD on a parameter server (server.h): a worker's gradient
 * changes the weights when it arrives, regardless of the other workers,
 *
 *   w <- w - eta g_i(w as worker i got it)
 *
 * with the momentum of the run, if it has one, kept by the server. No worker
 * waits for another; how old a gradient is depends on their speeds.
 *
 * With one worker it is SGD.
 */
#include "sync/server.h"

#include <math.h>

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    (void)mean;
    pen_server_cost(of, out);
    out->staleness = INFINITY;
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    const struct pen_server_rules rules = {.scale = 1};
    (void)why;
    return pen_server_init(sync, setting, &rules);
}

const struct pen_sync_method pen_sync_asgd = {
    .name = "asgd",
    .title = "gradients update a sharded server's weights on arrival",
    .paper = "Dean et al., Large Scale Distributed Deep Networks, 2012",
    .is = PEN_SYNC_OWN_STEP | PEN_SYNC_IS_FREE | PEN_SYNC_NEEDS_SGD,
    .interval = 1,
    .cost = cost,
    .init = init,
    PEN_SERVER_HOOKS,
};
