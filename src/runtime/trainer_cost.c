/* The cost of a step in bytes that are resident when it ends. */
#include "base/hash.h"
#include "runtime/replicas.h"
#include "runtime/trainer_internal.h"

#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A line of /proc/self/status, such as "VmHWM:    1234 kB"; 0 without it. Read
 * without stdio, for it is asked between steps. (getrusage() has the peak, too,
 * but that of the program that started us if it was larger.)
 */
static size_t status_bytes(const char *name)
{
    char text[4096];
    int handle = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (handle < 0)
        return 0;
    ssize_t length = read(handle, text, sizeof text - 1);
    close(handle);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *line = strstr(text, name);
    if (line == NULL)
        return 0;
    return (size_t)strtoull(line + strlen(name), NULL, 10) * 1024;
}

size_t pen_memory_peak(void)
{
    return status_bytes("\nVmHWM:");
}

size_t pen_memory_resident(void)
{
    return status_bytes("\nVmRSS:");
}

/*
 * The first use of the checkpoints' hash loads code of unknown size. A failure
 * is reported where it matters.
 */
static void use_hash(void)
{
    char hash[PEN_HASH_SIZE];
    (void)pen_hash_bytes("", 0, hash, NULL);
}

/* Memory that loading needed goes back to the system: steps may not need it. */
static void give_back(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

bool pen_memory_forget_peak(void)
{
    int handle = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (handle < 0)
        return false;
    bool is_done = write(handle, "5", 1) == 1;
    close(handle);
    return is_done;
}

size_t pen_memory_settled(void)
{
    give_back();
    return pen_memory_resident();
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void add_stage(const struct pen_stage *stage,
                      struct pen_trainer_memory *memory)
{
    if (stage->network == NULL)
        return;
    memory->activations += pen_network_scratch_bytes(stage->network);
    memory->logits += stage->sizes.logits * stage->stashes.count;
}

/*
 * All memory that stays is resident already, except that of islands; the part
 * that has no other use is the program with its libraries. Packed operands of a
 * step and a tensor of a checkpoint are not in memory at the same time.
 */
void pen_trainer_predict_memory(const struct pen_trainer *trainer, size_t kept,
                                size_t passing, struct pen_trainer_memory *out)
{
    const struct pen_engine *engine = trainer->engine;
    struct pen_trainer_memory memory = {
        .parameters = engine->ops->memory_bytes(engine),
        .activations = trainer->executor == NULL
                           ? 0
                           : pen_executor_bytes(trainer->executor),
        .passing = engine->ops->passing_bytes(engine)};
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        const struct pen_stage *stage =
            pen_executor_stage(trainer->executor, s);
        add_stage(stage, &memory);
        if (stage->network != NULL)
            memory.parameters += pen_network_dealt_bytes(stage->network);
        if (trainer->versions != NULL)
            memory.parameters += pen_versions_bytes(trainer->versions[s]);
    }
    if (trainer->ahead.saved != NULL)
        memory.parameters += pen_saved_state_bytes(trainer->ahead.saved);
    if (trainer->ahead.sum != NULL)
        memory.parameters += pen_sum_bytes(trainer->ahead.sum);
    if (trainer->exchange != NULL)
        memory.exchange = pen_exchange_bytes(trainer->exchange);
    size_t coming = 0;
    if (trainer->replicas != NULL) {
        memory.exchange += pen_replicas_bytes(trainer->replicas);
        coming = pen_replicas_coming_bytes(trainer->replicas);
    }
    memory.snapshot = kept;
    if (passing > 0) {
        memory.passing = larger(memory.passing, passing);
        use_hash();
    }
    size_t resident = pen_memory_settled();
    size_t known =
        memory.parameters + memory.activations + memory.exchange + kept;
    memory.program = resident + coming > known ? resident + coming - known : 0;
    memory.loading = pen_memory_peak();
    memory.total = known + memory.program + memory.passing;
    if (!pen_memory_forget_peak())
        memory.total = larger(memory.total, memory.loading);
    *out = memory;
}
