/* Creation of the oneDNN engine, its scratch, and how a primitive is run. */
#include "base/bug.h"
#include "engine/host_memory.h"
#include "engine/onednn/onednn.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static void onednn_free(struct pen_engine *engine)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    pen__attention_free(self->attentions);
    pen__convolution_free(self->convolutions);
    dnnl_stream_destroy(self->stream);
    dnnl_engine_destroy(self->library);
    pen__zeroed_free(self->scratch, self->scratch_bytes);
    free(self);
}

static size_t memory_bytes(const struct pen_engine *engine)
{
    const struct pen__onednn *self = (const struct pen__onednn *)engine;
    return self->parameter_bytes + self->scratch_bytes;
}

static size_t scratch_bytes(const struct pen_engine *engine)
{
    return ((const struct pen__onednn *)engine)->scratch_bytes;
}

static size_t passing_bytes(const struct pen_engine *engine)
{
    return pen__packing_bytes((const struct pen__onednn *)engine);
}

pen_status pen__refused(dnnl_status_t status, const char *what,
                        struct pen_text *why)
{
    pen_why(why, "oneDNN %d.%d failed for %s (status %d)", DNNL_VERSION_MAJOR,
            DNNL_VERSION_MINOR, what, (int)status);
    return status == dnnl_out_of_memory ? PEN_NOMEM : PEN_INVALID;
}

pen_status pen__scratch_grow(struct pen__onednn *self, size_t bytes,
                             struct pen_text *why)
{
    if (bytes <= self->scratch_bytes)
        return PEN_OK;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *scratch = pen__zeroed(bytes);
    if (scratch == NULL) {
        pen_why(why, "no memory for %zu bytes of scratch", bytes);
        return PEN_NOMEM;
    }
    pen__zeroed_free(self->scratch, self->scratch_bytes);
    self->scratch = scratch;
    self->scratch_bytes = bytes;
    return PEN_OK;
}

/*
 * Returns whether a primitive is built on the library's matrix product
 * (packing.c).
 */
static bool is_packing(const_dnnl_primitive_desc_t description)
{
    const char *name = NULL;
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0,
                              (void *)&name);
    return name != NULL &&
           (strncmp(name, "gemm", 4) == 0 || strstr(name, ":gemm") != NULL);
}

pen_status pen__product_init(struct pen__onednn *self,
                             dnnl_primitive_desc_t description, int num_args,
                             const int *ids, PEN__MD const *mds,
                             struct pen_text *why, struct pen__product *out)
{
    PEN_BUG_UNLESS(num_args < PEN__PRODUCT_ARGS);
    struct pen__product product = {0};
    dnnl_status_t status =
        dnnl_primitive_create(&product.primitive, description);
    PEN__MD scratch =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    for (int i = 0; status == dnnl_success && i <= num_args; i++) {
        product.args[i].arg = i < num_args ? ids[i] : DNNL_ARG_SCRATCHPAD;
        status = dnnl_memory_create(&product.args[i].memory,
                                    i < num_args ? mds[i] : scratch,
                                    self->library, DNNL_MEMORY_NONE);
        product.num_args += status == dnnl_success;
    }
    if (status != dnnl_success) {
        pen__product_release(&product);
        return pen__refused(status, "a prepared product", why);
    }
    product.scratch_bytes = dnnl_memory_desc_get_size(scratch);
    product.is_packing = is_packing(description);
    *out = product;
    return PEN_OK;
}

void pen__product_release(struct pen__product *product)
{
    for (int i = 0; i < product->num_args; i++)
        dnnl_memory_destroy(product->args[i].memory);
    if (product->primitive != NULL)
        dnnl_primitive_destroy(product->primitive);
    *product = (struct pen__product){0};
}

/*
 * Setting a handle may make the library zero the padding of a blocked matrix,
 * so it is set only where it changed.
 */
static void bind(dnnl_memory_t memory, const void *pointer)
{
    void *bound = NULL;
    PEN_BUG_UNLESS(dnnl_memory_get_data_handle(memory, &bound) == dnnl_success);
    if (bound != pointer)
        PEN_BUG_UNLESS(dnnl_memory_set_data_handle(memory, (void *)pointer) ==
                       dnnl_success);
}

void pen__product_execute(struct pen__onednn *self,
                          struct pen__product *product,
                          const void *const *pointers, char *scratch)
{
    PEN_BUG_UNLESS(product->primitive != NULL);
    for (int i = 0; i + 1 < product->num_args; i++)
        bind(product->args[i].memory, pointers[i]);
    bind(product->args[product->num_args - 1].memory, scratch);
    PEN_BUG_UNLESS(dnnl_primitive_execute(product->primitive, self->stream,
                                          product->num_args,
                                          product->args) == dnnl_success);
    PEN_BUG_UNLESS(dnnl_stream_wait(self->stream) == dnnl_success);
}

void pen__product_run(struct pen__onednn *self, struct pen__product *product,
                      const void *const *pointers, char *scratch)
{
    if (omp_get_max_threads() != self->engine.threads)
        omp_set_num_threads(self->engine.threads);
    pen__product_execute(self, product, pointers, scratch);
}

pen_status pen_engine_onednn_create(enum pen_precision dtype, int threads,
                                    struct pen_text *why,
                                    struct pen_engine **out)
{
    if (dtype == PEN_PRECISION_F64) {
        pen_why(why, "oneDNN has no products in f64; use --engine reference");
        return PEN_INVALID;
    }
    struct pen__onednn *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->engine = (struct pen_engine){
        .ops = &self->ops,
        .dtype = dtype,
        .threads = threads > 0 ? threads : omp_get_max_threads()};
    omp_set_num_threads(self->engine.threads);
    dnnl_status_t status = dnnl_engine_create(&self->library, dnnl_cpu, 0);
    if (status != dnnl_success)
        goto fail_self;
    status = dnnl_stream_create(&self->stream, self->library,
                                dnnl_stream_default_flags);
    if (status != dnnl_success)
        goto fail_library;
    self->ops.name = "onednn";
    self->ops.is_host = true;
    self->ops.has_chunks = true;
    self->ops.take = pen_host_take;
    self->ops.give = pen_host_give;
    self->ops.copy = pen_host_copy;
    self->ops.mark = pen_host_mark;
    self->ops.is_reached = pen_host_is_reached;
    self->ops.fault = pen_host_fault;
    self->ops.free = onednn_free;
    self->ops.memory_bytes = memory_bytes;
    self->ops.scratch_bytes = scratch_bytes;
    self->ops.passing_bytes = passing_bytes;
    pen__parameter_ops(&self->ops);
    if (dtype == PEN_PRECISION_F32)
        pen__dense_f32_ops(&self->ops);
    else
        pen__dense_bf16_ops(&self->ops);
    pen__attention_ops(&self->ops);
    pen__convolution_ops(&self->ops);
    pen__muon_ops(&self->ops);
    pen__update_choose(&self->ops);
    self->rows = pen__rows_choose(dtype);
    self->rows->fill(&self->ops);
    *out = &self->engine;
    return PEN_OK;

fail_library:
    dnnl_engine_destroy(self->library);
fail_self:
    free(self);
    return pen__refused(status, "its start", why);
}
