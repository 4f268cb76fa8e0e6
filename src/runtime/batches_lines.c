/* Samples out of lines of ids, which are few: they are all in memory. */
#include "runtime/batches_internal.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IDS_FILE_MAX ((size_t)1 << 31)
#define IDS_MAX (1u << 24) /* in a line */

struct lines {
    struct pen_batches base;
    uint32_t sequence;
    uint32_t vocab;
    int32_t *ids; /* (count, sequence + 1) */
    size_t count;
    size_t num_read; /* ids, while a file is read */
    size_t capacity;
};

static struct lines *lines_of(struct pen_batches *batches)
{
    return (struct lines *)batches;
}

static void free_lines(struct pen_batches *batches)
{
    struct lines *self = lines_of(batches);
    free(self->ids);
    free(self);
}

static uint64_t epoch(const struct pen_batches *batches)
{
    return ((const struct lines *)batches)->count;
}

static pen_status read_kept(struct pen_batches *batches, uint64_t sample,
                            const struct pen_batch *to, struct pen_text *why)
{
    const struct lines *self = lines_of(batches);
    size_t length = self->sequence;
    const int32_t *line = self->ids + sample % self->count * (length + 1);
    (void)why;
    memcpy(to->ids, line, length * sizeof *line);
    memcpy(to->targets, line + 1, length * sizeof *line);
    return PEN_OK;
}

static const struct pen__batches_ops lines_ops = {
    .unit = "tokens", .free = free_lines, .epoch = epoch, .read = read_kept};

static pen_status keep_id(struct lines *self, int32_t id)
{
    if (self->num_read == self->capacity) {
        size_t capacity = self->capacity == 0 ? 1024 : 2 * self->capacity;
        int32_t *ids = realloc(self->ids, capacity * sizeof *self->ids);
        if (ids == NULL)
            return PEN_NOMEM;
        self->ids = ids;
        self->capacity = capacity;
    }
    self->ids[self->num_read++] = id;
    return PEN_OK;
}

/* Reads digits from *at to the end of the word; false if it is not an id. */
static bool read_id(const char **at, const char *end, uint32_t vocab,
                    int32_t *out)
{
    uint64_t id = 0;
    const char *begin = *at;
    while (*at < end && **at >= '0' && **at <= '9' && id < vocab)
        id = id * 10 + (uint64_t)(*(*at)++ - '0');
    *out = (int32_t)id;
    return *at > begin && id < vocab &&
           (*at == end || **at == ' ' || **at == '\t' || **at == '\r');
}

/* Keeps the ids of a line, and says how many. */
static pen_status read_line(struct lines *self, const char *at, const char *end,
                            size_t *num_ids, struct pen_text *why)
{
    *num_ids = 0;
    for (; at < end; at++) {
        if (*at == ' ' || *at == '\t' || *at == '\r')
            continue;
        const char *word = at;
        int32_t id;
        if (!read_id(&at, end, self->vocab, &id)) {
            size_t length = strcspn(word, " \t\r\n");
            pen_why(why, "'");
            pen_text_add_printable(why, word, length < 24 ? length : 24);
            pen_why(why,
                    "' is not an id of this model, a number from 0 to %" PRIu32,
                    self->vocab - 1);
            return PEN_INVALID;
        }
        ++*num_ids;
        pen_status status = keep_id(self, id);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

/* Refuses a line whose number of ids differs from that of the others. */
static pen_status check_line(struct lines *self, size_t num_ids,
                             struct pen_text *why)
{
    if (self->sequence == 0 && num_ids >= 2 && num_ids <= IDS_MAX)
        self->sequence = (uint32_t)num_ids - 1;
    if (self->sequence != 0 && num_ids == (size_t)self->sequence + 1)
        return PEN_OK;
    if (self->sequence == 0)
        pen_why(why, "the line has %zu ids; a sequence must have 2 to %u",
                num_ids, IDS_MAX);
    else
        pen_why(why,
                "the line has %zu ids, but the first line has %zu: all lines "
                "must have the same length",
                num_ids, (size_t)self->sequence + 1);
    return PEN_INVALID;
}

static pen_status read_lines(struct lines *self, const char *path,
                             const struct pen_text *text, struct pen_text *why)
{
    const char *at = pen_text_string(text);
    const char *end = at + text->length;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    while (at < end && status == PEN_OK) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t num_ids;
        stop = stop == NULL ? end : stop;
        status = read_line(self, at, stop, &num_ids, &reason);
        if (status == PEN_OK)
            status = check_line(self, num_ids, &reason);
        self->count++;
        at = stop + 1;
    }
    if (status == PEN_INVALID)
        pen_why(why, "%s, line %zu: %s", path, self->count,
                pen_text_string(&reason));
    if (status == PEN_OK && self->count == 0) {
        pen_why(why, "%s is empty; expected ids, one sequence per line", path);
        status = PEN_INVALID;
    }
    pen_text_release(&reason);
    return status;
}

pen_status pen_batches_parse(const char *path, const struct pen_text *text,
                             uint32_t sequence, uint32_t vocab,
                             struct pen_batches **out, struct pen_text *why)
{
    struct lines *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->base.ops = &lines_ops;
    self->sequence = sequence;
    self->vocab = vocab;
    pen_status status = read_lines(self, path, text, why);
    self->base.shape = (struct pen_sample_shape){.num_ids = self->sequence,
                                                 .num_targets = self->sequence};
    if (status == PEN_OK)
        *out = &self->base;
    else
        free_lines(&self->base);
    return status;
}

pen_status pen_batches_load(const char *path, uint32_t sequence, uint32_t vocab,
                            struct pen_batches **out, struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, IDS_FILE_MAX, &text, why);
    if (status == PEN_OK)
        status = pen_batches_parse(path, &text, sequence, vocab, out, why);
    pen_text_release(&text);
    return status;
}
