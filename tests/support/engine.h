#ifndef PEN_TESTS_ENGINE_H
#define PEN_TESTS_ENGINE_H

/*
 * One operation of an engine, tried on random inputs of a random shape. Shape
 * and inputs depend on the seed only, so the same trial on two engines can be
 * compared, and a trial with one input moved a little gives a difference
 * quotient.
 */
#include "support/support.h"

#include "base/random.h"
#include "engine/engine.h"

enum { TRIAL_MAX = 24 };

/* What an operation gave, in double. */
struct trial_result {
    const char *name;
    int input; /* of which input this is the gradient; -1 for none */
    size_t count;
    double *numbers;
};

struct trial {
    struct pen_engine *engine;
    struct pen_random random;
    size_t largest;     /* of the dimensions */
    bool is_bf16_exact; /* inputs are numbers that bf16 has */

    /* Set for a difference quotient: this element of this input moves. */
    int moved_input;
    size_t moved_element;
    double moved_by;

    double loss; /* of all outputs, weighted at random */
    int num_inputs;
    size_t input_counts[TRIAL_MAX];
    int num_results;
    struct trial_result results[TRIAL_MAX];
    int num_blocks; /* in staging */
    void *blocks[TRIAL_MAX * 2];
    size_t block_bytes[TRIAL_MAX * 2];
    int num_parameters;
    struct pen_parameter *parameters[TRIAL_MAX];
};

struct trial_op {
    const char *name;
    void (*run)(struct trial *trial);
};

extern const struct trial_op trial_ops[];
extern const size_t num_trial_ops;
/* Of mixtures of experts and of Muon, which not every engine has. */
extern const struct trial_op expert_trial_ops[];
extern const size_t num_expert_trial_ops;

/* Those of text models, number by number: all of the two lists; NULL behind. */
const struct trial_op *text_trial_op(size_t index);

extern const struct trial_op image_trial_ops[];
extern const size_t num_image_trial_ops;

void trial_init(struct trial *trial, struct pen_engine *engine, uint64_t seed,
                size_t largest);
void trial_release(struct trial *trial);

/* In 1..largest; odd ones as often as others. */
size_t trial_size(struct trial *trial);

/* An input, of the engine's dtype. *input is its number. */
void *trial_input(struct trial *trial, size_t count, int *input);
struct pen_parameter *trial_parameter(struct trial *trial,
                                      enum pen_parameter_use use, size_t rows,
                                      size_t columns, int *input);

/* Not an input: slopes that weigh an output; stats such as rotary tables. */
void *trial_slopes(struct trial *trial, size_t count);

void *trial_stat_slopes(struct trial *trial, size_t count);

/* Numbers below `classes`. */
int32_t *trial_ids(struct trial *trial, size_t rows, size_t classes);

/* Fails the test with the engine's reason. */
void trial_prepare(struct trial *trial, const struct pen_linear *linear);

/* Room for an output: filled with a number that must not survive. */
void *trial_room(struct trial *trial, size_t count);
void *trial_stat_room(struct trial *trial, size_t count);

/* Adds sum(slopes * y) to the loss and keeps y. */
void trial_output(struct trial *trial, const char *name, size_t count,
                  const void *y, const void *slopes);
void trial_gradient(struct trial *trial, const char *name, int input,
                    size_t count, const void *gradient);
void trial_parameter_part(struct trial *trial, const char *name, int input,
                          struct pen_parameter *parameter,
                          enum pen_parameter_part part);
void trial_stats(struct trial *trial, const char *name, size_t count,
                 const void *stats);
void trial_number(struct trial *trial, const char *name, const double *number);

/* Room for a number that an operation gives. */
double *trial_double(struct trial *trial);

/* Norm of the difference over the norm of the truth. */
double relative_distance(size_t count, const double *truth,
                         const double *found);

/* Fails the test with the reason when there is none. */
struct pen_engine *reference_engine(enum pen_precision dtype);

/* NULL, with a message, where the library was built without oneDNN. */
struct pen_engine *onednn_engine(enum pen_precision dtype, int threads);

/*
 * Fails unless every gradient of the operation agrees with central differences
 * to 1e-6 of its norm. The engine is one in double. Returns how many there are.
 */
size_t expect_derivatives(const struct trial_op *op, struct pen_engine *engine,
                          uint64_t seed, size_t largest);

/* The result in which two trials differ most; NaN where one has NaN. */
struct distance {
    double apart; /* relative_distance */
    int result;
};

struct distance trials_distance(const struct trial *truth,
                                const struct trial *trial);

/* One operation on two engines: what to try, and how far apart is too far. */
struct comparison {
    uint64_t seed;
    size_t largest;
    double tolerance;
};

void expect_near(const struct trial_op *op, struct pen_engine *truth,
                 struct pen_engine *engine,
                 const struct comparison *comparison);

#endif
