#include "culprits/blame_internal.h"

#include "culprits/moments.h"

#include <math.h>
#include <stdlib.h>

#define TICK_NS 1 /* clocks round by less than this; it is not waiting */

/*
 * One cause of lost time: seconds on the chain, in the disturbed run and in the
 * undisturbed one.
 */
struct cause {
    enum pen_blame_kind kind;
    uint32_t rank;
    uint32_t to;
    double sec;
    double plain_sec;
    double message_sec; /* LINK: of an undisturbed message; NAN: unknown */
};

struct walk {
    struct pen__blame_run disturbed;
    struct pen__blame_run plain;
    uint32_t *const *waited_for; /* or NULL */
    uint32_t slowest_sums;       /* rank, or UINT32_MAX: unknown */
    struct cause *causes;
    size_t num_causes;
    size_t room;
    struct pen_blame_op *chain; /* last first */
    uint64_t num_chain;
    uint64_t chain_room;
    bool has_failed; /* memory ran out */
};

static double to_sec(int64_t ns)
{
    return (double)ns * 1e-9;
}

static struct cause *find_cause(struct walk *walk, enum pen_blame_kind kind,
                                uint32_t rank, uint32_t to)
{
    for (size_t i = 0; i < walk->num_causes; i++) {
        struct cause *cause = &walk->causes[i];
        if (cause->kind == kind && cause->rank == rank && cause->to == to)
            return cause;
    }
    if (walk->num_causes == walk->room) {
        size_t room = 2 * walk->room + 64;
        struct cause *causes = realloc(walk->causes, room * sizeof *causes);
        if (causes == NULL) {
            walk->has_failed = true;
            return NULL;
        }
        walk->causes = causes;
        walk->room = room;
    }
    struct cause *cause = &walk->causes[walk->num_causes++];
    *cause = (struct cause){
        .kind = kind, .rank = rank, .to = to, .message_sec = NAN};
    return cause;
}

static void add_cause(struct walk *walk, enum pen_blame_kind kind,
                      uint32_t rank, double sec, double plain_sec)
{
    struct cause *cause = find_cause(walk, kind, rank, 0);
    if (cause == NULL)
        return;
    cause->sec += sec;
    cause->plain_sec += plain_sec;
}

/* Returns the same op of the same rank and step in the undisturbed run. */
static struct pen__moment plain_of(const struct walk *walk,
                                   struct pen__moment moment)
{
    const struct pen_trace_event *event =
        pen__event_at(&walk->disturbed, moment);
    return pen__find_event(&walk->plain, moment.rank, event->step,
                           event->position);
}

static bool has_waited(const struct pen__blame_run *run,
                       struct pen__moment moment)
{
    const struct pen_trace_event *event = pen__event_at(run, moment);
    return event->ready_ns - event->begin_ns > TICK_NS;
}

/*
 * Returns the first rank of the row whose sums this op waited for: it names all
 * ranks that sum this part of the model. A STEP waits for the sums of all
 * parts, so the row of the slowest is returned.
 */
static uint32_t sums_rank(const struct walk *walk, struct pen__moment moment)
{
    uint32_t rank = moment.rank;
    if (pen__op_at(&walk->disturbed, moment)->kind == PEN_OP_STEP &&
        walk->slowest_sums != UINT32_MAX)
        rank = walk->slowest_sums;
    return walk->disturbed.ranks[walk->disturbed.trace->ranks[rank].head.row];
}

static double work_sec(const struct pen__blame_run *run,
                       struct pen__moment moment)
{
    const struct pen_trace_event *event = pen__event_at(run, moment);
    return to_sec(event->end_ns - event->ready_ns);
}

static void add_work(struct walk *walk, struct pen__moment moment)
{
    struct pen__moment plain = plain_of(walk, moment);
    double sec = work_sec(&walk->disturbed, moment);
    double plain_sec =
        plain.event == PEN__NO_EVENT ? sec : work_sec(&walk->plain, plain);
    if (pen__op_at(&walk->disturbed, moment)->kind == PEN_OP_SYNC_GRAD)
        add_cause(walk, PEN_BLAME_SUMS, sums_rank(walk, moment), sec,
                  plain_sec);
    else
        add_cause(walk, PEN_BLAME_RANK, moment.rank, sec, plain_sec);
}

