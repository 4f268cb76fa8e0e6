#include "support/synthetic.h"

#include "base/file.h"
#include "core/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_STEP_NS 1234567891ll /* between the clocks of two ranks */
#define FIRST_NS 10000000000000ll
#define PAUSE_NS 1000000ll /* between two steps */

struct span {
    double begin_sec;
    double ready_sec;
    double end_sec;
};

struct maker {
    const struct synthetic *synthetic;
    uint32_t rows;
    struct span **spans; /* per replica * rows + row, and op */
    double end_sec;
    struct pen_trace trace;
};

static const struct pen_row *row_at(const struct maker *maker, uint32_t line)
{
    return &maker->synthetic->schedule->rows[line % maker->rows];
}

static pen_status time_replica(struct maker *maker, uint32_t replica,
                               struct pen_text *why)
{
    const struct pen_time_options options = {.with_ops = true};
    struct pen_timing *timing = NULL;
    pen_status status = pen_schedule_time(maker->synthetic->schedule,
                                          &maker->synthetic->truth[replica],
                                          &options, &timing, why);
    if (status != PEN_OK)
        return status;
    for (uint32_t row = 0; row < maker->rows; row++) {
        uint32_t line = replica * maker->rows + row;
        uint32_t count = row_at(maker, line)->count;
        double end_sec = 0;
        maker->spans[line] = calloc((size_t)count + 1, sizeof **maker->spans);
        for (uint32_t i = 0; i < count; i++) {
            const struct pen_op_time *time = &timing->ops[row][i];
            maker->spans[line][i] =
                (struct span){end_sec, time->start_sec, time->end_sec};
            end_sec = time->end_sec;
        }
    }
    pen_timing_free(timing);
    return PEN_OK;
}

/* From this op on, the row comes later by so much. */
static void delay(struct maker *maker, uint32_t line, uint32_t from, double sec)
{
    maker->spans[line][from].ready_sec += sec;
    maker->spans[line][from].end_sec += sec;
    for (uint32_t i = from + 1; i < row_at(maker, line)->count; i++) {
        maker->spans[line][i].begin_sec += sec;
        maker->spans[line][i].ready_sec += sec;
        maker->spans[line][i].end_sec += sec;
    }
}

static void synchronise(struct maker *maker, uint32_t row)
{
    uint32_t replicas = maker->synthetic->num_replicas;
    for (uint32_t i = 0; i < row_at(maker, row)->count; i++) {
        if (row_at(maker, row)->ops[i].kind != PEN_OP_SYNC_GRAD)
            continue;
        double last_sec = 0;
        for (uint32_t d = 0; d < replicas; d++)
            last_sec = fmax(last_sec,
                            maker->spans[d * maker->rows + row][i].ready_sec);
        for (uint32_t d = 0; d < replicas; d++) {
            uint32_t line = d * maker->rows + row;
            delay(maker, line, i, last_sec - maker->spans[line][i].ready_sec);
        }
    }
}

static double factor_of(const struct maker *maker, uint32_t step)
{
    if (maker->synthetic->num_steps == 1)
        return 1;
    return 1 + 0.1 * ((double)(2 * step % 5) - 2);
}

static int64_t to_ns(double sec)
{
    return (int64_t)llround(sec * 1e9);
}

/* Waiting for the first message begins with the end of the step before. */
static void add_step(struct maker *maker, struct pen_rank_trace *trace,
                     uint32_t line, uint32_t step, int64_t start_ns)
{
    double factor = factor_of(maker, step);
    for (uint32_t i = 0; i < row_at(maker, line)->count; i++) {
        const struct span *span = &maker->spans[line][i];
        int64_t begin_ns = start_ns + to_ns(span->begin_sec * factor);
        if (i == 0)
            begin_ns -= PAUSE_NS / 2;
        int64_t ready_ns = start_ns + to_ns(span->ready_sec * factor);
        int64_t end_ns = start_ns + to_ns(span->end_sec * factor);
        trace->events[trace->head.num_events++] =
            (struct pen_trace_event){step, i, begin_ns, ready_ns, end_ns, 0};
    }
}

