/*
 * Tokens on their way to experts and back. A lane has a row of a router: rows
 * have few experts, and a choice must not hang on how lanes share them. Slots
 * are sorted by the host, which has to know how many rows an expert gets.
 */

/* 1 + the exponential is a double, so that large logits stay apart. */
INLINE double expert_score(const MEMORY float *logits,
                           const MEMORY float *offset, int is_sigmoid,
                           int has_offset, long expert)
{
    double score = is_sigmoid
                       ? 1.0 / (1.0 + (double)exponential(-logits[expert]))
                       : (double)logits[expert];
    return has_offset ? score + (double)offset[expert] : score;
}

/* The two largest of a group together, or the largest of a softmax. */
INLINE double group_score(const MEMORY float *logits,
                          const MEMORY float *offset, int is_sigmoid,
                          int has_offset, long first, long size)
{
    double most = 0, second = 0;
    for (long e = first; e < first + size; e++) {
        double score =
            expert_score(logits, offset, is_sigmoid, has_offset, e);
        if (e == first || score > most) {
            second = e == first ? -1e300 : most;
            most = score;
        } else if (score > second) {
            second = score;
        }
    }
    return is_sigmoid ? most + second : most;
}

INLINE int is_chosen(const MEMORY int *choice, long count, long expert)
{
    int is_found = 0;
    for (long k = 0; k < count; k++)
        is_found = is_found || choice[k] == (int)expert;
    return is_found;
}

/* The largest first, of equal ones the first; without one, the first left. */
KERNEL(route_choose, route)
{
    IN(float, all_logits, 0);
    IN(float, offset, 1);
    OUT(int, all_choices, 2);
    EACH_LANE
    long row = GROUP * PEN__LANES + lane;
    if (row < n.rows) {
        const MEMORY float *logits = all_logits + row * n.experts;
        MEMORY int *choice = all_choices + row * n.chosen;
        const long size = n.experts / n.groups;
        long open = n.groups > 1 ? 0 : 1; /* a bit for each group */
        for (long k = 0; k < n.chosen_groups && n.groups > 1; k++) {
            long best = -1;
            double most = 0;
            for (long g = 0; g < n.groups; g++) {
                double score = group_score(logits, offset, n.is_sigmoid,
                                           n.has_offset, g * size, size);
                if ((open >> g & 1) == 0 && (best < 0 || score > most)) {
                    best = g;
                    most = score;
                }
            }
            open |= 1L << best;
        }
        for (long k = 0; k < n.chosen; k++) {
            long best = -1;
            double most = 0;
            for (long e = 0; e < n.experts; e++) {
                if ((open >> e / size & 1) == 0 || is_chosen(choice, k, e))
                    continue;
                double score = expert_score(logits, offset, n.is_sigmoid,
                                            n.has_offset, e);
                if (best < 0 || score > most) {
                    best = e;
                    most = score;
                }
            }
            choice[k] = (int)best;
        }
        for (long k = 1; k < n.chosen; k++) {
            int moved = choice[k];
            long to = k;
            for (; to > 0 && choice[to - 1] > moved; to--)
                choice[to] = choice[to - 1];
            choice[to] = moved;
        }
    }
    DONE
}

INLINE float largest_logit(const MEMORY float *logits, long experts)
{
    float largest = logits[0];
    for (long e = 1; e < experts; e++)
        largest = logits[e] > largest ? logits[e] : largest;
    return largest;
}

INLINE float sum_of_exponentials(const MEMORY float *logits, long experts,
                                 float largest)
{
    float sum = 0;
    for (long e = 0; e < experts; e++)
        sum += exponential(logits[e] - largest);
    return sum;
}

/* What the exponentials, or sigmoids, of those chosen are divided by. */
INLINE float sum_of_chosen(const MEMORY float *logits, const MEMORY int *choice,
                           long chosen, int is_sigmoid, float largest)
{
    float sum = is_sigmoid ? 1e-20f : 0.0f;
    for (long k = 0; k < chosen; k++)
        sum += is_sigmoid ? sigmoid(logits[choice[k]])
                          : exponential(logits[choice[k]] - largest);
    return sum;
}

