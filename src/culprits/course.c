#include "culprits/course.h"

#include <math.h>
#include <stdlib.h>

bool pen__is_work(unsigned kind)
{
    return pen_op_is_compute(kind) || kind == PEN_OP_STEP;
}

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "out of memory for a view of a trace");
    return PEN_NOMEM;
}

static pen_status place_rank(struct pen__lines *lines,
                             const struct pen_trace_head *head,
                             const struct pen_schedule *schedule,
                             struct pen_text *why)
{
    uint32_t rows = schedule->shape.num_ranks;
    struct pen_mesh mesh = pen__lines_mesh(&schedule->shape, lines->count);
    uint32_t line = pen_mesh_rank_at(&mesh, head->row, head->replica);
    if (head->row >= rows || head->replica >= pen_mesh_num_replicas(&mesh)) {
        pen_why(why,
                "rank %u executes row %u of replica %u, but the schedule has "
                "%u rows and there are %u ranks",
                head->rank, head->row, head->replica, rows, lines->count);
        return PEN_INVALID;
    }
    if (head->num_ops != schedule->rows[head->row].count) {
        pen_why(why,
                "rank %u executed %u ops, but its row of the schedule has %u",
                head->rank, head->num_ops, schedule->rows[head->row].count);
        return PEN_INVALID;
    }
    if (lines->ranks[line] != UINT32_MAX) {
        pen_why(why, "ranks %u and %u both execute row %u of replica %u",
                lines->ranks[line], head->rank, head->row, head->replica);
        return PEN_INVALID;
    }
    lines->ranks[line] = head->rank;
    return PEN_OK;
}

pen_status pen__lines_init(struct pen__lines *lines,
                           const struct pen_trace *trace,
                           const struct pen_schedule *schedule,
                           struct pen_text *why)
{
    if (trace->num_ranks % schedule->shape.num_ranks != 0) {
        pen_why(why, "%u ranks are not a multiple of the schedule's %u",
                trace->num_ranks, schedule->shape.num_ranks);
        return PEN_INVALID;
    }
    *lines = (struct pen__lines){.count = trace->num_ranks};
    lines->ranks = malloc(lines->count * sizeof *lines->ranks);
    if (lines->ranks == NULL)
        return refuse_memory(why);
    for (uint32_t i = 0; i < lines->count; i++)
        lines->ranks[i] = UINT32_MAX;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < lines->count && status == PEN_OK; i++)
        status = place_rank(lines, &trace->ranks[i].head, schedule, why);
    if (status != PEN_OK)
        pen__lines_release(lines);
    return status;
}

void pen__lines_release(struct pen__lines *lines)
{
    free(lines->ranks);
    *lines = (struct pen__lines){.count = 0};
}

static void free_spans(struct pen__span **spans, uint32_t count)
{
    for (uint32_t i = 0; spans != NULL && i < count; i++)
        free(spans[i]);
    free(spans);
}

void pen__course_release(struct pen__course *course)
{
    free_spans(course->spans, course->num_lines);
    *course = (struct pen__course){.num_lines = 0};
}

static pen_status create_spans(struct pen__course *course, struct pen_text *why)
{
    course->spans = calloc(course->num_lines, sizeof *course->spans);
    for (uint32_t i = 0; course->spans != NULL && i < course->num_lines; i++) {
        size_t count =
            course->schedule->rows[pen__row_of_line(course, i)].count;
        course->spans[i] = calloc(count + 1, sizeof **course->spans);
        if (course->spans[i] == NULL) {
            pen__course_release(course);
            return refuse_memory(why);
        }
    }
    return course->spans == NULL ? refuse_memory(why) : PEN_OK;
}

/* Ops of one rank follow each other, and none begins before the step. */
static void order_spans(struct pen__course *course)
{
    course->end_sec = 0;
    for (uint32_t line = 0; line < course->num_lines; line++) {
        uint32_t count =
            course->schedule->rows[pen__row_of_line(course, line)].count;
        double end_sec = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct pen__span *span = &course->spans[line][i];
            span->begin_sec = fmax(span->begin_sec, end_sec);
            span->ready_sec = fmax(span->ready_sec, span->begin_sec);
            span->end_sec = fmax(span->end_sec, span->ready_sec);
            end_sec = span->end_sec;
        }
        course->end_sec = fmax(course->end_sec, end_sec);
    }
}

static int64_t aligned_ns(const struct pen_rank_trace *trace, int64_t ns)
{
    return ns + trace->head.clock_offset_ns;
}

/*
 * Returns when the first work of the step began: all times are relative to it.
 */
static int64_t find_start_ns(const struct pen_trace *trace,
                             const struct pen_schedule *schedule, uint32_t step)
{
    int64_t first_ns = INT64_MAX;
    for (uint32_t rank = 0; rank < trace->num_ranks; rank++) {
        const struct pen_rank_trace *from = &trace->ranks[rank];
        const struct pen_op *ops = schedule->rows[from->head.row].ops;
        for (uint64_t i = 0; i < from->head.num_events; i++) {
            const struct pen_trace_event *event = &from->events[i];
            int64_t ready_ns = aligned_ns(from, event->ready_ns);
            if (event->step == step && ready_ns < first_ns &&
                pen_op_is_compute(ops[event->position].kind))
                first_ns = ready_ns;
        }
    }
    return first_ns == INT64_MAX ? 0 : first_ns;
}

static double to_sec(const struct pen_rank_trace *trace, int64_t ns,
                     int64_t start_ns)
{
    return (double)(aligned_ns(trace, ns) - start_ns) * 1e-9;
}

