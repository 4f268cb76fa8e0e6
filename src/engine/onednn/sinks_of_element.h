/* Sinks of attention; formulas are those of reference/sinks_of_real.h. */

static void sinks_forward(struct pen_engine *engine,
                          const struct pen_sinks *sinks, void *out, void *lse)
{
    const float *logits = sinks->logits->parts[PEN_PART_VALUE];
    size_t heads = sinks->heads, size = sinks->head_size;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < sinks->batch * sinks->sequence; row++)
        for (size_t head = 0; head < heads; head++) {
            size_t first = row / sinks->sequence * heads + head;
            float *level =
                (float *)lse + first * sinks->sequence + row % sinks->sequence;
            ELEMENT *at = (ELEMENT *)out + (row * heads + head) * size;
            float largest = fmaxf(*level, logits[head]);
            float after = largest + logf(expf(*level - largest) +
                                         expf(logits[head] - largest));
            float share = expf(*level - after);
#pragma omp simd
            for (size_t i = 0; i < size; i++)
                STORE(at, i, share * LOAD(at, i));
            *level = after;
        }
}

/* One head, in the order of rows whatever the number of threads. */
static float sink_slope(const struct pen_sinks *sinks, size_t head,
                        const ELEMENT *out, const float *lse,
                        const ELEMENT *dout)
{
    float logit = sinks->logits->parts[PEN_PART_VALUE][head];
    size_t size = sinks->head_size;
    double slope = 0;
    for (size_t row = 0; row < sinks->batch * sinks->sequence; row++) {
        size_t first = row / sinks->sequence * sinks->heads + head;
        size_t at = (row * sinks->heads + head) * size;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < size; i++)
            sum += LOAD(out, at + i) * LOAD(dout, at + i);
        slope -= (double)(sum * expf(logit - lse[first * sinks->sequence +
                                                 row % sinks->sequence]));
    }
    return (float)slope;
}

static void sinks_backward_input(struct pen_engine *engine,
                                 const struct pen_sinks *sinks, const void *out,
                                 const void *lse, const void *dout,
                                 void *slopes)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t head = 0; head < sinks->heads; head++)
        ((float *)slopes)[head] = sink_slope(sinks, head, out, lse, dout);
}

static void sinks_backward_weight(struct pen_engine *engine,
                                  const struct pen_sinks *sinks,
                                  const void *slopes)
{
    float *gradient = pen__gradient(sinks->logits);
    (void)engine;
    for (size_t head = 0; head < sinks->heads; head++)
        gradient[head] += ((const float *)slopes)[head];
}
