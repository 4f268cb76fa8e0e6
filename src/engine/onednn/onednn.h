#ifndef PEN_ENGINE_ONEDNN_ONEDNN_H
#define PEN_ENGINE_ONEDNN_ONEDNN_H

#include "engine/engine.h"
#include "engine/onednn/library.h"
#include "engine/onednn/rows.h"

/*
 * The oneDNN engine. dense.c runs the products, parameter.c keeps the weights
 * in their layout, rows_*.c do everything row by row with OpenMP.
 *
 * A dense weight in float lies in blocks of `lanes` output rows:
 *
 *   block 0: w[0..63][0], w[0..63][1], ...  block 1: w[64..127][0], ...
 *
 * Gradient and moments lie alike, so an optimizer sees flat arrays. In bf16 a
 * copy of the value lies beside it with pairs of columns side by side, which
 * the optimizer writes piece by piece; a piece is 16 columns of a block, and
 * is contiguous in both.
 */

enum { PEN__PIECE_COLUMNS = 16, PEN__PRODUCT_ARGS = 6 };

/* A primitive with its memory objects, ready to run. */
struct pen__product {
    dnnl_primitive_t primitive; /* NULL: not made */
    int num_args;
    dnnl_exec_arg_t args[PEN__PRODUCT_ARGS]; /* the last is the scratchpad */
    size_t scratch_bytes;
};

enum pen__dense_product {
    PEN__DENSE_FORWARD,
    PEN__DENSE_FORWARD_ADD,
    PEN__DENSE_BACKWARD_INPUT,
    PEN__DENSE_BACKWARD_WEIGHT,
    PEN__DENSE_PRODUCTS
};

/* What was prepared for one number of rows. */
struct pen__dense {
    size_t rows;
    const struct pen_parameter *bias;
    struct pen__product products[PEN__DENSE_PRODUCTS];
    struct pen__dense *next;
};

struct pen_parameter {
    struct pen_parameter_shape shape;
    size_t lanes; /* rows of a block; 1 is plain row-major */
    size_t block; /* elements of a block */
    size_t count; /* elements with padding */
    float *parts[PEN_PART_MOMENT2 + 1];
    uint16_t *half;    /* bf16 copy of the value; NULL for none */
    size_t half_count; /* elements of it */
    size_t half_block;
    struct pen__md float_md; /* dense only */
    struct pen__md half_md;
    bool is_gradient_zero; /* not written since it was cleared */
    struct pen__dense *dense;
};

struct pen__attention;

struct pen__onednn {
    struct pen_engine engine;
    struct pen_engine_ops ops;
    const struct pen__rows *rows;
    dnnl_engine_t library;
    dnnl_stream_t stream;
    char *scratch; /* shared by all operations, grown when preparing */
    size_t scratch_bytes;
    size_t parameter_bytes;
    struct pen__attention *attentions; /* prepared ones */
};

/* Where element (row, column) lies in each float part. */
static inline size_t pen__parameter_at(const struct pen_parameter *parameter,
                                       size_t row, size_t column)
{
    return row / parameter->lanes * parameter->block +
           column * parameter->lanes + row % parameter->lanes;
}

/* The gradient to add to: zeroed first where it is only said to be zero. */
float *pen__gradient(struct pen_parameter *parameter);

pen_status pen__scratch_grow(struct pen__onednn *self, size_t bytes,
                             struct pen_text *why);

/* A status for a refusal of the library, with the reason. */
pen_status pen__refused(dnnl_status_t status, const char *what,
                        struct pen_text *why);

/* Takes ids of arguments in the order in which run() gets pointers. */
pen_status pen__product_init(struct pen__onednn *self,
                             dnnl_primitive_desc_t description, int num_args,
                             const int *ids, PEN__MD const *mds,
                             struct pen_text *why, struct pen__product *out);
void pen__product_release(struct pen__product *product);
void pen__product_run(struct pen__onednn *self, struct pen__product *product,
                      const void *const *pointers, char *scratch);

/* As run(), inside a parallel region, for a primitive made for one thread. */
void pen__product_execute(struct pen__onednn *self,
                          struct pen__product *product,
                          const void *const *pointers, char *scratch);

/* Each fills in its part of the table. */
void pen__parameter_ops(struct pen_engine_ops *ops);
void pen__dense_ops(struct pen_engine_ops *ops);

void pen__attention_ops(struct pen_engine_ops *ops);

void pen__attention_free(struct pen__attention *attention);
void pen__dense_free(struct pen__dense *dense);

#endif
