/*
 * Sinks of attention. With the lse of all logits l, the weight of a sink s is
 * p = exp(s - l). It has no value, so that the slope of its logit is
 * p (0 - dout . out).
 */

struct sink {
    size_t out_at;
    size_t lse_at;
};

static struct sink sink_at(const struct pen_sinks *sinks, size_t row,
                           size_t head)
{
    size_t batch = row / sinks->sequence;
    size_t position = row % sinks->sequence;
    return (struct sink){
        .out_at = (row * sinks->heads + head) * sinks->head_size,
        .lse_at = (batch * sinks->heads + head) * sinks->sequence + position};
}

static void sinks_forward(struct pen_engine *engine,
                          const struct pen_sinks *sinks, void *out, void *lse)
{
    (void)engine;
    const REAL *logits = sinks->logits->parts[PEN_PART_VALUE];
    for (size_t row = 0; row < sinks->batch * sinks->sequence; row++)
        for (size_t head = 0; head < sinks->heads; head++) {
            struct sink it = sink_at(sinks, row, head);
            REAL before = ((REAL *)lse)[it.lse_at];
            REAL largest = FN(fmax)(before, logits[head]);
            REAL after = largest + FN(log)(FN(exp)(before - largest) +
                                           FN(exp)(logits[head] - largest));
            for (size_t i = 0; i < sinks->head_size; i++)
                ((REAL *)out)[it.out_at + i] *= FN(exp)(before - after);
            ((REAL *)lse)[it.lse_at] = after;
        }
}

static void sinks_backward_input(struct pen_engine *engine,
                                 const struct pen_sinks *sinks, const void *out,
                                 const void *lse, const void *dout,
                                 void *slopes)
{
    (void)engine;
    const REAL *logits = sinks->logits->parts[PEN_PART_VALUE];
    for (size_t head = 0; head < sinks->heads; head++) {
        REAL sum = 0;
        for (size_t row = 0; row < sinks->batch * sinks->sequence; row++) {
            struct sink it = sink_at(sinks, row, head);
            REAL weight =
                FN(exp)(logits[head] - ((const REAL *)lse)[it.lse_at]);
            sum -=
                weight * dot(sinks->head_size, (const REAL *)dout + it.out_at,
                             (const REAL *)out + it.out_at);
        }
        ((REAL *)slopes)[head] = sum;
    }
}

static void sinks_backward_weight(struct pen_engine *engine,
                                  const struct pen_sinks *sinks,
                                  const void *slopes)
{
    (void)engine;
    for (size_t head = 0; head < sinks->heads; head++)
        sinks->logits->parts[PEN_PART_GRADIENT][head] +=
            ((const REAL *)slopes)[head];
}
