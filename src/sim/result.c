#include "sim/run.h"

#include <stdlib.h>
#include <string.h>

/*
 * Returns the lines. As in a training, the first rank of each tensor group is
 * recorded.
 */
static struct pen_mesh lines_of(const struct pen_mesh *mesh)
{
    return pen_mesh_of(mesh->order, mesh->sizes[PEN_AXIS_PIPELINE],
                       pen_mesh_num_replicas(mesh));
}

uint32_t pen__result_line(const struct pen_mesh *mesh, uint32_t rank)
{
    struct pen_mesh lines = lines_of(mesh);
    struct pen_mesh_place place = pen_mesh_place_of(mesh, rank);
    return place.at[PEN_AXIS_TENSOR] == 0
               ? pen_mesh_rank_at(&lines, pen_mesh_row(mesh, rank),
                                  pen_mesh_replica(mesh, rank))
               : PEN__NO_LINE;
}

static pen_status make_line(const struct pen_simulation *simulation,
                            uint32_t line, struct pen_rank_trace *out)
{
    const struct pen_schedule *schedule = simulation->schedule;
    struct pen_mesh mesh = lines_of(&simulation->mesh);
    struct pen_mesh_place place = pen_mesh_place_of(&mesh, line);
    uint32_t number = place.at[PEN_AXIS_PIPELINE];
    const struct pen_row *row = &schedule->rows[number];
    size_t most = (size_t)row->count * simulation->num_steps;
    out->head = pen_trace_head_make();
    out->head.rank = line;
    out->head.num_ranks = pen_mesh_size(&mesh);
    out->head.replica = place.at[PEN_AXIS_REPLICA];
    out->head.row = number;
    out->head.num_ops = row->count;
    strcpy(out->head.host, "simulated");
    out->events = calloc(most + 1, sizeof *out->events);
    return out->events == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status make_traces(struct pen_sim_result *result,
                              const struct pen_simulation *simulation)
{
    const struct pen_schedule *schedule = simulation->schedule;
    struct pen_mesh lines = lines_of(&simulation->mesh);
    uint32_t count = result->num_lines;
    pen_status status = PEN_OK;
    result->trace = calloc(1, sizeof *result->trace);
    result->waited_for = calloc(count, sizeof *result->waited_for);
    if (result->trace == NULL || result->waited_for == NULL)
        return PEN_NOMEM;
    result->trace->ranks = calloc(count, sizeof *result->trace->ranks);
    if (result->trace->ranks == NULL)
        return PEN_NOMEM;
    result->trace->num_ranks = count;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        const struct pen_row *row = &schedule->rows[pen_mesh_row(&lines, i)];
        status = make_line(simulation, i, &result->trace->ranks[i]);
        result->waited_for[i] =
            calloc((size_t)row->count * simulation->num_steps + 1,
                   sizeof **result->waited_for);
        if (result->waited_for[i] == NULL)
            status = PEN_NOMEM;
    }
    return status;
}

pen_status pen__result_init(struct pen_sim_result *result,
                            const struct pen_simulation *simulation)
{
    struct pen_mesh lines = lines_of(&simulation->mesh);
    uint32_t num = simulation->platform.num_ranks;
    *result = (struct pen_sim_result){
        .num_ranks = num,
        .tensor_ranks = simulation->mesh.sizes[PEN_AXIS_TENSOR],
        .context_ranks = simulation->mesh.sizes[PEN_AXIS_CONTEXT],
        .num_lines = pen_mesh_size(&lines),
        .num_steps = simulation->num_steps};
    result->step_sec = calloc(result->num_steps + 1, sizeof(double));
    result->ranks = calloc(num, sizeof *result->ranks);
    result->waiting_for = malloc(num * sizeof *result->waiting_for);
    if (result->step_sec == NULL || result->ranks == NULL ||
        result->waiting_for == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < num; i++)
        result->waiting_for[i] = UINT32_MAX;
    return simulation->with_trace ? make_traces(result, simulation) : PEN_OK;
}

