/*
 * The CUDA driver: kernels as PTX, which the driver of the device compiles, in
 * one stream. It has never run on hardware of ours: the tests have a libcuda of
 * their own, which interprets PTX.
 *
 *   engine's memory   the device's
 *   staging           the host's, pinned; host and device share its addresses
 *
 *   mark()        an event after all that was enqueued
 *   is_reached()  the event is complete; then all earlier ones are, too
 *
 * An error of CUDA is the queue's fault for the rest of the run: nothing more
 * is enqueued, and no mark is reached. Every call of the host makes the
 * device's primary context that of its thread first.
 */
#include "engine/device/cuda.h"

#include "engine/device/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { MARKS = 256 };

struct cuda {
    struct pen__driver base;
    struct pen__cuda_api api;
    struct pen__cuda_device device;
    void *context;
    void *stream;
    void *module;
    void *kernels[PEN__KERNELS];
    bool has_commands;    /* since the last mark */
    uint64_t num_marks;   /* made */
    uint64_t num_reached; /* of them */
    void *events[MARKS];  /* of mark m: m % MARKS; NULL: not needed so far */
    char fault[200];      /* "": none */
};

static struct cuda *self_of(struct pen__driver *driver)
{
    return (struct cuda *)driver;
}

static bool has_fault(const struct cuda *self)
{
    return self->fault[0] != '\0';
}

/* The first fault stays. */
static void expect(struct cuda *self, int32_t status, const char *call,
                   const char *kernel)
{
    const char *name = NULL;
    if (status == 0 || has_fault(self))
        return;
    if (self->api.get_error(status, &name) != 0 || name == NULL)
        name = "unknown";
    snprintf(self->fault, sizeof self->fault,
             "%s%s%s returned %d (%s) on %.60s", call,
             kernel[0] != '\0' ? " of " : "", kernel, status, name,
             self->device.name);
}

/* Whether commands can be given, and by this thread. */
static bool enter(struct cuda *self)
{
    if (!has_fault(self))
        expect(self, self->api.set_context(self->context), "cuCtxSetCurrent",
               "");
    return !has_fault(self);
}

/* ---- marks ---- */

static void finish(struct cuda *self)
{
    if (!enter(self))
        return;
    expect(self, self->api.finish(self->stream), "cuStreamSynchronize", "");
    if (!has_fault(self))
        self->num_reached = self->num_marks;
}

static uint64_t cuda_mark(struct pen__driver *driver)
{
    struct cuda *self = self_of(driver);
    if (!enter(self))
        return UINT64_MAX;
    if (!self->has_commands)
        return self->num_marks;
    if (self->num_marks - self->num_reached == MARKS)
        finish(self);
    void **event = &self->events[(self->num_marks + 1) % MARKS];
    if (*event == NULL)
        expect(self, self->api.create_event(event, PEN__CUDA_EVENT_FLAGS),
               "cuEventCreate", "");
    if (!has_fault(self))
        expect(self, self->api.record_event(*event, self->stream),
               "cuEventRecord", "");
    if (has_fault(self))
        return UINT64_MAX;
    self->has_commands = false;
    return ++self->num_marks;
}

static bool cuda_is_reached(struct pen__driver *driver, uint64_t mark)
{
    struct cuda *self = self_of(driver);
    if (mark <= self->num_reached)
        return true;
    if (!enter(self))
        return false;
    int32_t status = self->api.query_event(self->events[mark % MARKS]);
    if (status == PEN__CUDA_NOT_READY)
        return false;
    expect(self, status, "a command before cuEventQuery", "");
    if (has_fault(self))
        return false;
    self->num_reached = mark;
    return true;
}

static const char *cuda_fault(struct pen__driver *driver)
{
    const struct cuda *self = self_of(driver);
    return has_fault(self) ? self->fault : NULL;
}

/* ---- commands ---- */

static void cuda_copy(struct pen__driver *driver, const void *from, void *to,
                      size_t bytes)
{
    struct cuda *self = self_of(driver);
    if (!enter(self))
        return;
    self->has_commands = true;
    expect(self, self->api.copy(to, from, bytes, self->stream), "cuMemcpyAsync",
           "");
}

static void cuda_clear(struct pen__driver *driver, void *at, size_t bytes)
{
    struct cuda *self = self_of(driver);
    if (!enter(self))
        return;
    self->has_commands = true;
    expect(self, self->api.fill(at, 0, bytes, self->stream), "cuMemsetD8Async",
           "");
}

static void cuda_launch(struct pen__driver *driver, enum pen__kernel kernel,
                        long groups, const void *const *addresses,
                        const void *sizes)
{
    struct cuda *self = self_of(driver);
    const char *name = pen__kernel_rows[kernel].name;
    const void *arguments[PEN__ADDRESSES + 1];
    if (!enter(self))
        return;
    if (groups > INT32_MAX) {
        snprintf(self->fault, sizeof self->fault,
                 "%s has %ld groups; CUDA takes 2147483647", name, groups);
        return;
    }
    self->has_commands = true;
    for (int i = 0; i < PEN__ADDRESSES; i++)
        arguments[i] = &addresses[i];
    arguments[PEN__ADDRESSES] = sizes;
    expect(self,
           self->api.launch(self->kernels[kernel], (uint32_t)groups, 1, 1,
                            PEN__LANES, 1, 1, 0, self->stream, arguments, NULL),
           "cuLaunchKernel", name);
}

