#include "cli/train/moves.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static int compare_steps(const void *a, const void *b)
{
    uint64_t first = ((const struct pen__train_move *)a)->step;
    uint64_t second = ((const struct pen__train_move *)b)->step;
    return (first > second) - (first < second);
}

static pen_status check_step(const struct pen__train_move *move,
                             uint64_t train_iters, struct pen_text *why)
{
    if (move->step == 0)
        pen_why(why,
                "--move %s: the run begins with step 1; give the plan that it "
                "begins with as --plan",
                move->word);
    else if (move->step >= train_iters)
        pen_why(why,
                "--move %s: the training ends after step %" PRIu64
                "; give a step before that, or more --train-iters",
                move->word, train_iters);
    else
        return PEN_OK;
    return PEN_INVALID;
}

static pen_status check_order(const struct pen__train_moves *moves,
                              struct pen_text *why)
{
    for (size_t i = 1; i < moves->count; i++) {
        const struct pen__train_move *it = &moves->items[i];
        if (it[-1].step != it->step)
            continue;
        pen_why(why,
                "--move %s and --move %s are after the same step; keep one",
                it[-1].word, it->word);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen__train_moves_read(struct pen__train_moves *moves,
                                 struct pen__train_args *args, uint64_t done,
                                 struct pen_text *why)
{
    size_t count = args->moves.count;
    *moves = (struct pen__train_moves){.count = 0};
    if (count == 0)
        return PEN_OK;
    moves->items = calloc(count, sizeof *moves->items);
    if (moves->items == NULL)
        return PEN_NOMEM;
    moves->count = count;
    pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        struct pen__train_move *move = &moves->items[i];
        move->word = args->moves.words[i];
        (void)pen__train_move_plan(move->word, &move->step);
        status = check_step(move, args->train_iters, why);
    }
    qsort(moves->items, count, sizeof *moves->items, compare_steps);
    if (status == PEN_OK)
        status = check_order(moves, why);
    for (uint64_t step; status == PEN_OK && moves->next < count &&
                        moves->items[moves->next].step <= done;
         moves->next++)
        args->plan =
            pen__train_move_plan(moves->items[moves->next].word, &step);
    return status;
}

void pen__train_moves_release(struct pen__train_moves *moves)
{
    for (size_t i = 0; i < moves->count; i++)
        pen__train_layout_release(&moves->items[i].layout);
    free(moves->items);
    *moves = (struct pen__train_moves){.count = 0};
}

/* ---- making ---- */

void pen__train_move_name(const struct pen__train_move *move, pen_status status,
                          struct pen_text *why)
{
    struct pen_text reason = *why;
    *why = (struct pen_text)PEN_TEXT_EMPTY;
    pen_text_add(why, "--move %s: %s", move->word,
                 reason.length > 0 ? pen_text_string(&reason)
                                   : pen_status_text(status));
    pen_text_release(&reason);
}

static pen_status make(struct pen__train_move *move,
                       const struct pen__train_facts *run, uint32_t num_ranks,
                       struct pen_text *why)
{
    uint64_t step;
    move->args = *run->args;
    move->args.recompute_stages = NULL; /* the plan has its own */
    move->args.stage_layers = NULL;
    move->args.span = (struct pen_recompute_span){0};
    move->args.plan = pen__train_move_plan(move->word, &step);
    if (move->args.logical_replicas == 0)
        move->args.logical_replicas = pen__train_layout_members(run->layout);
    return pen__train_layout_init(&move->layout, &move->args, run->model,
                                  run->sequence, num_ranks, why);
}

/*
 * A rank that waits from the beginning to the end is a mistake; in a run that
 * is resumed it may have computed before.
 */
static pen_status check_largest(const struct pen__train_moves *moves,
                                const struct pen__train_layout *first,
                                uint32_t num_ranks, struct pen_text *why)
{
    uint32_t most = first->num_ranks;
    for (size_t i = moves->next; i < moves->count; i++)
        if (moves->items[i].layout.num_ranks > most)
            most = moves->items[i].layout.num_ranks;
    if (most >= num_ranks || moves->next > 0)
        return PEN_OK;
    pen_why(why,
            "--move: this job has %u ranks, but no layout of the run uses more "
            "than %u; start it with mpirun -n %u",
            num_ranks, most, most);
    return PEN_INVALID;
}

pen_status pen__train_moves_make(struct pen__train_moves *moves,
                                 const struct pen__train_facts *run,
                                 uint32_t num_ranks, struct pen_text *why)
{
    pen_status status = PEN_OK;
    if (moves->count > 0 && run->model->decoder == NULL) {
        pen_why(why, "--move is for text models only");
        return PEN_INVALID;
    }
    for (size_t i = moves->next; i < moves->count && status == PEN_OK; i++) {
        status = make(&moves->items[i], run, num_ranks, why);
        if (status != PEN_OK)
            pen__train_move_name(&moves->items[i], status, why);
    }
    if (status == PEN_OK && moves->count > 0)
        status = check_largest(moves, run->layout, num_ranks, why);
    return status;
}

/* ---- moving ---- */

bool pen__train_moves_are_due(const struct pen__train_moves *moves,
                              uint64_t done)
{
    return moves->next < moves->count && moves->items[moves->next].step == done;
}

struct pen__train_move *pen__train_moves_take(struct pen__train_moves *moves,
                                              uint64_t done)
{
    return pen__train_moves_are_due(moves, done) ? &moves->items[moves->next++]
                                                 : NULL;
}

void pen__train_move_tell(const struct pen__train_move *move,
                          const struct pen_move_cost *cost)
{
    const struct pen__train_layout *layout = &move->layout;
    static const char *const shardings[] = {"", ", ZeRO-1", ", ZeRO-2",
                                            ", ZeRO-3"};
    uint32_t num_replicas = pen_mesh_num_replicas(&layout->mesh);
    pen_log(PEN_LOG_INFO,
            "after step %" PRIu64 " the run moved to %u rank%s: %u replica%s "
            "of %u rank%s with %s%s (%s); it took %.3f s, and %" PRIu64
            " bytes were sent",
            move->step, layout->num_ranks, layout->num_ranks == 1 ? "" : "s",
            num_replicas, num_replicas == 1 ? "" : "s",
            pen_mesh_num_rows(&layout->mesh),
            pen_mesh_num_rows(&layout->mesh) == 1 ? "" : "s",
            layout->schedule->name, shardings[move->args.sharding],
            move->args.plan, cost->sec, cost->sent_bytes);
}
