#ifndef PEN_PROFILER_ATTEMPT_H
#define PEN_PROFILER_ATTEMPT_H

#include "base/random.h"
#include "engine/engine.h"
#include "profiler/examine.h"

/*
 * One operation on one engine: its inputs, which depend on the case alone, the
 * call, and the numbers that it gives.
 *
 *   set_up()  arrays and parameters, by pen__attempt_*()
 *   call()    the operation, as often as it is wanted
 *
 * Where memory runs out, the status says so and arrays are NULL; nothing is
 * called then.
 */
struct pen__attempt;

struct pen__case {
    const char *name;
    void (*set_up)(struct pen__attempt *attempt);
    void (*call)(struct pen__attempt *attempt);
    size_t rows; /* tokens */
    size_t in;   /* of a product; or the width of a row */
    size_t out;
    bool has_bias;
    const struct pen_examine_options *options;
};

enum { PEN__ATTEMPT_ARRAYS = 10, PEN__ATTEMPT_PARAMETERS = 2 };

struct pen__array {
    void *at;
    size_t bytes;
};

struct pen__result {
    const void *at; /* in staging; NULL: the gradient, or value, of: */
    struct pen_parameter *parameter;
    enum pen_parameter_part part;
    size_t count;
    enum pen_precision dtype;
};

struct pen__attempt {
    const struct pen__case *it;
    struct pen_engine *engine;
    struct pen_random random;
    pen_status status;
    struct pen__array arrays[PEN__ATTEMPT_ARRAYS];
    size_t num_arrays;
    struct pen_parameter *parameters[PEN__ATTEMPT_PARAMETERS];
    size_t num_parameters;
    struct pen__result results[PEN__ATTEMPT_ARRAYS];
    size_t num_results;
    double flops; /* of a call */
    double bytes; /* 0: those of the arrays */

    /* Further arguments of the call. */
    union {
        struct pen_linear linear;
        struct pen_norm norm;
        struct pen_swiglu swiglu;
        struct pen_rotary rotary;
        struct pen_attention attention;
        struct pen_embedding embedding;
        struct pen_cross_entropy entropy;
        struct pen_router router;
        struct pen_dispatch dispatch;
        struct pen_clamped_gate clamped;
        struct pen_sinks sinks;
    } of;
};

/* Makes numbers from -1 to 1 that bf16 has, or zeros; of the engine's type. */
void *pen__attempt_input(struct pen__attempt *attempt, size_t count);
void *pen__attempt_output(struct pen__attempt *attempt, size_t count);

/* Zeros of the master type. */
void *pen__attempt_stats(struct pen__attempt *attempt, size_t count);

/* Draws a number from -1 to 1 that bf16 has. */
double pen__attempt_draw(struct pen__attempt *attempt);

/* Makes numbers below `limit`. */
int32_t *pen__attempt_ids(struct pen__attempt *attempt, size_t count,
                          size_t limit);
double *pen__attempt_number(struct pen__attempt *attempt);

/* Makes a parameter with random value, gradient and moments. */
struct pen_parameter *pen__attempt_parameter(struct pen__attempt *attempt,
                                             enum pen_parameter_use use,
                                             size_t rows, size_t columns);

/* Keeps the arrays that are compared. */
void pen__attempt_keep(struct pen__attempt *attempt, const void *at,
                       size_t count, enum pen_precision dtype);
void pen__attempt_keep_part(struct pen__attempt *attempt,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part);

/* ---- examine_experts.c: rows x in, and out where there are experts ---- */
void pen__set_up_router(struct pen__attempt *attempt);
void pen__call_router(struct pen__attempt *attempt);
void pen__set_up_slots(struct pen__attempt *attempt);
void pen__call_slots(struct pen__attempt *attempt);
void pen__set_up_clamped(struct pen__attempt *attempt);
void pen__call_clamped(struct pen__attempt *attempt);
void pen__set_up_sinks(struct pen__attempt *attempt);
void pen__call_sinks(struct pen__attempt *attempt);
void pen__set_up_muon(struct pen__attempt *attempt);
void pen__call_muon(struct pen__attempt *attempt);

/* Cases of a model, at most PEN_EXAMINE_MOST; returns how many. */
size_t pen__examine_cases(const struct pen_examine_options *options,
                          struct pen__case *out);

#endif
