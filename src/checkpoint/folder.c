/*
 * Directories of checkpoints: names, hashes of files, removal.
 */
#include "checkpoint/internal.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void pen__step_name(uint64_t step, char out[PEN__STEP_NAME_SIZE])
{
    snprintf(out, PEN__STEP_NAME_SIZE, "step-%08" PRIu64, step);
}

bool pen__step_parse(const char *name, uint64_t *out)
{
    char again[PEN__STEP_NAME_SIZE];
    if (strncmp(name, "step-", 5) != 0 || strlen(name) > 5 + 12)
        return false;
    uint64_t step = strtoull(name + 5, NULL, 10);
    pen__step_name(step, again);
    if (strcmp(again, name) != 0)
        return false;
    *out = step;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

static int append_name(struct pen__names *names, const char *name)
{
    char **more = realloc(names->names, (names->count + 1) * sizeof *more);
    if (more == NULL)
        return -1;
    names->names = more;
    names->names[names->count] = strdup(name);
    if (names->names[names->count] == NULL)
        return -1;
    names->count++;
    return 0;
}

/* Closes the handle. Names come in no order; "." and ".." do not. */
static pen_status list_handle(int handle, const char *path,
                              struct pen__names *out, struct pen_text *why)
{
    DIR *folder = fdopendir(handle);
    if (folder == NULL) {
        pen_why(why, "cannot read %s: %s", path, strerror(errno));
        close(handle);
        return PEN_IO;
    }
    struct pen__names names = {.names = NULL};
    const struct dirent *entry;
    int failed = 0;
    while (failed == 0 && (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            failed = append_name(&names, name);
    }
    closedir(folder);
    if (failed != 0) {
        pen__names_release(&names);
        pen_why(why, "no memory for the names in %s", path);
        return PEN_NOMEM;
    }
    *out = names;
    return PEN_OK;
}

pen_status pen__names_list(const char *path, struct pen__names *out,
                           struct pen_text *why)
{
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) {
        return pen_file_refuse("open", path, why);
    }
    pen_status status = list_handle(handle, path, out, why);
    if (status == PEN_OK && out->count > 0)
        qsort(out->names, out->count, sizeof *out->names, compare_names);
    return status;
}

void pen__names_release(struct pen__names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct pen__names){.names = NULL};
}

void pen__step_path(const char *run, uint64_t step, struct pen_text *out)
{
    char name[PEN__STEP_NAME_SIZE];
    pen__step_name(step, name);
    pen_text_add(out, "%s/%s", run, name);
}

void pen__temporary_path(const char *run, uint64_t step, struct pen_text *out)
{
    char name[PEN__STEP_NAME_SIZE];
    pen__step_name(step, name);
    pen_text_add(out, "%s/" PEN__TEMPORARY "%s", run, name);
}

