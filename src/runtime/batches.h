#ifndef PEN_RUNTIME_BATCHES_H
#define PEN_RUNTIME_BATCHES_H

#include "data/sampler.h"

/*
 * Where micro-batches come from: sample number to inputs and targets. Samples
 * are numbered from 0 as far as a run goes, whatever the micro-batch, so a run
 * that is resumed reads on where it stopped.
 *
 *   sample  5 7 2 9      ids      5 7 2
 *                        targets  7 2 9
 */
struct pen_batches;

struct pen_batches_options {
    uint32_t sequence; /* predictions of a sample */
    uint32_t vocab;    /* of the model: ids from here on are refused */
    uint64_t seed;
    bool is_ordered; /* no shuffle: for evaluation */
    enum pen_split_part part;
    double split[PEN_SPLIT_PARTS];
};

/* A file of tokens, as pen_token_file_init() opens it, and its weight. */
struct pen_data_path {
    const char *path;
    double weight; /* 0: the number of its tokens */
};

/*
 * Samples out of files of tokens, blended by weight. Paths are only read
 * during the call. On failure *out is untouched.
 */
pen_status pen_batches_open(const struct pen_data_path *paths, size_t num_paths,
                            const struct pen_batches_options *options,
                            struct pen_batches **out, struct pen_text *why);

/*
 * Samples out of a text file, one per line, ids separated by spaces, in the
 * order of the file and from its beginning again behind its end. All lines have
 * the same number of ids, one more than `sequence`; 0: what the first has. A
 * refusal names the line.
 */
pen_status pen_batches_load(const char *path, uint32_t sequence, uint32_t vocab,
                            struct pen_batches **out, struct pen_text *why);

/* The same from the text of such a file; `path` is for messages. */
pen_status pen_batches_parse(const char *path, const struct pen_text *text,
                             uint32_t sequence, uint32_t vocab,
                             struct pen_batches **out, struct pen_text *why);

void pen_batches_free(struct pen_batches *batches);

uint32_t pen_batches_sequence(const struct pen_batches *batches);

/* Samples until every sequence of every file can have been seen once. */
uint64_t pen_batches_epoch(const struct pen_batches *batches);

/*
 * Reads samples first to first + count - 1 into [count][sequence] arrays.
 * Allocates nothing unless it refuses: an id that the model does not have.
 */
pen_status pen_batches_read(struct pen_batches *batches, uint64_t first,
                            size_t count, int32_t *ids, int32_t *targets,
                            struct pen_text *why);

#endif
