#ifndef PEN_BENCH_VALIDATION_REGRET_H
#define PEN_BENCH_VALIDATION_REGRET_H

/*
 * Layouts of one model and cluster that were all tried: how much slower than
 * the best is the one that is predicted to be the fastest of those that fit?
 */
#include "validation_rows.h"

struct group {
    char set[32];
    char key[128];
    uint32_t num_measured;
    double best_sec;      /* measured; of a sequence, as the others */
    double predicted_sec; /* of the choice; 0: none fits */
    double chosen_sec;    /* measured; 0: it did not fit */
};

#define MAX_GROUPS 256u

struct groups {
    struct group items[MAX_GROUPS];
    uint32_t count;
};

/* What is compared: one day of BLOOM, one model and kernel of the others. */
static inline bool name_group(const struct row *row, char *key, size_t size)
{
    const json_t *facts = row->facts;
    double line = number_of(facts, "line", 0);
    if (strcmp(row->set, "bloom") == 0) {
        snprintf(key, size, "%.5s %g %g", word_of(facts, "note"),
                 number_of(facts, "hidden", 0), number_of(facts, "layers", 0));
        return line != 669 && line != 670; /* a repeat and another branch */
    }
    snprintf(key, size, "%s %g %g %s", word_of(facts, "model"),
             number_of(facts, "gpus", 0), number_of(facts, "seq", 0),
             word_of(facts, "kernel"));
    return strcmp(row->set, "aleph") == 0;
}

static inline struct group *find_group(struct groups *groups, const char *set,
                                       const char *key)
{
    for (uint32_t i = 0; i < groups->count; i++)
        if (strcmp(groups->items[i].set, set) == 0 &&
            strcmp(groups->items[i].key, key) == 0)
            return &groups->items[i];
    if (groups->count == MAX_GROUPS)
        die("groups", "too many");
    struct group *group = &groups->items[groups->count++];
    *group = (struct group){.best_sec = INFINITY};
    snprintf(group->set, sizeof group->set, "%s", set);
    snprintf(group->key, sizeof group->key, "%s", key);
    return group;
}

static inline void add_choice(struct groups *groups, const struct row *row,
                              const struct pen_prediction *prediction)
{
    char key[128];
    if (!name_group(row, key, sizeof key))
        return;
    struct group *group = find_group(groups, row->set, key);
    double batch = number_of(row->facts, "gbs", 1);
    double predicted = prediction->step_sec / batch;
    double measured = row->measured_sec / batch;
    if (measured > 0) {
        group->num_measured++;
        group->best_sec = fmin(group->best_sec, measured);
    }
    if (!prediction->fits ||
        (group->predicted_sec > 0 && group->predicted_sec <= predicted))
        return;
    group->predicted_sec = predicted;
    group->chosen_sec = measured;
}

/* Groups of at least three that were measured. */
static inline void print_regret(const struct groups *groups, const char *set)
{
    uint32_t count = 0;
    uint32_t lost = 0;
    double sum = 0;
    double most = 0;
    for (uint32_t i = 0; i < groups->count; i++) {
        const struct group *group = &groups->items[i];
        if (strcmp(group->set, set) != 0 || group->num_measured < 3)
            continue;
        if (group->chosen_sec == 0) {
            lost++;
            continue;
        }
        double regret = group->chosen_sec / group->best_sec - 1;
        count++;
        sum += regret;
        most = fmax(most, regret);
    }
    printf("%-28s %5u groups held out  mean regret %6.2f %%  max regret "
           "%6.2f %%  unfit choices %u\n",
           set, count, count > 0 ? 100 * sum / count : 0, 100 * most, lost);
}

/* Whether a layout fits: right, and the costly error. */
struct fits {
    uint32_t count;
    uint32_t right;
    uint32_t risky; /* predicted to fit, and did not */
};

static inline void add_fit(struct fits *fits, const struct row *row,
                           const struct pen_prediction *prediction)
{
    bool did_fit = row->measured_sec > 0;
    fits->count++;
    fits->right += prediction->fits == did_fit ? 1u : 0u;
    fits->risky += prediction->fits && !did_fit ? 1u : 0u;
}

static inline void print_fits(const struct fits *fits, const char *set)
{
    printf("%-28s %5u rows held out  fits-or-not wrong %6.2f %%  predicted to "
           "fit and did not %u\n",
           set, fits->count,
           100 * (1 - (double)fits->right / (double)fits->count), fits->risky);
}

#endif
