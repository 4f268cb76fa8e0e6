/*
 * A libcuda for tests: the functions of CUDA's driver interface that the CUDA
 * driver calls (engine/device/cuda.h), on memory of the host, with kernels that
 * an interpreter executes (ptx.h).
 *
 * Commands are late: nothing of a stream runs before the host asks an event
 * twice, or waits for the stream. A host that does not wait for a mark reads
 * what was there before, in every run. A fault of a kernel is printed, and
 * every call afterwards returns it, as on a device.
 *
 *   CUDA_VISIBLE_DEVICES=      no device
 *   TEST_CUDA_CAPABILITY=75    compute capability 7.5, not 8.0
 */
#include "engine/device/cuda.h"

#include "ptx.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(name, symbol, arguments) int32_t symbol arguments;
PEN__CUDA_TABLE(DECLARE)
#undef DECLARE

enum {
    MOST_PARAMETERS = 512,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700
};

struct block {
    uint64_t begin;
    uint64_t end;
    bool is_host;
};

/* A kernel, or a copy of `bytes`, or a fill where `from` is NULL. */
struct command {
    const struct ptx_kernel *kernel;
    uint32_t groups;
    char parameters[MOST_PARAMETERS];
    const void *from;
    void *to;
    unsigned char value;
    size_t bytes;
};

struct event {
    uint64_t behind; /* command number so much, from 1 */
    bool was_asked;
};

static struct block *blocks;
static size_t num_blocks, block_room;
static struct command *queue;
static size_t queue_room, num_queued;
static uint64_t num_done; /* commands; the first of the queue is the next */
static int num_contexts;
static int32_t fault;
static _Thread_local void *current;

/* A handle of what there is one of. */
static char the_one;

#define ENTER                                                                  \
    do {                                                                       \
        if (fault != 0)                                                        \
            return fault;                                                      \
        if (current == NULL)                                                   \
            return INVALID_CONTEXT;                                            \
    } while (false)

/* ---- devices ---- */

int32_t cuInit(uint32_t flags)
{
    return flags == 0 ? 0 : INVALID_VALUE;
}

int32_t cuDriverGetVersion(int32_t *out)
{
    *out = 13000;
    return 0;
}

int32_t cuGetErrorName(int32_t status, const char **out)
{
    *out = status == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                     : "CUDA_ERROR_OF_THIS_TEST";
    return 0;
}

int32_t cuDeviceGetCount(int32_t *out)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *out = visible != NULL && visible[0] == '\0' ? 0 : 1;
    return 0;
}

int32_t cuDeviceGet(int32_t *out, int32_t number)
{
    *out = number;
    return number == 0 ? 0 : INVALID_DEVICE;
}

int32_t cuDeviceGetName(char *out, int32_t bytes, int32_t device)
{
    snprintf(out, (size_t)bytes, "interpreted PTX");
    return device == 0 ? 0 : INVALID_DEVICE;
}

int32_t cuDeviceGetAttribute(int32_t *out, int32_t key, int32_t device)
{
    const char *asked = getenv("TEST_CUDA_CAPABILITY");
    int capability = asked != NULL ? atoi(asked) : 80;
    *out = key == PEN__CUDA_MAJOR ? capability / 10 : capability % 10;
    return device == 0 ? 0 : INVALID_DEVICE;
}

int32_t cuDevicePrimaryCtxRetain(void **out, int32_t device)
{
    *out = &the_one;
    num_contexts++;
    return device == 0 ? 0 : INVALID_DEVICE;
}

/* The last one takes the fault with it. */
int32_t cuDevicePrimaryCtxRelease_v2(int32_t device)
{
    if (--num_contexts > 0)
        return 0;
    free(blocks);
    free(queue);
    blocks = NULL;
    queue = NULL;
    num_blocks = block_room = queue_room = num_queued = 0;
    fault = 0;
    return device == 0 ? 0 : INVALID_DEVICE;
}

int32_t cuCtxSetCurrent(void *context)
{
    current = context;
    return fault;
}

/* ---- memory ---- */

