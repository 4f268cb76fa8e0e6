/* Replaces metrics_server.c where this library was built without it. */
#include "runtime/metrics_server.h"

#include "base/bug.h"

#include <stddef.h>

pen_status pen_metrics_server_create(uint16_t port,
                                     const struct pen_metrics *metrics,
                                     struct pen_metrics_server **out,
                                     struct pen_text *why)
{
    (void)metrics;
    (void)out;
    pen_why(why,
            "cannot serve metrics on port %u: penstock was built without "
            "libmicrohttpd; install libmicrohttpd-dev and build again",
            (unsigned)port);
    return PEN_INVALID;
}

/* There is never a server: the rest only has to link. */

void pen_metrics_server_free(struct pen_metrics_server *server)
{
    PEN_BUG_UNLESS(server == NULL);
}

uint16_t pen_metrics_server_port(const struct pen_metrics_server *server)
{
    PEN_BUG_UNLESS(server == NULL);
    return 0;
}

void pen_metrics_server_publish(struct pen_metrics_server *server,
                                const struct pen_metrics *metrics)
{
    (void)metrics;
    PEN_BUG_UNLESS(server == NULL);
}
