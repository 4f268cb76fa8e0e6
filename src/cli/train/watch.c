#include "cli/train/watch.h"

#include "base/clock.h"
#include "cli/train/files.h"
#include "runtime/agree.h"
#include "watch/launch_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HOST_SIZE = 64, JOB_SIZE = 512 };

/* The slowest that a step is expected to be, as a share of the peak. */
#define LEAST_SHARE_OF_PEAK 0.01

static void host_name(char out[HOST_SIZE])
{
    if (gethostname(out, HOST_SIZE) != 0)
        snprintf(out, HOST_SIZE, "unknown");
    out[HOST_SIZE - 1] = '\0';
}

/*
 * Makes a name that is the same on all ranks and of no other job; the first
 * rank chooses it.
 */
static pen_status job_name(struct pen_transport *transport, const char *host,
                           char out[JOB_SIZE])
{
    memset(out, 0, JOB_SIZE);
    snprintf(out, JOB_SIZE, "%s-%ld-%" PRId64, host, (long)getpid(),
             pen_clock_ns());
    return pen_transport_share(transport, out, JOB_SIZE);
}

/*
 * Seconds to wait at least: replicas that rarely talk may wait for much longer
 * than steps take.
 */
static double least_patience(const struct pen__train_args *args)
{
    enum { REPLICAS_SEC = 600 };
    return args->replica_batch < args->global_batch_size ? REPLICAS_SEC : 0;
}

/*
 * Seconds for the ranks of a node to come, as outside of the rows (watchdog.h).
 */
static double board_deadline(const struct pen__train_args *args)
{
    enum { BOARD_SEC = 60, OUTSIDE_FACTOR = 10 };
    if (isnan(args->hang_timeout))
        return BOARD_SEC;
    return args->hang_timeout > 0 ? OUTSIDE_FACTOR * args->hang_timeout : 1e9;
}

static bool has_node(const struct pen_launch *launch)
{
    return launch->local_rank != PEN_LAUNCH_UNKNOWN &&
           launch->local_size != PEN_LAUNCH_UNKNOWN &&
           launch->local_rank < launch->local_size;
}

/* Opens the board; all ranks of the node do this together. */
static pen_status open_board(struct pen__train_watch *watch,
                             const struct pen__train_args *args,
                             const struct pen_launch *launch, const char *job,
                             uint32_t rank, uint32_t num_ranks,
                             struct pen_text *why)
{
    char host[HOST_SIZE];
    host_name(host);
    struct pen_board_options options = {.job = job,
                                        .host = host,
                                        .rank = rank,
                                        .local_rank = launch->local_rank,
                                        .num_local = launch->local_size,
                                        .num_ranks = num_ranks,
                                        .deadline_sec = board_deadline(args),
                                        .socket = launch->socket};
    pen_status status = pen_board_create(&options, &watch->board, why);
    if (status != PEN_OK)
        return status;
    struct pen_watchdog_options guard = {
        .board = watch->board,
        .num_ranks = num_ranks,
        .hang_timeout_sec = isnan(args->hang_timeout) ? PEN_HANG_TIMEOUT_DEFAULT
                                                      : args->hang_timeout};
    return pen_watchdog_create(&guard, &watch->watchdog, why);
}

pen_status pen__train_watch_start(struct pen__train_watch *watch,
                                  const struct pen__train_args *args,
                                  const struct pen_launch *launch,
                                  struct pen_text *why)
{
    struct pen_text job = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (has_node(launch) && launch->rank != PEN_LAUNCH_UNKNOWN &&
        launch->size != PEN_LAUNCH_UNKNOWN && launch->size > 1)
        pen_launch_job_own(launch, &job);
    if (job.has_failed)
        status = PEN_NOMEM;
    else if (job.length > 0)
        status = open_board(watch, args, launch, pen_text_string(&job),
                            launch->rank, launch->size, why);
    pen_text_release(&job);
    return status;
}

pen_status pen__train_watch_join(struct pen__train_watch *watch,
                                 const struct pen__train_args *args,
                                 const struct pen_launch *launch,
                                 struct pen_transport *transport,
                                 struct pen_text *why)
{
    char host[HOST_SIZE], job[JOB_SIZE];
    pen_status status = PEN_OK;
    if (watch->board == NULL && pen_transport_size(transport) > 1 &&
        has_node(launch)) {
        host_name(host);
        status = job_name(transport, host, job);
        if (status == PEN_OK)
            status = open_board(watch, args, launch, job,
                                pen_transport_rank(transport),
                                pen_transport_size(transport), why);
    }
    pen_transport_guard(transport, watch->board);
    pen__train_watch_note(watch, PEN_BOARD_LOADING);
    return status;
}

