/*
 * Walks schedules literally under SimGrid, as the waiting rules of
 * schedule/machine.h say and with nothing of the machine: a send is an
 * MPI_Isend() that completes with its receive only, a receive an MPI_Irecv(),
 * a compute op waits for the receive that feeds it, and a send waits for the
 * one that stands a window before it on its channel.
 *
 *   smpi_literal FOLDER SCHEDULE...
 *
 * FOLDER is for what SimGrid reads; schedules are lowered ones. Prints a line
 * for each: its name, then for each rank a word with a letter for each op:
 *
 *   .  done as it should be
 *   o  out of order: computes before its receive, or sends before its producer
 *   m  receives another message than it names
 *   -  never done: the simulation ended in a deadlock before
 *
 * A walk goes on behind what is wrong. An op that computes takes a random time,
 * so that ranks drift apart.
 */
#include "base/file.h"
#include "base/random.h"
#include "schedule/schedule.h"

#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/smpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum mark { UNDONE = '-', RIGHT = '.', OUT_OF_ORDER = 'o', MISTAKEN = 'm' };

enum { TAG_SYNC = PEN_DIRECTION_GRAD + 1 }; /* below: messages by direction */

#define NOWHERE UINT32_MAX

/* What all ranks of a walk see. */
struct job {
    const struct pen_schedule *schedule;
    char *marks;     /* of all ops, rank by rank; outlives a deadlock */
    size_t *offsets; /* per rank */
};

struct message {
    uint32_t producer; /* stage */
    uint32_t microbatch;
    uint32_t slice;
};

/* A send or receive of the row. */
struct transfer {
    MPI_Request request;
    struct message message;
};

struct walk {
    const struct pen_schedule *schedule;
    const struct pen_shape *shape;
    const struct pen_row *row;
    char *marks;                /* per op of the row */
    struct transfer *transfers; /* per op of the row */
    MPI_Request *tokens;        /* of a SYNC; per op of the row and copy */
    struct pen_random random;
};

static bool same_unit(const struct pen_op *a, const struct pen_op *b)
{
    return a->stage == b->stage && a->microbatch == b->microbatch &&
           a->slice == b->slice;
}

/* Where the unit of the op has its op of this kind before it, or NOWHERE. */
static uint32_t find_before(const struct walk *walk, uint32_t position,
                            unsigned kind)
{
    const struct pen_op *ops = walk->row->ops;
    for (uint32_t i = position; i-- > 0;) {
        if (ops[i].kind == kind && same_unit(&ops[i], &ops[position]))
            return i;
    }
    return NOWHERE;
}

static bool is_class(const struct pen_op *op, enum pen_op_class op_class)
{
    return pen_op_info(op->kind)->op_class == op_class;
}

/* The stage at the other end of a send or receive, or that feeds a compute. */
static uint32_t other_stage(const struct pen_shape *shape,
                            const struct pen_op *op)
{
    bool is_act = pen_op_info(op->kind)->direction == PEN_DIRECTION_ACT;
    if (!is_act && shape->is_local)
        return PEN_NO_STAGE;
    if (is_act == is_class(op, PEN_OP_CLASS_SEND))
        return pen_shape_next_stage(shape, op->stage);
    return pen_shape_previous_stage(shape, op->stage);
}

static int peer_of(const struct walk *walk, const struct pen_op *op)
{
    return (int)pen_shape_rank_of(walk->shape, other_stage(walk->shape, op));
}

static int tag_of(const struct pen_op *op)
{
    return pen_op_info(op->kind)->direction;
}

static void post_receive(struct walk *walk, uint32_t position)
{
    const struct pen_op *op = &walk->row->ops[position];
    struct transfer *transfer = &walk->transfers[position];
    MPI_Irecv(&transfer->message, sizeof transfer->message, MPI_BYTE,
              peer_of(walk, op), tag_of(op), MPI_COMM_WORLD,
              &transfer->request);
}

