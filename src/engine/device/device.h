#ifndef PEN_ENGINE_DEVICE_DEVICE_H
#define PEN_ENGINE_DEVICE_DEVICE_H

#include "engine/device/driver.h"
#include "engine/engine.h"

/*
 * The device engine: operations as kernels of a driver.
 *
 *   linear_forward(...)  ->  product                      -> driver's queue
 *   attention_forward    ->  product, softmax, product    for each block of
 *                            queries
 *
 * Parameters are plain arrays of floats in the engine's memory; products of
 * bf16 read these masters, and no second copy of a weight is kept. All results
 * have one order of their sums, so they repeat bit for bit, whatever the
 * device does at the same time.
 *
 * One scratch, taken when operations are prepared, serves all of them: the
 * queue runs one kernel after the other.
 */
enum {
    PEN__DEVICE_COPIES = 16,
    PEN__DEVICE_ENTROPY_ROWS = 4096, /* of a loss that are summed at a time */
    PEN__DEVICE_PIECE = 1 << 16      /* stats of an import at a time */
};

struct pen_parameter {
    struct pen_parameter_shape shape;
    size_t count;
    float *parts[PEN_PART_MOMENT2 + 1];
    float *copies[PEN__DEVICE_COPIES]; /* of the value */
    int num_copies;
    float *second;           /* gradient, or NULL */
    bool is_gradient_placed; /* in memory that is not its own */
    bool is_value_placed;    /* likewise */
};

/* Scratch of a fixed size. */
struct pen__device_fixed {
    double total;
    double parts[PEN__SUM_GROUPS];
    double losses[PEN__DEVICE_ENTROPY_ROWS];
    float stats[PEN__DEVICE_ENTROPY_ROWS * 3];
};

struct pen__device {
    struct pen_engine engine;
    struct pen_engine_ops ops;
    struct pen__driver *driver;
    size_t memory_bytes;
    struct pen__device_fixed *fixed; /* an address of the engine's memory */
    float *scratch;                  /* of attention, and of Muon */
    size_t scratch_bytes;
    float *piece; /* staging, for imports and exports */
};

/*
 * Takes the driver over: it is closed with the engine, or when this fails. F32
 * or BF16.
 */
pen_status pen__device_create(struct pen__driver *driver,
                              enum pen_precision dtype, struct pen_text *why,
                              struct pen_engine **out);

static inline struct pen__device *pen__device_of(struct pen_engine *engine)
{
    return (struct pen__device *)engine;
}

/* Groups of `share` that have `count`. */
static inline long pen__groups(size_t count, size_t share)
{
    return (long)((count + share - 1) / share);
}

/*
 * Enqueues a kernel with PEN__ADDRESSES addresses; those that it does not use
 * may be NULL.
 */
void pen__launch(struct pen_engine *engine, enum pen__kernel kernel,
                 long groups, const void *const *addresses, const void *sizes);

#define PEN__AT(...)                                                           \
    (const void *const[PEN__ADDRESSES])                                        \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

/* Memory of the engine itself. NULL: there is none. */
void *pen__device_hold(struct pen_engine *engine, enum pen_place place,
                       size_t bytes);
void pen__device_drop(struct pen_engine *engine, enum pen_place place,
                      void *block, size_t bytes);

/*
 * Makes sure of `bytes` bytes of scratch, which holds nothing between
 * operations. `what` ends the sentence that says what they are for.
 */
pen_status pen__device_need_scratch(struct pen_engine *engine, size_t bytes,
                                    const char *what, struct pen_text *why);

static inline float *pen__value_of(const struct pen_parameter *parameter)
{
    return parameter == NULL ? NULL : parameter->parts[PEN_PART_VALUE];
}

static inline float *pen__gradient_of(const struct pen_parameter *parameter)
{
    return parameter == NULL ? NULL : parameter->parts[PEN_PART_GRADIENT];
}

/* The sizes of a product of one matrix, without bias, sum or scale. */
struct pen__product_sizes pen__plain_product(size_t rows, size_t columns,
                                             size_t depth);

/* Groups of its kernel. */
long pen__tiles_of(const struct pen__product_sizes *sizes);

/* The table, by file: parameter.c, rows.c, dense.c, attention.c, ... */
void pen__device_set_parameters(struct pen_engine_ops *ops);
void pen__device_set_rows(struct pen_engine_ops *ops);
void pen__device_set_dense(struct pen_engine_ops *ops);
void pen__device_set_attention(struct pen_engine_ops *ops);
void pen__device_set_loss(struct pen_engine_ops *ops);
void pen__device_set_muon(struct pen_engine_ops *ops);
void pen__device_set_experts(struct pen_engine_ops *ops);

#endif