static double sums_sec(const struct pen__blame_run *run,
                       struct pen__moment moment)
{
    if (!has_waited(run, moment))
        return 0;
    struct pen__moment last = pen__find_last(run, moment);
    return to_sec(pen__ready_ns(run, moment) - pen__begin_ns(run, last));
}

static void add_sums(struct walk *walk, struct pen__moment moment)
{
    struct pen__moment plain = plain_of(walk, moment);
    double sec = sums_sec(&walk->disturbed, moment);
    double plain_sec =
        plain.event == PEN__NO_EVENT ? sec : sums_sec(&walk->plain, plain);
    add_cause(walk, PEN_BLAME_SUMS, sums_rank(walk, moment), sec, plain_sec);
}

/*
 * Returns the time from the send until the op was ready; NAN when no rank sent
 * it.
 */
static double message_sec(const struct pen__blame_run *run,
                          struct pen__moment to, uint32_t from)
{
    struct pen__moment sender = pen__find_sender(run, to);
    if (sender.event == PEN__NO_EVENT || sender.rank != from)
        return NAN;
    return to_sec(pen__ready_ns(run, to) - pen__ready_ns(run, sender));
}

/*
 * Returns how long a message takes undisturbed: the shortest of all on this
 * link, since an op that did not wait for its message shows only that the
 * message had arrived.
 */
static double shortest_message_sec(const struct pen__blame_run *run,
                                   uint32_t from, uint32_t to)
{
    double shortest_sec = NAN;
    uint64_t count = run->trace->ranks[to].head.num_events;
    for (uint64_t i = 0; i < count; i++)
        shortest_sec = fmin(
            shortest_sec, message_sec(run, (struct pen__moment){to, i}, from));
    return shortest_sec;
}

static void add_message(struct walk *walk, struct pen__moment to,
                        struct pen__moment sender)
{
    struct pen__moment plain = plain_of(walk, to);
    struct cause *cause =
        find_cause(walk, PEN_BLAME_LINK, sender.rank, to.rank);
    if (cause == NULL)
        return;
    double sec = message_sec(&walk->disturbed, to, sender.rank);
    double plain_sec = NAN;
    if (plain.event != PEN__NO_EVENT && has_waited(&walk->plain, plain))
        plain_sec = message_sec(&walk->plain, plain, sender.rank);
    if (isnan(plain_sec)) {
        if (isnan(cause->message_sec))
            cause->message_sec =
                shortest_message_sec(&walk->plain, sender.rank, to.rank);
        plain_sec = cause->message_sec;
    }
    cause->sec += sec;
    cause->plain_sec += isnan(plain_sec) ? sec : plain_sec;
}

static struct pen__moment before(struct pen__moment moment)
{
    moment.event = moment.event == 0 ? PEN__NO_EVENT : moment.event - 1;
    return moment;
}

static uint32_t waited_for(const struct walk *walk, struct pen__moment moment)
{
    return walk->waited_for == NULL
               ? UINT32_MAX
               : walk->waited_for[moment.rank][moment.event];
}

/*
 * Steps to the op on which an op that waited for a message, or for room,
 * depended.
 */
static struct pen__moment
step_to_other(struct walk *walk, struct pen__moment moment, bool *is_send)
{
    const struct pen__blame_run *run = &walk->disturbed;
    struct pen__moment sender = pen__find_sender(run, moment);
    uint32_t other = waited_for(walk, moment);
    if (sender.event != PEN__NO_EVENT &&
        (other == UINT32_MAX || other == sender.rank) &&
        pen__ready_ns(run, sender) <= pen__ready_ns(run, moment)) {
        add_message(walk, moment, sender);
        *is_send = true;
        return sender;
    }
    if (other == UINT32_MAX || other == moment.rank)
        return before(moment);
    return pen__find_before(run, other, pen__ready_ns(run, moment));
}

