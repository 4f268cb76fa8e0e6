/*
 * Simulated annealing over candidates; search_moves.h has the idea.
 *
 * The span falls only if the critical path gets shorter, so a move starts from
 * an op that waits, on that path, for the op before it on its rank: either this
 * op moves ahead of some ops before it, or the op before it moves back after
 * some. If an F then no longer fits in memory, W or I are pulled in front of
 * it. The energy is the span plus a share of the mean span of all ranks: on the
 * many plateaus it leads to candidates with room elsewhere.
 */
#include "schedule/search_moves.h"

#include "base/real.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Part of the mean span in the energy. */
#define MEAN_SHARE 0.25

/* Heat at the start, in mean times of an op, and the share left at the end. */
#define HEAT 0.3
#define COOLING 0.005

struct pen__moves {
    const struct pen__problem *problem; /* borrowed */
    struct pen__evaluator *evaluator;   /* borrowed */
    uint8_t *best;
    uint8_t *row;              /* the changed row as it was */
    struct pen__place *places; /* of the candidate at hand */
    uint32_t num_places;
    double energy; /* of the candidate at hand */
};

void pen__moves_free(struct pen__moves *moves)
{
    if (moves == NULL)
        return;
    free(moves->best);
    free(moves->row);
    free(moves->places);
    free(moves);
}

pen_status pen__moves_create(const struct pen__problem *problem,
                             struct pen__evaluator *evaluator,
                             struct pen__moves **out)
{
    size_t size = pen__order_size(problem);
    struct pen__moves *moves = calloc(1, sizeof *moves);
    if (moves == NULL)
        return PEN_NOMEM;
    moves->problem = problem;
    moves->evaluator = evaluator;
    moves->best = malloc(size);
    moves->row = malloc(problem->length);
    moves->places = malloc(size * sizeof *moves->places);
    if (moves->best == NULL || moves->row == NULL || moves->places == NULL) {
        pen__moves_free(moves);
        return PEN_NOMEM;
    }
    *out = moves;
    return PEN_OK;
}

static void shift(uint8_t *row, uint32_t from, uint32_t to)
{
    uint8_t type = row[from];
    if (from < to)
        memmove(row + from, row + from + 1, to - from);
    else
        memmove(row + to + 1, row + to, from - to);
    row[to] = type;
}

/* Shifts the op at this place ahead, or the one before it back. */
static void change_row(const struct pen__problem *problem, uint8_t *row,
                       uint32_t position, struct pen_random *random)
{
    uint32_t reach = 1;
    while (reach < 4 * problem->num_types && pen_random_below(random, 4) != 0)
        reach++;
    uint32_t from = position;
    uint32_t to = position > reach ? position - reach : 0;
    if (pen_random_below(random, 2) == 0) {
        from = position - 1;
        to =
            from + reach < problem->length ? from + reach : problem->length - 1;
    }
    shift(row, from, to);
}

/*
 * Returns the next op after `from` that frees memory and may run there, or
 * length.
 */
static uint32_t next_release(const struct pen__problem *problem, uint32_t rank,
                             const uint8_t *row, uint32_t from,
                             const uint32_t *count)
{
    for (uint32_t i = from + 1; i < problem->length; i++) {
        const struct pen__task *task = pen__task_of(problem, rank, row[i]);
        if (task->memory < 0 &&
            (task->before == PEN__NONE || count[task->before] > count[row[i]]))
            return i;
    }
    return problem->length;
}

/*
 * Repairs a row where an F no longer fits: pulls ops that free memory in front
 * of it. Without this, candidates at the limit would have few legal neighbours.
 * False when the row stays illegal.
 */
