/* Sure fixes of a file, and the lines that they change. */
#include "lint/lint.h"

#include <inttypes.h>
#include <string.h>

bool pen_lint_fix(const struct pen_lint_question *question,
                  const struct pen_lint_report *report, struct pen_text *out)
{
    size_t at = 0;
    bool has_fix = false;
    for (uint32_t i = 0; i < report->num_findings; i++) {
        const struct pen_lint_finding *finding = &report->findings[i];
        /* When two fixes overlap, the next run applies the second. */
        if (finding->fix == NULL || finding->begin < at ||
            finding->end > question->length)
            continue;
        pen_text_add_bytes(out, question->text + at, finding->begin - at);
        pen_text_add_string(out, finding->fix);
        at = finding->end;
        has_fix = true;
    }
    pen_text_add_bytes(out, question->text + at, question->length - at);
    return has_fix;
}

/* ---- lines that differ ---- */

#define AROUND 3u

static size_t line_end(const struct pen_text *text, size_t at)
{
    const char *end = memchr(text->bytes + at, '\n', text->length - at);
    return end == NULL ? text->length : (size_t)(end - text->bytes) + 1;
}

/* Returns where the n-th line from 0 begins. */
static size_t line_at(const struct pen_text *text, uint32_t line)
{
    size_t at = 0;
    while (line-- > 0)
        at = line_end(text, at);
    return at;
}

static uint32_t count_lines(const struct pen_text *text)
{
    uint32_t count = 0;
    for (size_t at = 0; at < text->length; at = line_end(text, at))
        count++;
    return count;
}

static bool same_line(const struct pen_text *a, const struct pen_text *b,
                      uint32_t line)
{
    size_t x = line_at(a, line);
    size_t y = line_at(b, line);
    size_t length = line_end(a, x) - x;
    return line_end(b, y) - y == length &&
           memcmp(a->bytes + x, b->bytes + y, length) == 0;
}

static void add_line(const struct pen_text *text, uint32_t line, char mark,
                     struct pen_text *out)
{
    size_t begin = line_at(text, line);
    size_t end = line_end(text, begin);
    pen_text_add_bytes(out, &mark, 1);
    pen_text_add_bytes(out, text->bytes + begin, end - begin);
    if (end == begin || text->bytes[end - 1] != '\n')
        pen_text_add_string(out, "\n\\ No newline at end of file\n");
}

/* Fixes replace words inside of lines, so that both have the same lines. */
static void add_hunk(const struct pen_text *before,
                     const struct pen_text *after, uint32_t first,
                     uint32_t last, struct pen_text *out)
{
    uint32_t count = count_lines(before);
    uint32_t from = first < AROUND ? 0 : first - AROUND;
    uint32_t to = last + AROUND < count ? last + AROUND + 1 : count;
    pen_text_add(out,
                 "@@ -%" PRIu32 ",%" PRIu32 " +%" PRIu32 ",%" PRIu32 " @@\n",
                 from + 1, to - from, from + 1, to - from);
    for (uint32_t i = from; i < to; i++) {
        if (same_line(before, after, i)) {
            add_line(before, i, ' ', out);
            continue;
        }
        add_line(before, i, '-', out);
        add_line(after, i, '+', out);
    }
}

void pen_lint_diff(const char *path, const struct pen_text *before,
                   const struct pen_text *after, struct pen_text *out)
{
    uint32_t count = count_lines(before);
    pen_text_add(out, "--- %s\n+++ %s\n", path, path);
    for (uint32_t i = 0; i < count; i++) {
        if (same_line(before, after, i))
            continue;
        uint32_t last = i;
        for (uint32_t j = i; j < count && j <= last + 2 * AROUND; j++)
            if (!same_line(before, after, j))
                last = j;
        add_hunk(before, after, i, last, out);
        i = last + AROUND;
    }
}
