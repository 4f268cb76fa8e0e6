#include "planner/swarm.h"

#include "base/bug.h"
#include "base/room.h"
#include "planner/route.h"
#include "planner/swarm_place.h"

#include <math.h>
#include <string.h>

#define NONE UINT32_MAX
#define IN_FLIGHT 2u /* micro-batches for each peer */

/* ---- the state ---- */

enum kind { ARRIVED, DONE, NOTICED, MOVED, LOST };

struct event {
    double sec;
    uint64_t number; /* events of one moment in the order of their making */
    enum kind kind;
    uint32_t peer;
    uint32_t task;
    uint32_t epoch; /* of the peer; it changes when the peer is lost or moves */
};

/*
 * Tasks 0 to M-1 are the micro-batches on their way: `hop` counts stages forth
 * and back. Task M + m S + s computes stage s of micro-batch m again.
 */
struct task {
    uint32_t hop;
    uint32_t peer; /* that has it; NONE: on its way, or not begun */
    uint32_t next; /* in the queue of the peer */
};

struct peer {
    double speed;
    double link_sec; /* when its link is free */
    double work;     /* of the task that it computes, at speed 1 */
    uint32_t stage;
    uint32_t epoch;
    uint32_t busy; /* task, or NONE */
    uint32_t first;
    uint32_t last;
    bool is_lost;
    bool is_moving;
};

struct swarm {
    const struct pen_swarm_job *job;
    struct pen_swarm *out;
    struct peer *peers;
    struct pen_route *routes; /* of stages */
    struct pen_route_peer *route_peers;
    struct task *tasks;
    uint32_t *holders; /* (micro-batch, stage): peer with its stash, or NONE */
    uint32_t *owners;  /* the same: peer that summed its gradient, or NONE */
    uint32_t *sums;    /* the same: how often */
    uint32_t *parked;  /* tasks whose stage has no peer */
    struct event *events;
    uint64_t num_events;
    uint64_t room_events;
    uint64_t number;
    uint32_t num_parked;
    uint32_t num_begun;
    uint32_t num_left; /* micro-batches and stages that are not summed */
    double now_sec;
    pen_status status;
};

static size_t place_of(const struct swarm *swarm, uint32_t microbatch,
                       uint32_t stage)
{
    return (size_t)microbatch * swarm->job->num_stages + stage;
}

/* ---- events, in a heap ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->sec < b->sec || (a->sec == b->sec && a->number < b->number);
}

static void push(struct swarm *swarm, double sec, enum kind kind, uint32_t peer,
                 uint32_t task)
{
    if (swarm->num_events == swarm->room_events) {
        uint64_t room = 2 * swarm->room_events + 64;
        struct event *more = pen_room_again(swarm->events, room, sizeof *more);
        if (more == NULL) {
            swarm->status = PEN_NOMEM;
            return;
        }
        swarm->events = more;
        swarm->room_events = room;
    }
    struct event event = {sec,  swarm->number++,
                          kind, peer,
                          task, peer == NONE ? 0 : swarm->peers[peer].epoch};
    uint64_t at = swarm->num_events++;
    while (at > 0 && is_before(&event, &swarm->events[(at - 1) / 2])) {
        swarm->events[at] = swarm->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    swarm->events[at] = event;
}

static struct event pop(struct swarm *swarm)
{
    struct event first = swarm->events[0];
    struct event last = swarm->events[--swarm->num_events];
    uint64_t at = 0;
    for (;;) {
        uint64_t child = 2 * at + 1;
        if (child >= swarm->num_events)
            break;
        if (child + 1 < swarm->num_events &&
            is_before(&swarm->events[child + 1], &swarm->events[child]))
            child++;
        if (!is_before(&swarm->events[child], &last))
            break;
        swarm->events[at] = swarm->events[child];
        at = child;
    }
    swarm->events[at] = last;
    return first;
}

/* ---- tasks ---- */

static bool is_again(const struct swarm *swarm, uint32_t task)
{
    return task >= swarm->job->num_microbatches;
}

