/*
 * Which steps of a run are removed once a new one is durable: all but the
 * newest `count` that were verified, byte by byte, each once.
 */
#include "checkpoint/internal.h"

#include <stdlib.h>
#include <string.h>

void pen_checkpoint_keep_release(struct pen_checkpoint_keep *keep)
{
    free(keep->verified);
    keep->verified = NULL;
    keep->num_verified = 0;
}

static uint64_t *find_verified(const struct pen_checkpoint_keep *keep,
                               uint64_t step)
{
    for (size_t i = 0; i < keep->num_verified; i++)
        if (keep->verified[i] == step)
            return &keep->verified[i];
    return NULL;
}

static void forget(struct pen_checkpoint_keep *keep, uint64_t step)
{
    uint64_t *found = find_verified(keep, step);
    if (found != NULL)
        *found = keep->verified[--keep->num_verified];
}

/* Notes that a step is whole. Without memory it is verified again next time. */
static void note_verified(struct pen_checkpoint_keep *keep, uint64_t step)
{
    uint64_t *more =
        realloc(keep->verified, (keep->num_verified + 1) * sizeof *more);
    if (more == NULL)
        return;
    keep->verified = more;
    more[keep->num_verified++] = step;
}

static bool is_verified(struct pen_checkpoint_keep *keep,
                        const struct pen_checkpoint_entry *entry)
{
    if (find_verified(keep, entry->step) != NULL)
        return true;
    if (pen_checkpoint_verify(pen_text_string(&entry->path), NULL, NULL) !=
        PEN_OK)
        return false;
    note_verified(keep, entry->step);
    return true;
}

static void remove_before(const struct pen_checkpoint_writer *writer,
                          struct pen_checkpoint_keep *keep,
                          const struct pen_checkpoint_list *list)
{
    const struct pen_manifest *manifest = &writer->manifest;
    uint32_t kept = 0;
    for (size_t i = list->count; i-- > 0;) {
        const struct pen_checkpoint_entry *entry = &list->entries[i];
        bool is_own = entry->is_whole && entry->step <= manifest->step &&
                      strcmp(entry->run, manifest->run) == 0;
        if (!is_own)
            continue;
        if (kept < keep->count) {
            bool is_right = is_verified(keep, entry);
            if (!is_right && entry->step == manifest->step)
                return;
            kept += is_right;
        } else if (!keep->has_loaded || entry->step != keep->loaded) {
            forget(keep, entry->step);
            pen__step_remove(pen_text_string(&writer->run), writer->run_handle,
                             entry->step);
        }
    }
}

void pen__checkpoint_remove_old(const struct pen_checkpoint_writer *writer,
                                struct pen_checkpoint_keep *keep)
{
    struct pen_checkpoint_list list;
    if (pen_checkpoint_list_load(pen_text_string(&writer->run), &list, NULL) !=
        PEN_OK)
        return;
    forget(keep, writer->manifest.step); /* it was written anew */
    remove_before(writer, keep, &list);
    pen_checkpoint_list_release(&list);
}