/* Waits for a message and looks at what came. */
static void finish_receive(struct walk *walk, uint32_t position)
{
    const struct pen_op *op = &walk->row->ops[position];
    struct transfer *transfer = &walk->transfers[position];
    MPI_Wait(&transfer->request, MPI_STATUS_IGNORE);
    const struct message *message = &transfer->message;
    bool is_right = message->producer == other_stage(walk->shape, op) &&
                    message->microbatch == op->microbatch &&
                    message->slice == op->slice;
    walk->marks[position] = is_right ? RIGHT : MISTAKEN;
}

/* Rule 4: waits for the send a window before this one on its channel. */
static void wait_for_window(struct walk *walk, uint32_t position)
{
    const struct pen_op *op = &walk->row->ops[position];
    uint32_t left = pen_schedule_window(walk->schedule);
    for (uint32_t i = position; i-- > 0;) {
        const struct pen_op *before = &walk->row->ops[i];
        if (before->kind == op->kind &&
            peer_of(walk, before) == peer_of(walk, op) && --left == 0) {
            MPI_Wait(&walk->transfers[i].request, MPI_STATUS_IGNORE);
            return;
        }
    }
}

static bool has_producer(const struct walk *walk, uint32_t position)
{
    if (walk->row->ops[position].kind == PEN_OP_SEND_ACT)
        return find_before(walk, position, PEN_OP_FORWARD) != NOWHERE;
    return find_before(walk, position, PEN_OP_BACKWARD) != NOWHERE ||
           find_before(walk, position, PEN_OP_BACKWARD_INPUT) != NOWHERE;
}

static void post_send(struct walk *walk, uint32_t position)
{
    const struct pen_op *op = &walk->row->ops[position];
    struct transfer *transfer = &walk->transfers[position];
    wait_for_window(walk, position);
    transfer->message = (struct message){op->stage, op->microbatch, op->slice};
    MPI_Isend(&transfer->message, sizeof transfer->message, MPI_BYTE,
              peer_of(walk, op), tag_of(op), MPI_COMM_WORLD,
              &transfer->request);
    walk->marks[position] = has_producer(walk, position) ? RIGHT : OUT_OF_ORDER;
}

/* Ops of a group wait one after the other: no send stands between them. */
static void compute(struct walk *walk, uint32_t position)
{
    const struct pen_op *op = &walk->row->ops[position];
    enum pen_direction direction = pen_op_info(op->kind)->direction;
    enum mark mark = RIGHT;
    if (direction != PEN_DIRECTION_NONE &&
        pen_shape_is_remote(walk->shape, op->stage,
                            other_stage(walk->shape, op))) {
        uint32_t receive =
            find_before(walk, position,
                        direction == PEN_DIRECTION_ACT ? PEN_OP_RECV_ACT
                                                       : PEN_OP_RECV_GRAD);
        if (receive == NOWHERE)
            mark = OUT_OF_ORDER;
        else
            finish_receive(walk, receive);
    }
    walk->marks[position] = (char)mark;
    sg_actor_sleep_for(pen_random_unit(&walk->random) * 1e-3);
}

static int sync_tag(const struct pen_shape *shape, uint32_t from, uint32_t to)
{
    return TAG_SYNC + (int)(from * shape->num_stages + to);
}

/* Tells the other copies of the stage. */
static void sync_stage(struct walk *walk, uint32_t position)
{
    const struct pen_shape *shape = walk->shape;
    uint32_t stage = walk->row->ops[position].stage;
    uint32_t parts = pen_shape_parts(shape);
    MPI_Request *token = &walk->tokens[(size_t)position * shape->num_copies];
    for (uint32_t twin = stage % parts; twin < shape->num_stages;
         twin += parts, token++) {
        if (twin != stage)
            MPI_Isend(NULL, 0, MPI_BYTE, (int)pen_shape_rank_of(shape, twin),
                      sync_tag(shape, stage, twin), MPI_COMM_WORLD, token);
    }
}

