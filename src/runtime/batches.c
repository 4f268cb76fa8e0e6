#include "runtime/batches.h"

#include "base/bug.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IDS_FILE_MAX ((size_t)1 << 31)
#define IDS_MAX (1u << 24) /* in a line */

struct pen_batches {
    uint32_t sequence;
    uint32_t vocab;
    uint32_t *sample; /* (sequence + 1) of the sampler */

    struct pen_sampler *sampler; /* NULL: the lines below */
    struct pen_token_file *files;
    size_t num_files;
    char **paths;

    int32_t *lines; /* (num_lines, sequence + 1) */
    size_t num_lines;
    size_t num_read; /* ids, while a file is read */
    size_t capacity;
};

void pen_batches_free(struct pen_batches *batches)
{
    if (batches == NULL)
        return;
    pen_sampler_free(batches->sampler);
    for (size_t i = 0; i < batches->num_files; i++) {
        pen_token_file_release(&batches->files[i]);
        free(batches->paths[i]);
    }
    free(batches->files);
    free(batches->paths);
    free(batches->sample);
    free(batches->lines);
    free(batches);
}

/* ---- files of tokens ---- */

static pen_status open_files(struct pen_batches *batches,
                             const struct pen_data_path *paths,
                             size_t num_paths, struct pen_text *why)
{
    batches->files = calloc(num_paths, sizeof *batches->files);
    batches->paths = calloc(num_paths, sizeof *batches->paths);
    if (batches->files == NULL || batches->paths == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < num_paths; i++) {
        pen_status status =
            pen_token_file_init(&batches->files[i], paths[i].path, why);
        if (status != PEN_OK)
            return status;
        batches->num_files++;
        batches->paths[i] = strdup(paths[i].path);
        if (batches->paths[i] == NULL)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

static pen_status make_sampler(struct pen_batches *batches,
                               const struct pen_data_path *paths,
                               const struct pen_batches_options *options,
                               struct pen_text *why)
{
    struct pen_sample_source *sources =
        calloc(batches->num_files, sizeof *sources);
    if (sources == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < batches->num_files; i++) {
        const struct pen_token_file *file = &batches->files[i];
        double weight =
            paths[i].weight > 0 ? paths[i].weight : (double)file->num_tokens;
        sources[i] = (struct pen_sample_source){file, weight};
    }
    struct pen_sampler_options wanted = {.seq_length = options->sequence,
                                         .seed = options->seed,
                                         .is_ordered = options->is_ordered,
                                         .part = options->part};
    memcpy(wanted.split, options->split, sizeof wanted.split);
    pen_status status = pen_sampler_create(sources, batches->num_files, &wanted,
                                           &batches->sampler, why);
    free(sources);
    return status;
}

pen_status pen_batches_open(const struct pen_data_path *paths, size_t num_paths,
                            const struct pen_batches_options *options,
                            struct pen_batches **out, struct pen_text *why)
{
    struct pen_batches *batches = calloc(1, sizeof *batches);
    if (batches == NULL)
        return PEN_NOMEM;
    batches->sequence = options->sequence;
    batches->vocab = options->vocab;
    batches->sample =
        calloc((size_t)options->sequence + 1, sizeof *batches->sample);
    pen_status status = batches->sample == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = open_files(batches, paths, num_paths, why);
    if (status == PEN_OK)
        status = make_sampler(batches, paths, options, why);
    if (status == PEN_OK)
        *out = batches;
    else
        pen_batches_free(batches);
    return status;
}

/* ---- lines of ids ---- */

static pen_status keep_id(struct pen_batches *batches, int32_t id)
{
    if (batches->num_read == batches->capacity) {
        size_t capacity = batches->capacity == 0 ? 1024 : 2 * batches->capacity;
        int32_t *lines =
            realloc(batches->lines, capacity * sizeof *batches->lines);
        if (lines == NULL)
            return PEN_NOMEM;
        batches->lines = lines;
        batches->capacity = capacity;
    }
    batches->lines[batches->num_read++] = id;
    return PEN_OK;
}

/* Reads digits from *at to the end of the word; false if it is no id. */
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
static pen_status read_line(struct pen_batches *batches, const char *at,
                            const char *end, size_t *num_ids,
                            struct pen_text *why)
{
    *num_ids = 0;
    for (; at < end; at++) {
        if (*at == ' ' || *at == '\t' || *at == '\r')
            continue;
        const char *word = at;
        int32_t id;
        if (!read_id(&at, end, batches->vocab, &id)) {
            size_t length = strcspn(word, " \t\r\n");
            pen_why(why, "'");
            pen_text_add_printable(why, word, length < 24 ? length : 24);
            pen_why(why,
                    "' is not an id of this model, a number from 0 to %" PRIu32,
                    batches->vocab - 1);
            return PEN_INVALID;
        }
        ++*num_ids;
        pen_status status = keep_id(batches, id);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

/* A line too many or too few ids long does not fit the others. */
static pen_status check_line(struct pen_batches *batches, size_t num_ids,
                             struct pen_text *why)
{
    if (batches->sequence == 0 && num_ids >= 2 && num_ids <= IDS_MAX)
        batches->sequence = (uint32_t)num_ids - 1;
    if (batches->sequence != 0 && num_ids == (size_t)batches->sequence + 1)
        return PEN_OK;
    if (batches->sequence == 0)
        pen_why(why, "%zu ids; a sequence has 2 to %u", num_ids, IDS_MAX);
    else
        pen_why(why, "%zu ids where %zu are expected: all lines are as long",
                num_ids, (size_t)batches->sequence + 1);
    return PEN_INVALID;
}

static pen_status read_lines(struct pen_batches *batches, const char *path,
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
        status = read_line(batches, at, stop, &num_ids, &reason);
        if (status == PEN_OK)
            status = check_line(batches, num_ids, &reason);
        batches->num_lines++;
        at = stop + 1;
    }
    if (status == PEN_INVALID)
        pen_why(why, "%s, line %zu: %s", path, batches->num_lines,
                pen_text_string(&reason));
    if (status == PEN_OK && batches->num_lines == 0) {
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
    struct pen_batches *batches = calloc(1, sizeof *batches);
    if (batches == NULL)
        return PEN_NOMEM;
    batches->sequence = sequence;
    batches->vocab = vocab;
    pen_status status = read_lines(batches, path, text, why);
    if (status == PEN_OK)
        *out = batches;
    else
        pen_batches_free(batches);
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

/* ---- both ---- */

uint32_t pen_batches_sequence(const struct pen_batches *batches)
{
    return batches->sequence;
}

uint64_t pen_batches_epoch(const struct pen_batches *batches)
{
    uint64_t epoch = batches->num_lines;
    for (size_t i = 0; i < batches->num_files; i++)
        epoch += pen_sampler_epoch(batches->sampler, i);
    return epoch;
}

static pen_status refuse_id(struct pen_batches *batches, uint64_t sample,
                            uint32_t id, struct pen_text *why)
{
    struct pen_sample_place place =
        pen_sampler_locate(batches->sampler, sample);
    pen_why(why,
            "%s has the id %" PRIu32 " near token %" PRIu64
            ", but the vocabulary of the model ends at %" PRIu32
            "; was it made with another tokenizer?",
            batches->paths[place.source], id, place.begin, batches->vocab - 1);
    return PEN_INVALID;
}

static pen_status read_sample(struct pen_batches *batches, uint64_t sample,
                              int32_t *ids, int32_t *targets,
                              struct pen_text *why)
{
    size_t length = batches->sequence;
    pen_sampler_read(batches->sampler, sample, batches->sample);
    for (size_t i = 0; i <= length; i++) {
        if (batches->sample[i] >= batches->vocab)
            return refuse_id(batches, sample, batches->sample[i], why);
        if (i < length)
            ids[i] = (int32_t)batches->sample[i];
        if (i > 0)
            targets[i - 1] = (int32_t)batches->sample[i];
    }
    return PEN_OK;
}

static void read_kept(const struct pen_batches *batches, uint64_t sample,
                      int32_t *ids, int32_t *targets)
{
    size_t length = batches->sequence;
    const int32_t *line =
        batches->lines + sample % batches->num_lines * (length + 1);
    memcpy(ids, line, length * sizeof *ids);
    memcpy(targets, line + 1, length * sizeof *targets);
}

pen_status pen_batches_read(struct pen_batches *batches, uint64_t first,
                            size_t count, int32_t *ids, int32_t *targets,
                            struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        size_t at = i * batches->sequence;
        if (batches->sampler == NULL)
            read_kept(batches, first + i, ids + at, targets + at);
        else
            status =
                read_sample(batches, first + i, ids + at, targets + at, why);
    }
    return status;
}
