/*
 * SGP, stochastic gradient push: every replica has a numerator x and a weight
 * w, at first 1; what it computes with is z = x / w. At every step
 *
 *   x <- x - eta U(g(z))
 *   send x / (d+1) and w / (d+1) to d others, keep one such share
 *   x, w <- sums of the own share and of those that came        z <- x / w
 *
 * U is the optimizer of the run. The others are, on a directed exponential
 * graph, those 1, 2, 4 ... members further, d of these hops in turn at each
 * step. With a degree above the number of hops every member sends to all.
 * With overlap = 1 shares that came are added one step late, and are on their
 * way while the next gradient is computed; z is x / w of the own share then.
 *
 * The model is the sum of all x over the sum of all w. Published: d = 1.
 *
 * Weights sum up to N always. Among 2^k members k steps of hops reach the mean.
 * With all others the weights are averaged, which with SGD is synchronous SGD.
 */
#include "sync/method.h"

#include <stdlib.h>

enum { DEGREE, OVERLAP };

static const struct pen_sync_option options[] = {
    [DEGREE] = {"degree", 1, 1, 65536, true,
                "members that each member sends to; above log2 N: all"},
    [OVERLAP] = {"overlap", 0, 0, 1, true, "1: add shares one step late"},
};

enum { MEAN_CHANNEL, SHARE_CHANNEL = PEN_COLLECTIVE_CHANNELS };

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *plain;
    uint32_t degree;
    uint32_t num_hops; /* 1, 2, 4 ... below the members; 0: to all */
    size_t length;     /* floats of a share: x, then w */
    float *x;
    float *mean;
    double weight;  /* w, for a checkpoint */
    float *arrived; /* degree x length */
    const float **terms;
    bool is_begun; /* shares are on their way */
    uint64_t step; /* of these */
    struct pen_group_request *sends;
    struct pen_group_request *receives;
};

/* ---- the graph ---- */

static uint32_t count_hops(uint32_t num_members)
{
    uint32_t count = 0;
    for (uint64_t hop = 1; hop < num_members; hop *= 2)
        count++;
    return count;
}

/* Members that one sends to; hops as in struct pen_sync. */
static uint32_t degree_of(double option, uint32_t num_members, uint32_t *hops)
{
    *hops = count_hops(num_members);
    if (option <= *hops)
        return (uint32_t)option;
    *hops = 0;
    return num_members - 1;
}

static uint32_t hop_of(const struct pen_sync *sync, uint64_t step,
                       uint32_t index)
{
    if (sync->num_hops == 0)
        return index + 1;
    return 1u << (((step - 1) * sync->degree + index) % sync->num_hops);
}

static uint32_t sender_of(const struct pen_sync *sync, uint32_t index)
{
    const struct pen_group *peers = sync->setting->peers;
    return (peers->self + peers->size - hop_of(sync, sync->step, index)) %
           peers->size;
}

/* ---- making ---- */

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    uint32_t hops;
    double share = (of->num_weights + 1) * sizeof(float);
    uint32_t degree = degree_of(of->options[DEGREE], of->num_replicas, &hops);
    out->bytes = degree * share;
    out->legs = degree > 0 ? 1 : 0;
    out->hidden = of->options[OVERLAP];
    out->extra = mean->extra + (2.0 + degree) * share;
    out->staleness = hops + of->options[OVERLAP]; /* the way of a change */
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->plain);
    free(sync->x);
    free(sync->mean);
    free(sync->arrived);
    free((void *)sync->terms);
    free(sync->sends);
    free(sync->receives);
}

static pen_status make_room(struct pen_sync *sync, struct pen_text *why)
{
    struct pen_compression whole = pen_sync_compression(sync->setting);
    whole.count = sync->length;
    sync->x = calloc(sync->length, sizeof *sync->x);
    sync->mean = calloc(sync->length, sizeof *sync->mean);
    sync->arrived =
        calloc(sync->degree * sync->length + 1, sizeof *sync->arrived);
    sync->terms = calloc(sync->degree + 1, sizeof *sync->terms);
    sync->sends = calloc(sync->degree + 1, sizeof *sync->sends);
    sync->receives = calloc(sync->degree + 1, sizeof *sync->receives);
    if (sync->x == NULL || sync->mean == NULL || sync->arrived == NULL ||
        sync->terms == NULL || sync->sends == NULL || sync->receives == NULL)
        return PEN_NOMEM;
    return pen_average_create(&whole, NULL, MEAN_CHANNEL, &sync->plain, why);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    sync->degree = degree_of(setting->options.at[DEGREE], setting->peers->size,
                             &sync->num_hops);
    sync->length = setting->count + 1;
    pen_status status = make_room(sync, why);
    if (status != PEN_OK)
        return status;
    pen_sync_read_weights(setting, sync->x);
    sync->x[setting->count] = 1;
    return PEN_OK;
}

