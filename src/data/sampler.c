/*
 * Two maps one after the other: sample number to (source, sample of it), by a
 * table for one turn of the blend; sample of a source to its sequence, by a
 * permutation.
 */
#include "data/sampler.h"

#include "base/bug.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TURN 65536u /* samples after which all weights are met exactly */
#define SOURCES_MAX 4096u
#define ROUNDS 6u

struct source {
    const struct pen_token_file *file;
    uint64_t first_token; /* of the part */
    uint64_t num_sequences;
    uint32_t share; /* samples in a turn */
};

/* One sample of a turn: its source, and its number there. */
struct turn_entry {
    uint32_t source;
    uint32_t rank;
};

struct pen_sampler {
    struct pen_sampler_options options;
    struct source *sources;
    size_t num_sources;
    struct turn_entry *turn; /* (TURN); NULL with a single source */
};

pen_status pen_split_parse(const char *text, double out[PEN_SPLIT_PARTS],
                           struct pen_text *why)
{
    double split[PEN_SPLIT_PARTS] = {0};
    const char *at = text;
    double sum = 0;
    for (size_t i = 0; i < PEN_SPLIT_PARTS; i++) {
        char *end;
        split[i] = strtod(at, &end);
        sum += split[i];
        if (end == at || !(split[i] >= 0) || !isfinite(split[i]))
            break;
        if (*end == '\0' && sum > 0) {
            memcpy(out, split, sizeof split);
            return PEN_OK;
        }
        if (*end != ',')
            break;
        at = end + 1;
    }
    pen_why(why,
            "a split must be one to three shares such as 949,50,1, not '%s'",
            text);
    return PEN_INVALID;
}

/* ---- parts of a file ---- */

/* Returns the token at which the parts before `part` end. */
static uint64_t part_begin(const struct pen_token_file *file,
                           const double split[PEN_SPLIT_PARTS], unsigned part)
{
    double before = 0;
    double sum = 0;
    for (unsigned i = 0; i < PEN_SPLIT_PARTS; i++) {
        before += i < part ? split[i] : 0;
        sum += split[i];
    }
    bool has_documents = file->num_documents > 1;
    uint64_t units = has_documents ? file->num_documents : file->num_tokens;
    if (sum == 0)
        return part == 0 ? 0 : file->num_tokens;
    uint64_t unit =
        before >= sum ? units : (uint64_t)round(before / sum * (double)units);
    if (unit >= units)
        return file->num_tokens;
    return has_documents ? pen_token_file_document(file, unit) : unit;
}

static pen_status set_source(struct pen_sampler *sampler, size_t index,
                             const struct pen_token_file *file,
                             struct pen_text *why)
{
    const struct pen_sampler_options *options = &sampler->options;
    struct source *source = &sampler->sources[index];
    source->file = file;
    source->first_token = part_begin(file, options->split, options->part);
    uint64_t end = part_begin(file, options->split, options->part + 1u);
    uint64_t count = end - source->first_token;
    if (count <= options->seq_length) {
        pen_why(why,
                "file %zu has %" PRIu64
                " tokens in this part of the split; a sequence needs %" PRIu64,
                index, count, (uint64_t)options->seq_length + 1);
        return PEN_INVALID;
    }
    source->num_sequences = (count - 1) / options->seq_length;
    return PEN_OK;
}

/* ---- the blend ---- */

/* Shares of a turn: rounded down, the rest to the largest remainders. */
static pen_status set_shares(struct pen_sampler *sampler,
                             const struct pen_sample_source *sources,
                             struct pen_text *why)
{
    double sum = 0;
    uint32_t given = 0;
    for (size_t i = 0; i < sampler->num_sources; i++)
        sum += sources[i].weight;
    for (size_t i = 0; i < sampler->num_sources; i++) {
        double exact = sources[i].weight / sum * TURN;
        if (!(exact >= 1) || !isfinite(sum)) {
            pen_why(
                why,
                "the weight of file %zu must be positive and at least 1/65536 "
                "of the sum of weights",
                i);
            return PEN_INVALID;
        }
        sampler->sources[i].share = (uint32_t)exact;
        given += (uint32_t)exact;
    }
    for (; given < TURN; given++) {
        size_t best = 0;
        double most = -1;
        for (size_t i = 0; i < sampler->num_sources; i++) {
            double rest =
                sources[i].weight / sum * TURN - sampler->sources[i].share;
            if (rest > most) {
                most = rest;
                best = i;
            }
        }
        sampler->sources[best].share++;
    }
    return PEN_OK;
}

/*
 * Fills a turn. At index i a source should have had (i + 1) * share / TURN
 * samples, which is exact when counted in units of 1 / TURN.
 */
