/* Memory, marks and the making of a device engine. */
#include "engine/device/device.h"

#include "base/bug.h"

#include <stdlib.h>

_Static_assert(sizeof(long) == 8, "kernels count in longs of 64 bits");

const struct pen__kernel_row pen__kernel_rows[PEN__KERNELS] = {
#define PEN__KERNEL_ROW(name, sizes)                                           \
    {#name, sizeof(struct pen__##sizes##_sizes)},
    PEN__KERNEL_TABLE(PEN__KERNEL_ROW)
#undef PEN__KERNEL_ROW
};

static struct pen__driver *driver_of(struct pen_engine *engine)
{
    return pen__device_of(engine)->driver;
}

void pen__launch(struct pen_engine *engine, enum pen__kernel kernel,
                 long groups, const void *const *addresses, const void *sizes)
{
    const void *all[PEN__ADDRESSES];
    if (groups == 0)
        return;
    for (int i = 0; i < PEN__ADDRESSES; i++)
        all[i] =
            addresses[i] != NULL ? addresses[i] : pen__device_of(engine)->fixed;
    driver_of(engine)->ops->launch(driver_of(engine), kernel, groups, all,
                                   sizes);
}

static void *take(struct pen_engine *engine, enum pen_place place, size_t bytes)
{
    void *block = driver_of(engine)->ops->take(driver_of(engine), place, bytes);
    if (block != NULL)
        engine->taken[place] += bytes;
    return block;
}

static void give(struct pen_engine *engine, enum pen_place place, void *block,
                 size_t bytes)
{
    driver_of(engine)->ops->give(driver_of(engine), place, block, bytes);
    engine->taken[place] -= bytes;
}

void *pen__device_hold(struct pen_engine *engine, enum pen_place place,
                       size_t bytes)
{
    void *block = driver_of(engine)->ops->take(driver_of(engine), place, bytes);
    if (block != NULL)
        pen__device_of(engine)->memory_bytes += bytes;
    return block;
}

void pen__device_drop(struct pen_engine *engine, enum pen_place place,
                      void *block, size_t bytes)
{
    if (block == NULL)
        return;
    driver_of(engine)->ops->give(driver_of(engine), place, block, bytes);
    pen__device_of(engine)->memory_bytes -= bytes;
}

pen_status pen__device_need_scratch(struct pen_engine *engine, size_t bytes,
                                    const char *what, struct pen_text *why)
{
    struct pen__device *self = pen__device_of(engine);
    if (bytes <= self->scratch_bytes)
        return PEN_OK;
    pen_engine_await(engine);
    pen__device_drop(engine, PEN_PLACE_ENGINE, self->scratch,
                     self->scratch_bytes);
    self->scratch_bytes = 0;
    self->scratch = pen__device_hold(engine, PEN_PLACE_ENGINE, bytes);
    if (self->scratch == NULL) {
        pen_why(why, "the device has no memory for the %zu bytes that %s",
                bytes, what);
        return PEN_NOMEM;
    }
    self->scratch_bytes = bytes;
    return PEN_OK;
}

static void copy(struct pen_engine *engine, const void *from, void *to,
                 size_t bytes)
{
    if (bytes > 0)
        driver_of(engine)->ops->copy(driver_of(engine), from, to, bytes);
}

static uint64_t mark(struct pen_engine *engine)
{
    return driver_of(engine)->ops->mark(driver_of(engine));
}

static bool is_reached(struct pen_engine *engine, uint64_t number)
{
    return driver_of(engine)->ops->is_reached(driver_of(engine), number);
}

static const char *fault(struct pen_engine *engine)
{
    return driver_of(engine)->ops->fault(driver_of(engine));
}

static size_t memory_bytes(const struct pen_engine *engine)
{
    return ((const struct pen__device *)engine)->memory_bytes;
}

static size_t scratch_bytes(const struct pen_engine *engine)
{
    return ((const struct pen__device *)engine)->scratch_bytes +
           sizeof(struct pen__device_fixed) + PEN__DEVICE_PIECE * sizeof(float);
}

static size_t passing_bytes(const struct pen_engine *engine)
{
    (void)engine;
    return 0;
}

static void device_free(struct pen_engine *engine)
{
    struct pen__device *self = pen__device_of(engine);
    pen__device_drop(engine, PEN_PLACE_ENGINE, self->scratch,
                     self->scratch_bytes);
    pen__device_drop(engine, PEN_PLACE_STAGING, self->piece,
                     PEN__DEVICE_PIECE * sizeof(float));
    pen__device_drop(engine, PEN_PLACE_ENGINE, self->fixed,
                     sizeof *self->fixed);
    self->driver->ops->close(self->driver);
    free(self);
}

static void set_engine(struct pen_engine_ops *ops)
{
    ops->free = device_free;
    ops->take = take;
    ops->give = give;
    ops->copy = copy;
    ops->mark = mark;
    ops->is_reached = is_reached;
    ops->fault = fault;
    ops->memory_bytes = memory_bytes;
    ops->scratch_bytes = scratch_bytes;
    ops->passing_bytes = passing_bytes;
}

pen_status pen__device_create(struct pen__driver *driver,
                              enum pen_precision dtype, struct pen_text *why,
                              struct pen_engine **out)
{
    struct pen__device *self = calloc(1, sizeof *self);
    if (self == NULL) {
        driver->ops->close(driver);
        return PEN_NOMEM;
    }
    self->driver = driver;
    self->ops.name = driver->name;
    set_engine(&self->ops);
    pen__device_set_parameters(&self->ops);
    pen__device_set_rows(&self->ops);
    pen__device_set_dense(&self->ops);
    pen__device_set_attention(&self->ops);
    pen__device_set_loss(&self->ops);
    pen__device_set_muon(&self->ops);
    pen__device_set_experts(&self->ops);
    self->engine =
        (struct pen_engine){.ops = &self->ops, .dtype = dtype, .threads = 1};
    PEN_BUG_UNLESS(dtype != PEN_PRECISION_F64);
    self->fixed =
        pen__device_hold(&self->engine, PEN_PLACE_ENGINE, sizeof *self->fixed);
    self->piece = pen__device_hold(&self->engine, PEN_PLACE_STAGING,
                                   PEN__DEVICE_PIECE * sizeof(float));
    if (self->fixed == NULL || self->piece == NULL) {
        pen_why(why, "the device has no memory for the %s engine",
                driver->name);
        device_free(&self->engine);
        return PEN_NOMEM;
    }
    *out = &self->engine;
    return PEN_OK;
}
