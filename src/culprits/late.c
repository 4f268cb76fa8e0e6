/*
 * Finds messages that came later than predicted. The arrival of a message is
 * known only if an op waited for it: it came when that op was ready. If it was
 * due before that op began to wait, only the waiting counts.
 */
#include "culprits/findings.h"

#include <math.h>
#include <stdlib.h>

#define LATE 0.01 /* of the step, for all messages of a link together */

struct message {
    uint32_t link;
    double transit_sec;
    double expected_sec;
};

static int by_link(const void *a, const void *b)
{
    const struct message *x = a;
    const struct message *y = b;
    if (x->link != y->link)
        return x->link < y->link ? -1 : 1;
    return (x->transit_sec > y->transit_sec) -
           (x->transit_sec < y->transit_sec);
}

static int by_lateness_down(const void *a, const void *b)
{
    const struct pen__late_link *x = a;
    const struct pen__late_link *y = b;
    return (y->all_late_sec > x->all_late_sec) -
           (y->all_late_sec < x->all_late_sec);
}

static struct message make_message(const struct pen__case *matter,
                                   uint32_t line, uint32_t position,
                                   const struct pen__source *source)
{
    const struct pen__span *span = &matter->measured->spans[line][position];
    double expected_sec =
        pen__expected_transit_sec(matter, line, position, source->link);
    double due_sec = source->at_sec + expected_sec;
    double late_sec = span->ready_sec - fmax(due_sec, span->begin_sec);
    return (struct message){source->link, fmax(0, expected_sec + late_sec),
                            expected_sec};
}

/* Counts the messages that were waited for; fills them in if there is room. */
static size_t find_messages(const struct pen__case *matter,
                            struct message *messages)
{
    const struct pen__course *course = matter->measured;
    size_t count = 0;
    for (uint32_t line = 0; line < course->num_lines; line++) {
        uint32_t num_ops =
            course->schedule->rows[pen__row_of_line(course, line)].count;
        for (uint32_t i = 0; i < num_ops; i++) {
            const struct pen__span *span = &course->spans[line][i];
            if (!(span->ready_sec > span->begin_sec))
                continue;
            struct pen__source source =
                pen__source_of(matter->sources, course, line, i);
            if (source.kind != PEN__SOURCE_MESSAGE)
                continue;
            if (messages != NULL)
                messages[count] = make_message(matter, line, i, &source);
            count++;
        }
    }
    return count;
}

static struct pen__late_link summarise(const struct message *messages,
                                       uint32_t count)
{
    const struct message *median = &messages[(count - 1) / 2];
    struct pen__late_link late = {.link = messages->link,
                                  .count = count,
                                  .transit_sec = median->transit_sec,
                                  .expected_sec = median->expected_sec};
    for (uint32_t i = 0; i < count; i++) {
        double late_sec =
            fmax(0, messages[i].transit_sec - messages[i].expected_sec);
        late.most_late_sec = fmax(late.most_late_sec, late_sec);
        late.all_late_sec += late_sec;
    }
    return late;
}

pen_status pen__find_late(struct pen__findings *findings,
                          const struct pen__case *matter)
{
    size_t count = find_messages(matter, NULL);
    struct message *messages = malloc((count + 1) * sizeof *messages);
    findings->late = malloc((count + 1) * sizeof *findings->late);
    if (messages == NULL || findings->late == NULL) {
        free(messages);
        return PEN_NOMEM;
    }
    find_messages(matter, messages);
    qsort(messages, count, sizeof *messages, by_link);
    for (size_t first = 0; first < count;) {
        size_t end = first + 1;
        while (end < count && messages[end].link == messages[first].link)
            end++;
        struct pen__late_link late =
            summarise(&messages[first], (uint32_t)(end - first));
        if (late.all_late_sec > LATE * matter->measured->end_sec)
            findings->late[findings->num_late++] = late;
        first = end;
    }
    qsort(findings->late, findings->num_late, sizeof *findings->late,
          by_lateness_down);
    free(messages);
    return PEN_OK;
}
