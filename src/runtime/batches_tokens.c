/* Samples out of files of tokens. */
#include "runtime/batches_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tokens {
    struct pen_batches base;
    uint32_t sequence;
    uint32_t vocab;
    uint32_t *sample; /* (sequence + 1) of the sampler */
    struct pen_sampler *sampler;
    struct pen_token_file *files;
    size_t num_files;
    char **paths;
};

static struct tokens *tokens_of(struct pen_batches *batches)
{
    return (struct tokens *)batches;
}

static const struct tokens *const_tokens_of(const struct pen_batches *batches)
{
    return (const struct tokens *)batches;
}

static void free_tokens(struct pen_batches *batches)
{
    struct tokens *self = tokens_of(batches);
    pen_sampler_free(self->sampler);
    for (size_t i = 0; i < self->num_files; i++) {
        pen_token_file_release(&self->files[i]);
        free(self->paths[i]);
    }
    free(self->files);
    free(self->paths);
    free(self->sample);
    free(self);
}

static uint64_t epoch(const struct pen_batches *batches)
{
    const struct tokens *self = const_tokens_of(batches);
    uint64_t sum = 0;
    for (size_t i = 0; i < self->num_files; i++)
        sum += pen_sampler_epoch(self->sampler, i);
    return sum;
}

static pen_status refuse_id(struct tokens *self, uint64_t sample, uint32_t id,
                            struct pen_text *why)
{
    struct pen_sample_place place = pen_sampler_locate(self->sampler, sample);
    pen_why(why,
            "%s has the id %" PRIu32 " near token %" PRIu64
            ", but the largest id of the model's vocabulary is %" PRIu32
            "; tokenize the text with the model's tokenizer",
            self->paths[place.source], id, place.begin, self->vocab - 1);
    return PEN_INVALID;
}

static pen_status read_sample(struct pen_batches *batches, uint64_t sample,
                              const struct pen_batch *to, struct pen_text *why)
{
    struct tokens *self = tokens_of(batches);
    size_t length = self->sequence;
    pen_sampler_read(self->sampler, sample, self->sample);
    for (size_t i = 0; i <= length; i++) {
        if (self->sample[i] >= self->vocab)
            return refuse_id(self, sample, self->sample[i], why);
        if (i < length)
            to->ids[i] = (int32_t)self->sample[i];
        if (i > 0)
            to->targets[i - 1] = (int32_t)self->sample[i];
    }
    return PEN_OK;
}

static const struct pen__batches_ops tokens_ops = {
    .unit = "tokens", .free = free_tokens, .epoch = epoch, .read = read_sample};

static pen_status open_files(struct tokens *self,
                             const struct pen_data_path *paths,
                             size_t num_paths, struct pen_text *why)
{
    self->files = calloc(num_paths, sizeof *self->files);
    self->paths = calloc(num_paths, sizeof *self->paths);
    if (self->files == NULL || self->paths == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < num_paths; i++) {
        pen_status status =
            pen_token_file_init(&self->files[i], paths[i].path, why);
        if (status != PEN_OK)
            return status;
        self->num_files++;
        self->paths[i] = strdup(paths[i].path);
        if (self->paths[i] == NULL)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

static pen_status make_sampler(struct tokens *self,
                               const struct pen_data_path *paths,
                               const struct pen_batches_options *options,
                               struct pen_text *why)
{
    struct pen_sample_source *sources =
        calloc(self->num_files, sizeof *sources);
    if (sources == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < self->num_files; i++) {
        const struct pen_token_file *file = &self->files[i];
        double weight =
            paths[i].weight > 0 ? paths[i].weight : (double)file->num_tokens;
        sources[i] = (struct pen_sample_source){file, weight};
    }
    struct pen_sampler_options wanted = {.seq_length = options->sequence,
                                         .seed = options->seed,
                                         .is_ordered = options->is_ordered,
                                         .part = options->part};
    memcpy(wanted.split, options->split, sizeof wanted.split);
    pen_status status = pen_sampler_create(sources, self->num_files, &wanted,
                                           &self->sampler, why);
    free(sources);
    return status;
}

pen_status pen_batches_open(const struct pen_data_path *paths, size_t num_paths,
                            const struct pen_batches_options *options,
                            struct pen_batches **out, struct pen_text *why)
{
    struct tokens *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->base = (struct pen_batches){
        &tokens_ops,
        {.num_ids = options->sequence, .num_targets = options->sequence}};
    self->sequence = options->sequence;
    self->vocab = options->vocab;
    self->sample = calloc((size_t)options->sequence + 1, sizeof *self->sample);
    pen_status status = self->sample == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = open_files(self, paths, num_paths, why);
    if (status == PEN_OK)
        status = make_sampler(self, paths, options, why);
    if (status == PEN_OK)
        *out = &self->base;
    else
        free_tokens(&self->base);
    return status;
}
