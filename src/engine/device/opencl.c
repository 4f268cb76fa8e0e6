/*
 * The OpenCL driver: kernels in one in-order queue, memory that host and device
 * share by address (shared virtual memory).
 *
 *   engine's memory   coarse: the host never looks there
 *   staging           fine: the host reads and writes it between marks, without
 *                     mapping
 *
 *   mark()        an event after all that was enqueued, and a flush
 *   is_reached()  the event is complete; then all earlier ones are, too
 *
 * An error of OpenCL, or an event that ended badly, is the queue's fault for
 * the rest of the run: nothing more is enqueued, and no mark is reached.
 */
#include "engine/device/opencl.h"

#include "engine/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARKS = 256, ALIGNMENT = 64 };

struct opencl {
    struct pen__driver base;
    struct pen__opencl_api api;
    struct pen__opencl_device device;
    void *context;
    void *queue;
    void *program;
    void *kernels[PEN__KERNELS];
    bool has_commands;    /* since the last mark */
    uint64_t num_marks;   /* made */
    uint64_t num_reached; /* of them */
    void *events[MARKS];  /* of mark m: m % MARKS */
    char fault[160];      /* "": none */
};

static struct opencl *self_of(struct pen__driver *driver)
{
    return (struct opencl *)driver;
}

/* The first fault stays. */
static void expect(struct opencl *self, int32_t status, const char *call,
                   const char *kernel)
{
    if (status < 0 && self->fault[0] == '\0')
        snprintf(self->fault, sizeof self->fault, "%s%s%s returned %d on %.60s",
                 call, kernel[0] != '\0' ? " of " : "", kernel, status,
                 self->device.name);
}

static bool has_fault(const struct opencl *self)
{
    return self->fault[0] != '\0';
}

/* ---- marks ---- */

static void reach(struct opencl *self, uint64_t mark)
{
    while (self->num_reached < mark)
        self->api.release_event(self->events[++self->num_reached % MARKS]);
}

static void finish(struct opencl *self)
{
    if (self->queue == NULL || has_fault(self))
        return;
    expect(self, self->api.finish(self->queue), "clFinish", "");
    if (!has_fault(self))
        reach(self, self->num_marks);
}

static uint64_t opencl_mark(struct pen__driver *driver)
{
    struct opencl *self = self_of(driver);
    if (has_fault(self))
        return UINT64_MAX;
    if (!self->has_commands)
        return self->num_marks;
    if (self->num_marks - self->num_reached == MARKS)
        finish(self);
    void *event = NULL;
    expect(self, self->api.enqueue_marker(self->queue, 0, NULL, &event),
           "clEnqueueMarkerWithWaitList", "");
    if (has_fault(self))
        return UINT64_MAX;
    self->events[++self->num_marks % MARKS] = event;
    self->has_commands = false;
    expect(self, self->api.flush(self->queue), "clFlush", "");
    return self->num_marks;
}

static bool opencl_is_reached(struct pen__driver *driver, uint64_t mark)
{
    struct opencl *self = self_of(driver);
    int32_t state = 1;
    if (mark <= self->num_reached)
        return true;
    if (has_fault(self))
        return false;
    expect(self,
           self->api.get_event_info(self->events[mark % MARKS],
                                    PEN__CL_EVENT_STATUS, sizeof state, &state,
                                    NULL),
           "clGetEventInfo", "");
    expect(self, state, "a command", "");
    if (state != 0 || has_fault(self))
        return false;
    reach(self, mark);
    return true;
}

static const char *opencl_fault(struct pen__driver *driver)
{
    const struct opencl *self = self_of(driver);
    return has_fault(self) ? self->fault : NULL;
}

/* ---- commands ---- */

static void opencl_copy(struct pen__driver *driver, const void *from, void *to,
                        size_t bytes)
{
    struct opencl *self = self_of(driver);
    if (has_fault(self))
        return;
    self->has_commands = true;
    expect(
        self,
        self->api.enqueue_copy(self->queue, 0, to, from, bytes, 0, NULL, NULL),
        "clEnqueueSVMMemcpy", "");
}

static void opencl_clear(struct pen__driver *driver, void *at, size_t bytes)
{
    static const unsigned char zero = 0;
    struct opencl *self = self_of(driver);
    if (has_fault(self))
        return;
    self->has_commands = true;
    expect(
        self,
        self->api.enqueue_fill(self->queue, at, &zero, 1, bytes, 0, NULL, NULL),
        "clEnqueueSVMMemFill", "");
}

static void opencl_launch(struct pen__driver *driver, enum pen__kernel kernel,
                          long groups, const void *const *addresses,
                          const void *sizes)
{
    struct opencl *self = self_of(driver);
    const struct pen__kernel_row *row = &pen__kernel_rows[kernel];
    const size_t local = PEN__LANES, global = (size_t)groups * local;
    void *it = self->kernels[kernel];
    if (has_fault(self))
        return;
    self->has_commands = true;
    for (uint32_t i = 0; i < PEN__ADDRESSES; i++)
        expect(self, self->api.set_address(it, i, addresses[i]),
               "clSetKernelArgSVMPointer", row->name);
    expect(self,
           self->api.set_number(it, PEN__ADDRESSES, row->sizes_bytes, sizes),
           "clSetKernelArg", row->name);
    expect(self,
           self->api.enqueue_kernel(self->queue, it, 1, NULL, &global, &local,
                                    0, NULL, NULL),
           "clEnqueueNDRangeKernel", row->name);
}

/* ---- memory ---- */

