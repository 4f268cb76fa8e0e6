#include "mpi/delay_trace.h"
#include "support/span.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weights and moments of a stage after some steps of the segment. */
struct state {
    float *weights;
    float *moments[2];
};

struct stage {
    struct pen_network *network;
    struct pen_network_sizes sizes;
    size_t count; /* elements of all parameters */
    struct state *states;
    float *average;    /* of the changes */
    float **gradients; /* per member */
    float *scratch;
    void *stash;
    void *output;
    void *input_gradient;
};

struct delay_trace {
    struct delay_options options;
    struct pen_engine *engine;
    struct stage *stages;
    uint64_t done; /* steps before the segment */
    int32_t *ids;
    int32_t *targets;
};

static void need(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "trace: %s\n", what);
    exit(1);
}

static void *block(size_t bytes)
{
    void *made = aligned_alloc(64, (bytes + 127) / 64 * 64);
    need(made != NULL, "no memory");
    memset(made, 0, (bytes + 127) / 64 * 64);
    return made;
}

/* ---- all parameters of a stage as one array ---- */

/* A matrix that the head trains has a value alone; nobody reads the rest. */
static enum pen_parameter_part part_of(const struct pen_network_parameter *it,
                                       enum pen_parameter_part part)
{
    return it->is_value_only ? PEN_PART_VALUE : part;
}

