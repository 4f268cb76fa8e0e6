#include "sync/largest.h"

#include "base/bits.h"
#include "base/bug.h"
#include "base/clones.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    PART = 4096,       /* values that are made together */
    GROUP = 32,        /* and looked at together: bits of a word */
    SPARE = 1024,      /* keys beyond 2 k */
    LEAST_SAMPLE = 256 /* and vectors of four of them have one */
};

/* Returns the size of a float as an integer, which has the same order. */
static int32_t size_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & INT32_MAX;
}

/*
 * Makes a key that sorts by size; among equal sizes the first place has the
 * larger key.
 */
static uint64_t key_of(float value, size_t place)
{
    return (uint64_t)size_of(value) << 32 | (UINT32_MAX - (uint32_t)place);
}

static uint32_t place_of(uint64_t key)
{
    return UINT32_MAX - (uint32_t)key;
}

static size_t sample_length(size_t count)
{
    if (count / 4 < LEAST_SAMPLE)
        return 0;
    return count / 100 > LEAST_SAMPLE ? count / 100 : LEAST_SAMPLE;
}

size_t pen_largest_room(size_t count, size_t k)
{
    size_t wanted = 2 * k + SPARE;
    size_t room = (wanted < count ? wanted : count) + GROUP;
    size_t sample = sample_length(count);
    return room > sample ? room : sample;
}

pen_status pen_largest_init(struct pen_largest *largest, size_t room)
{
    *largest = (struct pen_largest){.keys = calloc(room, sizeof(uint64_t)),
                                    .scratch = calloc(room, sizeof(uint64_t)),
                                    .room = room};
    if (largest->keys != NULL && largest->scratch != NULL)
        return PEN_OK;
    pen_largest_release(largest);
    return PEN_NOMEM;
}

void pen_largest_release(struct pen_largest *largest)
{
    free(largest->keys);
    free(largest->scratch);
    *largest = (struct pen_largest){0};
}

/* ---- the k-th ---- */

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

/*
 * Returns the median of first, middle and last, and sorts these three in
 * falling order.
 */
static uint64_t pivot_of(uint64_t *keys, size_t first, size_t last)
{
    size_t middle = first + (last - first) / 2;
    if (keys[middle] > keys[first])
        swap(&keys[middle], &keys[first]);
    if (keys[last] > keys[first])
        swap(&keys[last], &keys[first]);
    if (keys[last] > keys[middle])
        swap(&keys[last], &keys[middle]);
    return keys[middle];
}

/* Returns the k-th largest, 1 for the largest; changes the order of all. */
static uint64_t kth_largest(uint64_t *keys, size_t count, size_t k)
{
    size_t first = 0, last = count - 1, at = k - 1;
    while (first < last) {
        uint64_t pivot = pivot_of(keys, first, last);
        size_t i = first, j = last;
        for (;;) {
            while (keys[i] > pivot)
                i++;
            while (keys[j] < pivot)
                j--;
            if (i >= j)
                break;
            swap(&keys[i++], &keys[j--]);
        }
        if (at <= j)
            last = j;
        else
            first = j + 1;
    }
    return keys[at];
}

/* ---- scanning ---- */

static float peek(const struct pen_largest_source *source, size_t place)
{
    return source->peek == NULL ? source->values[place]
                                : source->peek(source->context, place);
}

/*
 * Returns a threshold below the k largest sizes, from a sample; -1: all pass.
 */
static int32_t sample_threshold(struct pen_largest *largest,
                                const struct pen_largest_source *source,
                                size_t k)
{
    size_t length = sample_length(source->count);
    if (length == 0)
        return -1;
    size_t stride = source->count / length;
    double hits = (double)k * (double)length / (double)source->count;
    double rank = 1.2 * hits + 3 * sqrt(hits) + 1;
    if (rank >= (double)length)
        return -1;
    for (size_t i = 0; i < length; i++)
        largest->scratch[i] = key_of(peek(source, i * stride), i * stride);
    return (int32_t)(kth_largest(largest->scratch, length, (size_t)rank) >>
                     32) -
           1;
}

/* Drops all but the k largest; the k-th is returned. */
static uint64_t drop(struct pen_largest *largest, size_t count, size_t k)
{
    size_t kept = 0;
    memcpy(largest->scratch, largest->keys, count * sizeof *largest->keys);
    uint64_t last = kth_largest(largest->scratch, count, k);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = largest->keys[i];
        largest->keys[kept] = key;
        kept += key >= last;
    }
    return last;
}

/* The masks of a word, from which compilers make vector code. */
static const uint32_t bits[GROUP] = PEN_EACH_BIT;

/* Returns a bit for each value that passes. */
static uint32_t passes(const float *values, size_t count, int32_t threshold)
{
    uint32_t word = 0;
    for (size_t j = 0; j < count; j++)
        word |= size_of(values[j]) > threshold ? bits[j] : 0;
    return word;
}

/* A scan: the keys found so far, and the threshold for more. */
struct scan {
    struct pen_largest *largest;
    size_t k;
    size_t num_keys;
    int32_t threshold;
};

/* Adds the keys of the values that pass to those found so far. */
static void collect(struct scan *scan, uint32_t word, const float *values,
                    size_t first)
{
    if (scan->num_keys + GROUP > scan->largest->room) {
        uint64_t last = drop(scan->largest, scan->num_keys, scan->k);
        /* Later ones of that size would be dropped again. */
        scan->threshold = (int32_t)(last >> 32);
        scan->num_keys = scan->k;
    }
    for (; word != 0; word &= word - 1) {
        unsigned j = pen_lowest_bit(word);
        scan->largest->keys[scan->num_keys++] = key_of(values[j], first + j);
    }
}

PEN_CLONES static void scan_part(struct scan *scan, const float *values,
                                 size_t first, size_t count)
{
    for (size_t i = 0; i < count; i += GROUP) {
        uint32_t word = count - i >= GROUP
                            ? passes(values + i, GROUP, scan->threshold)
                            : passes(values + i, count - i, scan->threshold);
        if (word != 0)
            collect(scan, word, values + i, first + i);
    }
}

/*
 * Returns how many were found; the k largest are among them, unless there are
 * fewer.
 */
static size_t scan_all(struct pen_largest *largest,
                       const struct pen_largest_source *source, size_t k,
                       int32_t threshold, bool makes)
{
    struct scan scan = {largest, k, 0, threshold};
    for (size_t i = 0; i < source->count; i += PART) {
        size_t count = source->count - i < PART ? source->count - i : PART;
        if (makes && source->make != NULL)
            source->make(source->context, i, count);
        scan_part(&scan, source->values + i, i, count);
    }
    return scan.num_keys;
}

static void take_all(const struct pen_largest_source *source, uint32_t *places)
{
    if (source->make != NULL)
        source->make(source->context, 0, source->count);
    for (size_t i = 0; i < source->count; i++)
        places[i] = (uint32_t)i;
}

void pen_largest_find(struct pen_largest *largest,
                      const struct pen_largest_source *source, size_t k,
                      uint32_t *places)
{
    PEN_BUG_UNLESS(0 < k && k <= source->count && source->count <= UINT32_MAX &&
                   pen_largest_room(source->count, k) <= largest->room);
    if (k == source->count) {
        take_all(source, places);
        return;
    }
    int32_t threshold = sample_threshold(largest, source, k);
    size_t found = scan_all(largest, source, k, threshold, true);
    if (found < k)
        found = scan_all(largest, source, k, -1, false);
    (void)drop(largest, found, k);
    for (size_t i = 0; i < k; i++)
        places[i] = place_of(largest->keys[i]);
}
