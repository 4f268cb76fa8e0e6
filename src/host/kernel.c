/*
 * Facts that Linux shows in files, each of which may be missing: a machine
 * without cpufreq has no governor, a plain process no quota.
 *
 * Limits of control groups come in two generations. In the second, one line
 * "0::/a/b" of /proc/self/cgroup names the group; in the first, one line
 * "4:memory:/a/b" per controller. A limit of /a holds for /a/b, too. Inside a
 * container the path may be the host's, of which only the root is visible.
 */
#include "host/kernel.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)64 << 20) /* cpuinfo of a thousand processors */

/* Returns false when the file does not exist. */
static bool read_text(const char *root, const char *path, struct pen_text *out)
{
    struct pen_text full = PEN_TEXT_EMPTY;
    pen_text_release(out);
    pen_text_add(&full, "%s%s", root, path);
    bool is_read =
        !full.has_failed &&
        pen_file_read(pen_text_string(&full), FILE_LIMIT, out, NULL) == PEN_OK;
    pen_text_release(&full);
    return is_read;
}

/* Returns the first number of a file such as memory.max; 0 when it has none. */
static double read_number(const char *folder, const char *file)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    double number = 0;
    if (read_text(folder, file, &text))
        number = strtod(pen_text_string(&text), NULL);
    pen_text_release(&text);
    return number;
}

static void limit_quota(struct pen_topology *out, double time, double period)
{
    if (time > 0 && period > 0 &&
        (out->cpu_quota == 0 || time / period < out->cpu_quota))
        out->cpu_quota = time / period;
}

/*
 * Sets a limit. The first generation writes "no limit" as a number that no
 * machine has.
 */
static void limit_memory(struct pen_topology *out, double bytes)
{
    if (bytes > 0 && bytes < 0x1p60 &&
        (out->memory_limit_bytes == 0 ||
         bytes < (double)out->memory_limit_bytes))
        out->memory_limit_bytes = (uint64_t)bytes;
}

static void read_second(const char *folder, struct pen_topology *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    double time = 0;
    double period = 0;
    if (read_text(folder, "/cpu.max", &text)) {
        char *end;
        time = strtod(pen_text_string(&text), &end); /* or the word max */
        period = strtod(end, NULL);
    }
    pen_text_release(&text);
    limit_quota(out, time, period);
    limit_memory(out, read_number(folder, "/memory.max"));
}

static void read_first_cpu(const char *folder, struct pen_topology *out)
{
    limit_quota(out, read_number(folder, "/cpu.cfs_quota_us"),
                read_number(folder, "/cpu.cfs_period_us"));
}

static void read_first_memory(const char *folder, struct pen_topology *out)
{
    limit_memory(out, read_number(folder, "/memory.limit_in_bytes"));
}

/* Where a generation's groups are mounted, and what is read in each folder. */
static const struct {
    const char *controller; /* as /proc/self/cgroup writes it */
    const char *mount;
    void (*read)(const char *folder, struct pen_topology *out);
} groups[] = {{"", "/sys/fs/cgroup", read_second},
              {"", "/sys/fs/cgroup/unified", read_second},
              {"cpu", "/sys/fs/cgroup/cpu", read_first_cpu},
              {"memory", "/sys/fs/cgroup/memory", read_first_memory}};

