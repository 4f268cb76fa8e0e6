#include "engine/onednn/library.h"

#include <string.h>

#define IS_3 (DNNL_VERSION_MAJOR >= 3)

/* Arguments of a sum: 3.x takes a zero point and a type, too. */
#if IS_3
#define POST_SUM after, 1, 0, dnnl_data_type_undef
#else
#define POST_SUM after, 1
#endif

dnnl_status_t pen__md_init(struct pen__md *md, int dimensions,
                           const size_t *sizes, dnnl_data_type_t type,
                           const size_t *strides)
{
    dnnl_dims_t dims = {0};
    dnnl_dims_t steps = {0};
    for (int i = 0; i < dimensions; i++) {
        dims[i] = (dnnl_dim_t)sizes[i];
        if (strides != NULL)
            steps[i] = (dnnl_dim_t)strides[i];
    }
    dnnl_status_t status;
#if IS_3
    status = strides == NULL
                 ? dnnl_memory_desc_create_with_tag(&md->md, dimensions, dims,
                                                    type, dnnl_format_tag_any)
                 : dnnl_memory_desc_create_with_strides(&md->md, dimensions,
                                                        dims, type, steps);
#else
    status = strides == NULL
                 ? dnnl_memory_desc_init_by_tag(&md->md, dimensions, dims, type,
                                                dnnl_format_tag_any)
                 : dnnl_memory_desc_init_by_strides(&md->md, dimensions, dims,
                                                    type, steps);
#endif
    md->is_set = status == dnnl_success;
    return status;
}

dnnl_status_t pen__md_copy(struct pen__md *md, PEN__MD from)
{
#if IS_3
    dnnl_status_t status = dnnl_memory_desc_clone(&md->md, from);
    md->is_set = status == dnnl_success;
    return status;
#else
    md->md = *from;
    md->is_set = true;
    return dnnl_success;
#endif
}

dnnl_status_t pen__md_turn(struct pen__md *md, const struct pen__md *from)
{
    const int axes[] = {1, 0};
    dnnl_status_t status =
        dnnl_memory_desc_permute_axes(&md->md, pen__md_of(from), axes);
    md->is_set = status == dnnl_success;
    return status;
}

bool pen__md_is_equal(PEN__MD a, PEN__MD b)
{
    return dnnl_memory_desc_equal(a, b) != 0;
}

void pen__md_release(struct pen__md *md)
{
#if IS_3
    if (md->is_set)
        dnnl_memory_desc_destroy(md->md);
#endif
    md->is_set = false;
}

PEN__MD pen__md_of(const struct pen__md *md)
{
    if (!md->is_set)
        return NULL;
#if IS_3
    return md->md;
#else
    return &md->md;
#endif
}

/* The part of a blocked layout that we look at. */
struct blocking {
    int count;
    dnnl_dims_t sizes;
    dnnl_dims_t indices;
    dnnl_dims_t strides;
};

static bool blocking_of(PEN__MD md, struct blocking *out)
{
    memset(out, 0, sizeof *out);
#if IS_3
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    dnnl_dims_t *sizes = NULL;
    dnnl_dims_t *indices = NULL;
    dnnl_dims_t *strides = NULL;
    if (dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) !=
            dnnl_success ||
        kind != dnnl_blocked ||
        dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &out->count) !=
            dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_blks, &sizes) !=
            dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &indices) !=
            dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_strides, &strides) !=
            dnnl_success)
        return false;
    memcpy(out->sizes, *sizes, sizeof out->sizes);
    memcpy(out->indices, *indices, sizeof out->indices);
    memcpy(out->strides, *strides, sizeof out->strides);
#else
    if (md->format_kind != dnnl_blocked)
        return false;
    const dnnl_blocking_desc_t *blocking = &md->format_desc.blocking;
    out->count = blocking->inner_nblks;
    memcpy(out->sizes, blocking->inner_blks, sizeof out->sizes);
    memcpy(out->indices, blocking->inner_idxs, sizeof out->indices);
    memcpy(out->strides, blocking->strides, sizeof out->strides);
#endif
    return true;
}

bool pen__md_paired_lanes(PEN__MD md, size_t *lanes, size_t *block)
{
    struct blocking found;
    if (!blocking_of(md, &found) || found.count != 3 || found.indices[0] != 1 ||
        found.indices[1] != 0 || found.indices[2] != 1 || found.sizes[2] != 2 ||
        found.strides[1] != 2 * found.sizes[0] * found.sizes[1])
        return false;
    *lanes = (size_t)found.sizes[1];
    *block = (size_t)found.strides[0];
    return true;
}

/* Scratch is ours, so that running a primitive allocates nothing. */
static dnnl_status_t attributes_for(const struct pen__md *add, bool is_added,
                                    dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*out,
                                                     dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&after);
    if (status == dnnl_success && is_added)
        status = dnnl_post_ops_append_sum(POST_SUM);
    if (status == dnnl_success && add->is_set)
        status = dnnl_post_ops_append_binary(after, dnnl_binary_add,
                                             pen__md_of(add));
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*out, after);
    if (after != NULL)
        dnnl_post_ops_destroy(after);
    if (status != dnnl_success)
        dnnl_primitive_attr_destroy(*out);
    return status;
}