/* A pipeline among those of all replicas, and the row in it. */
struct place {
    uint32_t replica;
    uint32_t row;
};

/* Replicas of a --sync method have a mesh each, one after the other. */
static struct place find_place(const struct pen__train_layout *layout,
                               uint32_t world_rank)
{
    const struct pen_mesh *own = &layout->mesh;
    struct pen_mesh meshes =
        pen_mesh_fill(PEN_MESH_PIPELINE_FIRST, pen_mesh_size(own), UINT32_MAX);
    uint32_t rank = pen_mesh_row(&meshes, world_rank);
    return (struct place){.replica = pen_mesh_replica(&meshes, world_rank) *
                                         pen_mesh_num_replicas(own) +
                                     pen_mesh_replica(own, rank),
                          .row = pen_mesh_row(own, rank)};
}

#define NO_LINE UINT32_MAX

/*
 * The line of a rank in traces. A tensor group has one line: that of its first
 * rank.
 */
static uint32_t find_line(const struct pen__train_layout *layout, uint32_t rank)
{
    struct pen_mesh lines = layout->mesh;
    if (lines.sizes[PEN_AXIS_TENSOR] == 1)
        return rank;
    struct pen_mesh_place place = pen_mesh_place_of(&lines, rank);
    lines.sizes[PEN_AXIS_TENSOR] = 1;
    return place.at[PEN_AXIS_TENSOR] == 0 ? pen_mesh_rank(&lines, place)
                                          : NO_LINE;
}

static pen_status open_trace(struct pen__train_watch *watch,
                             const struct pen__train_args *args,
                             const struct pen__train_layout *layout,
                             struct pen_transport *transport,
                             struct pen_text *why)
{
    const struct pen_schedule *schedule = layout->schedule;
    uint32_t rank = pen_transport_rank(transport);
    struct place place = find_place(layout, rank);
    bool is_method = args->replica_batch < args->global_batch_size;
    uint32_t num_ranks =
        is_method ? pen_transport_size(transport) : layout->num_ranks;
    uint32_t line = find_line(layout, rank);
    struct pen_tracer_settings settings = {
        .folder = args->trace,
        .rank = line,
        .num_ranks = num_ranks / layout->mesh.sizes[PEN_AXIS_TENSOR],
        .replica = place.replica,
        .row = place.row,
        .num_ops = schedule->rows[place.row].count,
        .capacity = schedule->rows[place.row].count,
        .schedule = rank == 0 ? schedule : NULL,
        .costs = rank == 0 && layout->has_costs ? &layout->costs : NULL};
    pen_status status = PEN_OK;
    if (rank < num_ranks && line != NO_LINE) /* others wait for a move */
        status = pen_tracer_create(&settings, &watch->tracer, why);
    if (status != PEN_OK)
        pen_agree_name(transport, status, "opening the trace", why);
    status = pen__train_file_opened(PEN__FILE_TRACE, args->trace, status, why);
    int64_t offset_ns = pen_transport_clock_offset(transport); /* by all */
    if (watch->tracer != NULL)
        pen_tracer_set_clock_offset(watch->tracer, offset_ns);
    return status;
}

static void set_layout(struct pen__train_watch *watch,
                       const struct pen__train_layout *layout, uint32_t rank)
{
    watch->has_prediction =
        !isnan(layout->predicted_sec) && layout->predicted_sec > 0;
    if (layout->schedule != NULL)
        pen_board_set_row(watch->board, find_place(layout, rank).row);
    if (layout->num_shares == 0) /* else ranks have several schedules */
        pen_watchdog_set_schedule(watch->watchdog, layout->schedule);
    pen_watchdog_expect(watch->watchdog,
                        watch->has_prediction
                            ? layout->predicted_sec * layout->overlapping_steps
                            : 0,
                        watch->least_sec);
}