static void copy_out(struct stage *stage, enum pen_parameter_part part,
                     float *to)
{
    struct pen_engine *engine = pen_network_engine(stage->network);
    for (size_t i = 0; i < pen_network_num_parameters(stage->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(stage->network, i);
        size_t count;
        const float *span =
            span_of_part(engine, it->parameter, part_of(it, part), &count);
        memcpy(to, span, count * sizeof *to);
        to += count;
    }
}

static void copy_in(struct stage *stage, enum pen_parameter_part part,
                    const float *from)
{
    struct pen_engine *engine = pen_network_engine(stage->network);
    for (size_t i = 0; i < pen_network_num_parameters(stage->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(stage->network, i);
        size_t count;
        float *span =
            span_of_part(engine, it->parameter, part_of(it, part), &count);
        if (part == PEN_PART_VALUE || !it->is_value_only)
            memcpy(span, from, count * sizeof *span);
        from += count;
        if (part == PEN_PART_VALUE)
            engine->ops->parameter_value_changed(engine, it->parameter);
    }
}

static size_t count_elements(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    size_t total = 0, count;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        span_of_part(engine, pen_network_parameter(network, i)->parameter,
                     PEN_PART_VALUE, &count);
        total += count;
    }
    return total;
}

static void keep_state(const struct delay_trace *trace, struct stage *stage,
                       uint32_t version)
{
    int moments = pen_optimizer_moments(&trace->options.optimizer);
    copy_out(stage, PEN_PART_VALUE, stage->states[version].weights);
    for (int k = 0; k < moments; k++)
        copy_out(stage, k == 0 ? PEN_PART_MOMENT1 : PEN_PART_MOMENT2,
                 stage->states[version].moments[k]);
}

/* ---- making ---- */

static void make_stage(struct delay_trace *trace, uint32_t part)
{
    const struct delay_options *options = &trace->options;
    struct stage *stage = &trace->stages[part];
    size_t sequence = pen_batches_shape(options->batches).num_ids;
    struct pen_network_options wanted = {
        .engine = trace->engine,
        .model = options->model,
        .first_layer = options->parts[part].first,
        .num_layers = options->parts[part].count,
        .batch = options->micro_batch,
        .sequence = sequence,
        .step_rows = options->micro_batch * options->period * sequence,
        .moments = pen_optimizer_moments(&options->optimizer)};
    need(pen_network_create(&wanted, &stage->network, NULL) == PEN_OK,
         "no network");
    need(pen_network_initialize(stage->network, options->seed) == PEN_OK,
         "no weights");
    pen_network_sizes(stage->network, &stage->sizes);
    stage->count = count_elements(stage->network);
    stage->stash = block(stage->sizes.stash);
    stage->output = block(stage->sizes.output);
    stage->input_gradient = block(stage->sizes.input);
    stage->average = block(stage->count * sizeof(float));
    stage->scratch = block(stage->count * sizeof(float));
    stage->gradients = block(options->num_members * sizeof(float *));
    for (uint32_t r = 0; r < options->num_members; r++)
        stage->gradients[r] = block(stage->count * sizeof(float));
    stage->states = block((options->most_steps + 1) * sizeof(struct state));
    for (uint32_t i = 0; i <= options->most_steps; i++) {
        stage->states[i].weights = block(stage->count * sizeof(float));
        for (int k = 0; k < 2; k++)
            stage->states[i].moments[k] = block(stage->count * sizeof(float));
    }
}

struct delay_trace *delay_trace_create(const struct delay_options *options)
{
    struct delay_trace *trace = block(sizeof *trace);
    size_t tokens =
        options->micro_batch * pen_batches_shape(options->batches).num_ids;
    trace->options = *options;
    need(pen_engine_onednn_create(options->is_bf16 ? PEN_PRECISION_BF16
                                                   : PEN_PRECISION_F32,
                                  1, NULL, &trace->engine) == PEN_OK,
         "no engine");
    trace->ids = block(tokens * sizeof *trace->ids);
    trace->targets = block(tokens * sizeof *trace->targets);
    trace->stages = block(options->num_parts * sizeof *trace->stages);
    for (uint32_t part = 0; part < options->num_parts; part++)
        make_stage(trace, part);
    return trace;
}

static void free_stage(const struct delay_trace *trace, struct stage *stage)
{
    for (uint32_t i = 0; i <= trace->options.most_steps; i++) {
        free(stage->states[i].weights);
        free(stage->states[i].moments[0]);
        free(stage->states[i].moments[1]);
    }
    for (uint32_t r = 0; r < trace->options.num_members; r++)
        free(stage->gradients[r]);
    free(stage->states);
    free(stage->gradients);
    free(stage->average);
    free(stage->scratch);
    free(stage->stash);
    free(stage->output);
    free(stage->input_gradient);
    pen_network_free(stage->network);
}

void delay_trace_free(struct delay_trace *trace)
{
    for (uint32_t part = 0; part < trace->options.num_parts; part++)
        free_stage(trace, &trace->stages[part]);
    pen_engine_free(trace->engine);
    free(trace->stages);
    free(trace->ids);
    free(trace->targets);
    free(trace);
}

struct pen_network *delay_trace_network(struct delay_trace *trace,
                                        uint32_t part)
{
    return trace->stages[part].network;
}

/* ---- the equations ---- */

/* A micro-batch of a member, numbered from the beginning of the segment. */
struct place {
    uint32_t stage;
    uint32_t member;
    uint32_t microbatch;
    bool is_forward;
};

static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

/* The stored version that is read, or that a prediction starts from. */
static uint32_t version_at(const struct delay_options *options,
                           const struct place *at)
{
    uint32_t i = at->microbatch;
    uint32_t step = i / options->period;
    uint32_t behind = options->num_ranks - 1 - at->stage % options->num_ranks;
    uint32_t first = step * options->period;
    switch (options->mode) {
    case DELAY_STASHING:
        return less(i, behind);
    case DELAY_VERTICAL_SYNC:
        return less(i, options->num_ranks - 1);
    case DELAY_DOUBLE_BUFFER:
        return less(step, 1);
    case DELAY_TWO_GROUPS:
        return at->stage < options->num_ranks ? less(step, 1) : step;
    case DELAY_MOMENTUM:
    case DELAY_AVERAGE:
    case DELAY_SPIKE:
        return at->is_forward ? less(i, behind) / options->period : step;
    case DELAY_ADAM:
        return at->is_forward ? less(first, behind) / options->period : step;
    case DELAY_CYCLIC:
        return at->stage + at->member + 1 >= options->num_parts ? step
                                                                : less(step, 1);
    case DELAY_NEWEST:
        behind *= options->period < 3 ? options->period : 3;
        return at->is_forward ? less(i, behind) / options->period : step;
    }
    return 0;
}

/* w - far * direction */
static void move(const float *weights, const float *direction, size_t count,
                 float far, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = weights[i] - far * direction[i];
}

static void move_adam(const struct delay_trace *trace,
                      const struct stage *stage, uint32_t version, double far,
                      float *out)
{
    const struct pen_optimizer *optimizer = &trace->options.optimizer;
    const struct state *state = &stage->states[version];
    double steps = (double)(trace->done + version);
    if (steps == 0) {
        memcpy(out, state->weights, stage->count * sizeof *out);
        return;
    }
    float rate = (float)(far / (1 - pow(optimizer->beta1, steps)));
    float unbias = (float)(1 / sqrt(1 - pow(optimizer->beta2, steps)));
    for (size_t i = 0; i < stage->count; i++)
        out[i] = state->weights[i] - rate * state->moments[0][i] /
                                         (sqrtf(state->moments[1][i]) * unbias +
                                          (float)optimizer->epsilon);
}

/* In stage->scratch. */
static const float *weights_at(struct delay_trace *trace,
                               const struct place *at)
{
    const struct delay_options *options = &trace->options;
    struct stage *stage = &trace->stages[at->stage];
    uint32_t version = version_at(options, at);
    const struct state *state = &stage->states[version];
    uint32_t behind = options->num_ranks - 1 - at->stage;
    double rate = pen_lr_schedule_rate(&options->rates, trace->done + version);
    double far = 0;
    if (trace->done < options->cures.stale_after)
        return state->weights;
    switch (options->mode) {
    case DELAY_MOMENTUM:
        far = at->stage / 2 + (at->is_forward ? behind : 0);
        break;
    case DELAY_SPIKE:
        far = at->is_forward ? behind : 0;
        break;
    case DELAY_ADAM:
        far = at->microbatch / options->period - version;
        if (far == 0)
            return state->weights;
        move_adam(trace, stage, version, far * rate, stage->scratch);
        return stage->scratch;
    case DELAY_DOUBLE_BUFFER: /* as the optimizer would go on */
        far = options->cures.predicts
                  ? at->microbatch / options->period - version
                  : 0;
        if (far == 0 || options->optimizer.kind == PEN_STEP_RULE_SGD)
            break;
        move_adam(trace, stage, version, far * rate, stage->scratch);
        return stage->scratch;
    case DELAY_AVERAGE:
        if (at->is_forward)
            return state->weights;
        move(state->weights, stage->average, stage->count,
             (float)((double)behind / options->period), stage->scratch);
        return stage->scratch;
    default:
        break;
    }
    if (far == 0)
        return state->weights;
    move(state->weights, state->moments[0], stage->count, (float)(far * rate),
         stage->scratch);
    return stage->scratch;
}

/* ---- a step ---- */

/* Over two stages. */
static bool is_tied(const struct delay_trace *trace)
{
    return trace->options.num_parts > 1 &&
           trace->options.model->has_tied_embeddings;
}

static double run_microbatch(struct delay_trace *trace, uint32_t member,
                             uint32_t index)
{
    const struct delay_options *options = &trace->options;
    struct pen_sample_shape shape = pen_batches_shape(options->batches);
    uint64_t step = trace->done + index / options->period;
    uint64_t sample =
        ((step * options->num_members + member) * options->period +
         index % options->period) *
        options->micro_batch;
    struct pen_batch batch = {.ids = trace->ids, .targets = trace->targets};
    struct pen_microbatch microbatch = {
        .ids = trace->ids,
        .targets = trace->targets,
        .loss_count = (double)options->num_members * options->period *
                      (double)options->micro_batch * shape.num_targets};
    need(pen_batches_read(options->batches, sample, options->micro_batch,
                          &batch, NULL) == PEN_OK,
         "no sample");
    for (uint32_t s = 0; s < options->num_parts; s++) {
        struct stage *stage = &trace->stages[s];
        bool is_last = s + 1 == options->num_parts;
        copy_in(stage, PEN_PART_VALUE,
                weights_at(trace, &(struct place){s, member, index, true}));
        pen_network_forward(stage->network, &microbatch, stage->stash,
                            s == 0 ? NULL : trace->stages[s - 1].output,
                            is_last ? NULL : stage->output);
    }
    for (uint32_t s = options->num_parts; s-- > 0;) {
        struct stage *stage = &trace->stages[s];
        bool is_last = s + 1 == options->num_parts;
        copy_in(stage, PEN_PART_VALUE,
                weights_at(trace, &(struct place){s, member, index, false}));
        pen_network_backward(stage->network, &microbatch, stage->stash,
                             is_last ? NULL
                                     : trace->stages[s + 1].input_gradient,
                             s == 0 ? NULL : stage->input_gradient);
    }
    return pen_network_loss(trace->stages[options->num_parts - 1].network);
}

/* The head's gradient of a tied matrix, plus the embedding's of the batch. */
static void join_tied(struct delay_trace *trace)
{
    struct pen_network *first = trace->stages[0].network;
    size_t count;
    const int32_t *words;
    const void *rows;
    if (!is_tied(trace))
        return;
    pen_network_gathered(first, &count, &words, &rows);
    pen_network_add_gathered(
        trace->stages[trace->options.num_parts - 1].network, count, words,
        rows);
    pen_network_clear_gathered(first);
}

static double run_member(struct delay_trace *trace, uint32_t member,
                         uint32_t step)
{
    const struct delay_options *options = &trace->options;
    double loss = 0;
    for (uint32_t s = 0; s < options->num_parts; s++)
        pen_network_clear_gradients(trace->stages[s].network);
    for (uint32_t i = 0; i < options->period; i++)
        loss += run_microbatch(trace, member, step * options->period + i);
    for (uint32_t s = 0; s < options->num_parts; s++)
        pen_network_finish_gradients(trace->stages[s].network);
    join_tied(trace);
    for (uint32_t s = 0; s < options->num_parts; s++) {
        struct stage *stage = &trace->stages[s];
        copy_out(stage, PEN_PART_GRADIENT, stage->gradients[member]);
    }
    return loss;
}

/* v = mu v + g; w -= eta (mu^D v + (1 - mu^D) / (1 - mu) g) */
static void spike_step(const struct delay_options *options, struct stage *stage,
                       size_t parameter, uint32_t delay, double learning_rate)
{
    struct pen_engine *engine = pen_network_engine(stage->network);
    const struct pen_network_parameter *it =
        pen_network_parameter(stage->network, parameter);
    size_t count;
    float *w = span_of_part(engine, it->parameter, PEN_PART_VALUE, &count);
    float *v = span_of_part(engine, it->parameter, PEN_PART_MOMENT1, &count);
    const float *g =
        span_of_part(engine, it->parameter, PEN_PART_GRADIENT, &count);
    double mu = options->optimizer.momentum;
    float a = (float)pow(mu, delay);
    float b = (float)((1 - pow(mu, delay)) / (1 - mu));
    float decay =
        (float)(it->role == PEN_ROLE_MATRIX ? options->optimizer.weight_decay
                                            : 0);
    for (size_t i = 0; i < count; i++) {
        float slope = g[i] + decay * w[i];
        v[i] = (float)mu * v[i] + slope;
        w[i] -= (float)learning_rate * (a * v[i] + b * slope);
    }
    engine->ops->parameter_value_changed(engine, it->parameter);
}

/* Of a gradient, in a pipeline that is full. */
static double steps_late(const struct delay_options *options, uint32_t part)
{
    switch (options->mode) {
    case DELAY_STASHING:
        return options->num_ranks - 1 - part;
    case DELAY_VERTICAL_SYNC:
        return options->num_ranks - 1;
    case DELAY_DOUBLE_BUFFER:
        return 1;
    case DELAY_TWO_GROUPS:
        return part < options->num_ranks;
    default:
        return 0;
    }
}

static double rate_of(const struct delay_trace *trace, uint32_t part,
                      uint32_t step)
{
    const struct delay_options *options = &trace->options;
    uint64_t done = trace->done + step;
    double rate = pen_lr_schedule_rate(&options->rates, done);
    const struct pen_cures *cures = &options->cures;
    if (done < cures->stale_after)
        return rate;
    if (done - cures->stale_after < cures->discount_steps)
        return rate / pow(1 + steps_late(options, part),
                          1 - (double)(done - cures->stale_after) /
                                  (double)cures->discount_steps);
    double tau = (double)(options->num_ranks - 1 - part) / options->period;
    double anneal = (double)(options->rates.decay_iters / 4);
    if (options->mode != DELAY_AVERAGE || tau <= 1 || (double)done >= anneal)
        return rate;
    return rate / pow(tau, 1 - (double)done / anneal);
}

/* Of all members, for the optimizer. */
static void sum_gradients(struct delay_trace *trace, struct stage *stage)
{
    uint32_t num_members = trace->options.num_members;
    for (uint32_t by = 1; by < num_members; by *= 2)
        for (uint32_t r = 0; r + by < num_members; r += 2 * by)
            for (size_t i = 0; i < stage->count; i++)
                stage->gradients[r][i] += stage->gradients[r + by][i];
    copy_in(stage, PEN_PART_GRADIENT, stage->gradients[0]);
}

/* Of the whole gradient of a batch, tensor by tensor as the model has them. */
static double norm_of(const struct delay_trace *trace)
{
    uint32_t num_tensors = trace->options.model->num_tensors;
    double *squares = block(num_tensors * sizeof *squares);
    double sum = 0;
    for (uint32_t s = 0; s < trace->options.num_parts; s++) {
        struct pen_network *network = trace->stages[s].network;
        for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
            const struct pen_network_parameter *it =
                pen_network_parameter(network, i);
            if (!it->is_value_only)
                trace->engine->ops->gradient_sum_squares(
                    trace->engine, it->parameter,
                    &squares[it->slices[0].tensor]);
        }
    }
    for (uint32_t i = 0; i < num_tensors; i++)
        sum += squares[i];
    free(squares);
    return sqrt(sum);
}

