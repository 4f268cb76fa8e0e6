#include "support/plain_driver.h"

#include "support/support.h"

#include "engine/device/device.h"
#include "engine/host_memory.h"

#include <stdlib.h>
#include <string.h>

bool plain_is_descending;

/* A kernel, or a copy of `bytes`, or zeros where `from` is NULL. */
struct command {
    plain_kernel run;
    long groups;
    char *at[PEN__ADDRESSES];
    union {
        double align;
        char bytes[256];
    } sizes;
    const void *from;
    void *to;
    size_t bytes;
};

struct plain {
    struct pen__driver base;
    const plain_kernel *kernels;
    struct command *queue;
    size_t capacity;
    uint64_t num_put;
    uint64_t num_done;
};

static struct plain *plain_of(struct pen__driver *driver)
{
    return (struct plain *)driver;
}

static void run(const struct command *command)
{
    if (command->run != NULL)
        for (long group = 0; group < command->groups; group++)
            command->run(command->at, &command->sizes, group);
    else if (command->from != NULL)
        memcpy(command->to, command->from, command->bytes);
    else
        memset(command->to, 0, command->bytes);
}

static void run_to(struct plain *self, uint64_t mark)
{
    while (self->num_done < mark)
        run(&self->queue[self->num_done++ % self->capacity]);
}

static struct command *put(struct pen__driver *driver)
{
    struct plain *self = plain_of(driver);
    if (self->num_put - self->num_done == self->capacity)
        run_to(self, self->num_put);
    struct command *command = &self->queue[self->num_put++ % self->capacity];
    *command = (struct command){.run = NULL};
    return command;
}

static void plain_close(struct pen__driver *driver)
{
    assert_int_equal(driver->taken[PEN_PLACE_ENGINE], 0);
    assert_int_equal(driver->taken[PEN_PLACE_STAGING], 0);
    free(plain_of(driver)->queue);
    free(driver);
}

static void *plain_take(struct pen__driver *driver, enum pen_place place,
                        size_t bytes)
{
    void *block = pen_host_take(NULL, place, bytes);
    if (block != NULL)
        driver->taken[place] += bytes;
    return block;
}

static void plain_give(struct pen__driver *driver, enum pen_place place,
                       void *block, size_t bytes)
{
    run_to(plain_of(driver), plain_of(driver)->num_put);
    driver->taken[place] -= bytes;
    pen_host_give(NULL, place, block, bytes);
}

static void plain_copy(struct pen__driver *driver, const void *from, void *to,
                       size_t bytes)
{
    struct command *command = put(driver);
    command->from = from;
    command->to = to;
    command->bytes = bytes;
}

static void plain_clear(struct pen__driver *driver, void *at, size_t bytes)
{
    plain_copy(driver, NULL, at, bytes);
}

static void plain_launch(struct pen__driver *driver, enum pen__kernel kernel,
                         long groups, const void *const *addresses,
                         const void *sizes)
{
    struct command *command = put(driver);
    command->run = plain_of(driver)->kernels[kernel];
    command->groups = groups;
    memcpy(command->at, addresses, sizeof command->at);
    assert_true(pen__kernel_rows[kernel].sizes_bytes <=
                sizeof command->sizes.bytes);
    memcpy(command->sizes.bytes, sizes, pen__kernel_rows[kernel].sizes_bytes);
}

static uint64_t plain_mark(struct pen__driver *driver)
{
    return plain_of(driver)->num_put;
}

static bool plain_is_reached(struct pen__driver *driver, uint64_t mark)
{
    run_to(plain_of(driver), mark);
    return true;
}

static const char *plain_fault(struct pen__driver *driver)
{
    (void)driver;
    return NULL;
}

static const struct pen__driver_ops plain_ops = {.close = plain_close,
                                                 .take = plain_take,
                                                 .give = plain_give,
                                                 .copy = plain_copy,
                                                 .clear = plain_clear,
                                                 .launch = plain_launch,
                                                 .mark = plain_mark,
                                                 .is_reached = plain_is_reached,
                                                 .fault = plain_fault};

struct pen__driver *plain_driver(enum pen_precision dtype)
{
    struct plain *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->base = (struct pen__driver){.ops = &plain_ops, .name = "plain"};
    self->kernels =
        dtype == PEN_PRECISION_BF16 ? plain_kernels_bf16 : plain_kernels_f32;
    self->capacity = 1000;
    self->queue = calloc(self->capacity, sizeof *self->queue);
    assert_non_null(self->queue);
    return &self->base;
}

struct pen_engine *plain_engine(enum pen_precision dtype)
{
    struct pen_engine *engine = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen__device_create(plain_driver(dtype), dtype, &why, &engine) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return engine;
}
