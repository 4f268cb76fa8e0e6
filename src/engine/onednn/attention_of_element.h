/* What attention.c does between its products. Each call is one thread's. */

static void gather(size_t rows, size_t width, size_t stride, const void *from,
                   void *to)
{
    for (size_t row = 0; row < rows; row++)
        memcpy((ELEMENT *)to + row * width,
               (const ELEMENT *)from + row * stride, width * sizeof(ELEMENT));
}

static void scatter(size_t rows, size_t width, size_t stride, const float *from,
                    void *to)
{
    for (size_t row = 0; row < rows; row++) {
        const float *in = from + row * width;
        ELEMENT *out = (ELEMENT *)to + row * stride;
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(out, i, in[i]);
    }
}

/*
 * A row of a block: the columns that its query sees, low..high - 1, and the end
 * of the last vector that has one of them, if the row is as long. Columns from
 * high to end are computed in vain rather than one by one, and come out zero.
 */
struct visible {
    size_t low;
    size_t high;
    size_t end;
};

static struct visible visible(const struct pen__scores *block, size_t query)
{
    size_t position = block->first_query + query;
    size_t begin = block->begin;
    if (block->window > 0 && position + 1 > block->window + begin)
        begin = position + 1 - block->window;
    struct visible row = {begin - block->begin, position + 1 - block->begin, 0};
    row.end = row.low + (row.high - row.low + LANES - 1) / LANES * LANES;
    if (row.end > block->keys)
        row.end = block->keys;
    return row;
}

/* Gives the columns in vain a score that comes out as zero. */
static void blind(const struct visible *row, float *score)
{
    for (size_t i = row->high; i < row->end; i++)
        score[i] = -FLT_MAX;
}

static void hide(const struct visible *row, size_t keys, ELEMENT *out)
{
    memset(out, 0, row->low * sizeof *out);
    memset(out + row->end, 0, (keys - row->end) * sizeof *out);
}

static void softmax(const struct pen__scores *block, float *scores,
                    void *probabilities, float *lse)
{
    /* A copy: a store of a float could change the one in the block. */
    float scale = block->scale;
    for (size_t query = 0; query < block->queries; query++) {
        float *score = scores + query * block->keys;
        ELEMENT *out = (ELEMENT *)probabilities + query * block->keys;
        struct visible row = visible(block, query);
        blind(&row, score);
        float largest = score[row.low];
        float sum = 0;
#pragma omp simd reduction(max : largest)
        for (size_t i = row.low; i < row.end; i++)
            largest = score[i] > largest ? score[i] : largest;
        float level = scale * largest;
#pragma omp simd reduction(+ : sum)
        for (size_t i = row.low; i < row.end; i++) {
            score[i] = pen__exp(scale * score[i] - level);
            sum += score[i];
        }
        float share = 1 / sum;
#pragma omp simd
        for (size_t i = row.low; i < row.end; i++)
            STORE(out, i, score[i] * share);
        hide(&row, block->keys, out);
        lse[query] = level + logf(sum);
    }
}

/*
 * The mean slope is summed from the probabilities themselves. The product of
 * output and its gradient is the same number, but the output was rounded, and
 * slopes that nearly cancel would show it.
 */
static void softmax_slope(const struct pen__scores *block, const float *lse,
                          float *scores, const float *dprobabilities,
                          void *probabilities, void *dscores)
{
    /* A copy: a store of a float could change the one in the block. */
    float scale = block->scale;
    for (size_t query = 0; query < block->queries; query++) {
        float *score = scores + query * block->keys;
        const float *slope = dprobabilities + query * block->keys;
        ELEMENT *p = (ELEMENT *)probabilities + query * block->keys;
        ELEMENT *ds = (ELEMENT *)dscores + query * block->keys;
        struct visible row = visible(block, query);
        blind(&row, score);
        float level = lse[query];
        float middle = 0;
#pragma omp simd reduction(+ : middle)
        for (size_t i = row.low; i < row.end; i++) {
            score[i] = pen__exp(scale * score[i] - level);
            middle += score[i] * slope[i];
        }
#pragma omp simd
        for (size_t i = row.low; i < row.end; i++) {
            float weight = score[i];
            STORE(p, i, weight);
            STORE(ds, i, scale * weight * (slope[i] - middle));
        }
        hide(&row, block->keys, p);
        hide(&row, block->keys, ds);
    }
}
