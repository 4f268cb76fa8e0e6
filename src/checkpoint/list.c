/*
 * The steps of a run, told without reading their tensors.
 */
#include "checkpoint/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pen_status inspect(const char *path, struct pen_checkpoint_entry *entry)
{
    struct pen_manifest manifest;
    pen_status status =
        pen__checkpoint_read_manifest(path, &manifest, &entry->reason);
    if (status != PEN_OK)
        return status;
    entry->num_bytes = pen_manifest_total_bytes(&manifest);
    memcpy(entry->manifest_hash, manifest.hash, PEN_HASH_SIZE);
    memcpy(entry->run, manifest.run, sizeof entry->run);
    status = pen__checkpoint_check_files(path, &manifest, &entry->reason);
    if (status == PEN_OK && manifest.step != entry->step) {
        pen_why(&entry->reason, "%s is step %" PRIu64 " by its manifest", path,
                manifest.step);
        status = PEN_INVALID;
    }
    pen_manifest_release(&manifest);
    return status;
}

static void fill_entry(const char *run, struct pen_checkpoint_entry *entry)
{
    struct stat about;
    struct pen_text manifest = PEN_TEXT_EMPTY;
    pen__step_path(run, entry->step, &entry->path);
    entry->is_whole = inspect(pen_text_string(&entry->path), entry) == PEN_OK;
    pen_text_add(&manifest, "%s/" PEN_MANIFEST_NAME,
                 pen_text_string(&entry->path));
    if (stat(pen_text_string(&manifest), &about) == 0)
        entry->written_sec = (int64_t)about.st_mtime;
    pen_text_release(&manifest);
}

pen_status pen_checkpoint_list_load(const char *run,
                                    struct pen_checkpoint_list *out,
                                    struct pen_text *why)
{
    struct pen__steps steps;
    pen_status status = pen__steps_list(run, &steps, why);
    if (status != PEN_OK)
        return status;
    struct pen_checkpoint_list list = {
        .entries = calloc(steps.count + 1, sizeof *list.entries),
        .count = steps.count};
    if (list.entries == NULL) {
        free(steps.steps);
        pen_why(why, "no memory for the steps of %s", run);
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < list.count; i++) {
        list.entries[i].step = steps.steps[i];
        fill_entry(run, &list.entries[i]);
    }
    free(steps.steps);
    *out = list;
    return PEN_OK;
}

/*
 * Returns whether it is the newest whole step of the run of
 * list->entries[index].
 */
static bool is_newest_of_run(const struct pen_checkpoint_list *list,
                             size_t index)
{
    for (size_t i = index + 1; i < list->count; i++)
        if (list->entries[i].is_whole &&
            strcmp(list->entries[i].run, list->entries[index].run) == 0)
            return false;
    return list->entries[index].is_whole;
}

pen_status pen__list_check_run(const struct pen_checkpoint_list *list,
                               const char *path, struct pen_text *why)
{
    enum { MOST_NAMED = 4 };
    struct pen_text runs = PEN_TEXT_EMPTY;
    const char *newest = "";
    size_t count = 0;
    for (size_t i = list->count; i-- > 0;) {
        const struct pen_checkpoint_entry *entry = &list->entries[i];
        if (!is_newest_of_run(list, i))
            continue;
        if (count++ == 0)
            newest = pen_text_string(&entry->path);
        if (count <= MOST_NAMED)
            pen_text_add(&runs, "%sid %s, newest step %" PRIu64,
                         count > 1 ? "; " : "", entry->run, entry->step);
    }
    if (count > 1)
        pen_why(why,
                "%s holds steps of %zu runs (%s%s): name the step to use, such "
                "as %s, or move the steps of all but one run elsewhere",
                path, count, pen_text_string(&runs),
                count > MOST_NAMED ? "; and others" : "", newest);
    pen_text_release(&runs);
    return count > 1 ? PEN_INVALID : PEN_OK;
}

static pen_status find_newest(const char *run, struct pen_text *out,
                              struct pen_text *why)
{
    struct pen_checkpoint_list list;
    pen_status status = pen_checkpoint_list_load(run, &list, why);
    if (status != PEN_OK)
        return status;
    for (size_t i = list.count; i-- > 0 && out->length == 0;)
        if (list.entries[i].is_whole)
            pen_text_add_string(out, pen_text_string(&list.entries[i].path));
    if (out->length == 0) {
        pen_why(why, "%s has no checkpoint that is whole", run);
        status = PEN_INVALID;
    }
    pen_checkpoint_list_release(&list);
    return status;
}

pen_status pen_checkpoint_load_manifest(const char *path,
                                        struct pen_manifest *out,
                                        struct pen_text *step,
                                        struct pen_text *why)
{
    struct pen_text found = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (pen_checkpoint_kind_of(path) == PEN_CHECKPOINT_RUN)
        status = find_newest(path, &found, why);
    else
        pen_text_add_string(&found, path);
    if (status == PEN_OK)
        status =
            pen__checkpoint_read_manifest(pen_text_string(&found), out, why);
    if (status == PEN_OK)
        *step = found;
    else
        pen_text_release(&found);
    return status;
}

void pen_checkpoint_list_release(struct pen_checkpoint_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        pen_text_release(&list->entries[i].path);
        pen_text_release(&list->entries[i].reason);
    }
    free(list->entries);
    *list = (struct pen_checkpoint_list){.entries = NULL};
}