struct pen_run_figures
pen_sim_result_figures(const struct pen_sim_result *result)
{
    return (struct pen_run_figures){.step_sec = result->step_sec,
                                    .num_steps = result->num_steps,
                                    .ranks = result->ranks,
                                    .num_ranks = result->num_ranks,
                                    .tensor_ranks = result->tensor_ranks,
                                    .context_ranks = result->context_ranks,
                                    .sends_inside = result->num_inside > 0,
                                    .trace = result->trace,
                                    .waited_for = result->waited_for};
}

void pen_sim_result_release(struct pen_sim_result *result)
{
    for (uint32_t i = 0; i < result->num_lines && result->waited_for != NULL;
         i++)
        free(result->waited_for[i]);
    free(result->waited_for);
    pen_trace_free(result->trace);
    free(result->waiting_for);
    free(result->ranks);
    free(result->step_sec);
    *result = (struct pen_sim_result){.num_ranks = 0};
}

/* ---- from process to process ---- */

static bool put(FILE *to, const void *bytes, size_t size, size_t count)
{
    return count == 0 || fwrite(bytes, size, count, to) == count;
}

/* Reads an array into memory of its own. */
static bool get(FILE *from, void *array, size_t size, size_t count)
{
    void *made = calloc(count + 1, size);
    memcpy(array, &made, sizeof made);
    return made != NULL &&
           (count == 0 || fread(made, size, count, from) == count);
}

bool pen__result_write(const struct pen_sim_result *result, FILE *to)
{
    bool is_done =
        put(to, result, sizeof *result, 1) &&
        put(to, result->step_sec, sizeof *result->step_sec,
            result->num_steps) &&
        put(to, result->ranks, sizeof *result->ranks, result->num_ranks) &&
        put(to, result->waiting_for, sizeof *result->waiting_for,
            result->num_ranks);
    for (uint32_t i = 0;
         is_done && result->trace != NULL && i < result->num_lines; i++) {
        const struct pen_rank_trace *trace = &result->trace->ranks[i];
        size_t count = trace->head.num_events;
        is_done =
            put(to, &trace->head, sizeof trace->head, 1) &&
            put(to, trace->events, sizeof *trace->events, count) &&
            put(to, result->waited_for[i], sizeof **result->waited_for, count);
    }
    return is_done && fflush(to) == 0;
}

static bool read_traces(struct pen_sim_result *result, FILE *from)
{
    bool is_done = true;
    result->waited_for = calloc(result->num_lines, sizeof(void *));
    result->trace = calloc(1, sizeof *result->trace);
    if (result->trace == NULL || result->waited_for == NULL)
        return false;
    result->trace->ranks =
        calloc(result->num_lines, sizeof *result->trace->ranks);
    if (result->trace->ranks == NULL)
        return false;
    result->trace->num_ranks = result->num_lines;
    for (uint32_t i = 0; i < result->num_lines && is_done; i++) {
        struct pen_rank_trace *trace = &result->trace->ranks[i];
        is_done = fread(&trace->head, sizeof trace->head, 1, from) == 1 &&
                  get(from, &trace->events, sizeof *trace->events,
                      trace->head.num_events) &&
                  get(from, &result->waited_for[i], sizeof **result->waited_for,
                      trace->head.num_events);
    }
    return is_done;
}

bool pen__result_read(struct pen_sim_result *result, FILE *from)
{
    if (fread(result, sizeof *result, 1, from) != 1) {
        *result = (struct pen_sim_result){.num_ranks = 0};
        return false;
    }
    bool has_trace = result->trace != NULL;
    result->trace = NULL;
    result->step_sec = NULL;
    result->ranks = NULL;
    result->waiting_for = NULL;
    result->waited_for = NULL;
    return get(from, &result->step_sec, sizeof *result->step_sec,
               result->num_steps) &&
           get(from, &result->ranks, sizeof *result->ranks,
               result->num_ranks) &&
           get(from, &result->waiting_for, sizeof *result->waiting_for,
               result->num_ranks) &&
           (!has_trace || read_traces(result, from));
}
