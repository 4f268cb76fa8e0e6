/*
 * Readers get whole pages while the training goes on: each has the figures of
 * one step, of none before the last that this reader saw. More readers than are
 * allowed are sent away, and the port of another is refused.
 */
#include "support/support.h"

#include "runtime/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NUM_READERS = 4, NUM_PAGES = 25, PAGE_SIZE = 16384 };

static const char plain_request[] =
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* NULL when the library was built without libmicrohttpd, which it must say. */
static struct pen_metrics_server *create(const struct pen_metrics *metrics)
{
    struct pen_metrics_server *server = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_metrics_server_create(0, metrics, &server, &why) != PEN_OK) {
        print_message("%s\n", pen_text_string(&why));
        assert_non_null(strstr(pen_text_string(&why), "libmicrohttpd-dev"));
    }
    pen_text_release(&why);
    return server;
}

static int dial(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int it = socket(AF_INET, SOCK_STREAM, 0);
    if (it < 0 ||
        connect(it, (const struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return it;
}

/* All that comes until the other side closes; ends in NUL. */
static void receive_all(int from, char page[PAGE_SIZE])
{
    size_t length = 0;
    ssize_t count;
    while ((count = recv(from, page + length, PAGE_SIZE - 1 - length, 0)) > 0)
        length += (size_t)count;
    page[length] = '\0';
}

static void ask(uint16_t port, const char *request, char page[PAGE_SIZE])
{
    int it = dial(port);
    (void)send(it, request, strlen(request), MSG_NOSIGNAL);
    receive_all(it, page);
    close(it);
}

static double value_of(const char *page, const char *name)
{
    char line[100];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(page, line);
    return found == NULL ? -1 : strtod(found + strlen(line), NULL);
}

struct reader {
    pthread_t thread;
    uint16_t port;
    atomic_int *num_done;
    const char *complaint; /* NULL: none */
    char page[PAGE_SIZE];
};

static void *read_pages(void *context)
{
    struct reader *reader = context;
    double last = 0;
    for (int i = 0; (i < NUM_PAGES || last < 1) && reader->complaint == NULL;
         i++) {
        ask(reader->port, plain_request, reader->page);
        double step = value_of(reader->page, "penstock_step");
        if (strncmp(reader->page, "HTTP/1.1 200 ", 13) != 0)
            reader->complaint = "no page";
        else if (value_of(reader->page, "penstock_loss") != step ||
                 value_of(reader->page, "penstock_tokens_total") != step ||
                 value_of(reader->page,
                          "penstock_step_duration_seconds_count") != step)
            reader->complaint = "figures of different steps";
        else if (step < last)
            reader->complaint = "time goes back";
        last = step;
    }
    atomic_fetch_add(reader->num_done, 1);
    return NULL;
}

static void each_page_is_of_one_step(void **state)
{
    (void)state;
    struct pen_metrics metrics = {.version = "1"};
    static struct reader readers[NUM_READERS];
    atomic_int num_done = 0;
    uint64_t step = 0;
    pen_metrics_set(&metrics, PEN_METRIC_STEP, 0);
    pen_metrics_set(&metrics, PEN_METRIC_LOSS, 0);
    pen_metrics_set(&metrics, PEN_METRIC_TOKENS, 0);
    struct pen_metrics_server *server = create(&metrics);
    if (server == NULL)
        skip();
    for (size_t i = 0; i < NUM_READERS; i++) {
        readers[i] = (struct reader){.port = pen_metrics_server_port(server),
                                     .num_done = &num_done};
        assert_int_equal(0, pthread_create(&readers[i].thread, NULL, read_pages,
                                           &readers[i]));
    }
    while (atomic_load(&num_done) < NUM_READERS) {
        step++;
        pen_metrics_set(&metrics, PEN_METRIC_STEP, (double)step);
        pen_metrics_set(&metrics, PEN_METRIC_LOSS, (double)step);
        pen_metrics_set(&metrics, PEN_METRIC_TOKENS, (double)step);
        pen_metrics_add_step(&metrics, 0.5);
        pen_metrics_server_publish(server, &metrics);
    }
    for (size_t i = 0; i < NUM_READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        if (readers[i].complaint != NULL)
            fail_msg("reader %zu: %s\n%s", i, readers[i].complaint,
                     readers[i].page);
        assert_true(value_of(readers[i].page, "penstock_step") > 0);
    }
    pen_metrics_server_free(server);
}

static void what_is_asked_wrongly_gets_no_page(void **state)
{
    (void)state;
    static char page[PAGE_SIZE];
    static const struct {
        const char *request;
        const char *code;
    } cases[] = {
        {"POST /metrics HTTP/1.1\r\nHost: localhost\r\n"
         "Content-Length: 5\r\n\r\nhello",
         " 405 "},
        {"DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", " 405 "},
        {"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n", " 404 "},
        {"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", " 403 "},
        {"GET /metrics?a=b HTTP/1.0\r\n\r\n", " 200 "}};
    struct pen_metrics metrics = {.version = "1"};
    struct pen_metrics_server *server = create(&metrics);
    if (server == NULL)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(pen_metrics_server_port(server), cases[i].request, page);
        if (strncmp(page + strlen("HTTP/1.1"), cases[i].code, 5) != 0)
            fail_msg("%s\nis answered by\n%s", cases[i].request, page);
    }
    ask(pen_metrics_server_port(server), cases[0].request, page);
    assert_non_null(strstr(page, "\r\nAllow: GET, HEAD\r\n"));
    ask(pen_metrics_server_port(server), plain_request, page);
    assert_non_null(
        strstr(page, "\r\nContent-Type: " PEN_METRICS_CONTENT_TYPE "\r\n"));
    pen_metrics_server_free(server);
}

static void long_requests_are_refused(void **state)
{
    (void)state;
    static char request[9000];
    static char page[PAGE_SIZE];
    struct pen_metrics metrics = {.version = "1"};
    struct pen_metrics_server *server = create(&metrics);
    if (server == NULL)
        skip();
    static const int lengths[] = {1000, 4097, 8000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int length = lengths[i];
        snprintf(request, sizeof request,
                 "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: %0*d\r\n\r\n",
                 length, 1);
        ask(pen_metrics_server_port(server), request, page);
        bool has_page = strncmp(page, "HTTP/1.1 200 ", 13) == 0;
        if (has_page != (length <= 4096))
            fail_msg("a header of %d bytes gets\n%s", length, page);
    }
    pen_metrics_server_free(server);
}

static void a_fifth_connection_is_closed(void **state)
{
    (void)state;
    static char page[PAGE_SIZE];
    struct pen_metrics metrics = {.version = "1"};
    struct pen_metrics_server *server = create(&metrics);
    if (server == NULL)
        skip();
    uint16_t port = pen_metrics_server_port(server);
    int silent[4];
    for (size_t i = 0; i < 4; i++)
        silent[i] = dial(port);
    ask(port, plain_request, page);
    assert_string_equal("", page);
    close(silent[2]);
    while (page[0] == '\0') /* until its end is noticed */
        ask(port, plain_request, page);
    assert_int_equal(0, strncmp(page, "HTTP/1.1 200 ", 13));
    for (size_t i = 0; i < 4; i++)
        if (i != 2)
            close(silent[i]);
    pen_metrics_server_free(server);
}

static void a_port_in_use_is_refused(void **state)
{
    (void)state;
    struct pen_metrics metrics = {.version = "1"};
    static char page[PAGE_SIZE];
    struct pen_metrics_server *other = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_metrics_server *server = create(&metrics);
    if (server == NULL)
        skip();
    uint16_t port = pen_metrics_server_port(server);
    ask(port, plain_request, page);
    char expected[200];
    snprintf(expected, sizeof expected,
             "cannot serve metrics on port %u: Address already in use; give "
             "another port, or 0 for a free one",
             (unsigned)port);
    assert_int_equal(PEN_IO,
                     pen_metrics_server_create(port, &metrics, &other, &why));
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(other);
    pen_metrics_server_free(server);
    /* Free again, although connections to it have just ended. */
    assert_int_equal(PEN_OK,
                     pen_metrics_server_create(port, &metrics, &other, &why));
    assert_int_equal(port, pen_metrics_server_port(other));
    pen_metrics_server_free(other);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_page_is_of_one_step),
        cmocka_unit_test(what_is_asked_wrongly_gets_no_page),
        cmocka_unit_test(long_requests_are_refused),
        cmocka_unit_test(a_fifth_connection_is_closed),
        cmocka_unit_test(a_port_in_use_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