/* Where the block begins, or the first one behind the address. */
static size_t place_of(uint64_t address)
{
    size_t low = 0, high = num_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool find_block(const void *context, uint64_t address, uint64_t *begin,
                       uint64_t *end)
{
    (void)context;
    size_t at = place_of(address);
    if (at == num_blocks || blocks[at].begin > address)
        return false;
    *begin = blocks[at].begin;
    *end = blocks[at].end;
    return true;
}

static bool is_within(const void *from, size_t bytes)
{
    uint64_t begin, end, address = (uint64_t)(uintptr_t)from;
    return find_block(NULL, address, &begin, &end) && end - address >= bytes;
}

static int32_t take(void **out, size_t bytes, bool is_host)
{
    if (bytes == 0)
        return INVALID_VALUE;
    if (num_blocks == block_room) {
        block_room = 2 * block_room + 64;
        blocks = realloc(blocks, block_room * sizeof *blocks);
    }
    if (blocks == NULL || posix_memalign(out, 256, bytes) != 0)
        return OUT_OF_MEMORY;
    memset(*out, 0xff, bytes);
    uint64_t begin = (uint64_t)(uintptr_t)*out;
    size_t at = place_of(begin);
    memmove(&blocks[at + 1], &blocks[at], (num_blocks - at) * sizeof *blocks);
    blocks[at] = (struct block){begin, begin + bytes, is_host};
    num_blocks++;
    return 0;
}

static int32_t give(void *block, bool is_host)
{
    uint64_t begin = (uint64_t)(uintptr_t)block;
    size_t at = place_of(begin);
    if (at == num_blocks || blocks[at].begin != begin ||
        blocks[at].is_host != is_host)
        return INVALID_VALUE;
    num_blocks--;
    memmove(&blocks[at], &blocks[at + 1], (num_blocks - at) * sizeof *blocks);
    free(block);
    return 0;
}

int32_t cuMemAlloc_v2(void **out, size_t bytes)
{
    ENTER;
    return take(out, bytes, false);
}

int32_t cuMemHostAlloc(void **out, size_t bytes, uint32_t flags)
{
    ENTER;
    return flags == PEN__CUDA_HOST_FLAGS ? take(out, bytes, true)
                                         : INVALID_VALUE;
}

/* They give memory back after a fault, too, so that leaks are ours alone. */
int32_t cuMemFree_v2(void *block)
{
    return give(block, false);
}

int32_t cuMemFreeHost(void *block)
{
    return give(block, true);
}

/* ---- kernels ---- */

int32_t cuModuleLoadDataEx(void **out, const void *text, uint32_t count,
                           const int32_t *keys, void *const *values)
{
    char reason[PTX_FAULT];
    ENTER;
    *out = ptx_read(text, reason);
    if (*out != NULL)
        return 0;
    if (count == 2 && keys[0] == PEN__CUDA_LOG)
        snprintf(values[0], (size_t)(uintptr_t)values[1], "%s", reason);
    return INVALID_PTX;
}

int32_t cuModuleUnload(void *module)
{
    ptx_free(module);
    return 0;
}

int32_t cuModuleGetFunction(void **out, void *module, const char *name)
{
    ENTER;
    *out = (void *)(uintptr_t)ptx_find(module, name);
    return *out != NULL ? 0 : NOT_FOUND;
}

/* ---- streams ---- */

static void run(const struct command *command)
{
    const struct ptx_memory memory = {.find = find_block};
    char reason[PTX_FAULT];
    if (command->kernel == NULL && command->from == NULL) {
        memset(command->to, command->value, command->bytes);
    } else if (command->kernel == NULL) {
        memcpy(command->to, command->from, command->bytes);
    } else if (!ptx_run(command->kernel, command->groups, command->parameters,
                        &memory, reason)) {
        fprintf(stderr, "libcuda of tests: %s\n", reason);
        fault = ILLEGAL_ADDRESS;
    }
}

static int32_t run_to(uint64_t command)
{
    size_t count = 0;
    while (num_done < command && fault == 0) {
        run(&queue[count++]);
        num_done++;
    }
    num_queued -= count;
    if (count > 0)
        memmove(queue, queue + count, num_queued * sizeof *queue);
    return fault;
}

static int32_t put(const struct command *command)
{
    if (num_queued == queue_room) {
        queue_room = 2 * queue_room + 256;
        queue = realloc(queue, queue_room * sizeof *queue);
        if (queue == NULL)
            return OUT_OF_MEMORY;
    }
    queue[num_queued++] = *command;
    return 0;
}

int32_t cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream)
{
    ENTER;
    if (stream != &the_one || !is_within(from, bytes) || !is_within(to, bytes))
        return INVALID_VALUE;
    return put(&(struct command){.from = from, .to = to, .bytes = bytes});
}

int32_t cuMemsetD8Async(void *at, unsigned char value, size_t bytes,
                        void *stream)
{
    ENTER;
    if (stream != &the_one || !is_within(at, bytes))
        return INVALID_VALUE;
    return put(&(struct command){.to = at, .value = value, .bytes = bytes});
}

int32_t cuLaunchKernel(void *function, uint32_t groups_x, uint32_t groups_y,
                       uint32_t groups_z, uint32_t lanes_x, uint32_t lanes_y,
                       uint32_t lanes_z, uint32_t local_bytes, void *stream,
                       const void **arguments, void **extra)
{
    struct command command = {.kernel = function, .groups = groups_x};
    const struct ptx_kernel *kernel = function;
    ENTER;
    if (stream != &the_one || groups_x == 0 || groups_y != 1 || groups_z != 1 ||
        lanes_x != PTX_LANES || lanes_y != 1 || lanes_z != 1 ||
        local_bytes != 0 || extra != NULL ||
        kernel->parameter_bytes > sizeof command.parameters)
        return INVALID_VALUE;
    for (int i = 0; i < kernel->num_parameters; i++)
        memcpy(command.parameters + kernel->parameters[i].at, arguments[i],
               kernel->parameters[i].bytes);
    return put(&command);
}

int32_t cuStreamCreate(void **out, uint32_t flags)
{
    ENTER;
    *out = &the_one;
    return flags == PEN__CUDA_STREAM_FLAGS ? 0 : INVALID_VALUE;
}

int32_t cuStreamDestroy_v2(void *stream)
{
    return stream == &the_one ? 0 : INVALID_VALUE;
}

int32_t cuStreamSynchronize(void *stream)
{
    ENTER;
    return stream == &the_one ? run_to(num_done + num_queued) : INVALID_VALUE;
}

int32_t cuEventCreate(void **out, uint32_t flags)
{
    ENTER;
    *out = calloc(1, sizeof(struct event));
    if (*out == NULL)
        return OUT_OF_MEMORY;
    return flags == PEN__CUDA_EVENT_FLAGS ? 0 : INVALID_VALUE;
}

int32_t cuEventDestroy_v2(void *event)
{
    free(event);
    return 0;
}

int32_t cuEventRecord(void *event, void *stream)
{
    ENTER;
    *(struct event *)event = (struct event){.behind = num_done + num_queued};
    return stream == &the_one ? 0 : INVALID_VALUE;
}

int32_t cuEventQuery(void *event)
{
    struct event *it = event;
    ENTER;
    if (!it->was_asked) {
        it->was_asked = true;
        return PEN__CUDA_NOT_READY;
    }
    return run_to(it->behind);
}