static struct pen__moment step_back(struct walk *walk,
                                    struct pen__moment moment, bool *is_send)
{
    const struct pen__blame_run *run = &walk->disturbed;
    uint8_t kind = pen__op_at(run, moment)->kind;
    *is_send = false;
    if (!has_waited(run, moment))
        return before(moment);
    if (kind != PEN_OP_SYNC_GRAD && kind != PEN_OP_STEP)
        return step_to_other(walk, moment, is_send);
    add_sums(walk, moment);
    return before(pen__find_last(run, moment));
}

static struct pen__moment find_end(const struct pen__blame_run *run)
{
    struct pen__moment end = {0, PEN__NO_EVENT};
    for (uint32_t rank = 0; rank < run->trace->num_ranks; rank++) {
        uint64_t count = run->trace->ranks[rank].head.num_events;
        struct pen__moment last = {rank, count - 1};
        if (count > 0 && (end.event == PEN__NO_EVENT ||
                          pen__end_ns(run, last) > pen__end_ns(run, end)))
            end = last;
    }
    return end;
}

/*
 * Walks back along the chain. Every step goes back in time, or stays at one
 * instant.
 */
static pen_status walk_back(struct walk *walk)
{
    const struct pen_trace *trace = walk->disturbed.trace;
    for (uint32_t i = 0; i < trace->num_ranks; i++)
        walk->chain_room += trace->ranks[i].head.num_events;
    walk->chain = malloc((size_t)(walk->chain_room + 1) * sizeof *walk->chain);
    if (walk->chain == NULL)
        return PEN_NOMEM;
    struct pen__moment moment = find_end(&walk->disturbed);
    bool is_send = false;
    while (moment.event != PEN__NO_EVENT &&
           walk->num_chain < walk->chain_room) {
        walk->chain[walk->num_chain++] =
            (struct pen_blame_op){moment.rank, moment.event};
        if (!is_send)
            add_work(walk, moment);
        moment = step_back(walk, moment, &is_send);
    }
    return walk->has_failed ? PEN_NOMEM : PEN_OK;
}

static double excess_sec(const struct cause *cause)
{
    return fmax(0, cause->sec - cause->plain_sec);
}

static double excess_at(const struct walk *walk, uint32_t rank)
{
    double sec = 0;
    for (size_t i = 0; i < walk->num_causes; i++) {
        const struct cause *cause = &walk->causes[i];
        if (cause->kind == PEN_BLAME_LINK &&
            (cause->rank == rank || cause->to == rank))
            sec += excess_sec(cause);
    }
    return sec;
}

/*
 * Chooses the rank at one end of most slow links: a rank may have slow links to
 * all others.
 */
static void choose_end(const struct walk *walk, double all_sec,
                       struct pen_blame *blame)
{
    double most_sec = 0;
    for (size_t i = 0; i < walk->num_causes; i++) {
        const struct cause *cause = &walk->causes[i];
        const uint32_t ends[] = {cause->rank, cause->to};
        for (size_t k = 0; cause->kind == PEN_BLAME_LINK && k < 2; k++) {
            double sec = excess_at(walk, ends[k]);
            if (sec > most_sec) {
                most_sec = sec;
                blame->end = ends[k];
            }
        }
    }
    blame->end_share = most_sec / all_sec;
}

static void choose_cause(const struct walk *walk, struct pen_blame *blame)
{
    const struct cause *most = NULL;
    double all_sec = 0;
    double alike_sec = 0;
    for (size_t i = 0; i < walk->num_causes; i++) {
        const struct cause *cause = &walk->causes[i];
        all_sec += excess_sec(cause);
        if (most == NULL || excess_sec(cause) > excess_sec(most))
            most = cause;
    }
    if (most == NULL || !(all_sec > 0))
        return;
    for (size_t i = 0; i < walk->num_causes; i++) {
        const struct cause *cause = &walk->causes[i];
        if (cause->kind != most->kind || !(excess_sec(cause) > 0))
            continue;
        alike_sec += excess_sec(cause);
        blame->num_alike++;
    }
    blame->kind = most->kind;
    blame->rank = most->rank;
    blame->to = most->to;
    blame->share = excess_sec(most) / all_sec;
    blame->alike_share = alike_sec / all_sec;
    if (most->kind == PEN_BLAME_LINK)
        choose_end(walk, all_sec, blame);
    blame->seconds = blame->share * blame->longer_sec;
    blame->factor = most->plain_sec > 0 ? most->sec / most->plain_sec : 0;
}

