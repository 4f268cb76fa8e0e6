#include "cli/train/probe.h"

#include "cli/train/files.h"

#include <errno.h>
#include <stdlib.h>

/* A number from 1; moves *at past it. */
static bool read_step(const char **at, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = **at >= '0' && **at <= '9' ? strtoull(*at, &end, 10) : 0;
    if (*out == 0 || errno != 0)
        return false;
    *at = end;
    return true;
}

/* The next entry of a list, one step or several; moves *at past it. */
static bool read_range(const char **at, uint64_t *first, uint64_t *last)
{
    if (!read_step(at, first))
        return false;
    *last = *first;
    if (**at == '-') {
        ++*at;
        if (!read_step(at, last) || *last < *first)
            return false;
    }
    if (**at == ',')
        return *++*at != '\0';
    return **at == '\0';
}

bool pen__train_probe_is_list(const char *steps)
{
    uint64_t first, last;
    bool is_right = *steps != '\0';
    while (is_right && *steps != '\0')
        is_right = read_range(&steps, &first, &last);
    return is_right;
}

static bool wants(void *context, uint64_t step)
{
    struct pen__train_probe *probe = context;
    const char *at = probe->steps;
    uint64_t first, last;
    if (probe->first_step == 0)
        probe->first_step = step;
    if (at == NULL)
        return step == probe->first_step;
    while (*at != '\0' && read_range(&at, &first, &last))
        if (step >= first && step <= last)
            return true;
    return false;
}

static void append(struct pen__train_probe *probe)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status =
        probe->line.has_failed
            ? PEN_NOMEM
            : pen_journal_append(&probe->journal, probe->line.bytes,
                                 probe->line.length, &why);
    pen__train_file_written(PEN__FILE_PROBE, status, &probe->is_told, &why);
    pen_text_release(&why);
    pen_text_clear(&probe->line);
}

static void take(void *context, const struct pen_probe_record *record)
{
    struct pen__train_probe *probe = context;
    if (!probe->is_open)
        return;
    pen_probe_print(record, &probe->line);
    append(probe);
}

const struct pen_probe_sink *
pen__train_probe_sink(struct pen__train_probe *probe, const char *steps)
{
    probe->steps = steps;
    probe->sink =
        (struct pen_probe_sink){.context = probe, .wants = wants, .take = take};
    return &probe->sink;
}

pen_status pen__train_probe_open(struct pen__train_probe *probe,
                                 const char *path, struct pen_text *why)
{
    pen_status status = pen_journal_open(&probe->journal, path, 0, why);
    probe->is_open = status == PEN_OK;
    if (probe->is_open) {
        pen_probe_print_head(&probe->line);
        append(probe);
    }
    return pen__train_file_opened(PEN__FILE_PROBE, path, status, why);
}

void pen__train_probe_close(struct pen__train_probe *probe)
{
    if (probe->is_open)
        pen_journal_close(&probe->journal);
    pen_text_release(&probe->line);
    probe->is_open = false;
}
