/*
 * The parts of attention.c between its products. Each call is for one thread.
 */

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

static void hide(const struct pen__visible *row, size_t keys, ELEMENT *out)
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
        float *score = scores + query * block->stride;
        ELEMENT *out = (ELEMENT *)probabilities + query * block->stride;
        struct pen__visible row = pen__visible(block, query);
        pen__blind(&row, score);
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
        float *score = scores + query * block->stride;
        const float *slope = dprobabilities + query * block->stride;
        ELEMENT *p = (ELEMENT *)probabilities + query * block->stride;
        ELEMENT *ds = (ELEMENT *)dscores + query * block->stride;
        struct pen__visible row = pen__visible(block, query);
        pen__blind(&row, score);
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