static uint32_t microbatch_of(const struct swarm *swarm, uint32_t task)
{
    uint32_t count = swarm->job->num_microbatches;
    return is_again(swarm, task) ? (task - count) / swarm->job->num_stages
                                 : task;
}

static bool is_forward(const struct swarm *swarm, uint32_t task)
{
    return !is_again(swarm, task) &&
           swarm->tasks[task].hop < swarm->job->num_stages;
}

static uint32_t stage_of(const struct swarm *swarm, uint32_t task)
{
    uint32_t stages = swarm->job->num_stages;
    uint32_t hop = swarm->tasks[task].hop;
    if (is_again(swarm, task))
        return (task - swarm->job->num_microbatches) % stages;
    return hop < stages ? hop : 2 * stages - 1 - hop;
}

/* A backward without the stash of its forward computes that again. */
static double work_of(struct swarm *swarm, uint32_t task, uint32_t peer)
{
    const struct pen_swarm_job *job = swarm->job;
    size_t place =
        place_of(swarm, microbatch_of(swarm, task), stage_of(swarm, task));
    if (is_forward(swarm, task))
        return job->forward_sec;
    if (!is_again(swarm, task) && swarm->holders[place] == peer)
        return job->backward_sec;
    swarm->out->num_again++;
    return job->forward_sec + job->backward_sec;
}

static void start_next(struct swarm *swarm, uint32_t number)
{
    struct peer *peer = &swarm->peers[number];
    if (peer->busy != NONE || peer->first == NONE)
        return;
    peer->busy = peer->first;
    peer->first = swarm->tasks[peer->busy].next;
    if (peer->first == NONE)
        peer->last = NONE;
    peer->work = work_of(swarm, peer->busy, number);
    push(swarm, swarm->now_sec + peer->work / peer->speed, DONE, number,
         peer->busy);
}

static void enqueue(struct swarm *swarm, uint32_t number, uint32_t task)
{
    struct peer *peer = &swarm->peers[number];
    swarm->tasks[task].peer = number;
    swarm->tasks[task].next = NONE;
    if (peer->last == NONE)
        peer->first = task;
    else
        swarm->tasks[peer->last].next = task;
    peer->last = task;
    start_next(swarm, number);
}

/* To a peer of its stage, where it is at that time; or it waits for one. */
static void send(struct swarm *swarm, uint32_t task, double sec)
{
    const struct pen_swarm_job *job = swarm->job;
    uint32_t peer = pen_route_take(&swarm->routes[stage_of(swarm, task)],
                                   job->forward_sec + job->backward_sec);
    swarm->tasks[task].peer = NONE;
    if (peer == PEN_ROUTE_NONE)
        swarm->parked[swarm->num_parked++] = task;
    else
        push(swarm, sec, ARRIVED, peer, task);
}

static void begin_microbatch(struct swarm *swarm)
{
    if (swarm->num_begun < swarm->job->num_microbatches)
        send(swarm, swarm->num_begun++, swarm->now_sec);
}

/* ---- a pass is done ---- */

static void sum_gradient(struct swarm *swarm, uint32_t task, uint32_t peer)
{
    size_t place =
        place_of(swarm, microbatch_of(swarm, task), stage_of(swarm, task));
    swarm->owners[place] = peer;
    swarm->sums[place]++;
    swarm->num_left--;
}

/* Where the stash is, if its peer still has that stage. */
static uint32_t holder_of(const struct swarm *swarm, uint32_t task)
{
    uint32_t stage = stage_of(swarm, task);
    uint32_t holder = swarm->holders[place_of(swarm, task, stage)];
    if (holder == NONE || swarm->peers[holder].is_lost ||
        swarm->peers[holder].stage != stage)
        return NONE;
    return holder;
}

