#ifndef PEN_ENGINE_DEVICE_OPENCL_H
#define PEN_ENGINE_DEVICE_OPENCL_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The part of OpenCL that the driver calls, found in libOpenCL at run time, so
 * that neither building nor starting needs it. Types are those of the
 * interface's binary form: handles are pointers, cl_int is int32_t, cl_bitfield
 * is uint64_t.
 */
#define PEN__OPENCL_TABLE(X)                                                   \
    X(int32_t, get_platforms, "clGetPlatformIDs",                              \
      (uint32_t most, void **out, uint32_t *count))                            \
    X(int32_t, get_platform_info, "clGetPlatformInfo",                         \
      (void *platform, uint32_t key, size_t bytes, void *out, size_t *found))  \
    X(int32_t, get_devices, "clGetDeviceIDs",                                  \
      (void *platform, uint64_t types, uint32_t most, void **out,              \
       uint32_t *count))                                                       \
    X(int32_t, get_device_info, "clGetDeviceInfo",                             \
      (void *device, uint32_t key, size_t bytes, void *out, size_t *found))    \
    X(void *, create_context, "clCreateContext",                               \
      (const intptr_t *properties, uint32_t count, void *const *devices,       \
       void (*tell)(const char *, const void *, size_t, void *),               \
       void *context, int32_t *status))                                        \
    X(int32_t, release_context, "clReleaseContext", (void *context))           \
    X(void *, create_queue, "clCreateCommandQueueWithProperties",              \
      (void *context, void *device, const uint64_t *properties,                \
       int32_t *status))                                                       \
    X(int32_t, release_queue, "clReleaseCommandQueue", (void *queue))          \
    X(void *, create_program, "clCreateProgramWithSource",                     \
      (void *context, uint32_t count, const char **texts,                      \
       const size_t *lengths, int32_t *status))                                \
    X(int32_t, build_program, "clBuildProgram",                                \
      (void *program, uint32_t count, void *const *devices,                    \
       const char *options, void (*tell)(void *, void *), void *context))      \
    X(int32_t, get_build_info, "clGetProgramBuildInfo",                        \
      (void *program, void *device, uint32_t key, size_t bytes, void *out,     \
       size_t *found))                                                         \
    X(int32_t, release_program, "clReleaseProgram", (void *program))           \
    X(void *, create_kernel, "clCreateKernel",                                 \
      (void *program, const char *name, int32_t *status))                      \
    X(int32_t, release_kernel, "clReleaseKernel", (void *kernel))              \
    X(int32_t, set_number, "clSetKernelArg",                                   \
      (void *kernel, uint32_t index, size_t bytes, const void *from))          \
    X(int32_t, set_address, "clSetKernelArgSVMPointer",                        \
      (void *kernel, uint32_t index, const void *address))                     \
    X(int32_t, enqueue_kernel, "clEnqueueNDRangeKernel",                       \
      (void *queue, void *kernel, uint32_t dimensions, const size_t *offset,   \
       const size_t *global, const size_t *local, uint32_t num_waits,          \
       void *const *waits, void **event))                                      \
    X(int32_t, enqueue_copy, "clEnqueueSVMMemcpy",                             \
      (void *queue, uint32_t is_blocking, void *to, const void *from,          \
       size_t bytes, uint32_t num_waits, void *const *waits, void **event))    \
    X(int32_t, enqueue_fill, "clEnqueueSVMMemFill",                            \
      (void *queue, void *at, const void *pattern, size_t pattern_bytes,       \
       size_t bytes, uint32_t num_waits, void *const *waits, void **event))    \
    X(int32_t, enqueue_marker, "clEnqueueMarkerWithWaitList",                  \
      (void *queue, uint32_t num_waits, void *const *waits, void **event))     \
    X(int32_t, get_event_info, "clGetEventInfo",                               \
      (void *event, uint32_t key, size_t bytes, void *out, size_t *found))     \
    X(int32_t, release_event, "clReleaseEvent", (void *event))                 \
    X(int32_t, flush, "clFlush", (void *queue))                                \
    X(int32_t, finish, "clFinish", (void *queue))                              \
    X(void *, take_shared, "clSVMAlloc",                                       \
      (void *context, uint64_t flags, size_t bytes, uint32_t alignment))       \
    X(void, give_shared, "clSVMFree", (void *context, void *block))

struct pen__opencl_api {
#define PEN__OPENCL_FIELD(result, name, symbol, arguments)                     \
    result(*name) arguments;
    PEN__OPENCL_TABLE(PEN__OPENCL_FIELD)
#undef PEN__OPENCL_FIELD
};

enum {
    PEN__CL_PLATFORM_NAME = 0x0902,
    PEN__CL_DEVICE_TYPE = 0x1000,
    PEN__CL_DEVICE_FLOAT = 0x101B,
    PEN__CL_DEVICE_NAME = 0x102B,
    PEN__CL_DRIVER_VERSION = 0x102D,
    PEN__CL_DEVICE_DOUBLE = 0x1032,
    PEN__CL_DEVICE_SHARED = 0x1053,
    PEN__CL_BUILD_LOG = 0x1183,
    PEN__CL_EVENT_STATUS = 0x11D3
};

enum {
    PEN__CL_TYPE_GPU = 1 << 2,
    PEN__CL_TYPE_ACCELERATOR = 1 << 3,
    PEN__CL_SHARED_FINE = 1 << 1,  /* of PEN__CL_DEVICE_SHARED */
    PEN__CL_FLOAT_ROUNDS = 1 << 7, /* divisions and roots, correctly */
    PEN__CL_MEMORY_FINE = 1 << 10  /* and 0 is read and write */
};

struct pen__opencl_device {
    void *platform;
    void *device;
    char name[128];
    char driver[160]; /* platform and version of the driver */
};

/*
 * Loads libOpenCL and chooses a device by its number, from 0 in the order of
 * the library, or by a part of its name; NULL: the first accelerator, or the
 * first device where there is none. The library stays loaded, because drivers
 * leave threads and handlers running.
 */
pen_status pen__opencl_choose(const char *text, struct pen__opencl_api *api,
                              struct pen__opencl_device *out,
                              struct pen_text *why);

/* The kernels, as OpenCL C; ends with a zero. */
extern const char pen__opencl_text[];

#endif