static void take_chain(struct walk *walk, struct pen_blame *blame)
{
    for (uint64_t i = 0; i < walk->num_chain / 2; i++) {
        struct pen_blame_op *last = &walk->chain[walk->num_chain - 1 - i];
        struct pen_blame_op op = walk->chain[i];
        walk->chain[i] = *last;
        *last = op;
    }
    blame->chain = walk->chain;
    blame->num_chain = walk->num_chain;
    walk->chain = NULL;
}

static pen_status blame_traces(const struct pen_run_figures *disturbed,
                               const struct pen_run_figures *plain,
                               const struct pen_schedule *schedule,
                               struct pen_blame *blame)
{
    struct walk walk = {.waited_for = disturbed->waited_for,
                        .slowest_sums = UINT32_MAX};
    double sec = 0;
    if (disturbed->ranks != NULL && plain->ranks != NULL)
        walk.slowest_sums = pen__slowest_sums(disturbed, plain, &sec);
    pen_status status =
        pen__blame_run_init(&walk.disturbed, disturbed->trace, schedule);
    if (status != PEN_OK)
        return status;
    status = pen__blame_run_init(&walk.plain, plain->trace, schedule);
    if (status == PEN_OK) {
        status = walk_back(&walk);
        if (status == PEN_OK) {
            if (blame->longer_sec > 0)
                choose_cause(&walk, blame);
            take_chain(&walk, blame);
        }
        pen__blame_run_release(&walk.plain);
    }
    pen__blame_run_release(&walk.disturbed);
    free(walk.causes);
    free(walk.chain);
    return status;
}

static double mean_step_sec(const struct pen_run_figures *result)
{
    double sum_sec = 0;
    for (uint32_t i = 0; i < result->num_steps; i++)
        sum_sec += result->step_sec[i];
    return result->num_steps == 0 ? 0 : sum_sec / result->num_steps;
}

pen_status pen_blame_find(const struct pen_run_figures *disturbed,
                          const struct pen_run_figures *plain,
                          const struct pen_schedule *schedule,
                          struct pen_blame *out)
{
    double plain_sec = mean_step_sec(plain);
    uint32_t tensor = disturbed->tensor_ranks > 1 ? disturbed->tensor_ranks : 1;
    uint32_t context =
        disturbed->context_ranks > 1 ? disturbed->context_ranks : 1;
    struct pen_mesh mesh =
        pen_mesh_fill(PEN_MESH_PIPELINE_FIRST, schedule->shape.num_ranks,
                      disturbed->num_ranks);
    struct pen_blame blame = {
        .kind = PEN_BLAME_NOBODY,
        .mesh = pen_mesh_split(pen_mesh_split(mesh, PEN_AXIS_TENSOR, tensor),
                               PEN_AXIS_CONTEXT, context),
        .longer_sec = mean_step_sec(disturbed) - plain_sec};
    pen_status status = PEN_OK;
    if (blame.longer_sec < PEN__NOT_LONGER * plain_sec)
        blame.longer_sec = 0;
    if (disturbed->trace != NULL && plain->trace != NULL &&
        !disturbed->sends_inside)
        status = blame_traces(disturbed, plain, schedule, &blame);
    else if (blame.longer_sec > 0)
        pen__blame_ranks(disturbed, plain, &blame);
    if (status == PEN_OK)
        *out = blame;
    return status;
}

void pen_blame_release(struct pen_blame *blame)
{
    free(blame->chain);
    blame->chain = NULL;
    blame->num_chain = 0;
}
