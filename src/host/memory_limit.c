#include "host/memory_limit.h"

#include "base/crc32c.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TEXT_SIZE = 8192, PATH_SIZE = 1024 };

/* Reads a small file; false when there is none. */
static bool read_text(const char *root, const char *path, char text[TEXT_SIZE])
{
    char whole[PATH_SIZE];
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= PATH_SIZE)
        return false;
    int handle = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0)
        return false;
    ssize_t length = read(handle, text, TEXT_SIZE - 1);
    close(handle);
    if (length < 0)
        return false;
    text[length] = '\0';
    return true;
}

/*
 * Returns the number after a name at the start of a line; 0 when it is missing.
 */
static uint64_t number_after(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, name, length) == 0)
            return strtoull(line + length, NULL, 10);
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return 0;
}

static void take(struct pen_memory_limit *out, uint64_t limit, uint64_t used,
                 const char *source)
{
    uint64_t left = limit > used ? limit - used : 0;
    if (left >= out->free_bytes)
        return;
    out->free_bytes = left;
    out->limit_bytes = limit;
    snprintf(out->source, sizeof out->source, "%s", source);
}

/* ---- this process ---- */

static void read_process(const char *root, struct pen_memory_limit *out)
{
    char text[TEXT_SIZE] = "";
    struct rlimit limit;
    (void)read_text(root, "/proc/self/status", text);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        take(out, limit.rlim_cur, 1024 * number_after(text, "VmSize:"),
             "ulimit -v");
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        take(out, limit.rlim_cur, 1024 * number_after(text, "VmData:"),
             "ulimit -d");
}

/* ---- control groups ---- */

struct version {
    const char *controller; /* in /proc/self/cgroup: ":memory:" or "0::" */
    const char *mount;
    const char *limit;
    const char *used;
    const char *inactive; /* caches that the kernel can drop at any time, */
    const char *active;   /* in memory.stat */
};

static const struct version versions[] = {
    {":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
     "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
    {"0::", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ",
     "active_file "}};

enum { NUM_VERSIONS = sizeof versions / sizeof *versions };

/*
 * Finds the path of the group, as the kernel has it; false when there is none.
 */
static bool find_path(const char *root, const struct version *version,
                      char path[PATH_SIZE])
{
    char text[TEXT_SIZE];
    if (!read_text(root, "/proc/self/cgroup", text))
        return false;
    const char *at = strstr(text, version->controller);
    if (at == NULL)
        return false;
    at += strlen(version->controller);
    size_t length = strcspn(at, "\n");
    if (length >= PATH_SIZE)
        return false;
    memcpy(path, at, length);
    path[length] = '\0';
    return true;
}

static bool read_number(const char *root, const char *folder, const char *name,
                        uint64_t *out)
{
    char path[PATH_SIZE], text[TEXT_SIZE];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_SIZE ||
        !read_text(root, path, text) || text[0] < '0' || text[0] > '9')
        return false; /* version 2 writes "max" for none */
    *out = strtoull(text, NULL, 10);
    return true;
}

static void read_group(const char *root, const struct version *version,
                       const char *folder, struct pen_memory_limit *out)
{
    char path[PATH_SIZE], text[TEXT_SIZE] = "";
    uint64_t limit, used;
    if (!read_number(root, folder, version->limit, &limit) ||
        !read_number(root, folder, version->used, &used) ||
        limit >= UINT64_C(1) << 62) /* version 1 has no word for none */
        return;
    if (snprintf(path, sizeof path, "%s/memory.stat", folder) < PATH_SIZE)
        (void)read_text(root, path, text);
    uint64_t cached = number_after(text, version->inactive) +
                      number_after(text, version->active);
    if (snprintf(path, sizeof path, "%s/%s", folder, version->limit) <
        PATH_SIZE)
        take(out, limit, used > cached ? used - cached : 0, path);
}

/*
 * Reads the group and all above it, up to the mount; in a container some are
 * missing.
 */
static void read_groups(const char *root, struct pen_memory_limit *out)
{
    for (size_t i = 0; i < NUM_VERSIONS; i++) {
        char path[PATH_SIZE], folder[PATH_SIZE];
        if (!find_path(root, &versions[i], path))
            continue;
        for (;;) {
            char *slash = strrchr(path, '/');
            if (slash != NULL && slash[1] == '\0')
                *slash = '\0';
            if (snprintf(folder, sizeof folder, "%s%s", versions[i].mount,
                         path) < PATH_SIZE)
                read_group(root, &versions[i], folder, out);
            slash = strrchr(path, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
}

uint32_t pen_memory_group_key(const char *root)
{
    char text[TEXT_SIZE] = "";
    (void)read_text(root, "/proc/self/cgroup", text);
    return pen_crc32c(text, strlen(text));
}

/* ---- all ---- */

void pen_memory_limits_read(const char *root,
                            struct pen_memory_limit out[PEN_MEMORY_SCOPES])
{
    char text[TEXT_SIZE];
    for (int i = 0; i < PEN_MEMORY_SCOPES; i++)
        out[i] = (struct pen_memory_limit){UINT64_MAX, UINT64_MAX, ""};
    read_process(root, &out[PEN_MEMORY_PROCESS]);
    read_groups(root, &out[PEN_MEMORY_GROUP]);
    if (read_text(root, "/proc/meminfo", text) &&
        strstr(text, "MemAvailable:") != NULL) {
        uint64_t total = 1024 * number_after(text, "MemTotal:");
        uint64_t left = 1024 * number_after(text, "MemAvailable:");
        take(&out[PEN_MEMORY_MACHINE], total, total > left ? total - left : 0,
             "the machine (MemAvailable)");
    }
}
