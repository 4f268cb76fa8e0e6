#include "runtime/metrics.h"

#include "base/bug.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    const char *type;
    const char *help;
} rows[] = {
#define ROW(metric, name, type, help) {"penstock_" name, type, help},
    PEN_METRIC_TABLE(ROW)
#undef ROW
};

static const double bounds_sec[PEN_METRICS_NUM_BOUNDS] = {
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
    0.5,   1,     2,     5,    10,   20,   50,  100};

void pen_metrics_set(struct pen_metrics *metrics, enum pen_metric metric,
                     double value)
{
    PEN_BUG_UNLESS(metric < PEN_NUM_METRICS);
    metrics->values[metric] = value;
    metrics->is_known[metric] = true;
}

void pen_metrics_add_step(struct pen_metrics *metrics, double sec)
{
    size_t bucket = 0;
    while (bucket < PEN_METRICS_NUM_BOUNDS && !(sec <= bounds_sec[bucket]))
        bucket++;
    metrics->step_counts[bucket]++;
    metrics->steps_sec += sec;
    pen_metrics_set(metrics, PEN_METRIC_STEP_SECONDS, sec);
}

/* ---- the page ---- */

static void add_value(struct pen_text *page, double value)
{
    if (isnan(value))
        pen_text_add_string(page, "NaN");
    else if (isinf(value))
        pen_text_add_string(page, value > 0 ? "+Inf" : "-Inf");
    else
        pen_text_add_real(page, value);
    pen_text_add_string(page, "\n");
}

static void add_head(struct pen_text *page, const char *name, const char *type,
                     const char *help)
{
    pen_text_add(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_durations(struct pen_text *page,
                          const struct pen_metrics *metrics)
{
    static const char name[] = "penstock_step_duration_seconds";
    uint64_t count = 0;
    add_head(page, name, "histogram", "Durations of the steps of this run.");
    for (size_t i = 0; i < PEN_METRICS_NUM_BOUNDS; i++) {
        count += metrics->step_counts[i];
        pen_text_add(page, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
                     bounds_sec[i], count);
    }
    count += metrics->step_counts[PEN_METRICS_NUM_BOUNDS];
    pen_text_add(page, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, count);
    pen_text_add(page, "%s_sum ", name);
    add_value(page, metrics->steps_sec);
    pen_text_add(page, "%s_count %" PRIu64 "\n", name, count);
}

void pen_metrics_print(const struct pen_metrics *metrics, struct pen_text *page)
{
    static const char info[] = "penstock_build_info";
    add_head(page, info, "gauge", "The program that trains.");
    pen_text_add(page, "%s{version=\"%s\"} 1\n", info, metrics->version);
    for (size_t i = 0; i < PEN_NUM_METRICS; i++) {
        if (!metrics->is_known[i])
            continue;
        add_head(page, rows[i].name, rows[i].type, rows[i].help);
        pen_text_add(page, "%s ", rows[i].name);
        add_value(page, metrics->values[i]);
    }
    add_durations(page, metrics);
}

/* ---- access ---- */

/* Whether a host, with or without a port, is this machine. */
static bool is_own_host(const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(host, names[i], length) != 0)
            continue;
        const char *rest = host + length;
        if (*rest == '\0' || (*rest == ':' && strspn(rest + 1, "0123456789") ==
                                                  strlen(rest + 1)))
            return true;
    }
    return false;
}

unsigned pen_metrics_judge(const struct pen_metrics_request *request)
{
    if (request->host != NULL && !is_own_host(request->host))
        return 403;
    if (strcmp(request->path, "/metrics") != 0)
        return 404;
    if (strcmp(request->method, "GET") != 0 &&
        strcmp(request->method, "HEAD") != 0)
        return 405;
    return 200;
}