dnnl_status_t pen__inner_product(dnnl_engine_t engine, enum pen__pass pass,
                                 const struct pen__product_shape *shape,
                                 dnnl_primitive_desc_t hint,
                                 dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes;
    PEN__MD source = pen__md_of(&shape->source);
    PEN__MD weight = pen__md_of(&shape->weight);
    PEN__MD bias = pen__md_of(&shape->bias);
    PEN__MD target = pen__md_of(&shape->target);
    dnnl_status_t status = attributes_for(&shape->add, false, &attributes);
    if (status != dnnl_success)
        return status;
#if IS_3
    if (pass == PEN__FORWARD)
        status = dnnl_inner_product_forward_primitive_desc_create(
            out, engine, dnnl_forward_training, source, weight, bias, target,
            attributes);
    else if (pass == PEN__BACKWARD_INPUT)
        status = dnnl_inner_product_backward_data_primitive_desc_create(
            out, engine, source, weight, target, hint, attributes);
    else
        status = dnnl_inner_product_backward_weights_primitive_desc_create(
            out, engine, source, weight, bias, target, hint, attributes);
#else
    dnnl_inner_product_desc_t wanted;
    if (pass == PEN__FORWARD)
        status = dnnl_inner_product_forward_desc_init(
            &wanted, dnnl_forward_training, source, weight, bias, target);
    else if (pass == PEN__BACKWARD_INPUT)
        status = dnnl_inner_product_backward_data_desc_init(&wanted, source,
                                                            weight, target);
    else
        status = dnnl_inner_product_backward_weights_desc_init(
            &wanted, source, weight, bias, target);
    if (status == dnnl_success)
        status =
            dnnl_primitive_desc_create(out, &wanted, attributes, engine, hint);
#endif
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

dnnl_status_t pen__matmul(dnnl_engine_t engine,
                          const struct pen__product_shape *shape, bool is_added,
                          dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes;
    PEN__MD source = pen__md_of(&shape->source);
    PEN__MD weight = pen__md_of(&shape->weight);
    PEN__MD bias = pen__md_of(&shape->bias);
    PEN__MD target = pen__md_of(&shape->target);
    dnnl_status_t status = attributes_for(&shape->add, is_added, &attributes);
    if (status != dnnl_success)
        return status;
#if IS_3
    status = dnnl_matmul_primitive_desc_create(out, engine, source, weight,
                                               bias, target, attributes);
#else
    dnnl_matmul_desc_t wanted;
    status = dnnl_matmul_desc_init(&wanted, source, weight, bias, target);
    if (status == dnnl_success)
        status =
            dnnl_primitive_desc_create(out, &wanted, attributes, engine, NULL);
#endif
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static void dims_of(const size_t *pair, dnnl_dims_t dims)
{
    dims[0] = (dnnl_dim_t)pair[0];
    dims[1] = (dnnl_dim_t)pair[1];
}

#if IS_3
/*
 * An implementation of 3.7 folds images into rows where the output is one
 * column wide, and then takes the stride of the width for both: where the
 * strides differ, the next one is taken.
 */
static dnnl_status_t pass_over_folding(const struct pen__slide *slide,
                                       dnnl_primitive_desc_t description)
{
    const char *name = NULL;
    dnnl_status_t status = dnnl_success;
    while (status == dnnl_success && slide->stride[0] != slide->stride[1]) {
        dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0,
                                  (void *)&name);
        if (name == NULL || strncmp(name, "brg", 3) != 0)
            break;
        status = dnnl_primitive_desc_next_impl(description);
    }
    return status;
}
#endif

dnnl_status_t pen__convolve(dnnl_engine_t engine, enum pen__pass pass,
                            const struct pen__product_shape *shape,
                            const struct pen__slide *slide,
                            dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes;
    dnnl_dims_t stride = {0};
    dnnl_dims_t padding = {0};
    PEN__MD source = pen__md_of(&shape->source);
    PEN__MD weight = pen__md_of(&shape->weight);
    PEN__MD bias = pen__md_of(&shape->bias);
    PEN__MD target = pen__md_of(&shape->target);
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    dims_of(slide->stride, stride);
    dims_of(slide->padding, padding);
    dnnl_status_t status = attributes_for(&shape->add, false, &attributes);
    if (status != dnnl_success)
        return status;
#if IS_3
    const dnnl_dims_t dense = {0};
    if (pass == PEN__FORWARD)
        status = dnnl_convolution_forward_primitive_desc_create(
            out, engine, dnnl_forward_training, how, source, weight, bias,
            target, stride, dense, padding, padding, attributes);
    else if (pass == PEN__BACKWARD_INPUT)
        status = dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, how, source, weight, target, stride, dense, padding,
            padding, hint, attributes);
    else
        status = dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, how, source, weight, bias, target, stride, dense,
            padding, padding, hint, attributes);
    if (status == dnnl_success && pass == PEN__FORWARD) {
        status = pass_over_folding(slide, *out);
        if (status != dnnl_success)
            dnnl_primitive_desc_destroy(*out);
    }
#else
    dnnl_convolution_desc_t wanted;
    if (pass == PEN__FORWARD)
        status = dnnl_convolution_forward_desc_init(
            &wanted, dnnl_forward_training, how, source, weight, bias, target,
            stride, padding, padding);
    else if (pass == PEN__BACKWARD_INPUT)
        status = dnnl_convolution_backward_data_desc_init(
            &wanted, how, source, weight, target, stride, padding, padding);
    else
        status = dnnl_convolution_backward_weights_desc_init(
            &wanted, how, source, weight, bias, target, stride, padding,
            padding);
    if (status == dnnl_success)
        status =
            dnnl_primitive_desc_create(out, &wanted, attributes, engine, hint);
#endif
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

dnnl_status_t pen__reorder(dnnl_engine_t engine, PEN__MD from, PEN__MD to,
                           dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes;
    const struct pen__md none = {0};
    dnnl_status_t status = attributes_for(&none, false, &attributes);
    if (status != dnnl_success)
        return status;
    status = dnnl_reorder_primitive_desc_create(out, from, engine, to, engine,
                                                attributes);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}