KERNEL(route_gates, route)
{
    IN(float, all_logits, 0);
    IN(int, all_choices, 1);
    OUT(float, gates, 2);
    EACH_LANE
    long row = GROUP * PEN__LANES + lane;
    if (row < n.rows) {
        const MEMORY float *logits = all_logits + row * n.experts;
        const MEMORY int *choice = all_choices + row * n.chosen;
        float largest = largest_logit(logits, n.experts);
        float sum = 1;
        if (n.is_normal)
            sum = sum_of_chosen(logits, choice, n.chosen, n.is_sigmoid,
                                largest);
        else if (!n.is_sigmoid)
            sum = sum_of_exponentials(logits, n.experts, largest);
        for (long k = 0; k < n.chosen; k++) {
            float logit = logits[choice[k]];
            float part = n.is_sigmoid ? sigmoid(logit)
                                      : exponential(logit - largest);
            gates[row * n.chosen + k] = n.scale * part / sum;
        }
    }
    DONE
}

/* The formulas are those of engine/routing_of_real.h. */
KERNEL(route_slopes, route)
{
    IN(float, all_logits, 0);
    IN(float, all_gates, 1);
    IN(int, all_choices, 2);
    IN(int, tokens, 3);
    IN(float, all_slopes, 4);
    OUT(float, dlogits, 5);
    EACH_LANE
    long row = GROUP * PEN__LANES + lane;
    if (row < n.rows) {
        const MEMORY float *logits = all_logits + row * n.experts;
        const MEMORY float *gates = all_gates + row * n.chosen;
        const MEMORY int *choice = all_choices + row * n.chosen;
        const MEMORY float *slopes = all_slopes + row * n.chosen;
        MEMORY float *out = dlogits + row * n.experts;
        float largest = largest_logit(logits, n.experts);
        float all = sum_of_exponentials(logits, n.experts, largest);
        float sum = n.is_sigmoid ? 1.0f : all;
        if (n.is_normal)
            sum = sum_of_chosen(logits, choice, n.chosen, n.is_sigmoid,
                                largest);
        float common = 0;
        for (long k = 0; k < n.chosen; k++)
            common = FMA(gates[k], slopes[k], common);
        float pull = 0;
        for (long e = 0; e < n.experts && n.aux > 0; e++)
            pull += exponential(logits[e] - largest) / all * n.aux *
                    (float)tokens[e];
        float z = n.z * (largest + logarithm(all));
        float plain = n.is_normal || n.is_sigmoid ? 0.0f : -common;
        for (long e = 0; e < n.experts; e++) {
            float p = exponential(logits[e] - largest) / all;
            float slope = plain;
            if (n.aux > 0)
                slope += n.aux * (float)tokens[e] - pull;
            out[e] = p * (slope + z);
        }
        for (long k = 0; k < n.chosen; k++) {
            float logit = logits[choice[k]];
            if (n.is_sigmoid) {
                float s = sigmoid(logit);
                float past = n.is_normal ? common : 0.0f;
                out[choice[k]] +=
                    s * (1 - s) * (n.scale * slopes[k] - past) / sum;
            } else {
                float gate = n.scale * exponential(logit - largest) / sum;
                float past = n.is_normal ? common / n.scale : 0.0f;
                out[choice[k]] += gate * (slopes[k] - past);
            }
        }
    }
    DONE
}

KERNEL(dispatch_rows, dispatch)
{
    IN(int, order, 0);
    IN(element, x, 1);
    OUT(element, y, 2);
    EACH_LANE
    EACH_OF(i, n.rows * n.chosen * n.width)
    {
        long row = order[i / n.width] / n.chosen;
        y[i] = x[row * n.width + i % n.width];
    }
    DONE
}

KERNEL(collect_rows, dispatch)
{
    IN(int, places, 0);
    IN(element, x, 1);
    IN(element, past, 2);
    OUT(element, y, 3);
    EACH_LANE
    EACH_OF(i, n.rows * n.width)
    {
        long row = i / n.width;
        float sum = n.has_add ? GET(past[i]) : 0.0f;
        for (long k = 0; k < n.chosen; k++)
            sum += GET(x[places[row * n.chosen + k] * n.width + i % n.width]);
        y[i] = PUT(sum);
    }
    DONE
}