/* The embedding's copy of a tied matrix becomes the head's new one. */
static void share_tied(struct delay_trace *trace, uint32_t step)
{
    struct stage *first = &trace->stages[0];
    struct stage *last = &trace->stages[trace->options.num_parts - 1];
    size_t count;
    if (!is_tied(trace))
        return;
    struct pen_parameter *to = pen_network_tied(first->network)->parameter;
    const float *from =
        span_of_part(trace->engine, pen_network_tied(last->network)->parameter,
                     PEN_PART_VALUE, &count);
    memcpy(span_of_part(trace->engine, to, PEN_PART_VALUE, &count), from,
           count * sizeof *from);
    trace->engine->ops->parameter_value_changed(trace->engine, to);
    keep_state(trace, first, step + 1);
}

static void step_stage(struct delay_trace *trace, uint32_t part, uint32_t step,
                       double norm)
{
    const struct delay_options *options = &trace->options;
    struct stage *stage = &trace->stages[part];
    uint32_t delay = options->num_ranks - 1 - part % options->num_ranks;
    struct pen_update update = {.learning_rate = rate_of(trace, part, step),
                                .step = trace->done + step + 1,
                                .norm = norm};
    copy_in(stage, PEN_PART_VALUE, stage->states[step].weights);
    for (size_t i = 0; i < pen_network_num_parameters(stage->network); i++)
        if (pen_network_parameter(stage->network, i)->is_value_only)
            continue;
        else if (options->mode == DELAY_SPIKE && delay > 0 &&
                 trace->done >= options->cures.stale_after)
            spike_step(options, stage, i, delay, update.learning_rate);
        else
            pen_optimizer_step(&options->optimizer, stage->network, i, &update);
    keep_state(trace, stage, step + 1);
    if (options->mode != DELAY_AVERAGE || delay == 0)
        return;
    float kept = (float)pow(0.135, 1 / ((double)delay / options->period));
    for (size_t i = 0; i < stage->count; i++)
        stage->average[i] = kept * stage->average[i] +
                            (1 - kept) * (stage->states[step + 1].weights[i] -
                                          stage->states[step].weights[i]);
}

