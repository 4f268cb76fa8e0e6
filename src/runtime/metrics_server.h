#ifndef PEN_RUNTIME_METRICS_SERVER_H
#define PEN_RUNTIME_METRICS_SERVER_H

#include "base/status.h"
#include "runtime/metrics.h"

/*
 * Shows the page of a training at http://127.0.0.1:PORT/metrics. A thread of
 * its own answers, at the lowest priority, and never calls MPI.
 *
 * Only this machine can ask, four connections at a time, each for one request
 * of at most 4 KiB and for 2 seconds; what is more is closed. Nothing that is
 * asked changes anything.
 */
struct pen_metrics_server;

/*
 * Port 0 lets the kernel choose. Refused where the port is in use, and with the
 * name of the package when this library was built without libmicrohttpd. On
 * success *out is owned by the caller; free it with pen_metrics_server_free().
 */
pen_status pen_metrics_server_create(uint16_t port,
                                     const struct pen_metrics *metrics,
                                     struct pen_metrics_server **out,
                                     struct pen_text *why);
void pen_metrics_server_free(struct pen_metrics_server *server);

uint16_t pen_metrics_server_port(const struct pen_metrics_server *server);

/*
 * Shows these figures from here on. Never waits: should a reader be copying the
 * older figures right now, they are shown until the next call.
 */
void pen_metrics_server_publish(struct pen_metrics_server *server,
                                const struct pen_metrics *metrics);

#endif