static pen_status make_rank(struct maker *maker, uint32_t line)
{
    uint32_t replicas = maker->synthetic->num_replicas;
    uint32_t row = line % maker->rows;
    uint32_t rank = maker->synthetic->is_by_replica
                        ? line
                        : row * replicas + line / maker->rows;
    struct pen_rank_trace *trace = &maker->trace.ranks[rank];
    trace->head = pen_trace_head_make();
    trace->head.rank = rank;
    trace->head.num_ranks = maker->trace.num_ranks;
    trace->head.replica = line / maker->rows;
    trace->head.row = row;
    trace->head.num_ops = row_at(maker, line)->count;
    trace->head.clock_offset_ns = CLOCK_STEP_NS * rank;
    snprintf(trace->head.host, sizeof trace->head.host, "node%u", rank / 4);
    trace->events =
        calloc((size_t)trace->head.num_ops * maker->synthetic->num_steps + 1,
               sizeof *trace->events);
    if (trace->events == NULL)
        return PEN_NOMEM;
    int64_t start_ns = FIRST_NS - trace->head.clock_offset_ns;
    for (uint32_t step = 0; step < maker->synthetic->num_steps; step++) {
        add_step(maker, trace, line, step, start_ns);
        start_ns += to_ns(maker->end_sec * factor_of(maker, step)) + PAUSE_NS;
    }
    return PEN_OK;
}

static pen_status save_text(const char *folder, const char *name,
                            const struct pen_text *text, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    pen_status status =
        pen_file_write(pen_text_string(&path), text->bytes, text->length, why);
    pen_text_release(&path);
    return status;
}

static pen_status save_plan(const struct synthetic *synthetic,
                            const char *folder, struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_schedule_print(synthetic->schedule, &text);
    pen_status status = save_text(folder, "schedule.pen", &text, why);
    pen_text_clear(&text);
    if (status == PEN_OK && synthetic->predicted != NULL) {
        pen_costs_print(synthetic->predicted, &text);
        status = save_text(folder, "costs.json", &text, why);
    }
    pen_text_release(&text);
    return status;
}

static pen_status make_all(struct maker *maker, struct pen_text *why)
{
    uint32_t lines = maker->trace.num_ranks;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < maker->synthetic->num_replicas; i++) {
        if (status == PEN_OK)
            status = time_replica(maker, i, why);
    }
    for (uint32_t row = 0; row < maker->rows && status == PEN_OK; row++)
        synchronise(maker, row);
    for (uint32_t line = 0; line < lines && status == PEN_OK; line++) {
        uint32_t count = row_at(maker, line)->count;
        maker->end_sec =
            fmax(maker->end_sec, maker->spans[line][count - 1].end_sec);
    }
    for (uint32_t line = 0; line < lines && status == PEN_OK; line++)
        status = make_rank(maker, line);
    return status;
}

pen_status write_synthetic(const struct synthetic *synthetic,
                           const char *folder, struct pen_text *why)
{
    struct maker maker = {.synthetic = synthetic,
                          .rows = synthetic->schedule->shape.num_ranks};
    uint32_t lines = maker.rows * synthetic->num_replicas;
    maker.spans = calloc(lines, sizeof *maker.spans);
    maker.trace.ranks = calloc(lines, sizeof *maker.trace.ranks);
    maker.trace.num_ranks = lines;
    pen_status status = make_all(&maker, why);
    if (status == PEN_OK)
        status = pen_trace_save(&maker.trace, folder, why);
    if (status == PEN_OK)
        status = save_plan(synthetic, folder, why);
    for (uint32_t line = 0; line < lines; line++) {
        pen_rank_trace_release(&maker.trace.ranks[line]);
        free(maker.spans[line]);
    }
    free(maker.trace.ranks);
    free(maker.spans);
    return status;
}
