/*
 * Files of tokens are larger than memory, so they are mapped. Only regular
 * files are: a pipe has no size, and a device no end.
 */
#include "data/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A process may have 1024 as a rule; others want some, too. */
enum { HANDLES_MAX = 256 };

static pen_status map_descriptor(int descriptor, const char *path,
                                 struct pen__map *out, struct pen_text *why)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) {
        pen_why(why, "cannot read %s: %s", path, strerror(errno));
        return PEN_IO;
    }
    if (!S_ISREG(about.st_mode)) {
        pen_why(why, "%s is not a regular file", path);
        return PEN_INVALID;
    }
    size_t length = (size_t)about.st_size;
    if (length == 0) {
        *out = (struct pen__map){.bytes = NULL};
        return PEN_OK;
    }
    void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED) {
        pen_why(why, "cannot map %s: %s", path, strerror(errno));
        return PEN_IO;
    }
    *out = (struct pen__map){.bytes = bytes, .length = length};
    return PEN_OK;
}

pen_status pen__map_init(struct pen__map *out, const char *path,
                         struct pen_text *why)
{
    /* O_NONBLOCK: a named pipe must be refused, not waited for. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        pen_why(why, "cannot open %s: %s", path, strerror(errno));
        return PEN_IO;
    }
    pen_status status = map_descriptor(descriptor, path, out, why);
    if (status == PEN_OK && out->bytes != NULL && descriptor < HANDLES_MAX) {
        out->handle = descriptor;
        out->has_handle = true;
    } else {
        close(descriptor);
    }
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
