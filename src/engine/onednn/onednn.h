#ifndef PEN_ENGINE_ONEDNN_ONEDNN_H
#define PEN_ENGINE_ONEDNN_ONEDNN_H

#include "engine/engine.h"
#include "engine/onednn/library.h"
#include "engine/onednn/rows.h"

/*
 * The oneDNN engine. dense_*.c run the products, parameter.c keeps the weights,
 * rows_*.c do everything row by row with OpenMP.
 *
 * Value, gradient and moments are float and plain, row after row: an optimizer
 * sees flat arrays, an embedding sees rows. In bf16 there is also a copy of the
 * value in the layout that the products read, which the optimizer writes piece
 * by piece while the piece is in cache:
 *
 *   blocks of `lanes` rows, and inside one the columns in pairs,
 *   w[0][0] w[0][1] w[1][0] w[1][1] ... w[63][1], w[0][2] w[0][3] w[1][2] ...
 *
 * or plain as well.
 */

enum { PEN__PRODUCT_ARGS = 6, PEN__MAX_LANES = 64 };

/* A primitive with its memory objects, ready to run. */
struct pen__product {
    dnnl_primitive_t primitive; /* NULL: not made */
    int num_args;
    dnnl_exec_arg_t args[PEN__PRODUCT_ARGS]; /* the last is the scratchpad */
    size_t scratch_bytes;
    bool is_packing; /* its operands, into buffers that the library allocates */
};

enum pen__dense_product {
    PEN__DENSE_FORWARD,
    PEN__DENSE_FORWARD_ADD,
    PEN__DENSE_BACKWARD_INPUT,
    PEN__DENSE_BACKWARD_WEIGHT,     /* the first gradient of a step */
    PEN__DENSE_BACKWARD_WEIGHT_ADD, /* the others */
    PEN__DENSE_PRODUCTS
};

/* The products prepared for one number of rows. */
struct pen__dense {
    size_t rows;
    const struct pen_parameter *bias;
    struct pen__product products[PEN__DENSE_PRODUCTS];
    struct pen__dense *next;
};

/* A further copy of a value, as parameter_add_copy() adds it. */
struct pen__value_copy {
    float *value;
    uint16_t *half; /* NULL for none */
    struct pen__value_copy *next;
};

struct pen_parameter {
    struct pen_parameter_shape shape;
    size_t count;
    float *parts[PEN_PART_MOMENT2 + 1];
    uint16_t *half;          /* bf16 copy of the value; NULL for none */
    size_t half_count;       /* elements of it, with padding */
    size_t half_block;       /* elements of one of its blocks */
    size_t lanes;            /* rows of a block; 1 for a plain copy */
    struct pen__md half_md;  /* of the copy */
    bool is_gradient_zero;   /* not written since it was cleared */
    bool is_gradient_placed; /* in memory that is not its own */
    bool is_value_placed;    /* likewise, with the bf16 copy */
    float *second;           /* gradient, as gradient_add_second() adds it */
    bool is_second_zero;
    struct pen__value_copy *copies;
    struct pen__dense *dense;
};

/* Bytes of a buffer, as pieces that do not meet. */
enum { PEN__MAX_PIECES = 16 };

struct pen__piece {
    size_t begin;
    size_t end;
};

struct pen__touched {
    int count;
    struct pen__piece pieces[PEN__MAX_PIECES];
};

struct pen__attention;
struct pen__convolution;

struct pen__onednn {
    struct pen_engine engine;
    struct pen_engine_ops ops;
    const struct pen__rows *rows;
    dnnl_engine_t library;
    dnnl_stream_t stream;
    char *scratch; /* shared by all operations, grown when preparing */
    size_t scratch_bytes;
    size_t parameter_bytes;
    /* Bytes in buffers of the library (packing.c), by one thread. */
    struct pen__touched packed_by_first;
    struct pen__touched packed_by_other;
    bool has_kernels;                  /* of its own matrix product */
    struct pen__attention *attentions; /* prepared ones */
    struct pen__convolution *convolutions;
};

/* The gradient to add to: zeroed first where it is only said to be zero. */
float *pen__gradient(struct pen_parameter *parameter);

/*
 * Zeroed and resident, for a step must not be the first to need it; aligned to
 * a cache line, on huge pages where it is large. Freed with the same bytes.
 */
void *pen__zeroed(size_t bytes);
void pen__zeroed_free(void *block, size_t bytes);

pen_status pen__scratch_grow(struct pen__onednn *self, size_t bytes,
                             struct pen_text *why);

/*
 * Notes that a step multiplies rows x inner by inner x columns, column-major,
 * of elements of `unit` bytes, by the library's own matrix product.
 */
void pen__packing_note(struct pen__onednn *self, size_t unit, size_t rows,
                       size_t columns, size_t inner);

/*
 * A product of floats as the library gets it: column-major, rows x inner by
 * inner x columns.
 */
struct pen__sgemm {
    bool is_a_turned; /* stored as its transpose */
    bool is_b_turned;
    size_t rows;
    size_t columns;
    size_t inner;
};

/* Notes the memory of a product, where the library copies its operands. */
void pen__packing_note_floats(struct pen__onednn *self,
                              const struct pen__sgemm *of);

/*
 * The library writes its kernels, megabytes of them, when it first multiplies:
 * not in the first step.
 */
void pen__packing_write_kernels(struct pen__onednn *self);

/* Returns the bytes that all noted products touch. */
size_t pen__packing_bytes(const struct pen__onednn *self);

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

/* Runs a primitive made for one thread, inside a parallel region. */
void pen__product_execute(struct pen__onednn *self,
                          struct pen__product *product,
                          const void *const *pointers, char *scratch);

/* Each function fills in its part of the table. */
void pen__parameter_ops(struct pen_engine_ops *ops);
void pen__dense_f32_ops(struct pen_engine_ops *ops);
void pen__muon_ops(struct pen_engine_ops *ops);
void pen__dense_bf16_ops(struct pen_engine_ops *ops);
void pen__attention_ops(struct pen_engine_ops *ops);
void pen__convolution_ops(struct pen_engine_ops *ops);

void pen__attention_free(struct pen__attention *attention);
void pen__convolution_free(struct pen__convolution *convolution);
void pen__dense_free(struct pen__dense *dense);

#endif