/* On to the next stage, over the link of this peer unless it stays here. */
static void pass_on(struct swarm *swarm, uint32_t task, uint32_t number)
{
    struct peer *peer = &swarm->peers[number];
    uint32_t stages = swarm->job->num_stages;
    uint32_t hop = ++swarm->tasks[task].hop;
    if (hop == 2 * stages) {
        begin_microbatch(swarm);
        return;
    }
    if (hop == stages) {
        enqueue(swarm, number, task);
        return;
    }
    peer->link_sec =
        fmax(peer->link_sec, swarm->now_sec) + swarm->job->message_sec;
    uint32_t holder = hop < stages ? NONE : holder_of(swarm, task);
    swarm->tasks[task].peer = NONE;
    if (holder != NONE)
        push(swarm, peer->link_sec, ARRIVED, holder, task);
    else
        send(swarm, task, peer->link_sec);
}

/* Whether the pass ends with a message. */
static bool sends(const struct swarm *swarm, uint32_t task)
{
    uint32_t stages = swarm->job->num_stages;
    uint32_t hop = swarm->tasks[task].hop + 1;
    return !is_again(swarm, task) && hop != stages && hop != 2 * stages;
}

static void finish_pass(struct swarm *swarm, uint32_t number, uint32_t task)
{
    struct peer *peer = &swarm->peers[number];
    uint32_t stage = peer->stage;
    peer->busy = NONE;
    if (swarm->job->policy == PEN_SWARM_ROUTED)
        pen_route_learn(&swarm->routes[stage], number, peer->work,
                        fmax(peer->work / peer->speed,
                             sends(swarm, task) ? swarm->job->message_sec : 0));
    if (is_forward(swarm, task))
        swarm->holders[place_of(swarm, task, stage)] = number;
    else
        sum_gradient(swarm, task, number);
    if (!is_again(swarm, task))
        pass_on(swarm, task, number);
    start_next(swarm, number);
}

/* ---- peers that are lost, or move ---- */

/* The tasks of a peer go to others after that long. */
static void hand_over(struct swarm *swarm, uint32_t number, double after_sec)
{
    struct peer *peer = &swarm->peers[number];
    double sec = swarm->now_sec + after_sec;
    if (peer->busy != NONE)
        push(swarm, sec, NOTICED, NONE, peer->busy);
    for (uint32_t task = peer->first; task != NONE;
         task = swarm->tasks[task].next)
        push(swarm, sec, NOTICED, NONE, task);
    size_t places =
        (size_t)swarm->job->num_microbatches * swarm->job->num_stages;
    for (size_t i = 0; i < places; i++)
        if (swarm->holders[i] == number)
            swarm->holders[i] = NONE;
    peer->busy = peer->first = peer->last = NONE;
    peer->epoch++;
}

/* Work in a second of computing or sending, whichever takes longer. */
static double known_speed(const struct pen_swarm_job *job, uint32_t stage,
                          uint32_t peer)
{
    double work = job->forward_sec + job->backward_sec;
    double messages =
        (stage > 0 ? 1 : 0) + (stage + 1 < job->num_stages ? 1 : 0);
    return work / fmax(work / job->speeds[peer], messages * job->message_sec);
}

static double speed_of(const struct swarm *swarm, uint32_t stage)
{
    double speed = 0;
    for (uint32_t i = 0; i < swarm->job->num_peers; i++)
        if (!swarm->peers[i].is_lost && swarm->peers[i].stage == stage)
            speed += known_speed(swarm->job, stage, i);
    return speed;
}

/* The peer that leaves most to its own stage and to the slowest one. */
static void move_peer(struct swarm *swarm)
{
    uint32_t slow = 0;
    uint32_t found = NONE;
    for (uint32_t i = 1; i < swarm->job->num_stages; i++)
        if (speed_of(swarm, i) < speed_of(swarm, slow))
            slow = i;
    double low = speed_of(swarm, slow);
    double best = low;
    for (uint32_t i = 0; i < swarm->job->num_peers; i++) {
        const struct peer *peer = &swarm->peers[i];
        if (peer->is_lost || peer->is_moving || peer->stage == slow)
            continue;
        double least =
            fmin(low + peer->speed, speed_of(swarm, peer->stage) - peer->speed);
        if (least > best) {
            best = least;
            found = i;
        }
    }
    if (found == NONE)
        return;
    pen_route_ban(&swarm->routes[swarm->peers[found].stage], found);
    hand_over(swarm, found, 0);
    swarm->peers[found].stage = slow;
    swarm->peers[found].is_moving = true;
    swarm->out->num_moves++;
    push(swarm, swarm->now_sec + swarm->job->state_sec, MOVED, found, NONE);
}