KERNEL(gate_forward, dispatch)
{
    IN(int, order, 0);
    IN(float, gates, 1);
    IN(element, x, 2);
    OUT(element, y, 3);
    EACH_LANE
    EACH_OF(i, n.rows * n.chosen * n.width)
        y[i] = PUT(gates[order[i / n.width]] * GET(x[i]));
    DONE
}

/* A group has a copy of a row. */
KERNEL(gate_backward, dispatch)
{
    IN(int, order, 0);
    IN(float, gates, 1);
    IN(element, x, 2);
    IN(element, dy, 3);
    OUT(float, dgates, 4);
    OUT(element, dx, 5);
    LOCAL(float, sums, PEN__LANES);
    const long row = GROUP * n.width;
    const long slot = order[GROUP];
    EACH_LANE
    float sum = 0;
    for (long i = lane; i < n.width; i += PEN__LANES) {
        float slope = GET(dy[row + i]);
        sum = FMA(GET(x[row + i]), slope, sum);
        dx[row + i] = PUT(gates[slot] * slope);
    }
    sums[lane] = sum;
    MEET
    SUM_OF_LANES(sums)
    EACH_LANE
    if (lane == 0)
        dgates[slot] = sums[0];
    DONE
}

/* Gates and ups take turns in a row; what is clamped has no slope. */
KERNEL(clamped_forward, clamped)
{
    IN(element, x, 0);
    OUT(element, y, 1);
    EACH_LANE
    EACH_OF(i, n.count)
    {
        float g = GET(x[2 * i]);
        float u = GET(x[2 * i + 1]);
        g = g > n.limit ? n.limit : g;
        u = u > n.limit ? n.limit : u;
        u = u < -n.limit ? -n.limit : u;
        y[i] = PUT(g * sigmoid(n.alpha * g) * (u + 1));
    }
    DONE
}

KERNEL(clamped_backward, clamped)
{
    IN(element, x, 0);
    IN(element, dy, 1);
    OUT(element, dx, 2);
    EACH_LANE
    EACH_OF(i, n.count)
    {
        float gate = GET(x[2 * i]);
        float up = GET(x[2 * i + 1]);
        int is_high = gate > n.limit;
        int is_out = up > n.limit || up < -n.limit;
        float g = is_high ? n.limit : gate;
        float u = up > n.limit ? n.limit : up;
        u = u < -n.limit ? -n.limit : u;
        float s = sigmoid(n.alpha * g);
        float slope = GET(dy[i]);
        float turn = s * (1 + n.alpha * g * (1 - s));
        dx[2 * i] = PUT(is_high ? 0.0f : slope * (u + 1) * turn);
        dx[2 * i + 1] = PUT(is_out ? 0.0f : slope * g * s);
    }
    DONE
}

KERNEL(gated_bias_forward, dispatch)
{
    IN(int, order, 0);
    IN(float, gates, 1);
    IN(float, bias, 2);
    OUT(element, y, 3);
    EACH_LANE
    EACH_OF(i, n.rows * n.chosen * n.width)
        y[i] = PUT(FMA(gates[order[i / n.width]], bias[i % n.width],
                       GET(y[i])));
    DONE
}

/* A group has a copy of a row. */
KERNEL(gated_bias_slopes, dispatch)
{
    IN(int, order, 0);
    IN(float, bias, 1);
    IN(element, dy, 2);
    OUT(float, dgates, 3);
    LOCAL(float, sums, PEN__LANES);
    EACH_LANE
    float sum = 0;
    for (long i = lane; i < n.width; i += PEN__LANES)
        sum = FMA(GET(dy[GROUP * n.width + i]), bias[i], sum);
    sums[lane] = sum;
    MEET
    SUM_OF_LANES(sums)
    EACH_LANE
    if (lane == 0)
        dgates[order[GROUP]] += sums[0];
    DONE
}

/* A lane has a column. */
KERNEL(gated_bias_weight, dispatch)
{
    IN(int, order, 0);
    IN(float, gates, 1);
    IN(element, dy, 2);
    OUT(float, dbias, 3);
    EACH_LANE
    long i = GROUP * PEN__LANES + lane;
    if (i < n.width) {
        float sum = dbias[i];
        for (long row = 0; row < n.rows * n.chosen; row++)
            sum = FMA(gates[order[row]], GET(dy[row * n.width + i]), sum);
        dbias[i] = sum;
    }
    DONE
}
