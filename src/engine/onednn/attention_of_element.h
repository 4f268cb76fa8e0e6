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

/* The columns that a query of the block sees: *low..*high - 1. */
static void visible(const struct pen__scores *block, size_t query, size_t *low,
                    size_t *high)
{
    size_t position = block->first_query + query;
    size_t begin = 0;
    if (block->window > 0 && position + 1 > block->window)
        begin = position + 1 - block->window;
    *low = begin > block->begin ? begin - block->begin : 0;
    *high = position + 1 - block->begin;
}

static void hide(size_t low, size_t high, size_t keys, ELEMENT *row)
{
    memset(row, 0, low * sizeof *row);
    memset(row + high, 0, (keys - high) * sizeof *row);
}

static void softmax(const struct pen__scores *block, const float *scores,
                    void *probabilities, float *lse)
{
    /* A copy: a store of a float could change the one in the block. */
    float scale = block->scale;
    for (size_t query = 0; query < block->queries; query++) {
        const float *score = scores + query * block->keys;
        ELEMENT *out = (ELEMENT *)probabilities + query * block->keys;
        size_t low, high;
        visible(block, query, &low, &high);
        float largest = score[low];
        float sum = 0;
#pragma omp simd reduction(max : largest)
        for (size_t i = low; i < high; i++)
            largest = score[i] > largest ? score[i] : largest;
#pragma omp simd reduction(+ : sum)
        for (size_t i = low; i < high; i++)
            sum += pen__exp(scale * (score[i] - largest));
        float level = scale * largest + logf(sum);
        float share = 1 / sum;
#pragma omp simd
        for (size_t i = low; i < high; i++)
            STORE(out, i, pen__exp(scale * (score[i] - largest)) * share);
        hide(low, high, block->keys, out);
        lse[query] = level;
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
        float level = lse[query];
        float middle = 0;
        size_t low, high;
        visible(block, query, &low, &high);
#pragma omp simd reduction(+ : middle)
        for (size_t i = low; i < high; i++) {
            float weight = pen__exp(scale * score[i] - level);
            STORE(p, i, weight);
            score[i] = weight;
            middle += weight * slope[i];
        }
#pragma omp simd
        for (size_t i = low; i < high; i++)
            STORE(ds, i, scale * score[i] * (slope[i] - middle));
        hide(low, high, block->keys, p);
        hide(low, high, block->keys, ds);
    }
}