pen_status pen__train_watch_init(struct pen__train_watch *watch,
                                 const struct pen__train_args *args,
                                 const struct pen__train_layout *layout,
                                 struct pen_transport *transport,
                                 struct pen_text *why)
{
    watch->traced = layout->schedule;
    watch->is_traced = true;
    watch->least_sec = least_patience(args);
    set_layout(watch, layout, pen_transport_rank(transport));
    pen__train_watch_note(watch, PEN_BOARD_PREPARING);
    return args->trace != NULL && layout->schedule != NULL
               ? open_trace(watch, args, layout, transport, why)
               : PEN_OK;
}

void pen__train_watch_move(struct pen__train_watch *watch,
                           const struct pen__train_layout *layout,
                           uint32_t rank)
{
    watch->is_traced = false;
    set_layout(watch, layout, rank);
}

void pen__train_watch_expect(struct pen__train_watch *watch, double step_flops,
                             double peak_flops)
{
    double sec = step_flops / (LEAST_SHARE_OF_PEAK * peak_flops);
    if (!watch->has_prediction && isfinite(sec) && sec > 0)
        pen_watchdog_expect(watch->watchdog, sec, watch->least_sec);
}

void pen__train_watch_release(struct pen__train_watch *watch)
{
    pen_watchdog_free(watch->watchdog);
    pen__train_watch_note(watch, PEN_BOARD_FINISHED);
    pen_board_free(watch->board);
    pen_tracer_free(watch->tracer);
    *watch = (struct pen__train_watch){0};
}

/* ---- hooks ---- */

static void on_op(void *context, uint64_t pass, uint32_t position)
{
    struct pen__train_watch *watch = context;
    (void)pass;
    watch->position = position;
    if (position == 0 && watch->tracer != NULL)
        pen_tracer_forget(watch->tracer); /* a row may begin again */
    pen_board_note(watch->board, watch->step, position, PEN_BOARD_COMPUTING,
                   PEN_BOARD_NOBODY);
}

static void on_wait(void *context, uint32_t rank)
{
    const struct pen__train_watch *watch = context;
    if (rank == PEN_OTHER_ISLANDS)
        pen_board_note(watch->board, watch->step, watch->position,
                       PEN_BOARD_ISLANDS, PEN_BOARD_NOBODY);
    else if (rank == PEN_NO_RANK)
        pen_board_note(watch->board, watch->step, watch->position,
                       PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY);
    else
        pen_board_note(watch->board, watch->step, watch->position,
                       PEN_BOARD_WAITING, rank);
}

static void on_resume(void *context)
{
    const struct pen__train_watch *watch = context;
    pen_board_note(watch->board, watch->step, watch->position,
                   PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY);
}

static void on_done(void *context, uint64_t pass, uint32_t position,
                    int64_t begin, int64_t ready, int64_t end)
{
    const struct pen__train_watch *watch = context;
    struct pen_trace_event event = {.step = (uint32_t)watch->step,
                                    .position = position,
                                    .begin_ns = begin,
                                    .ready_ns = ready,
                                    .end_ns = end};
    (void)pass;
    if (watch->tracer != NULL && watch->is_traced)
        pen_tracer_record(watch->tracer, &event);
}

struct pen_executor_hooks pen__train_watch_hooks(struct pen__train_watch *watch)
{
    return (struct pen_executor_hooks){.context = watch,
                                       .op = on_op,
                                       .wait = on_wait,
                                       .resume = on_resume,
                                       .done = on_done};
}

/* ---- between steps ---- */

void pen__train_watch_set_schedule(struct pen__train_watch *watch,
                                   const struct pen_schedule *schedule)
{
    watch->is_traced = schedule == watch->traced;
    pen_watchdog_set_schedule(watch->watchdog, schedule);
}

void pen__train_watch_begin(struct pen__train_watch *watch, uint64_t step)
{
    watch->state = PEN_BOARD_COMPUTING;
    watch->step = step;
    watch->position = 0;
}

void pen__train_watch_end(struct pen__train_watch *watch, double sec)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_watchdog_add_step(watch->watchdog, sec);
    if (watch->tracer != NULL)
        pen__train_file_written(PEN__FILE_TRACE,
                                pen_tracer_flush(watch->tracer, &why),
                                &watch->is_trace_told, &why);
    pen_text_release(&why);
}

void pen__train_watch_note(struct pen__train_watch *watch,
                           enum pen_board_state state)
{
    watch->state = state;
    watch->position = PEN_BOARD_NO_OP;
    pen_board_note(watch->board, watch->step, PEN_BOARD_NO_OP, state,
                   PEN_BOARD_NOBODY);
}