/* Syncs the folder around a folder: then the name of the latter is on disk. */
static int sync_parent(const char *path)
{
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int parent = handle < 0
                     ? -1
                     : openat(handle, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = parent < 0 ? -1 : fsync(parent);
    if (handle >= 0)
        close(handle);
    if (parent >= 0)
        close(parent);
    return failed;
}

pen_status pen__run_make(const char *run, struct pen_text *why)
{
    bool is_new = mkdir(run, 0700) == 0;
    if ((is_new && sync_parent(run) == 0) || (!is_new && errno == EEXIST))
        return PEN_OK;
    return pen_file_refuse("make", run, why);
}

static int compare_steps(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

pen_status pen__steps_list(const char *run, struct pen__steps *out,
                           struct pen_text *why)
{
    struct pen__names names = {0};
    struct pen__steps steps = {.count = 0};
    pen_status status = pen__names_list(run, &names, why);
    if (status != PEN_OK)
        return status;
    steps.steps = calloc(names.count + 1, sizeof *steps.steps);
    for (size_t i = 0; steps.steps != NULL && i < names.count; i++)
        steps.count +=
            pen__step_parse(names.names[i], &steps.steps[steps.count]);
    pen__names_release(&names);
    if (steps.steps == NULL) {
        pen_why(why, "no memory for the steps of %s", run);
        return PEN_NOMEM;
    }
    qsort(steps.steps, steps.count, sizeof *steps.steps, compare_steps);
    *out = steps;
    return PEN_OK;
}

void pen__reading_add(struct pen__reading *reading, uint64_t num_bytes)
{
    reading->done += num_bytes;
    if (reading->watch != NULL)
        reading->watch->report(reading->watch->context, reading->done,
                               reading->total);
}

/* Feeds the hash with the rest of the file, a small one at once. */
static pen_status read_all(int handle, const char *path, struct pen_hash *hash,
                           struct pen__reading *reading, uint64_t *num_bytes,
                           struct pen_text *why)
{
    struct stat about;
    size_t size = PEN_CHECKPOINT_BLOCK_BYTES;
    if (fstat(handle, &about) == 0 && (uint64_t)about.st_size < size)
        size = (size_t)about.st_size + 1;
    unsigned char *block = malloc(size);
    if (block == NULL) {
        pen_why(why, "no memory to read %s", path);
        return PEN_NOMEM;
    }
    pen_status status = PEN_OK;
    ssize_t got = 1;
    while (status == PEN_OK && got != 0) {
        got = read(handle, block, size);
        if (got > 0) {
            pen_hash_add(hash, block, (size_t)got);
            *num_bytes += (uint64_t)got;
            pen__reading_add(reading, (uint64_t)got);
        } else if (got < 0 && errno != EINTR) {
            pen_why(why, "cannot read %s: %s", path, strerror(errno));
            status = PEN_IO;
        }
    }
    free(block);
    return status;
}

pen_status pen__file_hash(const char *path, struct pen__reading *reading,
                          struct pen_file_facts *out, struct pen_text *why)
{
    struct pen_file_facts facts = {.num_bytes = 0};
    struct pen_hash hash;
    int handle;
    uint64_t size;
    if (pen_file_open_no_link(path, &handle, &size, why) != PEN_OK)
        return PEN_IO;
    pen_hash_init(&hash);
    pen_status status =
        read_all(handle, path, &hash, reading, &facts.num_bytes, why);
    close(handle);
    if (status == PEN_OK)
        status = pen_hash_finish(&hash, facts.hash, why);
    else
        pen_hash_release(&hash);
    if (status == PEN_OK)
        *out = facts;
    return status;
}

/* Removes an entry. A link is removed, never followed. */
static int remove_entry(int parent, const char *name)
{
    if (unlinkat(parent, name, 0) == 0)
        return 0;
    int handle =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0)
        return -1;
    struct pen__names names = {.names = NULL};
    int failed =
        list_handle(dup(handle), name, &names, NULL) == PEN_OK ? 0 : -1;
    for (size_t i = 0; failed == 0 && i < names.count; i++)
        failed = remove_entry(handle, names.names[i]);
    pen__names_release(&names);
    close(handle);
    return failed != 0 ? failed : unlinkat(parent, name, AT_REMOVEDIR);
}

void pen__tree_remove(const char *path)
{
    remove_entry(AT_FDCWD, path);
}

/* If syncs work, the rename is on disk before a byte is removed. */
void pen__step_remove(const char *run, int run_handle, uint64_t step)
{
    char name[PEN__STEP_NAME_SIZE];
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text aside = PEN_TEXT_EMPTY;
    pen__step_name(step, name);
    pen__step_path(run, step, &path);
    pen_text_add(&aside, "%s/" PEN__TEMPORARY "removed-%s", run, name);
    if (rename(pen_text_string(&path), pen_text_string(&aside)) == 0) {
        (void)fsync(run_handle);
        pen__tree_remove(pen_text_string(&aside));
    }
    pen_text_release(&path);
    pen_text_release(&aside);
}

void pen__leftovers_remove(const char *run)
{
    struct pen__names names = {0};
    if (pen__names_list(run, &names, NULL) != PEN_OK)
        return;
    for (size_t i = 0; i < names.count; i++) {
        struct pen_text path = PEN_TEXT_EMPTY;
        const char *name = names.names[i];
        pen_text_add(&path, "%s/%s", run, name);
        if (strncmp(name, PEN__TEMPORARY, strlen(PEN__TEMPORARY)) == 0)
            pen__tree_remove(pen_text_string(&path));
        pen_text_release(&path);
    }
    pen__names_release(&names);
}
