#ifndef PEN_CLI_TRAIN_MOVES_H
#define PEN_CLI_TRAIN_MOVES_H

#include "cli/train/layout.h"

/*
 * The layouts that a training changes to (--move STEP=PLAN), in the order of
 * their steps.
 */
struct pen__train_move {
    uint64_t step;               /* that is the last of the layout before */
    const char *word;            /* STEP=PLAN, as given */
    struct pen__train_args args; /* of the run, with what the plan sets;
                                    borrows from those, and is not released */
    struct pen__train_layout layout;
};

struct pen__train_moves {
    struct pen__train_move *items;
    size_t count;
    size_t next; /* of those that are to come */
};

/*
 * Reads the words of `args` for a run that did `done` steps before. The last
 * move of those steps gives the layout that the run begins with: its plan
 * becomes that of `args`. INVALID for steps that no move can be after. Release
 * in any case.
 */
pen_status pen__train_moves_read(struct pen__train_moves *moves,
                                 struct pen__train_args *args, uint64_t done,
                                 struct pen_text *why);

/* Options, model and layouts of a run, the same on all ranks. */
struct pen__train_facts {
    const struct pen__train_args *args;
    const struct pen__train_layout *layout; /* that it begins with */
    const struct pen__train_moves *moves;
    const struct pen_any_model *model;
    uint32_t sequence;
};

/* Makes the layouts to come, on at most as many ranks as the job has. */
pen_status pen__train_moves_make(struct pen__train_moves *moves,
                                 const struct pen__train_facts *run,
                                 uint32_t num_ranks, struct pen_text *why);
void pen__train_moves_release(struct pen__train_moves *moves);

/* Whether a move follows after `done` steps. */
bool pen__train_moves_are_due(const struct pen__train_moves *moves,
                              uint64_t done);

/* Takes the move due after `done` steps off the list; NULL: none. */
struct pen__train_move *pen__train_moves_take(struct pen__train_moves *moves,
                                              uint64_t done);

/*
 * Names the move that a reason is about: "--move 10=plan.json: ...". Without a
 * reason the status is one.
 */
void pen__train_move_name(const struct pen__train_move *move, pen_status status,
                          struct pen_text *why);

/* Says on which ranks the run is now, and what that took. */
void pen__train_move_tell(const struct pen__train_move *move,
                          const struct pen_move_cost *cost);

#endif
