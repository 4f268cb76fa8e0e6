/*
 * Routing of one row, the same in every engine: which experts its logits choose
 * and with which gates, and the slopes of the logits. Included where REAL is
 * the type of a stat; no guard, on purpose. Sums are of doubles: a row has few
 * experts, and a choice should not hang on how a sum is ordered.
 *
 * With p the softmax over all experts, the gate of a chosen one is p, or p over
 * the sum of those chosen, which is the softmax over these alone.
 */

/* The largest first; of equal ones the lower number. Then in ascending order.
 */
static void choose_experts(const REAL *logits, size_t experts, size_t chosen,
                           int32_t *choice)
{
    for (size_t k = 0; k < chosen; k++) {
        size_t best = experts;
        for (size_t e = 0; e < experts; e++) {
            bool is_taken = false;
            for (size_t i = 0; i < k; i++)
                is_taken = is_taken || choice[i] == (int32_t)e;
            if (!is_taken && (best == experts || logits[e] > logits[best]))
                best = e;
        }
        /* Without a largest one, as after a NaN, the lowest numbers do. */
        choice[k] = (int32_t)best;
    }
    for (size_t k = 1; k < chosen; k++) {
        int32_t moved = choice[k];
        size_t to = k;
        for (; to > 0 && choice[to - 1] > moved; to--)
            choice[to] = choice[to - 1];
        choice[to] = moved;
    }
}

/* Sum of exp(logit - largest) over all experts. */
static double sum_exponentials(const REAL *logits, size_t experts,
                               double *largest)
{
    double sum = 0;
    *largest = (double)logits[0];
    for (size_t e = 1; e < experts; e++)
        *largest = (double)logits[e] > *largest ? (double)logits[e] : *largest;
    for (size_t e = 0; e < experts; e++)
        sum += exp((double)logits[e] - *largest);
    return sum;
}

static void route_row(const struct pen_router *router, const REAL *logits,
                      REAL *gates, int32_t *choice)
{
    size_t experts = router->weight->shape.rows;
    double largest;
    double all = sum_exponentials(logits, experts, &largest);
    double sum = 0;
    choose_experts(logits, experts, router->chosen, choice);
    for (size_t k = 0; k < router->chosen; k++)
        sum += exp((double)logits[choice[k]] - largest);
    for (size_t k = 0; k < router->chosen; k++)
        gates[k] = (REAL)(exp((double)logits[choice[k]] - largest) /
                          (router->is_normal ? sum : all));
}

/*
 * With the probabilities p of all experts and the slopes g' of the gates g:
 *   normal  l' = g (g' - sum g g')                of those chosen
 *   plain   l' = p (g' - sum g g')                where others have g' = 0
 *   aux     l' += p (a - sum p a),  a = aux experts / (chosen rows^2) tokens
 *   z       l' += 2 z / rows * log(sum exp l) p
 */
static void unroute_row(const struct pen_router *router, const REAL *logits,
                        const REAL *gates, const int32_t *choice,
                        const REAL *dgates, const int32_t *tokens,
                        REAL *dlogits)
{
    size_t experts = router->weight->shape.rows;
    double largest;
    double all = sum_exponentials(logits, experts, &largest);
    double rows = (double)router->rows;
    double per_token =
        router->aux * (double)experts / ((double)router->chosen * rows * rows);
    double common = 0, pull = 0;
    for (size_t k = 0; k < router->chosen; k++)
        common += (double)gates[k] * (double)dgates[k];
    for (size_t e = 0; e < experts && per_token > 0; e++)
        pull += exp((double)logits[e] - largest) / all * per_token * tokens[e];
    double z = 2 * router->z / rows * (largest + log(all));
    for (size_t e = 0; e < experts; e++) {
        double p = exp((double)logits[e] - largest) / all;
        double slope = router->is_normal ? 0 : -common;
        if (per_token > 0)
            slope += per_token * tokens[e] - pull;
        dlogits[e] = (REAL)(p * (slope + z));
    }
    for (size_t k = 0; k < router->chosen; k++)
        dlogits[choice[k]] +=
            (REAL)((double)gates[k] *
                   ((double)dgates[k] - (router->is_normal ? common : 0)));
}