/* Returns whether a list such as "cpu,cpuacct" has the word. */
static bool has_word(const char *list, size_t length, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; at <= list + length;) {
        const char *comma = memchr(at, ',', (size_t)(list + length - at));
        const char *end = comma != NULL ? comma : list + length;
        if ((size_t)(end - at) == size && memcmp(at, word, size) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

/* Reads the group and all above it, up to the root of the mount. */
static void read_group(const char *root, size_t group, const char *path,
                       size_t length, struct pen_topology *out)
{
    struct pen_text folder = PEN_TEXT_EMPTY;
    for (;;) {
        while (length > 0 && path[length - 1] == '/')
            length--;
        pen_text_clear(&folder);
        pen_text_add(&folder, "%s%s%.*s", root, groups[group].mount,
                     (int)length, path);
        groups[group].read(pen_text_string(&folder), out);
        if (length == 0)
            break;
        while (length > 0 && path[length - 1] != '/')
            length--;
    }
    pen_text_release(&folder);
}

/* Reads one line of /proc/self/cgroup: "4:cpu,cpuacct:/a/b". */
static void read_membership(const char *root, const char *line, size_t length,
                            struct pen_topology *out)
{
    const char *end = line + length;
    const char *list = memchr(line, ':', length);
    const char *path =
        list == NULL ? NULL : memchr(list + 1, ':', (size_t)(end - list - 1));
    if (path == NULL)
        return;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (has_word(list + 1, (size_t)(path - list - 1), groups[i].controller))
            read_group(root, i, path + 1, (size_t)(end - path - 1), out);
}

static void read_groups(const char *root, struct pen_topology *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (read_text(root, "/proc/self/cgroup", &text)) {
        const char *line = pen_text_string(&text);
        while (*line != '\0') {
            size_t length = strcspn(line, "\n");
            read_membership(root, line, length, out);
            line += length + (line[length] == '\n');
        }
    }
    pen_text_release(&text);
}

/* Returns the rest of the line that begins with the key, after its colon. */
static const char *find_line(const char *text, const char *key)
{
    const char *line = text;
    while (line != NULL && strncmp(line, key, strlen(key)) != 0) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    const char *colon = line == NULL ? NULL : strchr(line, ':');
    return colon == NULL ? NULL : colon + 1;
}

static void read_memory(const char *root, struct pen_topology *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (read_text(root, "/proc/meminfo", &text)) {
        const char *free_kib =
            find_line(pen_text_string(&text), "MemAvailable");
        const char *all_kib = find_line(pen_text_string(&text), "MemTotal");
        if (free_kib != NULL)
            out->memory_free_bytes = strtoull(free_kib, NULL, 10) * 1024;
        if (all_kib != NULL)
            out->memory_bytes = strtoull(all_kib, NULL, 10) * 1024;
    }
    pen_text_release(&text);
}

/* Returns whether the line, up to its end, has the word between spaces. */
static bool has_flag(const char *line, const char *word)
{
    size_t size = strlen(word);
    while (*line != '\n' && *line != '\0') {
        line += strspn(line, " \t");
        size_t length = strcspn(line, " \t\n");
        if (length == size && memcmp(line, word, size) == 0)
            return true;
        line += length;
    }
    return false;
}

static void read_instructions(const char *root, struct pen_topology *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    const char *flags = NULL;
    if (read_text(root, "/proc/cpuinfo", &text))
        flags = find_line(pen_text_string(&text), "flags");
    if (flags != NULL) {
        out->has_avx2 = has_flag(flags, "avx2");
        out->has_avx512 =
            has_flag(flags, "avx512f") && has_flag(flags, "avx512bw");
        out->has_avx512_bf16 = has_flag(flags, "avx512_bf16");
        out->has_amx_bf16 = has_flag(flags, "amx_bf16");
    }
    pen_text_release(&text);
}

/* Reads the word in brackets of "always [madvise] never". */
static void read_huge_pages(const char *root, struct pen_topology *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (read_text(root, "/sys/kernel/mm/transparent_hugepage/enabled", &text))
        (void)sscanf(pen_text_string(&text), "%*[^[][%15[a-z]",
                     out->huge_pages);
    pen_text_release(&text);
}

static void read_governor(const char *root, struct pen_topology *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (read_text(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                  &text))
        (void)sscanf(pen_text_string(&text), "%23[a-z_]", out->governor);
    pen_text_release(&text);
}

void pen__kernel_read(const char *root, struct pen_topology *out)
{
    read_groups(root, out);
    read_memory(root, out);
    read_instructions(root, out);
    read_huge_pages(root, out);
    read_governor(root, out);
}
