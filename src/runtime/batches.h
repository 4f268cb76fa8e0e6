#ifndef PEN_RUNTIME_BATCHES_H
#define PEN_RUNTIME_BATCHES_H

#include "data/sampler.h"

/*
 * Where micro-batches come from: sample number to inputs and targets. Samples
 * are numbered from 0 as far as a run goes, whatever the micro-batch, so a run
 * that is resumed reads on where it stopped.
 *
 *   tokens  5 7 2 9      ids      5 7 2       image   28 x 28 bytes, "3"
 *                        targets  7 2 9       pixels  784 from -1 to 1
 *                                             targets 3
 */
struct pen_batches;

/*
 * The shape of one sample, tokens or an image; the fields of the other kind are
 * 0.
 */
struct pen_sample_shape {
    uint32_t num_ids;
    uint32_t channels; /* of the image */
    uint32_t height;
    uint32_t width;
    uint32_t num_targets; /* predictions */
};

/* Pixels of all channels. */
size_t pen_sample_pixels(const struct pen_sample_shape *shape);

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
 * order of the file, which is repeated. All lines have the same number of ids,
 * one more than `sequence`; 0: as many as the first. A refusal names the line.
 */
pen_status pen_batches_load(const char *path, uint32_t sequence, uint32_t vocab,
                            struct pen_batches **out, struct pen_text *why);

/* Like pen_batches_load(), from the text of a file; `path` is for messages. */
pen_status pen_batches_parse(const char *path, const struct pen_text *text,
                             uint32_t sequence, uint32_t vocab,
                             struct pen_batches **out, struct pen_text *why);

struct pen_image_batches_options {
    uint32_t num_labels; /* of the model: labels from here on are refused */
    uint64_t seed;
    bool is_ordered; /* no shuffle: for evaluation */
    bool is_test;    /* the images to be tested on, not those to train on */
};

/*
 * Samples out of a directory of images, as pen_image_set_load() reads it; each
 * epoch has an order of its own.
 */
pen_status
pen_batches_open_images(const char *directory,
                        const struct pen_image_batches_options *options,
                        struct pen_batches **out, struct pen_text *why);

void pen_batches_free(struct pen_batches *batches);

struct pen_sample_shape pen_batches_shape(const struct pen_batches *batches);

/* The unit in which targets are counted, "tokens" or "images"; a constant. */
const char *pen_batches_unit(const struct pen_batches *batches);

/* Samples until every one can have been seen once. */
uint64_t pen_batches_epoch(const struct pen_batches *batches);

/* Where samples are read to; NULL where the shape has none. */
struct pen_batch {
    int32_t *ids;     /* (count, num_ids) */
    float *pixels;    /* (count, channels, height, width) */
    int32_t *targets; /* (count, num_targets) */
};

/*
 * Reads samples first to first + count - 1. Allocates nothing unless it
 * refuses: an id that the model does not have.
 */
pen_status pen_batches_read(struct pen_batches *batches, uint64_t first,
                            size_t count, const struct pen_batch *to,
                            struct pen_text *why);

#endif
