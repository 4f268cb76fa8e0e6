/*
 * Attention between its products: scores of a block of queries become
 * probabilities, and in the backward their slopes. A group has the keys of one
 * query of one head.
 */

/* Whether query number i of the block sees key number j of it. */
#define IS_SEEN(i, j)                                                          \
    (n.first_key + (j) <= n.first_query + (i) &&                               \
     (n.window == 0 ||                                                         \
      n.first_key + (j) + n.window > n.first_query + (i)))

KERNEL(attention_softmax, attention)
{
    OUT(float, scores, 0);
    OUT(float, lse, 1);
    LOCAL(float, largest, PEN__LANES);
    LOCAL(float, sums, PEN__LANES);
    const long i = GROUP % n.queries;
    const long row = GROUP * n.keys;
    EACH_LANE
    float most = -3.4028234e38f;
    for (long j = lane; j < n.keys; j += PEN__LANES)
        if (IS_SEEN(i, j) && scores[row + j] > most)
            most = scores[row + j];
    largest[lane] = most;
    MEET
    LARGEST_OF_LANES(largest)
    EACH_LANE
    float sum = 0;
    for (long j = lane; j < n.keys; j += PEN__LANES) {
        float weight =
            IS_SEEN(i, j) ? exponential(scores[row + j] - largest[0]) : 0.0f;
        scores[row + j] = weight;
        sum += weight;
    }
    sums[lane] = sum;
    MEET
    SUM_OF_LANES(sums)
    EACH_LANE
    for (long j = lane; j < n.keys; j += PEN__LANES)
        scores[row + j] /= sums[0];
    if (lane == 0)
        lse[GROUP / n.queries * n.sequence + n.first_query + i] =
            largest[0] + logarithm(sums[0]);
    DONE
}

/* dout . out of each query of each head; a lane has one of them. */
KERNEL(attention_average, attention)
{
    IN(element, out, 0);
    IN(element, dout, 1);
    OUT(float, averages, 2);
    EACH_LANE
    long i = GROUP * PEN__LANES + lane;
    if (i < n.batch * n.heads * n.sequence) {
        long head = i / n.sequence % n.heads;
        long row = i / n.sequence / n.heads * n.sequence + i % n.sequence;
        long at = (row * n.heads + head) * n.head_size;
        float sum = 0;
        for (long j = 0; j < n.head_size; j++)
            sum = FMA(GET(out[at + j]), GET(dout[at + j]), sum);
        averages[i] = sum;
    }
    DONE
}

/*
 * Scores become probabilities p, and the slopes of the probabilities those of
 * the scores: scale * p (slope - average).
 */
KERNEL(attention_slopes, attention)
{
    OUT(float, scores, 0);
    OUT(float, slopes, 1);
    IN(float, lse, 2);
    IN(float, averages, 3);
    const long i = GROUP % n.queries;
    const long row = GROUP * n.keys;
    const long query = GROUP / n.queries * n.sequence + n.first_query + i;
    EACH_LANE
    for (long j = lane; j < n.keys; j += PEN__LANES) {
        float weight =
            IS_SEEN(i, j) ? exponential(scores[row + j] - lse[query]) : 0.0f;
        scores[row + j] = weight;
        slopes[row + j] =
            IS_SEEN(i, j)
                ? n.scale * weight * (slopes[row + j] - averages[query])
                : 0.0f;
    }
    DONE
}

/* Dense rows of floats, of all heads, as rows of elements with a stride. */
KERNEL(attention_round, attention)
{
    IN(float, from, 0);
    OUT(element, to, 1);
    EACH_LANE
    EACH_OF(i, n.batch *n.sequence *n.heads *n.head_size)
    {
        long width = n.heads * n.head_size;
        to[i / width * n.stride + i % width] = PUT(from[i]);
    }
    DONE
}

/*
 * A group has a query of a head. One more logit, the sink, is in the sum of
 * exponentials and has no value: results shrink.
 */
KERNEL(sinks_forward, sinks)
{
    IN(float, logits, 0);
    OUT(element, out, 1);
    OUT(float, lse, 2);
    LOCAL(float, shrinking, PEN__LANES);
    const long row = GROUP / n.heads;
    const long head = GROUP % n.heads;
    const long at_lse = (row / n.sequence * n.heads + head) * n.sequence +
                        row % n.sequence;
    EACH_LANE
    float factor = 1;
    if (lane == 0) {
        float before = lse[at_lse];
        float sink = logits[head];
        float largest = before > sink ? before : sink;
        float after = largest + logarithm(exponential(before - largest) +
                                          exponential(sink - largest));
        factor = exponential(before - after);
        lse[at_lse] = after;
    }
    shrinking[lane] = factor;
    MEET
    EACH_LANE
    for (long i = lane; i < n.head_size; i += PEN__LANES) {
        long to = GROUP * n.head_size + i;
        out[to] = PUT(GET(out[to]) * shrinking[0]);
    }
    DONE
}

/* A group has a head; a lane adds up some of its queries. */
KERNEL(sinks_slopes, sinks)
{
    IN(float, logits, 0);
    IN(element, out, 1);
    IN(float, lse, 2);
    IN(element, dout, 3);
    OUT(float, slopes, 4);
    LOCAL(float, sums, PEN__LANES);
    EACH_LANE
    float sum = 0;
    for (long row = lane; row < n.rows; row += PEN__LANES) {
        const long first = (row * n.heads + GROUP) * n.head_size;
        float slope = 0;
        for (long i = 0; i < n.head_size; i++)
            slope = FMA(GET(dout[first + i]), GET(out[first + i]), slope);
        sum -= exponential(logits[GROUP] -
                           lse[(row / n.sequence * n.heads + GROUP) *
                                   n.sequence +
                               row % n.sequence]) *
               slope;
    }
    sums[lane] = sum;
    MEET
    SUM_OF_LANES(sums)
    EACH_LANE
    if (lane == 0)
        slopes[GROUP] = sums[0];
    DONE
}

KERNEL(sinks_weight, sinks)
{
    IN(float, slopes, 0);
    OUT(float, dlogits, 1);
    EACH_LANE
    long head = GROUP * PEN__LANES + lane;
    if (head < n.heads)
        dlogits[head] += slopes[head];
    DONE
}
