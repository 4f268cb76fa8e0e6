#ifndef PEN_ENGINE_ONEDNN_LIBRARY_H
#define PEN_ENGINE_ONEDNN_LIBRARY_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The differences between oneDNN 2.x and 3.x, and nothing else. 3.0 made memory
 * descriptors opaque and dropped operation descriptors.
 */

#if DNNL_VERSION_MAJOR >= 3
#define PEN__MD const_dnnl_memory_desc_t
#else
#define PEN__MD const dnnl_memory_desc_t *
#endif

/* An owned memory descriptor; {0} is none. */
struct pen__md {
    dnnl_memory_desc_t md;
    bool is_set;
};

/* strides NULL: as the library likes it best ("any"). */
dnnl_status_t pen__md_init(struct pen__md *md, int dimensions,
                           const size_t *sizes, dnnl_data_type_t type,
                           const size_t *strides);
dnnl_status_t pen__md_copy(struct pen__md *md, PEN__MD from);
void pen__md_release(struct pen__md *md);

/* The descriptor of the same bytes seen as the transpose. */
dnnl_status_t pen__md_turn(struct pen__md *md, const struct pen__md *from);
bool pen__md_is_equal(PEN__MD a, PEN__MD b);

/* Returns the descriptor, borrowed; NULL for none. */
PEN__MD pen__md_of(const struct pen__md *md);

/*
 * Describes a matrix kept in blocks of `lanes` rows with adjacent pairs of
 * columns, as bf16 products want it: element (row, column) at row / lanes *
 * block + column / 2 * 2 * lanes + row % lanes * 2 + column % 2. False when it
 * is kept otherwise.
 */
bool pen__md_paired_lanes(PEN__MD md, size_t *lanes, size_t *block);

enum pen__pass { PEN__FORWARD, PEN__BACKWARD_INPUT, PEN__BACKWARD_WEIGHT };

/* The descriptors of one product; bias and add may be none. */
struct pen__product_shape {
    struct pen__md source;
    struct pen__md weight;
    struct pen__md bias;
    struct pen__md target;
    struct pen__md add; /* added to the target by a post-operation */
};

/* hint: the forward one, for the backward passes. */
dnnl_status_t pen__inner_product(dnnl_engine_t engine, enum pen__pass pass,
                                 const struct pen__product_shape *shape,
                                 dnnl_primitive_desc_t hint,
                                 dnnl_primitive_desc_t *out);

/* Each for {height, width}; padding on both sides. */
struct pen__slide {
    size_t stride[2];
    size_t padding[2];
};

/*
 * Makes a convolution likewise, as pen__inner_product() for images; it has no
 * add.
 */
dnnl_status_t pen__convolve(dnnl_engine_t engine, enum pen__pass pass,
                            const struct pen__product_shape *shape,
                            const struct pen__slide *slide,
                            dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out);

/* Makes a reorder between layouts and types. */
dnnl_status_t pen__reorder(dnnl_engine_t engine, PEN__MD from, PEN__MD to,
                           dnnl_primitive_desc_t *out);

/* is_added: to what the target holds. */
dnnl_status_t pen__matmul(dnnl_engine_t engine,
                          const struct pen__product_shape *shape, bool is_added,
                          dnnl_primitive_desc_t *out);

#endif