static pen_status measure_line(struct pen__course *course,
                               const struct pen_rank_trace *trace,
                               uint32_t line, uint32_t step, int64_t start_ns,
                               struct pen_text *why)
{
    struct pen__span *spans = course->spans[line];
    uint32_t count =
        course->schedule->rows[pen__row_of_line(course, line)].count;
    for (uint32_t i = 0; i < count; i++)
        spans[i].end_sec = NAN;
    for (uint64_t i = 0; i < trace->head.num_events; i++) {
        const struct pen_trace_event *event = &trace->events[i];
        if (event->step != step)
            continue;
        struct pen__span *span = &spans[event->position];
        if (!isnan(span->end_sec)) {
            pen_why(why, "rank %u has two events of op %u in step %u",
                    trace->head.rank, event->position, step);
            return PEN_INVALID;
        }
        *span = (struct pen__span){to_sec(trace, event->begin_ns, start_ns),
                                   to_sec(trace, event->ready_ns, start_ns),
                                   to_sec(trace, event->end_ns, start_ns)};
    }
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(spans[i].end_sec))
            spans[i] = (struct pen__span){.begin_sec = 0};
    }
    return PEN_OK;
}

pen_status pen__course_measure(struct pen__course *course,
                               const struct pen_trace *trace,
                               const struct pen__lines *lines,
                               const struct pen_schedule *schedule,
                               uint32_t step, struct pen_text *why)
{
    *course =
        (struct pen__course){.schedule = schedule, .num_lines = lines->count};
    pen_status status = create_spans(course, why);
    if (status != PEN_OK)
        return status;
    int64_t start_ns = find_start_ns(trace, schedule, step);
    for (uint32_t line = 0; line < lines->count && status == PEN_OK; line++)
        status = measure_line(course, &trace->ranks[lines->ranks[line]], line,
                              step, start_ns, why);
    if (status == PEN_OK)
        order_spans(course);
    else
        pen__course_release(course);
    return status;
}

pen_status pen__course_predict(struct pen__course *course,
                               const struct pen_timing *timing,
                               const struct pen_schedule *schedule,
                               struct pen_text *why)
{
    *course = (struct pen__course){.schedule = schedule,
                                   .num_lines = schedule->shape.num_ranks};
    pen_status status = create_spans(course, why);
    if (status != PEN_OK)
        return status;
    for (uint32_t row = 0; row < course->num_lines; row++) {
        for (uint32_t i = 0; i < schedule->rows[row].count; i++) {
            const struct pen_op_time *time = &timing->ops[row][i];
            course->spans[row][i] = (struct pen__span){
                .ready_sec = time->start_sec, .end_sec = time->end_sec};
        }
    }
    order_spans(course);
    return PEN_OK;
}

static void time_rank(const struct pen__course *course, uint32_t line,
                      struct pen_op_time *times, struct pen_rank_time *out)
{
    const struct pen_row *row =
        &course->schedule->rows[pen__row_of_line(course, line)];
    bool has_begun = false;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = &course->spans[line][i];
        double sec = span->end_sec - span->ready_sec;
        times[i] = (struct pen_op_time){span->ready_sec, span->end_sec};
        unsigned op_class = pen_op_info(row->ops[i].kind)->op_class;
        if (!(sec > 0) || op_class == PEN_OP_CLASS_SEND ||
            op_class == PEN_OP_CLASS_RECV)
            continue;
        if (!has_begun)
            out->start_sec = span->ready_sec;
        has_begun = true;
        out->end_sec = span->end_sec;
        out->busy_sec += sec;
    }
}

static void summarise(struct pen_timing *timing, double end_sec)
{
    double busy_sec = 0;
    timing->makespan_sec = end_sec;
    for (uint32_t i = 0; i < timing->num_ranks; i++) {
        struct pen_rank_time *rank = &timing->ranks[i];
        rank->idle_sec = end_sec - rank->busy_sec;
        timing->span_sec =
            fmax(timing->span_sec, rank->end_sec - rank->start_sec);
        busy_sec = fmax(busy_sec, rank->busy_sec);
    }
    if (timing->span_sec > 0)
        timing->bubble = (timing->span_sec - busy_sec) / timing->span_sec;
}

static pen_status fill_timing(const struct pen__course *course,
                              uint32_t replica, struct pen_timing *timing)
{
    struct pen_mesh mesh = pen__course_mesh(course);
    uint32_t rows = pen_mesh_num_rows(&mesh);
    timing->ranks = calloc(rows, sizeof *timing->ranks);
    timing->ops = calloc(rows, sizeof *timing->ops);
    timing->curves = calloc(rows, sizeof *timing->curves);
    if (timing->ranks == NULL || timing->ops == NULL || timing->curves == NULL)
        return PEN_NOMEM;
    timing->num_ranks = rows;
    for (uint32_t row = 0; row < rows; row++) {
        size_t count = course->schedule->rows[row].count;
        timing->ops[row] = calloc(count + 1, sizeof **timing->ops);
        if (timing->ops[row] == NULL)
            return PEN_NOMEM;
        time_rank(course, pen_mesh_rank_at(&mesh, row, replica),
                  timing->ops[row], &timing->ranks[row]);
    }
    summarise(timing, course->end_sec);
    return PEN_OK;
}

pen_status pen__course_timing(const struct pen__course *course,
                              uint32_t replica, struct pen_timing **out,
                              struct pen_text *why)
{
    struct pen_timing *timing = calloc(1, sizeof *timing);
    if (timing == NULL || fill_timing(course, replica, timing) != PEN_OK) {
        pen_timing_free(timing);
        return refuse_memory(why);
    }
    *out = timing;
    return PEN_OK;
}
