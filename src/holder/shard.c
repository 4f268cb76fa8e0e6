#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): memfd_create */
#include "holder/shard.h"

#include "base/bug.h"
#include "base/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 4096u
#define MAGIC UINT64_C(0x6472616853506e50)
#define WHOLE UINT64_C(0x656c6f6857206e50) /* mixed with the step */
#define MAX_SLOT_BYTES (UINT64_C(1) << 46)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

struct slot {
    _Atomic uint64_t whole; /* WHOLE ^ step; anything else: not whole */
    uint64_t step;
    uint32_t check; /* of the checks of all blocks */
    uint32_t reserved;
};

struct header {
    uint64_t magic;
    struct pen_shard_about about;
    struct slot slots[PEN_SHARD_SLOTS];
};

_Static_assert(sizeof(struct header) <= HEADER_BYTES, "a page");

static struct header *header_of(const struct pen_shard *shard)
{
    return (struct header *)(void *)shard->bytes;
}

static uint64_t room_of(uint64_t slot_bytes)
{
    return (slot_bytes + HEADER_BYTES - 1) / HEADER_BYTES * HEADER_BYTES;
}

size_t pen_shard_bytes(uint64_t slot_bytes)
{
    return HEADER_BYTES + PEN_SHARD_SLOTS * (size_t)room_of(slot_bytes);
}

/* ---- making and opening ---- */

static pen_status refuse(const char *doing, struct pen_text *why)
{
    int reason = errno;
    pen_why(why, "%s: %s", doing, strerror(reason));
    return reason == ENOMEM ? PEN_NOMEM : PEN_IO;
}

/* Seals the memory: the mapping that exists may write, no other one. */
static pen_status seal(int descriptor, struct pen_text *why)
{
    /* Kernels before 5.1 do not know the last one: readers are ours. */
    if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0 &&
        errno != EINVAL)
        return refuse("cannot seal the memory of committed steps", why);
    if (fcntl(descriptor, F_ADD_SEALS, SEALS) != 0)
        return refuse("cannot seal the memory of committed steps", why);
    return PEN_OK;
}

/*
 * Maps the memory; `populated` bytes of it have their pages; 0: it is only
 * read.
 */
static pen_status map(struct pen_shard *shard, size_t populated,
                      struct pen_text *why)
{
    int protection = populated > 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    void *bytes = mmap(NULL, shard->num_bytes, protection,
                       populated == shard->num_bytes ? MAP_SHARED | MAP_POPULATE
                                                     : MAP_SHARED,
                       shard->descriptor, 0);
    if (bytes == MAP_FAILED)
        return refuse("cannot map the memory of committed steps", why);
    shard->bytes = bytes;
    return PEN_OK;
}

/* Makes the memory, of which only the first `reserved` bytes may be written. */
static pen_status make(struct pen_shard *shard, size_t reserved,
                       struct pen_text *why)
{
    shard->descriptor =
        memfd_create("penstock-shard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (shard->descriptor < 0 ||
        ftruncate(shard->descriptor, (off_t)shard->num_bytes) != 0)
        return refuse("cannot make memory for committed steps", why);
    /* Reserves: a full tmpfs is an error here and not SIGBUS in a step. */
    int reason = posix_fallocate(shard->descriptor, 0, (off_t)reserved);
    if (reason != 0) {
        pen_why(why, "no memory for committed steps: %zu bytes: %s", reserved,
                strerror(reason));
        return PEN_NOMEM;
    }
    pen_status status = map(shard, reserved, why);
    return status == PEN_OK ? seal(shard->descriptor, why) : status;
}

static pen_status create(const struct pen_shard_about *about,
                         uint32_t num_slots, struct pen_shard *out,
                         struct pen_text *why)
{
    PEN_BUG_UNLESS(about->slot_bytes <= MAX_SLOT_BYTES);
    struct pen_shard shard = PEN_SHARD_NONE;
    shard.num_bytes = pen_shard_bytes(about->slot_bytes);
    pen_status status = make(
        &shard, HEADER_BYTES + num_slots * (size_t)room_of(about->slot_bytes),
        why);
    if (status != PEN_OK) {
        pen_shard_close(&shard);
        return status;
    }
    header_of(&shard)->about = *about;
    header_of(&shard)->magic = MAGIC;
    *out = shard;
    return PEN_OK;
}

pen_status pen_shard_create(const struct pen_shard_about *about,
                            struct pen_shard *out, struct pen_text *why)
{
    return create(about, PEN_SHARD_SLOTS, out, why);
}

pen_status pen_shard_create_for_one(const struct pen_shard_about *about,
                                    struct pen_shard *out, struct pen_text *why)
{
    return create(about, 1, out, why);
}

static bool is_header(const struct header *header, uint64_t num_bytes)
{
    const struct pen_shard_about *about = &header->about;
    return header->magic == MAGIC && about->slot_bytes <= MAX_SLOT_BYTES &&
           pen_shard_bytes(about->slot_bytes) == num_bytes &&
           about->num_ranks <= PEN_HOLDER_MAX_RANKS &&
           about->rank < about->num_ranks &&
           memchr(about->run, '\0', sizeof about->run) != NULL;
}

/*
 * Returns whether the memory is sealed; without seals it could get shorter
 * under the reader.
 */
static bool is_sealed(int descriptor)
{
    int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & SEALS) == SEALS;
}