static size_t bytes(const struct pen_sync *sync)
{
    return (2 + sync->degree) * sync->length * sizeof(float) +
           pen_average_bytes(sync->plain);
}

/* ---- pushing ---- */

/*
 * Pushes shares. The own share stays in x, which may not change before add().
 */
static void push(struct pen_sync *sync, uint64_t step)
{
    struct pen_group *peers = sync->setting->peers;
    size_t length = sync->length * sizeof(float);
    sync->step = step;
    sync->is_begun = true;
    for (size_t i = 0; i < sync->length; i++)
        sync->x[i] /= (float)(sync->degree + 1);
    for (uint32_t i = 0; i < sync->degree; i++)
        pen_group_receive(peers, sender_of(sync, i), SHARE_CHANNEL,
                          sync->arrived + i * sync->length, length,
                          &sync->receives[i]);
    for (uint32_t i = 0; i < sync->degree; i++)
        pen_group_send(peers,
                       (peers->self + hop_of(sync, step, i)) % peers->size,
                       SHARE_CHANNEL, sync->x, length, &sync->sends[i]);
}

static bool is_over(void *context)
{
    struct pen_sync *sync = context;
    struct pen_group *peers = sync->setting->peers;
    bool have_come = pen_group_is_done(peers, sync->receives, sync->degree);
    return pen_group_is_done(peers, sync->sends, sync->degree) && have_come;
}

/*
 * Sorts the terms by member, so that replicas that add the same terms are
 * bit-identical.
 */
static void order_terms(struct pen_sync *sync)
{
    const struct pen_group *peers = sync->setting->peers;
    size_t count = 0;
    for (uint32_t member = 0; member < peers->size; member++) {
        if (member == peers->self)
            sync->terms[count++] = sync->x;
        for (uint32_t i = 0; i < sync->degree; i++)
            if (sender_of(sync, i) == member)
                sync->terms[count++] = sync->arrived + i * sync->length;
    }
}

/* Waits for the shares; weights do not change. */
static void add(struct pen_sync *sync)
{
    if (!sync->is_begun)
        return;
    pen_group_wait(sync->setting->peers, is_over, sync);
    sync->is_begun = false;
    order_terms(sync);
    for (size_t i = 0; i < sync->length; i++) {
        float sum = sync->terms[0][i];
        for (uint32_t k = 1; k <= sync->degree; k++)
            sum += sync->terms[k][i];
        sync->x[i] = sum;
    }
}

static void write_quotient(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    float weight = sync->x[setting->count];
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        for (size_t k = 0; k < it->count; k++)
            it->value[k] = sync->x[it->first + k] / weight;
    }
}

/* ---- hooks ---- */

/* Adds the terms before the step, which changes x. */
static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    (void)at;
    add(sync);
    pen_sync_write_weights(sync->setting, sync->x);
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    pen_sync_read_weights(sync->setting, sync->x);
    push(sync, at->step);
    if (sync->setting->options.at[OVERLAP] == 0)
        add(sync);
    write_quotient(sync);
}

static void poll(struct pen_sync *sync)
{
    (void)is_over(sync);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting->count;
    sync->weight = (double)sync->x[count];
    pen_sync_states_add_vector(out, "numerator", false, sync->x, count);
    pen_sync_states_add_numbers(out, "push_weight", false, &sync->weight, 1);
}

static void restored(struct pen_sync *sync, uint64_t steps)
{
    (void)steps;
    sync->x[sync->setting->count] = (float)sync->weight;
}

static void consistent(struct pen_sync *sync, float *out)
{
    size_t count = sync->setting->count;
    add(sync);
    for (size_t i = 0; i < sync->length; i++)
        sync->mean[i] = sync->x[i];
    pen_average_start(sync->plain, 0, sync->mean);
    pen_average_wait(sync->plain);
    for (size_t i = 0; i < count; i++)
        out[i] = sync->mean[i] / sync->mean[count];
}

const struct pen_sync_method pen_sync_sgp = {
    .name = "sgp",
    .title = "shares of the weights pushed along an exponential graph",
    .paper = "Assran et al., Stochastic Gradient Push for Distributed Deep "
             "Learning, 2019, arXiv:1811.10792",
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .after_step = after_step,
    .poll = poll,
    .settle = add,
    .states = states,
    .restored = restored,
    .consistent = consistent,
};
