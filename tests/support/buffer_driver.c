#include "support/buffer_driver.h"

#include "support/support.h"

#include "engine/device/device.h"
#include "engine/device/opencl.h"
#include "engine/host_memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 256, READ_WRITE = 1 << 0, COPY_HOST = 1 << 5 };

struct block {
    char *at;
    size_t bytes;
};

struct buffers {
    struct pen__driver base;
    struct pen__opencl_api api;
    struct pen__opencl_device device;
    void *(*create_buffer)(void *context, uint64_t flags, size_t bytes,
                           void *from, int32_t *status);
    int32_t (*read_buffer)(void *queue, void *buffer, uint32_t is_blocking,
                           size_t offset, size_t bytes, void *to,
                           uint32_t num_waits, void *const *waits,
                           void **event);
    int32_t (*release_buffer)(void *buffer);
    void *(*create_queue)(void *context, void *device, uint64_t flags,
                          int32_t *status); /* that oclgrind has */
    void *context;
    void *queue;
    void *program;
    struct block blocks[MOST_BLOCKS];
};

static struct buffers *self_of(struct pen__driver *driver)
{
    return (struct buffers *)driver;
}

static void buffers_close(struct pen__driver *driver)
{
    struct buffers *self = self_of(driver);
    self->api.release_program(self->program);
    self->api.release_queue(self->queue);
    self->api.release_context(self->context);
    free(self);
}

/* The block that an address is in, or a free one for NULL. */
static struct block *block_of(struct buffers *self, const char *at)
{
    for (int i = 0; i < MOST_BLOCKS; i++) {
        struct block *it = &self->blocks[i];
        if (at == NULL
                ? it->at == NULL
                : it->at != NULL && at >= it->at && at < it->at + it->bytes)
            return it;
    }
    fail_msg("%s", at == NULL ? "too many blocks" : "a foreign address");
    return NULL;
}

static void *buffers_take(struct pen__driver *driver, enum pen_place place,
                          size_t bytes)
{
    struct block *it = block_of(self_of(driver), NULL);
    *it = (struct block){pen_host_take(NULL, place, bytes), bytes};
    return it->at;
}

static void buffers_give(struct pen__driver *driver, enum pen_place place,
                         void *block, size_t bytes)
{
    *block_of(self_of(driver), block) = (struct block){NULL, 0};
    pen_host_give(NULL, place, block, bytes);
}

static void buffers_copy(struct pen__driver *driver, const void *from, void *to,
                         size_t bytes)
{
    (void)driver;
    memcpy(to, from, bytes);
}

static void buffers_clear(struct pen__driver *driver, void *at, size_t bytes)
{
    (void)driver;
    memset(at, 0, bytes);
}

/* One address of a kernel: its buffer, and what was there before. */
struct argument {
    char *at;
    size_t bytes;
    char *before;
    void *buffer;
};

static void begin(struct buffers *self, void *kernel, uint32_t index,
                  const void *address, struct argument *out)
{
    const struct block *block = block_of(self, address);
    char *at = block->at + ((const char *)address - block->at);
    *out = (struct argument){.at = at,
                             .bytes = (size_t)(block->at + block->bytes - at)};
    out->before = malloc(out->bytes);
    assert_non_null(out->before);
    memcpy(out->before, at, out->bytes);
    out->buffer = self->create_buffer(self->context, READ_WRITE | COPY_HOST,
                                      out->bytes, at, NULL);
    assert_non_null(out->buffer);
    assert_int_equal(0, self->api.set_number(kernel, index, sizeof out->buffer,
                                             &out->buffer));
}

/* Two addresses may be in one block: only what changed is written back. */
static void end(struct buffers *self, struct argument *it)
{
    char *after = malloc(it->bytes);
    assert_non_null(after);
    assert_int_equal(0, self->read_buffer(self->queue, it->buffer, 1, 0,
                                          it->bytes, after, 0, NULL, NULL));
    for (size_t i = 0; i < it->bytes; i++)
        if (after[i] != it->before[i])
            it->at[i] = after[i];
    self->release_buffer(it->buffer);
    free(it->before);
    free(after);
}