static void opencl_give(struct pen__driver *driver, enum pen_place place,
                        void *block, size_t bytes)
{
    struct opencl *self = self_of(driver);
    finish(self);
    self->api.give_shared(self->context, block);
    driver->taken[place] -= bytes;
}

static void *opencl_take(struct pen__driver *driver, enum pen_place place,
                         size_t bytes)
{
    struct opencl *self = self_of(driver);
    uint64_t flags = place == PEN_PLACE_STAGING ? PEN__CL_MEMORY_FINE : 0;
    void *block =
        self->api.take_shared(self->context, 1 | flags, bytes, ALIGNMENT);
    if (block == NULL)
        return NULL;
    driver->taken[place] += bytes;
    opencl_clear(driver, block, bytes);
    finish(self);
    return block;
}

/* ---- making ---- */

static void opencl_close(struct pen__driver *driver)
{
    struct opencl *self = self_of(driver);
    finish(self);
    while (self->num_reached < self->num_marks)
        self->api.release_event(self->events[++self->num_reached % MARKS]);
    for (int i = 0; i < PEN__KERNELS; i++)
        if (self->kernels[i] != NULL)
            self->api.release_kernel(self->kernels[i]);
    if (self->program != NULL)
        self->api.release_program(self->program);
    if (self->queue != NULL)
        self->api.release_queue(self->queue);
    if (self->context != NULL)
        self->api.release_context(self->context);
    free(self);
}

static const struct pen__driver_ops opencl_ops = {.close = opencl_close,
                                                  .take = opencl_take,
                                                  .give = opencl_give,
                                                  .copy = opencl_copy,
                                                  .clear = opencl_clear,
                                                  .launch = opencl_launch,
                                                  .mark = opencl_mark,
                                                  .is_reached =
                                                      opencl_is_reached,
                                                  .fault = opencl_fault};

static uint64_t ask(const struct opencl *self, uint32_t key)
{
    uint64_t flags = 0;
    self->api.get_device_info(self->device.device, key, sizeof flags, &flags,
                              NULL);
    return flags;
}

static pen_status check_device(const struct opencl *self, struct pen_text *why)
{
    const char *lacks = NULL;
    if (ask(self, PEN__CL_DEVICE_DOUBLE) == 0)
        lacks = "no numbers of double precision";
    else if ((ask(self, PEN__CL_DEVICE_SHARED) & PEN__CL_SHARED_FINE) == 0)
        lacks = "no fine-grained shared virtual memory";
    if (lacks == NULL)
        return PEN_OK;
    pen_why(why,
            "--engine opencl: %s (%s) has %s, which the kernels need. Use "
            "--engine opencl:DEVICE with another device, or --engine onednn",
            self->device.name, self->device.driver, lacks);
    return PEN_INVALID;
}

static void tell_build(const struct opencl *self, struct pen_text *why)
{
    enum { MOST = 1 << 14, TOLD = 400 };
    char *log = calloc(1, MOST + 1);
    if (log != NULL)
        self->api.get_build_info(self->program, self->device.device,
                                 PEN__CL_BUILD_LOG, MOST, log, NULL);
    pen_why(why, "the OpenCL compiler of %s refuses the kernels: %.*s",
            self->device.name, TOLD, log != NULL ? log : "");
    free(log);
}

static pen_status build_kernels(struct opencl *self, enum pen_precision dtype,
                                struct pen_text *why)
{
    const char *text = pen__opencl_text;
    char options[120];
    bool rounds = (ask(self, PEN__CL_DEVICE_FLOAT) & PEN__CL_FLOAT_ROUNDS) != 0;
    snprintf(options, sizeof options, "-cl-std=CL1.2%s%s",
             rounds ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
             dtype == PEN_PRECISION_BF16 ? " -D PEN__BF16" : "");
    self->program =
        self->api.create_program(self->context, 1, &text, NULL, NULL);
    if (self->program == NULL)
        return PEN_NOMEM;
    if (self->api.build_program(self->program, 1, &self->device.device, options,
                                NULL, NULL) != 0) {
        tell_build(self, why);
        return PEN_INVALID;
    }
    for (int i = 0; i < PEN__KERNELS; i++) {
        self->kernels[i] = self->api.create_kernel(
            self->program, pen__kernel_rows[i].name, NULL);
        if (self->kernels[i] == NULL)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

static pen_status open_device(struct opencl *self, enum pen_precision dtype,
                              struct pen_text *why)
{
    pen_status status = check_device(self, why);
    if (status != PEN_OK)
        return status;
    self->context = self->api.create_context(NULL, 1, &self->device.device,
                                             NULL, NULL, NULL);
    if (self->context != NULL)
        self->queue = self->api.create_queue(self->context, self->device.device,
                                             NULL, NULL);
    status = self->queue == NULL ? PEN_NOMEM : build_kernels(self, dtype, why);
    if (status == PEN_NOMEM)
        pen_why(why, "%s (%s) gives no queue or no memory for the kernels",
                self->device.name, self->device.driver);
    return status;
}

pen_status pen_engine_opencl_create(enum pen_precision dtype,
                                    const char *device, struct pen_text *why,
                                    struct pen_engine **out)
{
    struct opencl *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->base = (struct pen__driver){.ops = &opencl_ops, .name = "opencl"};
    pen_status status =
        pen__opencl_choose(device, &self->api, &self->device, why);
    if (status != PEN_OK) {
        free(self);
        return status;
    }
    status = open_device(self, dtype, why);
    if (status != PEN_OK) {
        opencl_close(&self->base);
        return status;
    }
    return pen__device_create(&self->base, dtype, why, out);
}
