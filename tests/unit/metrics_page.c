/*
 * The page of metrics has each figure that is known once, under HELP and TYPE,
 * as the number that it is, and only a request for it gets it.
 */
#include "support/support.h"

#include "runtime/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY                                                                  \
    {                                                                          \
        .version = "1.2.3"                                                     \
    }

static const char *print(const struct pen_metrics *metrics)
{
    static struct pen_text page = PEN_TEXT_EMPTY;
    pen_text_clear(&page);
    pen_metrics_print(metrics, &page);
    assert_false(page.has_failed);
    return pen_text_string(&page);
}

/* What is behind the name at the start of a line; fails without one. */
static const char *value_of(const char *page, const char *name)
{
    static char value[100];
    size_t length = strlen(name);
    for (const char *line = page; *line != '\0';
         line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, length) != 0 || line[length] != ' ')
            continue;
        snprintf(value, sizeof value, "%.*s",
                 (int)strcspn(line + length + 1, "\n"), line + length + 1);
        return value;
    }
    fail_msg("there is no %s in\n%s", name, page);
    return "";
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    struct pen_metrics metrics = EMPTY;
    const char *page = print(&metrics);
    assert_string_equal(
        "1", value_of(page, "penstock_build_info{version=\"1.2.3\"}"));
    assert_string_equal("0",
                        value_of(page, "penstock_step_duration_seconds_count"));
    assert_null(strstr(page, "penstock_loss"));
    assert_null(strstr(page, "penstock_step "));
    pen_metrics_set(&metrics, PEN_METRIC_STEP, 0);
    assert_string_equal("0", value_of(print(&metrics), "penstock_step"));
}

static void numbers_read_back_as_they_are(void **state)
{
    (void)state;
    const double cases[] = {0,      1,    0.1,   1.0 / 3,   6e-4,
                            1e-300, -2.5, 1e300, 123456789, 9007199254740991,
                            5e-324};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_metrics metrics = EMPTY;
        pen_metrics_set(&metrics, PEN_METRIC_LOSS, cases[i]);
        const char *found = value_of(print(&metrics), "penstock_loss");
        if (strtod(found, NULL) != cases[i])
            fail_msg("%s, expected %.17g", found, cases[i]);
    }
}

static void numbers_that_are_none_are_told(void **state)
{
    (void)state;
    struct pen_metrics metrics = EMPTY;
    pen_metrics_set(&metrics, PEN_METRIC_LOSS, (double)NAN);
    pen_metrics_set(&metrics, PEN_METRIC_GRAD_NORM, (double)INFINITY);
    pen_metrics_set(&metrics, PEN_METRIC_LEFT, -(double)INFINITY);
    const char *page = print(&metrics);
    assert_string_equal("NaN", value_of(page, "penstock_loss"));
    assert_string_equal("+Inf", value_of(page, "penstock_grad_norm"));
    assert_string_equal("-Inf", value_of(page, "penstock_left_seconds"));
}

static void durations_are_counted_up_to_each_bound(void **state)
{
    (void)state;
    struct pen_metrics metrics = EMPTY;
    const double all[] = {0.001, 0.0011, 0.3, 0.3, 99, 1000};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pen_metrics_add_step(&metrics, all[i]);
    static const struct {
        const char *bound;
        const char *count;
    } expected[] = {{"0.001", "1"}, {"0.002", "2"}, {"0.2", "2"}, {"0.5", "4"},
                    {"50", "4"},    {"100", "5"},   {"+Inf", "6"}};
    const char *page = print(&metrics);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char name[100];
        snprintf(name, sizeof name,
                 "penstock_step_duration_seconds_bucket{le=\"%s\"}",
                 expected[i].bound);
        assert_string_equal(expected[i].count, value_of(page, name));
    }
    assert_string_equal("6",
                        value_of(page, "penstock_step_duration_seconds_count"));
    expect_close(
        1099.6021,
        strtod(value_of(page, "penstock_step_duration_seconds_sum"), NULL),
        "sum");
    assert_string_equal("1000", value_of(page, "penstock_step_seconds"));
}

/* As promtool wants them: base units, _total for counters alone. */
static void names_follow_the_rules(void **state)
{
    (void)state;
    static const char *const types[] = {
#define TYPE(metric, name, type, help) type,
        PEN_METRIC_TABLE(TYPE)
#undef TYPE
    };
    static const char *const names[] = {
#define NAME(metric, name, type, help) name,
        PEN_METRIC_TABLE(NAME)
#undef NAME
    };
    struct pen_metrics metrics = EMPTY;
    for (size_t i = 0; i < PEN_NUM_METRICS; i++) {
        pen_metrics_set(&metrics, (enum pen_metric)i, 1);
        assert_int_equal(strlen(names[i]),
                         strspn(names[i], "abcdefghijklmnopqrstuvwxyz_"));
        const char *end = strstr(names[i], "_total");
        assert_int_equal(strcmp(types[i], "counter") == 0, end != NULL);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
    }
    const char *page = print(&metrics);
    for (size_t i = 0; i < PEN_NUM_METRICS; i++) {
        char text[100];
        snprintf(text, sizeof text, "# TYPE penstock_%s %s\npenstock_%s 1\n",
                 names[i], types[i], names[i]);
        assert_non_null(strstr(page, text));
        snprintf(text, sizeof text, "# HELP penstock_%s ", names[i]);
        assert_non_null(strstr(page, text));
    }
}

static void only_the_page_is_given_and_only_here(void **state)
{
    (void)state;
    static const struct {
        struct pen_metrics_request request;
        unsigned code;
    } cases[] = {{{"GET", "/metrics", NULL}, 200},
                 {{"HEAD", "/metrics", "127.0.0.1"}, 200},
                 {{"GET", "/metrics", "localhost"}, 200},
                 {{"GET", "/metrics", "127.0.0.1:9400"}, 200},
                 {{"GET", "/metrics", "localhost:9400"}, 200},
                 {{"POST", "/metrics", "localhost"}, 405},
                 {{"PUT", "/metrics", NULL}, 405},
                 {{"get", "/metrics", NULL}, 405},
                 {{"DELETE", "/metrics", NULL}, 405},
                 {{"", "/metrics", NULL}, 405},
                 {{"GET", "/", NULL}, 404},
                 {{"GET", "", NULL}, 404},
                 {{"GET", "/metrics/", NULL}, 404},
                 {{"GET", "/metrics/../etc/passwd", NULL}, 404},
                 {{"POST", "/quit", NULL}, 404},
                 {{"GET", "/metrics", ""}, 403},
                 {{"GET", "/metrics", "evil.example"}, 403},
                 {{"GET", "/metrics", "localhost.evil.example"}, 403},
                 {{"GET", "/metrics", "localhost:80.evil.example"}, 403},
                 {{"GET", "/metrics", "127.0.0.1.evil.example:80"}, 403}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned code = pen_metrics_judge(&cases[i].request);
        if (code != cases[i].code)
            fail_msg("%s %s: %u, expected %u", cases[i].request.method,
                     cases[i].request.path, code, cases[i].code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(numbers_read_back_as_they_are),
        cmocka_unit_test(numbers_that_are_none_are_told),
        cmocka_unit_test(durations_are_counted_up_to_each_bound),
        cmocka_unit_test(names_follow_the_rules),
        cmocka_unit_test(only_the_page_is_given_and_only_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
