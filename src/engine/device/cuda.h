#ifndef PEN_ENGINE_DEVICE_CUDA_H
#define PEN_ENGINE_DEVICE_CUDA_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The part of CUDA's driver interface that the driver calls, found in libcuda
 * at run time, so that neither building nor starting needs it. Types are those
 * of the interface's binary form: handles are pointers, devices and CUresult
 * are int32_t, addresses are pointers of 64 bits.
 */
#define PEN__CUDA_TABLE(X)                                                     \
    X(init, cuInit, (uint32_t flags))                                          \
    X(get_version, cuDriverGetVersion, (int32_t * out))                        \
    X(get_error, cuGetErrorName, (int32_t status, const char **out))           \
    X(count_devices, cuDeviceGetCount, (int32_t * out))                        \
    X(get_device, cuDeviceGet, (int32_t * out, int32_t number))                \
    X(get_name, cuDeviceGetName, (char *out, int32_t bytes, int32_t device))   \
    X(get_attribute, cuDeviceGetAttribute,                                     \
      (int32_t * out, int32_t key, int32_t device))                            \
    X(retain_context, cuDevicePrimaryCtxRetain, (void **out, int32_t device))  \
    X(release_context, cuDevicePrimaryCtxRelease_v2, (int32_t device))         \
    X(set_context, cuCtxSetCurrent, (void *context))                           \
    X(load_module, cuModuleLoadDataEx,                                         \
      (void **out, const void *text, uint32_t count, const int32_t *keys,      \
       void *const *values))                                                   \
    X(unload_module, cuModuleUnload, (void *module))                           \
    X(get_function, cuModuleGetFunction,                                       \
      (void **out, void *module, const char *name))                            \
    X(take_device, cuMemAlloc_v2, (void **out, size_t bytes))                  \
    X(give_device, cuMemFree_v2, (void *block))                                \
    X(take_host, cuMemHostAlloc, (void **out, size_t bytes, uint32_t flags))   \
    X(give_host, cuMemFreeHost, (void *block))                                 \
    X(copy, cuMemcpyAsync,                                                     \
      (void *to, const void *from, size_t bytes, void *stream))                \
    X(fill, cuMemsetD8Async,                                                   \
      (void *at, unsigned char value, size_t bytes, void *stream))             \
    X(launch, cuLaunchKernel,                                                  \
      (void *function, uint32_t groups_x, uint32_t groups_y,                   \
       uint32_t groups_z, uint32_t lanes_x, uint32_t lanes_y,                  \
       uint32_t lanes_z, uint32_t local_bytes, void *stream,                   \
       const void **arguments, void **extra))                                  \
    X(create_stream, cuStreamCreate, (void **out, uint32_t flags))             \
    X(destroy_stream, cuStreamDestroy_v2, (void *stream))                      \
    X(finish, cuStreamSynchronize, (void *stream))                             \
    X(create_event, cuEventCreate, (void **out, uint32_t flags))               \
    X(destroy_event, cuEventDestroy_v2, (void *event))                         \
    X(record_event, cuEventRecord, (void *event, void *stream))                \
    X(query_event, cuEventQuery, (void *event))

struct pen__cuda_api {
#define PEN__CUDA_FIELD(name, symbol, arguments) int32_t(*name) arguments;
    PEN__CUDA_TABLE(PEN__CUDA_FIELD)
#undef PEN__CUDA_FIELD
};

enum {
    PEN__CUDA_NOT_READY = 600, /* of an event */
    PEN__CUDA_MAJOR = 75,      /* attributes: the compute capability */
    PEN__CUDA_MINOR = 76,
    PEN__CUDA_LOG = 5, /* options of a module: a buffer for errors, its bytes */
    PEN__CUDA_LOG_BYTES = 6,
    PEN__CUDA_HOST_FLAGS = 3,      /* pinned for all contexts, and mapped */
    PEN__CUDA_STREAM_FLAGS = 1,    /* does not wait for the default stream */
    PEN__CUDA_EVENT_FLAGS = 2,     /* without times */
    PEN__CUDA_LEAST_CAPABILITY = 8 /* major; the PTX is for 8.0 */
};

struct pen__cuda_device {
    int32_t device;
    int32_t major;
    int32_t minor;
    char name[128];
    char driver[40]; /* version of CUDA that the driver has */
};

/*
 * Loads libcuda and chooses a device by its number, from 0 in the order of the
 * library, or by a part of its name; NULL: the first device. The library stays
 * loaded.
 */
pen_status pen__cuda_choose(const char *text, struct pen__cuda_api *api,
                            struct pen__cuda_device *out, struct pen_text *why);

/* The kernels as PTX, with a zero at the end; "" when no clang made any. */
extern const char pen__cuda_text_f32[];
extern const char pen__cuda_text_bf16[];

#endif
