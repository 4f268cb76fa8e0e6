#ifndef PEN_SUPERVISE_FLEET_H
#define PEN_SUPERVISE_FLEET_H

#include "supervise/asker.h"
#include "supervise/nodes.h"

/* A plan for a number of ranks. */
struct pen_sized_plan {
    const char *path; /* borrowed */
    uint32_t num_ranks;
};

struct pen_fleet_options {
    const char *command; /* that lists the nodes; NULL: no fleet */
    double interval_sec; /* between two questions */
    const struct pen_sized_plan *plans;
    size_t num_plans; /* 0: a launch has as many ranks as there are slots */
};

/* The consequence of the newest list for the launch. */
enum pen_fleet_verdict {
    PEN_FLEET_SAME,
    PEN_FLEET_GONE, /* a slot that it uses is no longer there */
    PEN_FLEET_MORE  /* a launch with more ranks is possible */
};

/*
 * The nodes that a training may use, asked again and again, and those that the
 * launch uses.
 *
 * F1. An answer that is late, failed, empty or wrong changes nothing: the last
 *     list stays. The first one in a row is a warning.
 * F2. A launch uses the first slots of the list, as many as it has ranks.
 */
struct pen_fleet {
    const struct pen_fleet_options *options;
    struct pen_asker asker;
    struct pen_nodes nodes; /* the newest list */
    struct pen_nodes used;  /* by the launch */
    uint32_t num_ranks;     /* of the launch; 0: there is none yet */
    enum pen_fleet_verdict verdict;
    int64_t asked_ns;
    uint64_t num_answers; /* failed ones, too */
    bool is_warned;
    char **words; /* of the launch, placeholders filled */
};

void pen_fleet_init(struct pen_fleet *fleet,
                    const struct pen_fleet_options *options);

/* Asks now; the answer comes with pen_fleet_tend(). */
void pen_fleet_ask(struct pen_fleet *fleet);
bool pen_fleet_is_asking(const struct pen_fleet *fleet);

/* Takes an answer, and asks when it is time. Does not wait. */
void pen_fleet_tend(struct pen_fleet *fleet);

/*
 * Returns the ranks of the largest launch on the newest list; 0: none is
 * possible.
 */
uint32_t pen_fleet_size(const struct pen_fleet *fleet);

/*
 * Chooses the largest launch, which must be possible, as the next one; words
 * are those of the command, the last NULL. fleet->words are valid until the
 * next call.
 */
pen_status pen_fleet_place(struct pen_fleet *fleet, char *const *words);

void pen_fleet_release(struct pen_fleet *fleet);

/* ---- placeholders ---- */

/* "{ranks}", "{hosts}" and "{plan}", in this order. */
enum { PEN_NUM_PLACEHOLDERS = 3 };
extern const char *const pen_placeholders[PEN_NUM_PLACEHOLDERS];

/*
 * Returns whether one of the words has the placeholder; the last word is NULL.
 */
bool pen_words_have(char *const *words, const char *placeholder);

#endif
