/* Whatever is asked, only GET and HEAD of /metrics from here get the page. */
#include "base/bug.h"
#include "runtime/metrics.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The words of the first line and, on the second if there is one, a host. */
static void split(char *text, struct pen_metrics_request *request)
{
    char *line_end = strchr(text, '\n');
    request->host = NULL;
    if (line_end != NULL) {
        *line_end = '\0';
        request->host = line_end + 1;
    }
    char *blank = strchr(text, ' ');
    request->method = text;
    request->path = "";
    if (blank != NULL) {
        *blank = '\0';
        request->path = blank + 1;
    }
}

static void check_page(const struct pen_metrics_request *request)
{
    const char *host = request->host;
    PEN_BUG_UNLESS(strcmp(request->path, "/metrics") == 0);
    PEN_BUG_UNLESS(strcmp(request->method, "GET") == 0 ||
                   strcmp(request->method, "HEAD") == 0);
    if (host == NULL)
        return;
    size_t name = strcspn(host, ":");
    PEN_BUG_UNLESS(name == 9); /* of both that are allowed */
    PEN_BUG_UNLESS(memcmp(host, "127.0.0.1", name) == 0 ||
                   memcmp(host, "localhost", name) == 0);
    for (const char *digit = host + name; *digit != '\0'; digit++)
        PEN_BUG_UNLESS(digit == host + name ||
                       (*digit >= '0' && *digit <= '9'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_metrics_request request;
    char *text = calloc(size + 1, 1);
    PEN_BUG_UNLESS(text != NULL);
    memcpy(text, data, size);
    split(text, &request);
    unsigned code = pen_metrics_judge(&request);
    PEN_BUG_UNLESS(code == 200 || code == 403 || code == 404 || code == 405);
    if (code == 200)
        check_page(&request);
    free(text);
    return 0;
}