/* ---- memory ---- */

static void cuda_give(struct pen__driver *driver, enum pen_place place,
                      void *block, size_t bytes)
{
    struct cuda *self = self_of(driver);
    finish(self);
    if (place == PEN_PLACE_STAGING)
        self->api.give_host(block);
    else
        self->api.give_device(block);
    driver->taken[place] -= bytes;
}

static void *cuda_take(struct pen__driver *driver, enum pen_place place,
                       size_t bytes)
{
    struct cuda *self = self_of(driver);
    void *block = NULL;
    if (!enter(self) ||
        (place == PEN_PLACE_STAGING
             ? self->api.take_host(&block, bytes, PEN__CUDA_HOST_FLAGS)
             : self->api.take_device(&block, bytes)) != 0)
        return NULL;
    driver->taken[place] += bytes;
    cuda_clear(driver, block, bytes);
    finish(self);
    return block;
}

/* ---- making ---- */

static void cuda_close(struct pen__driver *driver)
{
    struct cuda *self = self_of(driver);
    if (self->context != NULL) {
        finish(self);
        for (int i = 0; i < MARKS; i++)
            if (self->events[i] != NULL)
                self->api.destroy_event(self->events[i]);
        if (self->module != NULL)
            self->api.unload_module(self->module);
        if (self->stream != NULL)
            self->api.destroy_stream(self->stream);
        self->api.release_context(self->device.device);
    }
    free(self);
}

static const struct pen__driver_ops cuda_ops = {.close = cuda_close,
                                                .take = cuda_take,
                                                .give = cuda_give,
                                                .copy = cuda_copy,
                                                .clear = cuda_clear,
                                                .launch = cuda_launch,
                                                .mark = cuda_mark,
                                                .is_reached = cuda_is_reached,
                                                .fault = cuda_fault};

/*
 * Checks for kernels before anything is loaded: a program without them needs no
 * library.
 */
static pen_status check_kernels(struct pen_text *why)
{
    if (pen__cuda_text_f32[0] != '\0')
        return PEN_OK;
    pen_why(why, "--engine cuda: this build of Penstock has no kernels for "
                 "CUDA. Build it where clang 14 or later is installed, without "
                 "-DPEN_CUDA=OFF");
    return PEN_INVALID;
}

static pen_status check_device(const struct cuda *self, struct pen_text *why)
{
    if (self->device.major >= PEN__CUDA_LEAST_CAPABILITY)
        return PEN_OK;
    pen_why(why,
            "--engine cuda: %s has compute capability %d.%d; the kernels need "
            "8.0 (Ampere) or later. Use --engine cuda:DEVICE with another "
            "device, or --engine onednn",
            self->device.name, self->device.major, self->device.minor);
    return PEN_INVALID;
}

static pen_status load_kernels(struct cuda *self, enum pen_precision dtype,
                               struct pen_text *why)
{
    char log[400] = "";
    const int32_t keys[] = {PEN__CUDA_LOG, PEN__CUDA_LOG_BYTES};
    void *const values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    int32_t status = self->api.load_module(
        &self->module,
        dtype == PEN_PRECISION_BF16 ? pen__cuda_text_bf16 : pen__cuda_text_f32,
        2, keys, values);
    if (status != 0) {
        pen_why(why, "%s (%s) refuses the kernels with error %d: %s",
                self->device.name, self->device.driver, status, log);
        return PEN_INVALID;
    }
    for (int i = 0; i < PEN__KERNELS; i++) {
        status = self->api.get_function(&self->kernels[i], self->module,
                                        pen__kernel_rows[i].name);
        if (status != 0) {
            pen_why(why, "%s (%s) finds no kernel %s: error %d",
                    self->device.name, self->device.driver,
                    pen__kernel_rows[i].name, status);
            return PEN_INVALID;
        }
    }
    return PEN_OK;
}

static pen_status open_device(struct cuda *self, enum pen_precision dtype,
                              struct pen_text *why)
{
    pen_status status = check_device(self, why);
    if (status != PEN_OK)
        return status;
    expect(self, self->api.retain_context(&self->context, self->device.device),
           "cuDevicePrimaryCtxRetain", "");
    if (enter(self))
        expect(self,
               self->api.create_stream(&self->stream, PEN__CUDA_STREAM_FLAGS),
               "cuStreamCreate", "");
    if (!has_fault(self))
        return load_kernels(self, dtype, why);
    pen_why(why, "--engine cuda: %s", self->fault);
    return PEN_INVALID;
}

pen_status pen_engine_cuda_create(enum pen_precision dtype, const char *device,
                                  struct pen_text *why, struct pen_engine **out)
{
    pen_status status = check_kernels(why);
    if (status != PEN_OK)
        return status;
    struct cuda *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->base = (struct pen__driver){.ops = &cuda_ops, .name = "cuda"};
    status = pen__cuda_choose(device, &self->api, &self->device, why);
    if (status == PEN_OK)
        status = open_device(self, dtype, why);
    if (status != PEN_OK) {
        cuda_close(&self->base);
        return status;
    }
    return pen__device_create(&self->base, dtype, why, out);
}
