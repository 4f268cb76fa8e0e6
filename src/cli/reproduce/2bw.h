#ifndef PEN_CLI_REPRODUCE_2BW_H
#define PEN_CLI_REPRODUCE_2BW_H

#include "cli/reproduce/reproduce.h"

enum {
    PEN__2BW_SEEDS = 5, /* at most, as below */
    PEN__2BW_POINTS = 10,
    PEN__2BW_RATES = 4,
    PEN__2BW_BATCHES = 4,
    PEN__2BW_MEMORIES = 5
};

/* ---- the same loss? ---- */

/* The contenders; the claim is about the first two. */
enum {
    PEN__2BW_SYNCHRONOUS,
    PEN__2BW_PLAIN,
    PEN__2BW_AFTER,
    PEN__2BW_DISCOUNT,
    PEN__2BW_PREDICT,
    PEN__2BW_CONTENDERS
};

struct pen__2bw_contender {
    const char *key;
    const char *name;
};

extern const struct pen__2bw_contender pen__2bw_contenders[PEN__2BW_CONTENDERS];
extern const double pen__2bw_rates[PEN__2BW_RATES];

struct pen__2bw_scale {
    uint32_t num_steps;
    uint32_t num_warmup;
    uint32_t num_synchronous; /* --stale-after */
    uint32_t num_discounted;  /* --stale-discount */
    uint32_t num_points;      /* evaluations of a run */
    uint32_t eval_batches;
    uint32_t num_rates;
    uint32_t num_seeds;
    uint32_t num_layouts; /* of speeds: batches */
    uint32_t num_memories;
    uint32_t num_pipelines; /* contenders that train on ranks, too */
};

/* ---- how fast? ---- */

/* The first is the paper's. */
enum {
    PEN__2BW_SPEED_2BW,
    PEN__2BW_SPEED_SUMS, /* gradients are summed while nothing computes */
    PEN__2BW_SPEED_FLUSH,
    PEN__2BW_SPEED_GPIPE,
    PEN__2BW_SPEED_DEEP_GPIPE, /* with as many stages as the first */
    PEN__2BW_SPEED_NONE,       /* one micro-batch at a time in the stages */
    PEN__2BW_SPEED_DEEP_NONE,
    PEN__2BW_SPEEDS
};

/* The fastest layout that fits. */
struct pen__2bw_layout {
    double step_sec; /* 0: none fits */
    uint32_t depth;
    uint32_t replicas;
    uint32_t micro_batch;
    uint32_t num_microbatches;
    bool recomputes;
};

/* ---- how much memory? ---- */

struct pen__2bw_memory {
    const char *name;
    double state_bytes; /* formula: weights, gradients, moments of rank 0 */
    double state_counted;
    double activation_bytes; /* formula */
    double activation_counted;
};

struct pen__2bw {
    const struct pen__reproduce_args *args;
    struct pen__2bw_scale scale;
    struct pen__jobs jobs;
    struct pen_text text; /* paths */
    struct pen_text model;
    size_t train_bytes; /* of the text */
    size_t held_bytes;
    size_t test_bytes;
    double held_loss[PEN__2BW_CONTENDERS][PEN__2BW_RATES];
    double rate[PEN__2BW_CONTENDERS];
    double losses[PEN__2BW_CONTENDERS][PEN__2BW_SEEDS][PEN__2BW_POINTS];
    struct pen__2bw_layout speed[PEN__2BW_BATCHES][PEN__2BW_SPEEDS];
    struct pen__2bw_memory memory[PEN__2BW_MEMORIES];
};

extern const char *const pen__2bw_speed_names[PEN__2BW_SPEEDS];
extern const uint32_t pen__2bw_batches[PEN__2BW_BATCHES];

/* Cuts the text of --data, makes tokens of it and writes the model. */
pen_status pen__2bw_write_text(struct pen__2bw *it, struct pen_text *why);

/* Predicts GPT of 2.2 billion parameters on 64 V100. */
pen_status pen__2bw_predict(struct pen__2bw *it, struct pen_text *why);

/*
 * Compares the paper's formula with the executor's count, in small trainings.
 */
pen_status pen__2bw_measure(struct pen__2bw *it, struct pen_text *why);

struct pen__2bw_results {
    const struct pen__2bw *it;
    double synchronous; /* its mean final loss */
    struct pen_interval loss[PEN__2BW_CONTENDERS];
    struct pen_interval higher[PEN__2BW_CONTENDERS]; /* than synchronous */
};

/* Losses that differ by less than this share are called the same. */
#define PEN__2BW_SAME_SHARE 0.01

/*
 * Returns "shown", "refuted" or "not decided": whether a contender's loss is
 * synchronous.
 */
const char *pen__2bw_verdict(const struct pen__2bw_results *results,
                             uint32_t contender);

/* Times as long a step as the first's; 0: one of them has no layout. */
double pen__2bw_ratio(const struct pen__2bw *it, uint32_t batch,
                      uint32_t speed);

/* Make tables; end each with pen_table_release(). */
void pen__2bw_table_losses(const struct pen__2bw_results *results,
                           struct pen_table *table);
void pen__2bw_table_rates(const struct pen__2bw *it, struct pen_table *table);
void pen__2bw_table_speeds(const struct pen__2bw *it, struct pen_table *table);
void pen__2bw_table_memory(const struct pen__2bw *it, struct pen_table *table);

/* Makes the content of results.json. */
json_t *pen__2bw_json(const struct pen__2bw_results *results,
                      const char *verdict);

/* Writes intervals, verdict, tables on stdout and page. */
pen_status pen__2bw_report(const struct pen__2bw *it, struct pen_text *why);

#endif