static uint32_t count_ops(const struct pen_row *row, uint32_t end,
                          unsigned kind, uint32_t stage)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++)
        count += row->ops[i].kind == kind && row->ops[i].stage == stage;
    return count;
}

/* A step waits for the SYNC of the same number of every copy that has one. */
static void step_stage(const struct walk *walk, uint32_t position)
{
    const struct pen_shape *shape = walk->shape;
    uint32_t stage = walk->row->ops[position].stage;
    uint32_t number = count_ops(walk->row, position, PEN_OP_STEP, stage);
    uint32_t parts = pen_shape_parts(shape);
    for (uint32_t twin = stage % parts; twin < shape->num_stages;
         twin += parts) {
        uint32_t rank = pen_shape_rank_of(shape, twin);
        const struct pen_row *row = &walk->schedule->rows[rank];
        if (twin != stage &&
            number < count_ops(row, row->count, PEN_OP_SYNC_GRAD, twin))
            MPI_Recv(NULL, 0, MPI_BYTE, (int)rank, sync_tag(shape, twin, stage),
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void walk_op(struct walk *walk, uint32_t position)
{
    const struct pen_op *op = &walk->row->ops[position];
    switch ((enum pen_op_class)pen_op_info(op->kind)->op_class) {
    case PEN_OP_CLASS_RECV:
        post_receive(walk, position);
        return; /* marked when its message is there */
    case PEN_OP_CLASS_SEND:
        post_send(walk, position);
        return;
    case PEN_OP_CLASS_COMPUTE:
        compute(walk, position);
        return;
    case PEN_OP_CLASS_SYNC:
        sync_stage(walk, position);
        break;
    case PEN_OP_CLASS_STEP:
        step_stage(walk, position);
        break;
    case PEN_OP_CLASS_MOVE: /* a move waits for nobody */
        break;
    }
    walk->marks[position] = RIGHT;
}

/* Waits for what no op has waited for. */
static void finish_transfers(struct walk *walk)
{
    for (uint32_t i = 0; i < walk->row->count; i++) {
        const struct pen_op *op = &walk->row->ops[i];
        if (is_class(op, PEN_OP_CLASS_RECV) && walk->marks[i] == UNDONE)
            finish_receive(walk, i);
        else if (is_class(op, PEN_OP_CLASS_SEND))
            MPI_Wait(&walk->transfers[i].request, MPI_STATUS_IGNORE);
    }
}

static void walk_row(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct job *job = sg_host_get_data(sg_host_self());
    const struct pen_schedule *schedule = job->schedule;
    struct walk walk = {.schedule = schedule,
                        .shape = &schedule->shape,
                        .row = &schedule->rows[rank],
                        .marks = job->marks + job->offsets[rank],
                        .random = {(uint64_t)rank}};
    size_t tokens = (size_t)walk.row->count * schedule->shape.num_copies;
    walk.transfers = calloc(walk.row->count + 1, sizeof *walk.transfers);
    walk.tokens = malloc((tokens + 1) * sizeof *walk.tokens);
    if (walk.transfers == NULL || walk.tokens == NULL)
        exit(EXIT_FAILURE);
    for (size_t i = 0; i < tokens; i++)
        walk.tokens[i] = MPI_REQUEST_NULL;
    for (uint32_t i = 0; i < walk.row->count; i++)
        walk_op(&walk, i);
    finish_transfers(&walk);
    MPI_Waitall((int)tokens, walk.tokens, MPI_STATUSES_IGNORE);
    free(walk.tokens);
    free(walk.transfers);
    MPI_Finalize();
}

static _Noreturn void give_up(struct pen_text *why)
{
    fprintf(stderr, "%s\n", pen_text_string(why));
    exit(EXIT_FAILURE);
}

/* A host for every rank, and the rank on it. */
static void write_platform(const char *path, uint32_t num_ranks)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&text,
                 "<?xml version='1.0'?>\n"
                 "<!DOCTYPE platform SYSTEM "
                 "\"https://simgrid.org/simgrid.dtd\">\n"
                 "<platform version=\"4.1\">\n"
                 "<cluster id=\"cluster\" prefix=\"host-\" suffix=\"\" "
                 "radical=\"0-%u\" speed=\"1Gf\" bw=\"10Gbps\" lat=\"5us\"/>\n",
                 num_ranks - 1);
    for (uint32_t rank = 0; rank < num_ranks; rank++)
        pen_text_add(&text,
                     "<actor host=\"host-%u\" function=\"walk\">"
                     "<prop id=\"instance_id\" value=\"walk\"/>"
                     "<prop id=\"rank\" value=\"%u\"/></actor>\n",
                     rank, rank);
    pen_text_add(&text, "</platform>\n");
    if (pen_file_write_text(path, &text, &why) != PEN_OK)
        give_up(&why);
    pen_text_release(&text);
}

/* In a process of its own: SimGrid simulates once. */
static void simulate(struct job *job, const char *folder)
{
    char *words[] = {"smpi_literal",
                     "--cfg=smpi/simulate-computation:no",
                     "--cfg=smpi/send-is-detached-thresh:0",
                     "--cfg=smpi/host-speed:1f",
                     "--log=xbt_cfg.thres:error",
                     "--log=smpi_config.thres:error",
                     NULL};
    int count = (int)(sizeof words / sizeof *words) - 1;
    uint32_t num_ranks = job->schedule->shape.num_ranks;
    char path[4096];
    snprintf(path, sizeof path, "%s/ranks-%u.xml", folder, num_ranks);
    write_platform(path, num_ranks);
    simgrid_init(&count, words);
    SMPI_init();
    SMPI_app_instance_register("walk", walk_row, (int)num_ranks);
    simgrid_load_platform(path);
    for (uint32_t rank = 0; rank < num_ranks; rank++) {
        char name[32];
        snprintf(name, sizeof name, "host-%u", rank);
        sg_host_set_data(sg_host_by_name(name), job);
    }
    simgrid_run();
    SMPI_finalize();
}

/* Marks that this process sees when the one that sets them has ended. */
static void init_job(struct job *job, const struct pen_schedule *schedule)
{
    uint32_t num_ranks = schedule->shape.num_ranks;
    size_t size = pen_schedule_count(schedule) + 1;
    *job = (struct job){.schedule = schedule};
    job->offsets = calloc(num_ranks, sizeof *job->offsets);
    job->marks = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job->offsets == NULL || job->marks == MAP_FAILED)
        exit(EXIT_FAILURE);
    memset(job->marks, UNDONE, size);
    for (uint32_t rank = 1; rank < num_ranks; rank++)
        job->offsets[rank] =
            job->offsets[rank - 1] + schedule->rows[rank - 1].count;
}

static void release_job(struct job *job)
{
    munmap(job->marks, pen_schedule_count(job->schedule) + 1);
    free(job->offsets);
}

static void print_marks(const struct job *job, const char *name)
{
    printf("%s", name);
    for (uint32_t rank = 0; rank < job->schedule->shape.num_ranks; rank++)
        printf(" %.*s", (int)job->schedule->rows[rank].count,
               job->marks + job->offsets[rank]);
    printf("\n");
    fflush(stdout);
}

static void walk_schedule(const char *folder, const char *path)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    if (pen_schedule_load(path, &schedule, &why) != PEN_OK)
        give_up(&why);
    struct job job;
    init_job(&job, schedule);
    pid_t child = fork();
    if (child == 0) {
        simulate(&job, folder);
        exit(EXIT_SUCCESS);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "%s: the simulation ends with status %d\n", path,
                status);
        exit(EXIT_FAILURE);
    }
    print_marks(&job, path);
    release_job(&job);
    pen_schedule_free(schedule);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: smpi_literal FOLDER SCHEDULE...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        walk_schedule(argv[1], argv[i]);
    return EXIT_SUCCESS;
}
