/*
 * Files of tokens are larger than memory, so they are mapped. Only regular
 * files are: a pipe has no size, and a device no end.
 */
#include "data/map.h"

#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A process may have 1024 as a rule; others want some, too. */
enum { HANDLES_MAX = 256 };

pen_status pen__map_init(struct pen__map *out, const char *path,
                         struct pen_text *why)
{
    struct pen__map map = {.bytes = NULL};
    uint64_t length;
    pen_status status = pen_file_open(path, &map.handle, &length, why);
    if (status != PEN_OK)
        return status;
    if (length > 0) {
        void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, map.handle, 0);
        if (bytes == MAP_FAILED) {
            pen_why(why, "cannot map %s: %s", path, strerror(errno));
            status = PEN_IO;
        } else {
            map.bytes = bytes;
            map.length = length;
        }
    }
    map.has_handle = map.bytes != NULL && map.handle < HANDLES_MAX;
    if (!map.has_handle)
        close(map.handle);
    if (status == PEN_OK)
        *out = map;
    return status;
}

void pen__map_release(struct pen__map *map)
{
    if (map->bytes != NULL)
        munmap((void *)(uintptr_t)map->bytes, map->length);
    if (map->has_handle)
        close(map->handle);
    *map = (struct pen__map){.bytes = NULL};
}

void pen__map_forget(const struct pen__map *map)
{
    if (map->bytes != NULL)
        (void)madvise((void *)(uintptr_t)map->bytes, map->length,
                      MADV_DONTNEED);
}

void pen__map_copy(const struct pen__map *map, size_t begin, size_t length,
                   uint8_t *out)
{
    if (!map->has_handle ||
        pread(map->handle, out, length, (off_t)begin) != (ssize_t)length)
        memcpy(out, map->bytes + begin, length);
}

uint32_t pen__load_u16(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

uint32_t pen__load_u32(const uint8_t *bytes)
{
    return pen__load_u16(bytes) | pen__load_u16(bytes + 2) << 16;
}

uint64_t pen__load_u64(const uint8_t *bytes)
{
    return pen__load_u32(bytes) | (uint64_t)pen__load_u32(bytes + 4) << 32;
}
