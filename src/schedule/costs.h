#ifndef PEN_SCHEDULE_COSTS_H
#define PEN_SCHEDULE_COSTS_H

#include "base/status.h"
#include "base/text.h"
#include "schedule/op.h"
#include "schedule/placement.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The costs of operations: the description that a user gives, and the table
 * that it becomes for one shape of schedule.
 *
 * Seconds are those of one micro-batch on one rank, all its chunks together;
 * a chunk of v takes 1/v. Memory is counted in A: the activations of one
 * micro-batch on one rank's share of the model. The same holds per rank
 * ("ranks"); "stages" and "layers" give the seconds of the part itself.
 */
struct pen_cost {
    double forward_sec;   /* F, tF in the papers */
    double input_sec;     /* I, tB */
    double weight_sec;    /* W, tW; B takes input_sec + weight_sec */
    double recompute_sec; /* R; negative: as F */
    double pair_sec;      /* an overlapped F and B; negative: their sum */
    double sync_sec;      /* SYNC */
    double step_sec;      /* STEP */
    double move_sec;      /* EV or LD, in parallel with computing */
    double memory;        /* activations of this part in A; negative: the
                             same share for all, see pen_cost_table_init() */
};

static inline double pen_cost_recompute_sec(const struct pen_cost *cost)
{
    return cost->recompute_sec < 0 ? cost->forward_sec : cost->recompute_sec;
}

/*
 * The memory that each op adds to the stash, in A; B frees as much as I and W.
 * An F that has an R adds only the kept part of `forward`: the input of its
 * stage.
 */
struct pen_memory {
    double forward;
    double input;
    double weight;
    double recompute; /* R */
};

/* A transfer takes latency_sec + bytes / bandwidth. */
struct pen_link {
    uint32_t from; /* rank */
    uint32_t to;
    double latency_sec;
    double bytes_per_sec; /* 0: transfers take the latency only */
};

/* Orders by from, then to; for qsort() and bsearch(). */
int pen_link_compare(const void *a, const void *b);

enum pen_cost_scope {
    PEN_COST_UNIFORM,
    PEN_COST_PER_RANK,
    PEN_COST_PER_STAGE,
    PEN_COST_PER_LAYER
};

struct pen_costs {
    enum pen_cost_scope scope;
    struct pen_cost uniform;
    struct pen_cost *items; /* per rank, stage or layer, as scope says */
    uint32_t num_items;
    double latency_sec; /* of links that are not listed */
    double bytes_per_sec;
    double bytes; /* of one activation or gradient between two stages */
    struct pen_link *links; /* in the order of pen_link_compare(), no twins */
    uint32_t num_links;
    bool is_blocking; /* a sender computes nothing while its bytes leave */
    struct pen_memory memory;
};

#define PEN_MAX_SECONDS 1e9
#define PEN_MAX_MEMORY 1e6

/* Sets f=1, i=1, w=1, no communication; memory f=1, i=0, w=-1. */
void pen_costs_init(struct pen_costs *costs);
void pen_costs_release(struct pen_costs *costs);

/*
 * Reads "f=1,i=1,w=1,comm=0" (also r, pair, sync, step, move, and b for i and w
 * together: halves, or the rest where one of them is given) or, when the text
 * is not of that form, the JSON file of that name (docs/formats.md). The memory
 * of the ops stays as it was unless the file has its own. On failure *costs is
 * untouched.
 */
pen_status pen_costs_read(const char *text, struct pen_costs *costs,
                          struct pen_text *why);
pen_status pen_costs_parse_json(const char *text, size_t length,
                                struct pen_costs *costs, struct pen_text *why);

/*
 * Prints the same costs as a JSON file. A listed link without a bandwidth of
 * its own has that of the others.
 */
void pen_costs_print(const struct pen_costs *costs, struct pen_text *out);

/*
 * Reads "f=1,i=-0.5,w=-0.5"; what F adds, I and W free, to the last bit. R adds
 * all of it when not given. Where f, i and w do not sum to 0 but do with r, f
 * is what an F adds that has an R.
 */
pen_status pen_memory_read(const char *text, struct pen_memory *memory,
                           struct pen_text *why);

/*
 * Completes the memory as read, whose recompute is NAN when it was not given.
 */
pen_status pen_memory_complete(struct pen_memory *memory, struct pen_text *why);

/*
 * The costs of one shape, per stage and in seconds; links by rank. Refuses a
 * description that does not fit the shape (7 "stages" for 8 parts). A part that
 * does not say its memory gets an equal share, so that all parts sum to the
 * number of ranks p: p/P of P stages, p/L of L layers. Release with
 * pen_cost_table_release().
 */
struct pen_cost_table {
    struct pen_cost *stages;  /* of one op: shares of chunk, slice applied */
    double *latency_sec;      /* per stage: hop from it to the next stage */
    double *transfer_sec;     /* per stage: bytes / bandwidth of that hop */
    double *latency_back_sec; /* hop of the gradient from it to the previous */
    double *transfer_back_sec;
    struct pen_memory memory;
    bool is_blocking;
    uint32_t num_stages;
};

pen_status pen_cost_table_init(struct pen_cost_table *table,
                               const struct pen_costs *costs,
                               const struct pen_shape *shape,
                               struct pen_text *why);
void pen_cost_table_release(struct pen_cost_table *table);

/* Returns the seconds of one compute op (F, B, I, W, R) of this stage. */
double pen_cost_of(const struct pen_cost_table *table, unsigned kind,
                   uint32_t stage);

/*
 * Return the memory that an op of this kind adds to the stash of its rank, in
 * A; 0 for communication. The first takes an F without R; the second returns
 * that of an F with R.
 */
double pen_memory_of(const struct pen_cost_table *table, unsigned kind,
                     uint32_t stage);
double pen_memory_kept(const struct pen_cost_table *table, uint32_t stage);
double pen_memory_of_op(const struct pen_cost_table *table,
                        const struct pen_op *op);

#endif