pen_status pen_shard_open(int descriptor, struct pen_shard *out,
                          struct pen_text *why)
{
    struct stat info;
    struct pen_shard shard = {.descriptor = descriptor};
    if (fstat(descriptor, &info) != 0 || !is_sealed(descriptor) ||
        info.st_size < (off_t)HEADER_BYTES ||
        (uint64_t)info.st_size >
            PEN_SHARD_SLOTS * MAX_SLOT_BYTES + HEADER_BYTES) {
        pen_why(why, "the descriptor is not sealed memory of committed steps");
        return PEN_INVALID;
    }
    shard.num_bytes = (size_t)info.st_size;
    pen_status status = map(&shard, 0, why);
    if (status != PEN_OK)
        return status;
    if (!is_header(header_of(&shard), shard.num_bytes)) {
        munmap(shard.bytes, shard.num_bytes);
        pen_why(why, "the memory of committed steps has a wrong header");
        return PEN_INVALID;
    }
    *out = shard;
    return PEN_OK;
}

void pen_shard_close(struct pen_shard *shard)
{
    if (shard->bytes != NULL)
        munmap(shard->bytes, shard->num_bytes);
    if (shard->descriptor >= 0)
        close(shard->descriptor);
    *shard = PEN_SHARD_NONE;
}

void pen_shard_describe(const struct pen_shard *shard,
                        struct pen_shard_about *out)
{
    *out = header_of(shard)->about;
}

/* ---- slots ---- */

void *pen_shard_slot(const struct pen_shard *shard, uint32_t slot)
{
    uint64_t room = room_of(header_of(shard)->about.slot_bytes);
    PEN_BUG_UNLESS(slot < PEN_SHARD_SLOTS);
    PEN_BUG_UNLESS(HEADER_BYTES + (slot + 1) * room <= shard->num_bytes);
    return shard->bytes + HEADER_BYTES + slot * room;
}

uint64_t pen_shard_step(const struct pen_shard *shard, uint32_t slot)
{
    PEN_BUG_UNLESS(slot < PEN_SHARD_SLOTS);
    struct slot *it = &header_of(shard)->slots[slot];
    uint64_t whole = atomic_load_explicit(&it->whole, memory_order_acquire);
    return whole == (WHOLE ^ it->step) ? it->step : 0;
}

bool pen_shard_find(const struct pen_shard *shard, uint64_t step,
                    uint32_t *slot)
{
    for (uint32_t i = 0; step != 0 && i < PEN_SHARD_SLOTS; i++)
        if (pen_shard_step(shard, i) == step) {
            *slot = i;
            return true;
        }
    return false;
}

uint32_t pen_shard_begin(struct pen_shard *shard)
{
    uint32_t slot = pen_shard_step(shard, 0) > pen_shard_step(shard, 1);
    atomic_store(&header_of(shard)->slots[slot].whole, 0);
    atomic_thread_fence(memory_order_seq_cst);
    return slot;
}

void pen_shard_commit_copy(struct pen_shard *shard, uint32_t slot,
                           uint64_t step, uint32_t check)
{
    struct slot *it = &header_of(shard)->slots[slot];
    PEN_BUG_UNLESS(slot < PEN_SHARD_SLOTS && step > 0);
    it->step = step;
    it->check = check;
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store(&it->whole, WHOLE ^ step);
}

void pen_shard_commit(struct pen_shard *shard, uint32_t slot, uint64_t step,
                      const uint32_t *checks)
{
    size_t num_blocks =
        pen_shard_num_blocks(header_of(shard)->about.slot_bytes);
    pen_shard_commit_copy(shard, slot, step,
                          pen_crc32c(checks, num_blocks * sizeof *checks));
}

uint32_t pen_shard_check(const struct pen_shard *shard, uint32_t slot)
{
    PEN_BUG_UNLESS(slot < PEN_SHARD_SLOTS);
    return header_of(shard)->slots[slot].check;
}

size_t pen_shard_num_blocks(uint64_t slot_bytes)
{
    return (size_t)((slot_bytes + PEN_SHARD_BLOCK_BYTES - 1) /
                    PEN_SHARD_BLOCK_BYTES);
}

uint32_t pen_shard_check_block(const void *slot, uint64_t slot_bytes,
                               size_t block)
{
    uint64_t first = (uint64_t)block * PEN_SHARD_BLOCK_BYTES;
    uint64_t left = slot_bytes - first;
    PEN_BUG_UNLESS(first < slot_bytes);
    return pen_crc32c((const char *)slot + first, left < PEN_SHARD_BLOCK_BYTES
                                                      ? (size_t)left
                                                      : PEN_SHARD_BLOCK_BYTES);
}

bool pen_shard_verify(const struct pen_shard *shard, uint32_t slot)
{
    uint64_t slot_bytes = header_of(shard)->about.slot_bytes;
    size_t num_blocks = pen_shard_num_blocks(slot_bytes);
    const void *bytes = pen_shard_slot(shard, slot);
    uint32_t *checks = malloc((num_blocks + 1) * sizeof *checks);
    if (checks == NULL || pen_shard_step(shard, slot) == 0) {
        free(checks);
        return false;
    }
    for (size_t i = 0; i < num_blocks; i++)
        checks[i] = pen_shard_check_block(bytes, slot_bytes, i);
    uint32_t check = pen_crc32c(checks, num_blocks * sizeof *checks);
    free(checks);
    return check == header_of(shard)->slots[slot].check;
}
