#include "planner/goodput_run.h"

#include "base/real.h"

#include <math.h>
#include <stddef.h>

static double draw_exponential(struct pen__goodput_run *run)
{
    return -run->mtbf_sec * pen_real_log(1 - pen_random_unit(&run->random));
}

void pen__goodput_run_init(struct pen__goodput_run *run,
                           const struct pen_goodput_job *job,
                           struct pen__spares *spares, uint64_t seed,
                           double end_sec)
{
    double islands = job->islands > 1 ? job->islands : 1;
    *run = (struct pen__goodput_run){.job = job,
                                     .spares = spares,
                                     .random = {seed},
                                     .mtbf_sec = job->mtbf_sec * islands,
                                     .num_nodes =
                                         (double)job->num_nodes / islands};
    run->end_sec = end_sec;
    run->failure_sec = draw_exponential(run);
}

/* ---- without failures ---- */

/* Takes the whole steps and saves that fit; returns the seconds they took. */
static double progress(struct pen__goodput_run *run, double room)
{
    const struct pen_goodput_job *job = run->job;
    double cycle = (double)job->interval * job->step_sec + job->save_sec;
    double left = room;
    for (;;) {
        if (run->since == job->interval) {
            if (left < job->save_sec)
                return room - left;
            left -= job->save_sec;
            run->on_disk += job->interval;
            run->since = 0;
        }
        if (run->since == 0) {
            double whole = floor(left / cycle);
            run->on_disk += (uint64_t)whole * job->interval;
            left -= whole * cycle;
        }
        double most = (double)(job->interval - run->since);
        double steps = fmin(most, floor(left / job->step_sec));
        run->since += (uint64_t)steps;
        left -= steps * job->step_sec;
        if (run->since < job->interval)
            return room - left;
    }
}

/* ---- failures ---- */

static void take_back(struct pen__spares *spares, double wall_sec)
{
    while (spares->num_away > 0 && spares->back[spares->first] <= wall_sec) {
        spares->first = (spares->first + 1) % (PEN_GOODPUT_MAX_SPARES + 1);
        spares->num_away--;
        spares->free++;
    }
}

/* The time when a node replaces one that is lost now. */
static double exchange(struct pen__spares *spares, double wall_sec,
                       double repair_sec)
{
    uint32_t size = PEN_GOODPUT_MAX_SPARES + 1;
    take_back(spares, wall_sec);
    spares->back[(spares->first + spares->num_away) % size] =
        wall_sec + repair_sec;
    spares->num_away++;
    double ready_sec = wall_sec;
    if (spares->free == 0) {
        ready_sec = fmax(wall_sec, spares->back[spares->first]);
        take_back(spares, ready_sec);
    }
    if (spares->free > 0)
        spares->free--;
    return ready_sec;
}

static bool happens(struct pen__goodput_run *run, double share)
{
    return share > 0 && pen_random_unit(&run->random) < share;
}

/* Takes a failure, and others that come while the job recovers; none comes
 * while it waits for a node. */
static void recover(struct pen__goodput_run *run)
{
    const struct pen_goodput_job *job = run->job;
    bool is_from_disk = job->memory_steps == 0;
    bool is_first = true;
    do {
        run->wall_sec = run->failure_sec;
        double buddy = run->num_nodes > 1 ? 1 / (run->num_nodes - 1) : 1;
        if (happens(run, job->pair_share) || (!is_first && happens(run, buddy)))
            is_from_disk = true;
        is_first = false;
        if (happens(run, job->node_share) && run->spares != NULL)
            run->wall_sec =
                exchange(run->spares, run->wall_sec, job->repair_sec);
        run->failure_sec = run->wall_sec + draw_exponential(run);
        run->wall_sec += job->detect_sec + job->restart_sec +
                         (is_from_disk ? job->disk_sec : job->memory_sec);
    } while (run->failure_sec < run->wall_sec &&
             run->failure_sec < run->end_sec);
    if (run->failure_sec < run->wall_sec)
        run->failure_sec = INFINITY;
    run->since -= is_from_disk ? run->since : run->since % job->memory_steps;
}

void pen__goodput_run_until(struct pen__goodput_run *run, double wall_sec)
{
    while (run->failure_sec <= wall_sec && run->wall_sec <= wall_sec) {
        progress(run, run->failure_sec - run->wall_sec);
        recover(run);
    }
    if (run->wall_sec < wall_sec)
        run->wall_sec += progress(run, wall_sec - run->wall_sec);
}

double pen__goodput_run_steps(struct pen__goodput_run *run, uint64_t count)
{
    const struct pen_goodput_job *job = run->job;
    uint64_t target = run->on_disk + run->since + count;
    for (;;) {
        uint64_t steps = target - run->on_disk - run->since;
        uint64_t saves =
            steps == 0 ? 0 : (run->since + steps - 1) / job->interval;
        double end_sec = run->wall_sec + (double)steps * job->step_sec +
                         (double)saves * job->save_sec;
        if (end_sec <= run->failure_sec) {
            run->since += steps - saves * job->interval;
            run->on_disk += saves * job->interval;
            run->wall_sec = end_sec;
            return end_sec;
        }
        progress(run, run->failure_sec - run->wall_sec);
        recover(run);
    }
}

void pen__goodput_run_wait(struct pen__goodput_run *run, double wall_sec)
{
    while (run->failure_sec <= wall_sec && run->wall_sec <= wall_sec)
        recover(run);
    run->wall_sec = fmax(run->wall_sec, wall_sec);
}
