/*
 * The moments that an island begins a round with. There are two files of each
 * rank, which take turns, so that those of a round stay until the next but one
 * is given: a restart finds what the ring asks for.
 */
#include "base/crc32c.h"
#include "base/draft.h"
#include "base/file.h"
#include "runtime/islands_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x314d4f4d4e4550)

struct head {
    uint64_t magic;
    uint64_t steps;
    uint64_t bytes; /* of what follows */
    uint64_t check; /* CRC32C of that */
};

static void path_of(const struct pen_sync_setting *setting,
                    const struct pen_island *island, uint64_t steps,
                    struct pen_text *out)
{
    pen_text_add(out, "%s/moments-%" PRIu32 "-%" PRIu64, island->folder,
                 setting->peers->self, steps / setting->interval % 2);
}

static size_t bytes_of(const struct pen_sync_setting *setting)
{
    size_t bytes = 0;
    for (size_t i = 0; i < setting->num_tensors; i++)
        for (int which = 0; which < 2; which++)
            if (setting->tensors[i].moments[which] != NULL)
                bytes += setting->tensors[i].count * sizeof(float);
    return bytes;
}

/* All moments after each other, out of the tensors or into them. */
static void copy(const struct pen_sync_setting *setting, char *at, bool is_out)
{
    for (size_t i = 0; i < setting->num_tensors; i++)
        for (int which = 0; which < 2; which++) {
            float *moment = setting->tensors[i].moments[which];
            size_t length = setting->tensors[i].count * sizeof *moment;
            if (moment == NULL)
                continue;
            if (is_out)
                memcpy(at, moment, length);
            else
                memcpy(moment, at, length);
            at += length;
        }
}

pen_status pen__island_keep_moments(const struct pen_sync_setting *setting,
                                    const struct pen_island *island,
                                    uint64_t steps, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    size_t bytes = bytes_of(setting);
    char *all = malloc(sizeof(struct head) + bytes);
    if (all == NULL)
        return PEN_NOMEM;
    copy(setting, all + sizeof(struct head), true);
    const struct head head = {.magic = MAGIC,
                              .steps = steps,
                              .bytes = bytes,
                              .check = pen_crc32c(all + sizeof head, bytes)};
    memcpy(all, &head, sizeof head);
    path_of(setting, island, steps, &path);
    pen_status status = pen_draft_write_file(pen_text_string(&path), all,
                                             sizeof head + bytes, why);
    pen_text_release(&path);
    free(all);
    return status;
}

void pen__island_clear_moments(const struct pen_sync_setting *setting)
{
    for (size_t i = 0; i < setting->num_tensors; i++)
        for (int which = 0; which < 2; which++)
            if (setting->tensors[i].moments[which] != NULL)
                memset(setting->tensors[i].moments[which], 0,
                       setting->tensors[i].count * sizeof(float));
}

static bool is_right(const struct pen_text *file, uint64_t steps, size_t bytes)
{
    struct head head;
    if (file->length != sizeof head + bytes)
        return false;
    memcpy(&head, file->bytes, sizeof head);
    return head.magic == MAGIC && head.steps == steps && head.bytes == bytes &&
           head.check == pen_crc32c(file->bytes + sizeof head, bytes);
}

bool pen__island_recall_moments(const struct pen_sync_setting *setting,
                                const struct pen_island *island, uint64_t steps)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text file = PEN_TEXT_EMPTY;
    size_t bytes = bytes_of(setting);
    if (steps == 0) {
        pen__island_clear_moments(setting);
        return true;
    }
    path_of(setting, island, steps, &path);
    bool is_there =
        pen_file_read(pen_text_string(&path), sizeof(struct head) + bytes,
                      &file, NULL) == PEN_OK &&
        is_right(&file, steps, bytes);
    if (is_there)
        copy(setting, file.bytes + sizeof(struct head), false);
    pen_text_release(&path);
    pen_text_release(&file);
    return is_there;
}