static bool repair_row(const struct pen__problem *problem, uint32_t rank,
                       uint8_t *row)
{
    uint32_t count[UINT8_MAX + 1] = {0};
    const struct pen__task *tasks = pen__task_of(problem, rank, 0);
    double level = 0;
    for (uint32_t i = 0; i < problem->length; i++) {
        if (level + tasks[row[i]].memory > problem->limit) {
            uint32_t release = next_release(problem, rank, row, i, count);
            if (release == problem->length)
                return false;
            shift(row, release, i);
        }
        const struct pen__task *task = &tasks[row[i]];
        if (task->before != PEN__NONE && count[task->before] <= count[row[i]])
            return false;
        count[row[i]]++;
        level += task->memory;
    }
    return true;
}

static double energy_of(const struct pen__problem *problem,
                        const struct pen__score *score)
{
    return (double)score->span +
           MEAN_SHARE * (double)score->sum / problem->num_ranks;
}

/* Ticks of a rank, on average: the least that the mean span can be. */
static double mean_work(const struct pen__problem *problem)
{
    double sum = 0;
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++)
        sum += (double)problem->work[rank];
    return sum / problem->num_ranks;
}

/*
 * Chooses a place, mostly on the critical path; now and then anywhere, to make
 * room.
 */
static struct pen__place choose_place(const struct pen__moves *moves,
                                      struct pen_random *random)
{
    const struct pen__problem *problem = moves->problem;
    if (pen_random_below(random, 5) > 0)
        return moves->places[pen_random_below(random, moves->num_places)];
    return (struct pen__place){
        pen_random_below(random, problem->num_ranks),
        1 + pen_random_below(random, problem->length - 1)};
}

/* Makes one move and keeps it if its energy is at most `most`. */
static bool try_move(struct pen__moves *moves, double most,
                     struct pen_random *random, uint8_t *order,
                     struct pen__score *found)
{
    const struct pen__problem *problem = moves->problem;
    struct pen__place place = choose_place(moves, random);
    uint8_t *row = order + (size_t)place.rank * problem->length;
    memcpy(moves->row, row, problem->length);
    change_row(problem, row, place.position, random);
    if (memcmp(moves->row, row, problem->length) == 0)
        return false;
    int64_t cap = (int64_t)(most - MEAN_SHARE * mean_work(problem)) + 1;
    if (!repair_row(problem, place.rank, row) ||
        !pen__evaluate(moves->evaluator, order, cap, found) ||
        energy_of(problem, found) > most) {
        memcpy(row, moves->row, problem->length);
        return false;
    }
    return true;
}

static void settle(struct pen__moves *moves, const uint8_t *order,
                   const struct pen__score *score)
{
    moves->energy = energy_of(moves->problem, score);
    moves->num_places =
        pen__critical_places(moves->evaluator, order, moves->places);
}

uint64_t pen__moves_run(struct pen__moves *moves,
                        const struct pen__moves_end *end,
                        struct pen_random *random, uint8_t *order,
                        struct pen__score *score)
{
    const struct pen__problem *problem = moves->problem;
    size_t size = pen__order_size(problem);
    double hot = HEAT * mean_work(problem) / problem->length;
    uint64_t begin = pen__evaluator_steps(moves->evaluator);
    uint64_t tried = 0;
    if (!pen__evaluate(moves->evaluator, order, INT64_MAX, score))
        return 0;
    settle(moves, order, score);
    memcpy(moves->best, order, size);
    while (score->span > end->goal && moves->num_places > 0) {
        /* A move that is refused before its evaluation takes time, too. */
        uint64_t spent = pen__evaluator_steps(moves->evaluator) - begin +
                         tried * (1 + problem->length / 8);
        if (spent >= end->steps ||
            (tried % 256 == 0 && end->is_over(end->context)))
            break;
        tried++;
        double heat =
            hot * pen_real_power(COOLING, (double)spent / (double)end->steps);
        double most =
            moves->energy - heat * pen_real_log(1 - pen_random_unit(random));
        struct pen__score found;
        if (!try_move(moves, most, random, order, &found))
            continue;
        settle(moves, order, &found);
        if (pen__score_is_less(&found, score)) {
            *score = found;
            memcpy(moves->best, order, size);
        }
    }
    memcpy(order, moves->best, size);
    return tried;
}