static void fill_turn(struct pen_sampler *sampler, uint32_t *counts)
{
    for (uint32_t i = 0; i < TURN; i++) {
        size_t best = 0;
        int64_t most = INT64_MIN;
        for (size_t j = 0; j < sampler->num_sources; j++) {
            int64_t behind = (int64_t)(i + 1) * sampler->sources[j].share -
                             (int64_t)counts[j] * TURN;
            if (behind > most) {
                most = behind;
                best = j;
            }
        }
        sampler->turn[i] = (struct turn_entry){(uint32_t)best, counts[best]++};
    }
}

static pen_status make_turn(struct pen_sampler *sampler,
                            const struct pen_sample_source *sources,
                            struct pen_text *why)
{
    pen_status status = set_shares(sampler, sources, why);
    if (status != PEN_OK)
        return status;
    sampler->turn = malloc(TURN * sizeof *sampler->turn);
    uint32_t *counts = calloc(sampler->num_sources, sizeof *counts);
    if (sampler->turn != NULL && counts != NULL)
        fill_turn(sampler, counts);
    else
        status = PEN_NOMEM;
    free(counts);
    return status;
}

pen_status pen_sampler_create(const struct pen_sample_source *sources,
                              size_t num_sources,
                              const struct pen_sampler_options *options,
                              struct pen_sampler **out, struct pen_text *why)
{
    PEN_BUG_UNLESS(options->seq_length > 0 && options->part < PEN_SPLIT_PARTS);
    if (num_sources == 0 || num_sources > SOURCES_MAX) {
        pen_why(why, "--data-path takes 1 to %u files, not %zu", SOURCES_MAX,
                num_sources);
        return PEN_INVALID;
    }
    struct pen_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL)
        return PEN_NOMEM;
    sampler->options = *options;
    sampler->num_sources = num_sources;
    sampler->sources = calloc(num_sources, sizeof *sampler->sources);
    pen_status status = sampler->sources == NULL ? PEN_NOMEM : PEN_OK;
    for (size_t i = 0; i < num_sources && status == PEN_OK; i++)
        status = set_source(sampler, i, sources[i].file, why);
    if (status == PEN_OK && num_sources > 1)
        status = make_turn(sampler, sources, why);
    if (status == PEN_OK)
        *out = sampler;
    else
        pen_sampler_free(sampler);
    return status;
}

void pen_sampler_free(struct pen_sampler *sampler)
{
    if (sampler == NULL)
        return;
    free(sampler->sources);
    free(sampler->turn);
    free(sampler);
}

/* ---- the shuffle ---- */

/* Mixes as the finalizer of splitmix64 does (Steele et al., 2014). */
static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/*
 * Permutes [0, count): a Feistel network over the next even number of bits,
 * repeated until the result falls inside (Black and Rogaway, CT-RSA 2002). The
 * network is at most four times as large, so four tries are the mean at most.
 */
static uint64_t permute(uint64_t index, uint64_t count, uint64_t key)
{
    unsigned half = 1;
    while (half < 32 && (uint64_t)1 << 2 * half < count)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = index >> half;
        uint64_t right = index & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next =
                left ^ (mix(key ^ mix(right * ROUNDS + round)) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

uint64_t pen_sampler_shuffle(uint64_t seed, uint64_t source, uint64_t epoch,
                             uint64_t index, uint64_t count)
{
    return permute(index, count, mix(mix(mix(seed) ^ source) ^ epoch));
}

uint64_t pen_sampler_epoch(const struct pen_sampler *sampler, size_t source)
{
    PEN_BUG_UNLESS(source < sampler->num_sources);
    return sampler->sources[source].num_sequences;
}

struct pen_sample_place pen_sampler_locate(const struct pen_sampler *sampler,
                                           uint64_t sample)
{
    struct pen_sample_place place = {.source = 0};
    if (sampler->turn != NULL) {
        struct turn_entry entry = sampler->turn[sample % TURN];
        place.source = entry.source;
        sample =
            sample / TURN * sampler->sources[entry.source].share + entry.rank;
    }
    const struct source *source = &sampler->sources[place.source];
    uint64_t sequence = sample % source->num_sequences;
    place.epoch = sample / source->num_sequences;
    if (!sampler->options.is_ordered)
        sequence =
            pen_sampler_shuffle(sampler->options.seed, place.source,
                                place.epoch, sequence, source->num_sequences);
    place.begin = source->first_token + sequence * sampler->options.seq_length;
    return place;
}

void pen_sampler_read(const struct pen_sampler *sampler, uint64_t sample,
                      uint32_t *out)
{
    struct pen_sample_place place = pen_sampler_locate(sampler, sample);
    pen_token_file_read(sampler->sources[place.source].file, place.begin,
                        (size_t)sampler->options.seq_length + 1, out);
}