static void buffers_launch(struct pen__driver *driver, enum pen__kernel kernel,
                           long groups, const void *const *addresses,
                           const void *sizes)
{
    struct buffers *self = self_of(driver);
    const struct pen__kernel_row *row = &pen__kernel_rows[kernel];
    const size_t local = PEN__LANES, global = (size_t)groups * local;
    struct argument arguments[PEN__ADDRESSES];
    void *it = self->api.create_kernel(self->program, row->name, NULL);
    assert_non_null(it);
    for (uint32_t i = 0; i < PEN__ADDRESSES; i++)
        begin(self, it, i, addresses[i], &arguments[i]);
    assert_int_equal(
        0, self->api.set_number(it, PEN__ADDRESSES, row->sizes_bytes, sizes));
    assert_int_equal(0,
                     self->api.enqueue_kernel(self->queue, it, 1, NULL, &global,
                                              &local, 0, NULL, NULL));
    assert_int_equal(0, self->api.finish(self->queue));
    for (int i = 0; i < PEN__ADDRESSES; i++)
        end(self, &arguments[i]);
    self->api.release_kernel(it);
}

static uint64_t buffers_mark(struct pen__driver *driver)
{
    (void)driver;
    return 0;
}

static bool buffers_is_reached(struct pen__driver *driver, uint64_t mark)
{
    (void)driver;
    (void)mark;
    return true;
}

static const char *buffers_fault(struct pen__driver *driver)
{
    (void)driver;
    return NULL;
}

static const struct pen__driver_ops buffers_ops = {.close = buffers_close,
                                                   .take = buffers_take,
                                                   .give = buffers_give,
                                                   .copy = buffers_copy,
                                                   .clear = buffers_clear,
                                                   .launch = buffers_launch,
                                                   .mark = buffers_mark,
                                                   .is_reached =
                                                       buffers_is_reached,
                                                   .fault = buffers_fault};

/* ---- the text, and what is planted in it ---- */

static char *planted(const char *fault)
{
    static const struct {
        const char *name;
        const char *from;
        const char *to; /* not longer */
    } faults[] = {{"barrier",
                   "MEET\n        EACH_LANE\n        const int down_at",
                   "DONE\n        EACH_LANE\n        const int down_at"},
                  {"bounds", "i < (count) && i <", "i <=(count) && i <"}};
    size_t length = strlen(pen__opencl_text);
    char *text = malloc(length + 1);
    assert_non_null(text);
    memcpy(text, pen__opencl_text, length + 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (fault == NULL || strcmp(fault, faults[i].name) != 0)
            continue;
        char *at = strstr(text, faults[i].from);
        assert_non_null(at);
        assert_int_equal(strlen(faults[i].from), strlen(faults[i].to));
        memcpy(at, faults[i].to, strlen(faults[i].to));
    }
    return text;
}

static void build(struct buffers *self, enum pen_precision dtype,
                  const char *fault)
{
    char *text = planted(fault);
    const char *line = text;
    self->context = self->api.create_context(NULL, 1, &self->device.device,
                                             NULL, NULL, NULL);
    assert_non_null(self->context);
    self->queue =
        self->create_queue(self->context, self->device.device, 0, NULL);
    assert_non_null(self->queue);
    self->program =
        self->api.create_program(self->context, 1, &line, NULL, NULL);
    assert_non_null(self->program);
    assert_int_equal(
        0, self->api.build_program(self->program, 1, &self->device.device,
                                   dtype == PEN_PRECISION_BF16
                                       ? "-cl-std=CL1.2 -D PEN__BF16"
                                       : "-cl-std=CL1.2",
                                   NULL, NULL));
    free(text);
}

static void find(const char *symbol, void *place)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, symbol);
    assert_non_null(found);
    memcpy(place, &found, sizeof found);
}

struct pen_engine *buffer_engine(enum pen_precision dtype, const char *fault)
{
    struct buffers *self = calloc(1, sizeof *self);
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_engine *engine = NULL;
    assert_non_null(self);
    self->base = (struct pen__driver){.ops = &buffers_ops, .name = "buffers"};
    if (pen__opencl_choose(NULL, &self->api, &self->device, &why) != PEN_OK) {
        print_message("%s\n", pen_text_string(&why));
        pen_text_release(&why);
        free(self);
        return NULL;
    }
    find("clCreateCommandQueue", &self->create_queue);
    find("clCreateBuffer", &self->create_buffer);
    find("clEnqueueReadBuffer", &self->read_buffer);
    find("clReleaseMemObject", &self->release_buffer);
    build(self, dtype, fault);
    if (pen__device_create(&self->base, dtype, &why, &engine) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return engine;
}
