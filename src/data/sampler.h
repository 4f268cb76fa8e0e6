#ifndef PEN_DATA_SAMPLER_H
#define PEN_DATA_SAMPLER_H

#include "data/token_file.h"

#include <stdbool.h>

/*
 * Sample number to tokens. The number alone decides, from 0 to as far as a run
 * goes: nothing depends on ranks, micro-batches or what was read before, so a
 * run may be resumed anywhere and on any layout.
 *
 *   tokens of one part of a file    t0 t1 t2 t3 t4 t5 t6 ...
 *   sequence 0, seq_length 3        [t0 t1 t2 t3]
 *   sequence 1                               [t3 t4 t5 t6]
 *
 * A sequence has one token more than seq_length: inputs are all but the last,
 * targets all but the first. Epoch e of a file visits its sequences in an
 * order of its own, a permutation that is computed and never stored.
 */
struct pen_sampler;

enum pen_split_part {
    PEN_SPLIT_TRAIN,
    PEN_SPLIT_VALIDATION,
    PEN_SPLIT_TEST,
    PEN_SPLIT_PARTS
};

/* A file and its share in a blend; weights need not add up to 1. */
struct pen_sample_source {
    const struct pen_token_file *file; /* borrowed until the sampler is freed */
    double weight;
};

struct pen_sampler_options {
    uint32_t seq_length;
    uint64_t seed;
    bool is_ordered; /* no shuffle: for evaluation */
    enum pen_split_part part;
    /*
     * Shares of the parts, such as {949, 50, 1}, in this order from the
     * beginning of each file; all 0: everything is train. A file with documents
     * is split between documents.
     */
    double split[PEN_SPLIT_PARTS];
};

/* Reads "949,50,1", "99,1" or "1". */
pen_status pen_split_parse(const char *text, double out[PEN_SPLIT_PARTS],
                           struct pen_text *why);

/*
 * Returns the index-th of `count` things in epoch `epoch` of source `source`: a
 * permutation that seed, source and epoch choose.
 */
uint64_t pen_sampler_shuffle(uint64_t seed, uint64_t source, uint64_t epoch,
                             uint64_t index, uint64_t count);

/*
 * Makes a sampler. With several files, each sample comes from the one that lags
 * most relative to its weight, the first among equals. On failure *out is
 * untouched: a file has no sequence in this part, or a weight is below 1/65536
 * of all.
 */
pen_status pen_sampler_create(const struct pen_sample_source *sources,
                              size_t num_sources,
                              const struct pen_sampler_options *options,
                              struct pen_sampler **out, struct pen_text *why);
void pen_sampler_free(struct pen_sampler *sampler);

/* Sequences of one source in this part: its samples per epoch. */
uint64_t pen_sampler_epoch(const struct pen_sampler *sampler, size_t source);

/* The place of a sample. */
struct pen_sample_place {
    size_t source;
    uint64_t epoch;
    uint64_t begin; /* first token, in the file */
};

struct pen_sample_place pen_sampler_locate(const struct pen_sampler *sampler,
                                           uint64_t sample);

/* Copies the seq_length + 1 tokens of a sample. Any thread may call it. */
void pen_sampler_read(const struct pen_sampler *sampler, uint64_t sample,
                      uint32_t *out);

#endif
