/*
 * Directories of checkpoints: names, hashes of files, removal.
 */
#include "core/checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES (1u << 20)

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

static int open_folder(const char *path, int flags, struct pen_text *why)
{
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (handle < 0)
        pen_why(why, "cannot open %s: %s", path, strerror(errno));
    return handle;
}

pen_status pen__names_list(const char *path, struct pen__names *out,
                           struct pen_text *why)
{
    int handle = open_folder(path, 0, why);
    if (handle < 0)
        return PEN_IO;
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

static int compare_steps(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

pen_status pen__steps_list(const char *run, struct pen__steps *out,
                           struct pen_text *why)
{
    struct pen__names names;
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

/* A regular file that is not a link; -1 and the reason otherwise. */
static int open_regular(const char *path, struct stat *about,
                        struct pen_text *why)
{
    /* Without O_NONBLOCK a pipe would keep us waiting. */
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (handle < 0 || fstat(handle, about) != 0) {
        pen_why(why, "cannot open %s: %s", path,
                errno == ELOOP ? "a link, not a file" : strerror(errno));
        if (handle >= 0)
            close(handle);
        return -1;
    }
    if (!S_ISREG(about->st_mode)) {
        pen_why(why, "%s is not a regular file", path);
        close(handle);
        return -1;
    }
    return handle;
}

static pen_status hash_handle(int handle, const char *path,
                              const struct pen_checkpoint_watch *watch,
                              uint64_t *done, uint64_t total,
                              struct pen__file_facts *out, struct pen_text *why)
{
    unsigned char *block = malloc(BLOCK_BYTES);
    if (block == NULL) {
        pen_why(why, "no memory to read %s", path);
        return PEN_NOMEM;
    }
    struct pen_hash hash;
    ssize_t got = 0;
    pen_hash_init(&hash);
    while ((got = read(handle, block, BLOCK_BYTES)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        pen_hash_add(&hash, block, (size_t)got);
        out->num_bytes += (uint64_t)got;
        *done += (uint64_t)got;
        if (watch != NULL)
            watch->report(watch->context, *done, total);
    }
    int error = errno;
    free(block);
    pen_status status = pen_hash_finish(&hash, out->hash, why);
    if (got < 0) {
        pen_why(why, "cannot read %s: %s", path, strerror(error));
        status = PEN_IO;
    }
    return status;
}

pen_status pen__file_hash(const char *path,
                          const struct pen_checkpoint_watch *watch,
                          uint64_t *done, uint64_t total,
                          struct pen__file_facts *out, struct pen_text *why)
{
    struct stat about;
    struct pen__file_facts facts = {.num_bytes = 0};
    int handle = open_regular(path, &about, why);
    if (handle < 0)
        return PEN_IO;
    pen_status status =
        hash_handle(handle, path, watch, done, total, &facts, why);
    close(handle);
    if (status == PEN_OK)
        *out = facts;
    return status;
}

static pen_status refuse_removal(const char *path, struct pen_text *why)
{
    pen_why(why, "cannot remove %s: %s", path, strerror(errno));
    return PEN_IO;
}

/* Files only: a directory inside stays, and so does the one around it. */
pen_status pen__folder_remove(const char *path, struct pen_text *why)
{
    struct pen__names names;
    int handle = open_folder(path, O_NOFOLLOW, why);
    if (handle < 0)
        return PEN_IO;
    pen_status status = list_handle(dup(handle), path, &names, why);
    if (status != PEN_OK) {
        close(handle);
        return status;
    }
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < names.count; i++)
        failed = unlinkat(handle, names.names[i], 0);
    close(handle);
    pen__names_release(&names);
    if (failed != 0 || rmdir(path) != 0)
        return refuse_removal(path, why);
    return PEN_OK;
}

pen_status pen__step_remove(const char *run, uint64_t step,
                            struct pen_text *why)
{
    char name[PEN__STEP_NAME_SIZE];
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text aside = PEN_TEXT_EMPTY;
    pen__step_name(step, name);
    pen__step_path(run, step, &path);
    pen_text_add(&aside, "%s/" PEN__TEMPORARY "removed-%s", run, name);
    pen_status status = PEN_OK;
    if (rename(pen_text_string(&path), pen_text_string(&aside)) != 0)
        status = refuse_removal(pen_text_string(&path), why);
    else
        status = pen__folder_remove(pen_text_string(&aside), why);
    pen_text_release(&path);
    pen_text_release(&aside);
    return status;
}

pen_status pen__leftovers_remove(const char *run, struct pen_text *why)
{
    struct pen__names names;
    pen_status status = pen__names_list(run, &names, why);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; status == PEN_OK && i < names.count; i++) {
        struct pen_text path = PEN_TEXT_EMPTY;
        const char *name = names.names[i];
        pen_text_add(&path, "%s/%s", run, name);
        if (strncmp(name, PEN__TEMPORARY, strlen(PEN__TEMPORARY)) == 0)
            status = pen__folder_remove(pen_text_string(&path), why);
        pen_text_release(&path);
    }
    pen__names_release(&names);
    return status;
}
