/*
 * Routing of one row, the same in every engine: which experts its logits choose
 * and with which gates, and the slopes of the logits. Included where REAL is
 * the type of a stat; no guard, on purpose. Sums are of doubles: a row has few
 * experts, and a choice should not hang on how a sum is ordered.
 *
 * With p the softmax over all experts, the gate of a chosen one is p, or p over
 * the sum of those chosen, which is the softmax over these alone.
 */

static double sigmoid_of(REAL logit)
{
    return 1 / (1 + exp(-(double)logit));
}

/* The score that a row chooses its experts by. */
static double choice_score(const struct pen_router *router, const REAL *logits,
                           size_t expert)
{
    double score = router->is_sigmoid ? sigmoid_of(logits[expert])
                                      : (double)logits[expert];
    return router->offset == NULL
               ? score
               : score + (double)router->offset->parts[PEN_PART_VALUE][expert];
}

/* The two largest of a group together, or the largest of a softmax. */
static double group_score(const struct pen_router *router, const REAL *logits,
                          size_t group)
{
    size_t size = router->weight->shape.rows / router->groups;
    double first = -HUGE_VAL, second = -HUGE_VAL;
    for (size_t e = group * size; e < (group + 1) * size; e++) {
        double score = choice_score(router, logits, e);
        if (score > first) {
            second = first;
            first = score;
        } else if (score > second) {
            second = score;
        }
    }
    return router->is_sigmoid ? first + second : first;
}

/* A bit for each group that experts are chosen from. */
static uint64_t find_groups(const struct pen_router *router, const REAL *logits)
{
    double scores[PEN_MOST_EXPERT_GROUPS];
    uint64_t found = 0;
    if (router->groups <= 1)
        return 1;
    for (size_t group = 0; group < router->groups; group++)
        scores[group] = group_score(router, logits, group);
    for (size_t k = 0; k < router->chosen_groups; k++) {
        size_t best = router->groups;
        for (size_t group = 0; group < router->groups; group++)
            if ((found >> group & 1) == 0 &&
                (best == router->groups || scores[group] > scores[best]))
                best = group;
        found |= UINT64_C(1) << best;
    }
    return found;
}

/* The largest first; of equal ones the lower number. Then in ascending order.
 */
static void choose_experts(const struct pen_router *router, const REAL *logits,
                           int32_t *choice)
{
    size_t experts = router->weight->shape.rows;
    size_t chosen = router->chosen;
    size_t size = router->groups > 1 ? experts / router->groups : experts;
    uint64_t groups = find_groups(router, logits);
    for (size_t k = 0; k < chosen; k++) {
        size_t best = experts;
        for (size_t e = 0; e < experts; e++) {
            bool is_taken = (groups >> e / size & 1) == 0;
            for (size_t i = 0; i < k; i++)
                is_taken = is_taken || choice[i] == (int32_t)e;
            if (!is_taken &&
                (best == experts || choice_score(router, logits, e) >
                                        choice_score(router, logits, best)))
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

static double scale_of(const struct pen_router *router)
{
    return router->scale > 0 ? router->scale : 1;
}

/* The number that divides the sigmoids of a row. */
static double sigmoid_sum(const struct pen_router *router, const REAL *logits,
                          const int32_t *choice)
{
    double sum = 1e-20;
    if (!router->is_normal)
        return 1;
    for (size_t k = 0; k < router->chosen; k++)
        sum += sigmoid_of(logits[choice[k]]);
    return sum;
}

static void gate_by_sigmoids(const struct pen_router *router,
                             const REAL *logits, REAL *gates,
                             const int32_t *choice)
{
    double sum = sigmoid_sum(router, logits, choice);
    for (size_t k = 0; k < router->chosen; k++)
        gates[k] =
            (REAL)(scale_of(router) * sigmoid_of(logits[choice[k]]) / sum);
}

/* The number that divides the exponentials of a row. */
static double softmax_sum(const struct pen_router *router, const REAL *logits,
                          const int32_t *choice, double largest, double all)
{
    double sum = 0;
    if (!router->is_normal)
        return all;
    for (size_t k = 0; k < router->chosen; k++)
        sum += exp((double)logits[choice[k]] - largest);
    return sum;
}

static double softmax_gate(const struct pen_router *router, REAL logit,
                           double largest, double sum)
{
    return scale_of(router) * exp((double)logit - largest) / sum;
}

static void route_row(const struct pen_router *router, const REAL *logits,
                      REAL *gates, int32_t *choice)
{
    size_t experts = router->weight->shape.rows;
    double largest;
    double all = sum_exponentials(logits, experts, &largest);
    choose_experts(router, logits, choice);
    if (router->is_sigmoid) {
        gate_by_sigmoids(router, logits, gates, choice);
        return;
    }
    double sum = softmax_sum(router, logits, choice, largest, all);
    for (size_t k = 0; k < router->chosen; k++)
        gates[k] = (REAL)softmax_gate(router, logits[choice[k]], largest, sum);
}

/*
 * The slope of a logit under sigmoid gates; `common` is the sum of gates times
 * their slopes.
 */
static double sigmoid_slope(const struct pen_router *router, REAL logit,
                            double sum, double slope, double common)
{
    double s = sigmoid_of(logit);
    return s * (1 - s) *
           (scale_of(router) * slope - (router->is_normal ? common : 0)) / sum;
}

/*
 * With the probabilities p of all experts and the slopes g' of the gates g:
 *   normal  l' = g (g' - sum g g' / scale)        of those chosen
 *   plain   l' = p (g' - sum g g')                where others have g' = 0
 *   sigmoid l' = s (1 - s) (scale g' - normal sum g g') / (normal sum s, or 1)
 *   aux     l' += p (a - sum p a),  a = aux experts / (chosen rows^2) tokens
 *   z       l' += 2 z / rows * log(sum exp l) p
 *
 * Gates that were made 0 afterwards, of dropped tokens, have g g' = 0 in sums.
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
    double sum = softmax_sum(router, logits, choice, largest, all);
    double z = 2 * router->z / rows * (largest + log(all));
    for (size_t e = 0; e < experts; e++) {
        double p = exp((double)logits[e] - largest) / all;
        double slope = router->is_normal || router->is_sigmoid ? 0 : -common;
        if (per_token > 0)
            slope += per_token * tokens[e] - pull;
        dlogits[e] = (REAL)(p * (slope + z));
    }
    for (size_t k = 0; k < router->chosen && router->is_sigmoid; k++)
        dlogits[choice[k]] += (REAL)sigmoid_slope(
            router, logits[choice[k]], sigmoid_sum(router, logits, choice),
            (double)dgates[k], common);
    for (size_t k = 0; k < router->chosen && !router->is_sigmoid; k++)
        dlogits[choice[k]] +=
            (REAL)(softmax_gate(router, logits[choice[k]], largest, sum) *
                   ((double)dgates[k] -
                    (router->is_normal ? common / scale_of(router) : 0)));
}