static void lose_peer(struct swarm *swarm, uint32_t number)
{
    const struct pen_swarm_job *job = swarm->job;
    struct peer *peer = &swarm->peers[number];
    peer->is_lost = true;
    pen_route_ban(&swarm->routes[peer->stage], number);
    hand_over(swarm, number, job->detect_sec);
    for (uint32_t m = 0; m < job->num_microbatches; m++)
        for (uint32_t stage = 0; stage < job->num_stages; stage++) {
            size_t place = place_of(swarm, m, stage);
            if (swarm->owners[place] != number)
                continue;
            swarm->owners[place] = NONE;
            swarm->sums[place]--;
            swarm->num_left++;
            push(swarm, swarm->now_sec + job->detect_sec, NOTICED, NONE,
                 job->num_microbatches + (uint32_t)place);
        }
    if (job->policy == PEN_SWARM_ROUTED)
        move_peer(swarm);
}

static void arrive_at_stage(struct swarm *swarm, uint32_t number)
{
    struct peer *peer = &swarm->peers[number];
    uint32_t count = swarm->num_parked;
    peer->is_moving = false;
    pen_route_add(&swarm->routes[peer->stage], number, peer->speed);
    swarm->num_parked = 0;
    for (uint32_t i = 0; i < count; i++)
        send(swarm, swarm->parked[i], swarm->now_sec + swarm->job->message_sec);
}

/* ---- a step ---- */

static void handle(struct swarm *swarm, const struct event *event)
{
    bool is_old =
        event->peer != NONE && event->epoch != swarm->peers[event->peer].epoch;
    if (event->kind == LOST) {
        lose_peer(swarm, event->peer);
    } else if (event->kind == MOVED) {
        if (!is_old)
            arrive_at_stage(swarm, event->peer);
    } else if (event->kind == DONE) {
        if (!is_old)
            finish_pass(swarm, event->peer, event->task);
    } else if (event->kind == ARRIVED && !is_old) {
        enqueue(swarm, event->peer, event->task);
    } else {
        double late = event->kind == ARRIVED ? swarm->job->detect_sec : 0;
        send(swarm, event->task,
             swarm->now_sec + late + swarm->job->message_sec);
    }
}

static void run_step(struct swarm *swarm)
{
    const struct pen_swarm_job *job = swarm->job;
    size_t places = (size_t)job->num_microbatches * job->num_stages;
    for (size_t i = 0; i < job->num_microbatches + places; i++)
        swarm->tasks[i] = (struct task){0, NONE, NONE};
    memset(swarm->sums, 0, places * sizeof *swarm->sums);
    for (size_t i = 0; i < places; i++)
        swarm->owners[i] = swarm->holders[i] = NONE;
    swarm->num_begun = 0;
    swarm->num_left = (uint32_t)places;
    for (uint32_t i = 0; i < IN_FLIGHT * job->num_peers; i++)
        begin_microbatch(swarm);
    while (swarm->num_left > 0 && swarm->num_events > 0 &&
           swarm->status == PEN_OK) {
        struct event event = pop(swarm);
        swarm->now_sec = event.sec;
        handle(swarm, &event);
    }
}

static void count_sums(struct swarm *swarm)
{
    size_t places =
        (size_t)swarm->job->num_microbatches * swarm->job->num_stages;
    swarm->out->least_sums = UINT32_MAX;
    for (size_t i = 0; i < places; i++) {
        if (swarm->sums[i] < swarm->out->least_sums)
            swarm->out->least_sums = swarm->sums[i];
        if (swarm->sums[i] > swarm->out->most_sums)
            swarm->out->most_sums = swarm->sums[i];
    }
}

