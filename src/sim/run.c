/* A simulation in this process. */
#include "sim/run.h"

#include "sim/zones.h"

#include <simgrid/engine.h>
#include <smpi/smpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Only operations and links take time: no factors of a real network, no time of
 * this machine, and no send that completes in a buffer.
 */
static const char *const settings[] = {
    "penstock",
    "--cfg=smpi/simulate-computation:no",
    "--cfg=smpi/send-is-detached-thresh:0",
    "--cfg=smpi/wtime:0",
    "--cfg=smpi/test:0",
    "--cfg=smpi/host-speed:1f",
    "--cfg=smpi/errors-are-fatal:0",
    "--cfg=network/model:CM02",
    "--cfg=network/bandwidth-factor:1",
    "--cfg=network/latency-factor:1",
    "--cfg=network/weight-S:0",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    PEN_SIM_CONTEXTS, /* by the build: cmake/simgrid.cmake */
    "--cfg=contexts/guard-size:0",
    "--log=xbt_cfg.thres:error",
    "--log=smpi_config.thres:error",
    "--log=smpi_request.thres:error",  /* what phantoms are cut off */
    "--log=ker_engine.thres:critical", /* 4.0 crashes on its list of waits */
    NULL};

static void begin_simgrid(void)
{
    int argc = (int)(sizeof settings / sizeof *settings) - 1;
    char *argv[sizeof settings / sizeof *settings];
    memcpy(argv, settings, sizeof settings);
    simgrid_init(&argc, argv);
    SMPI_init();
}

/* ---- what ranks share ---- */

static pen_status make_ranges(struct pen__run *run)
{
    const struct pen_simulation *simulation = run->simulation;
    uint32_t count = pen_shape_parts(&simulation->schedule->shape);
    uint32_t next = 0;
    run->ranges = calloc(count, sizeof *run->ranges);
    if (run->ranges == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        run->ranges[i].first = next;
        run->ranges[i].count = simulation->parts[i].num_layers;
        next += simulation->parts[i].num_layers;
    }
    return PEN_OK;
}

static bool has_gradient(const struct pen_op *op)
{
    return op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_WEIGHT;
}

/* Marks the last gradient of each stage. */
static pen_status make_fine(struct pen__run *run)
{
    const struct pen_schedule *schedule = run->simulation->schedule;
    bool *is_done = calloc(schedule->shape.num_stages, sizeof *is_done);
    run->is_fine = calloc(schedule->shape.num_ranks, sizeof *run->is_fine);
    pen_status status =
        is_done == NULL || run->is_fine == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t r = 0; r < schedule->shape.num_ranks && status == PEN_OK;
         r++) {
        const struct pen_row *row = &schedule->rows[r];
        run->is_fine[r] = calloc(row->count + 1, sizeof **run->is_fine);
        if (run->is_fine[r] == NULL)
            status = PEN_NOMEM;
        memset(is_done, 0, schedule->shape.num_stages * sizeof *is_done);
        for (uint32_t i = row->count; i-- > 0 && status == PEN_OK;) {
            const struct pen_op *op = &row->ops[i];
            if (run->simulation->gathers_weights)
                run->is_fine[r][i] = pen_op_is_compute(op->kind);
            if (!has_gradient(op) || is_done[op->stage])
                continue;
            is_done[op->stage] = true;
            run->is_fine[r][i] =
                run->is_fine[r][i] ||
                (run->simulation->overlaps_sums &&
                 pen_mesh_num_replicas(&run->simulation->mesh) > 1);
        }
    }
    free(is_done);
    return status;
}

static void release_run(struct pen__run *run)
{
    for (uint32_t r = 0;
         run->is_fine != NULL && r < run->simulation->schedule->shape.num_ranks;
         r++)
        free(run->is_fine[r]);
    free(run->is_fine);
    free(run->ranges);
    free(run->ends);
    pen__link_load_free(run->load);
    pen_text_release(&run->why);
}

/* ---- ranks ---- */

/* Adds the actors: SimGrid reads from a file which rank is on which host. */
static void add_actors(const struct pen__run *run, struct pen_text *out)
{
    pen_text_add(out, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                      "\"https://simgrid.org/simgrid.dtd\">\n"
                      "<platform version=\"4.1\">\n");
    for (uint32_t i = 0; i < run->result->num_ranks; i++)
        pen_text_add(out,
                     "<actor host=\"rank-%u\" function=\"penstock\">"
                     "<argument value=\"%llx\"/>"
                     "<prop id=\"instance_id\" value=\"penstock\"/>"
                     "<prop id=\"rank\" value=\"%u\"/></actor>\n",
                     i, (unsigned long long)(uintptr_t)run, i);
    pen_text_add(out, "</platform>\n");
}

static pen_status place_ranks(const struct pen__run *run, struct pen_text *why)
{
    char path[] = "/tmp/penstock-ranks-XXXXXX.xml";
    struct pen_text text = PEN_TEXT_EMPTY;
    int file = mkstemps(path, 4);
    pen_status status = file < 0 ? PEN_IO : PEN_OK;
    add_actors(run, &text);
    if (status == PEN_OK && write(file, pen_text_string(&text), text.length) !=
                                (ssize_t)text.length)
        status = PEN_IO;
    if (status == PEN_OK) {
        SMPI_app_instance_register("penstock", pen__run_rank,
                                   (int)run->result->num_ranks);
        simgrid_load_deployment(path);
    } else {
        pen_why(why, "cannot write %s", path);
    }
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    pen_text_release(&text);
    return status;
}

/* ---- the end ---- */

static void tell_steps(const struct pen__run *run)
{
    for (uint32_t i = 0; i < run->result->num_steps; i++)
        run->result->step_sec[i] =
            run->ends[i] - (i == 0 ? 0 : run->ends[i - 1]);
}

static uint64_t peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static pen_status run_ranks(struct pen__run *run, struct pen_text *why)
{
    const struct pen_simulation *simulation = run->simulation;
    begin_simgrid();
    pen_status status = pen_platform_make(&simulation->platform, why);
    if (status == PEN_OK && simulation->disturbances != NULL)
        status = pen_disturbances_start(simulation->disturbances, why);
    if (status == PEN_OK)
        status = pen__link_load_create(run->result->num_ranks, &run->load);
    if (status == PEN_OK)
        status = place_ranks(run, why);
    if (status != PEN_OK)
        return status;
    pen_actors_run();
    if (run->why.length > 0) {
        pen_why(why, "%s", pen_text_string(&run->why));
        return PEN_INVALID;
    }
    run->result->is_stuck = run->num_finished < run->result->num_ranks;
    tell_steps(run);
    run->result->num_messages = pen__link_load_messages(run->load);
    return pen__link_load_read(run->load, simgrid_get_clock(),
                               run->result->links, PEN_SIM_MAX_LINKS,
                               &run->result->num_links);
}

pen_status pen__run_here(const struct pen_simulation *simulation,
                         struct pen_sim_progress *progress,
                         struct pen_sim_result *out, struct pen_text *why)
{
    struct pen__run run = {.simulation = simulation,
                           .progress = progress,
                           .result = out,
                           .why = PEN_TEXT_EMPTY};
    pen_status status = pen__result_init(out, simulation);
    if (status == PEN_OK)
        status = make_ranges(&run);
    if (status == PEN_OK)
        status = make_fine(&run);
    run.ends = calloc(simulation->num_steps, sizeof *run.ends);
    if (run.ends == NULL)
        status = PEN_NOMEM;
    if (status == PEN_OK)
        status = run_ranks(&run, why);
    out->peak_bytes = peak_bytes();
    release_run(&run);
    return status;
}