static double run_step(struct delay_trace *trace, uint32_t step, double *norm)
{
    enum { MOST_MEMBERS = 16 };
    const struct delay_options *options = &trace->options;
    double losses[MOST_MEMBERS] = {0};
    need(options->num_members <= MOST_MEMBERS, "too many members");
    for (uint32_t r = 0; r < options->num_members; r++)
        losses[r] = run_member(trace, r, step);
    for (uint32_t part = 0; part < options->num_parts; part++)
        sum_gradients(trace, &trace->stages[part]);
    *norm = norm_of(trace);
    for (uint32_t part = 0; part < options->num_parts; part++)
        step_stage(trace, part, step, *norm);
    share_tied(trace, step);
    for (uint32_t by = 1; by < options->num_members; by *= 2)
        for (uint32_t r = 0; r + by < options->num_members; r += 2 * by)
            losses[r] += losses[r + by];
    return losses[0];
}

void delay_trace_run(struct delay_trace *trace, uint32_t steps, double *losses,
                     double *norms)
{
    need(steps <= trace->options.most_steps, "too many steps");
    for (uint32_t part = 0; part < trace->options.num_parts; part++) {
        struct stage *stage = &trace->stages[part];
        keep_state(trace, stage, 0);
        memset(stage->average, 0, stage->count * sizeof *stage->average);
    }
    for (uint32_t step = 0; step < steps; step++)
        losses[step] = run_step(trace, step, &norms[step]);
    trace->done += steps;
}