/* ---- the whole ---- */

static bool make_room(struct swarm *swarm)
{
    const struct pen_swarm_job *job = swarm->job;
    uint64_t places = (uint64_t)job->num_microbatches * job->num_stages;
    uint64_t tasks = places + job->num_microbatches;
    uint64_t peers = (uint64_t)job->num_peers * job->num_stages;
    swarm->peers = pen_room_zero(job->num_peers, sizeof *swarm->peers);
    swarm->routes = pen_room_zero(job->num_stages, sizeof *swarm->routes);
    swarm->route_peers = pen_room_zero(peers, sizeof *swarm->route_peers);
    swarm->tasks = pen_room_zero(tasks, sizeof *swarm->tasks);
    swarm->parked = pen_room_zero(tasks, sizeof *swarm->parked);
    swarm->holders = pen_room_zero(places, sizeof *swarm->holders);
    swarm->owners = pen_room_zero(places, sizeof *swarm->owners);
    swarm->sums = pen_room_zero(places, sizeof *swarm->sums);
    return swarm->peers != NULL && swarm->routes != NULL &&
           swarm->route_peers != NULL && swarm->tasks != NULL &&
           swarm->parked != NULL && swarm->holders != NULL &&
           swarm->owners != NULL && swarm->sums != NULL;
}

static void release(struct swarm *swarm)
{
    free(swarm->peers);
    free(swarm->routes);
    free(swarm->route_peers);
    free(swarm->tasks);
    free(swarm->parked);
    free(swarm->holders);
    free(swarm->owners);
    free(swarm->sums);
    free(swarm->events);
}

static void place_peers(struct swarm *swarm)
{
    const struct pen_swarm_job *job = swarm->job;
    uint32_t stages[PEN_SWARM_MAX_PEERS];
    pen__swarm_place(job, stages);
    for (uint32_t i = 0; i < job->num_stages; i++)
        swarm->routes[i] = (struct pen_route){
            swarm->route_peers + (size_t)i * job->num_peers, job->num_peers};
    for (uint32_t i = 0; i < job->num_peers; i++) {
        swarm->peers[i] = (struct peer){.speed = job->speeds[i],
                                        .stage = stages[i],
                                        .busy = NONE,
                                        .first = NONE,
                                        .last = NONE};
        pen_route_add(&swarm->routes[stages[i]], i,
                      job->policy == PEN_SWARM_BY_SPEED
                          ? known_speed(job, stages[i], i)
                          : 1);
    }
}

pen_status pen_swarm_simulate(const struct pen_swarm_job *job, uint64_t seed,
                              struct pen_swarm *out)
{
    struct pen_swarm found = {.seconds = 0};
    struct swarm swarm = {.job = job, .out = &found, .status = PEN_OK};
    struct pen__swarm_loss losses[PEN_SWARM_MAX_PEERS];
    PEN_BUG_UNLESS(job->num_stages > 0 && job->num_peers >= job->num_stages &&
                   job->num_peers <= PEN_SWARM_MAX_PEERS &&
                   job->num_stages <= PEN_SWARM_MAX_STAGES &&
                   job->num_lost < job->num_peers &&
                   job->num_microbatches > 0 && job->num_steps > 0);
    if (!make_room(&swarm)) {
        release(&swarm);
        return PEN_NOMEM;
    }
    place_peers(&swarm);
    pen__swarm_draw_losses(job, seed, losses);
    for (uint32_t i = 0; i < job->num_lost; i++)
        push(&swarm, losses[i].sec, LOST, losses[i].peer, NONE);
    bool is_stuck = false;
    for (uint32_t i = 0; i < job->num_steps && !is_stuck; i++) {
        run_step(&swarm);
        is_stuck = swarm.num_left > 0;
    }
    count_sums(&swarm);
    found.seconds = is_stuck ? 0 : swarm.now_sec;
    found.bound_seconds = pen__swarm_bound(job, losses);
    release(&swarm);
    if (swarm.status == PEN_OK)
        *out = found;
    return swarm.status;
}
