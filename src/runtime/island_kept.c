/*
 * The state that an island begins a round with. There are two files of each
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

static void path_of(const struct pen__island_kept *kept, uint64_t parity,
                    struct pen_text *out)
{
    pen_text_add(out, "%s/moments-%" PRIu32 "-%" PRIu64, kept->folder,
                 kept->setting->peers->self, parity);
}

static uint64_t parity_of(const struct pen__island_kept *kept, uint64_t steps)
{
    return steps / kept->setting->interval % 2;
}

/* ---- the vectors that are in it ---- */

enum copying { MEASURE, OUT, IN, CLEAR };

/* Where the next vector is, after `offset` bytes of others. */
struct cursor {
    enum copying how;
    char *bytes; /* of OUT and IN */
    size_t offset;
};

static void copy(struct cursor *at, float *vector, size_t count)
{
    size_t length = count * sizeof *vector;
    if (vector == NULL)
        return;
    if (at->how == OUT)
        memcpy(at->bytes + at->offset, vector, length);
    else if (at->how == IN)
        memcpy(vector, at->bytes + at->offset, length);
    else if (at->how == CLEAR)
        memset(vector, 0, length);
    at->offset += length;
}

/*
 * Copies or clears all vectors; clearing leaves the weights. Returns the bytes
 * of all.
 */
static size_t copy_all(const struct pen__island_kept *kept, enum copying how,
                       char *bytes)
{
    const struct pen_sync_setting *setting = kept->setting;
    struct cursor at = {.how = how};
    at.bytes = bytes;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        for (int which = 0; which < 2; which++)
            copy(&at, tensor->moments[which], tensor->count);
        if (kept->has_weights && how != CLEAR)
            copy(&at, tensor->value, tensor->count);
    }
    for (uint32_t i = 0; i < kept->num_own; i++)
        copy(&at, kept->own[i], setting->count);
    for (size_t i = 0; kept->states != NULL && i < kept->states->count; i++)
        copy(&at, kept->states->items[i].floats, kept->states->items[i].count);
    copy(&at, kept->waiting, setting->count);
    return at.offset;
}

size_t pen__island_kept_bytes(const struct pen__island_kept *kept)
{
    size_t words =
        kept->waiting != NULL ? sizeof(struct pen__island_moment) : 0;
    return words + copy_all(kept, MEASURE, NULL);
}

/* ---- files ---- */

pen_status pen__island_keep(const struct pen__island_kept *kept,
                            const struct pen__island_moment *at,
                            struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    size_t bytes = pen__island_kept_bytes(kept);
    char *all = malloc(sizeof(struct head) + bytes);
    if (all == NULL)
        return PEN_NOMEM;
    size_t length = copy_all(kept, OUT, all + sizeof(struct head));
    if (kept->waiting != NULL)
        memcpy(all + sizeof(struct head) + length, at, sizeof *at);
    const struct head head = {.magic = MAGIC,
                              .steps = at->steps,
                              .bytes = bytes,
                              .check = pen_crc32c(all + sizeof head, bytes)};
    memcpy(all, &head, sizeof head);
    path_of(kept, parity_of(kept, at->steps), &path);
    pen_status status = pen_draft_write_file(pen_text_string(&path), all,
                                             sizeof head + bytes, why);
    pen_text_release(&path);
    free(all);
    return status;
}

void pen__island_clear(const struct pen__island_kept *kept)
{
    (void)copy_all(kept, CLEAR, NULL);
}

/* Reads a whole file of this island's vectors; false: there is none. */
static bool read_kept(const struct pen__island_kept *kept, uint64_t parity,
                      struct pen_text *file, struct pen__island_moment *at)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct head head;
    size_t bytes = pen__island_kept_bytes(kept);
    path_of(kept, parity, &path);
    bool is_there = pen_file_read(pen_text_string(&path), sizeof head + bytes,
                                  file, NULL) == PEN_OK &&
                    file->length == sizeof head + bytes;
    pen_text_release(&path);
    if (!is_there)
        return false;
    memcpy(&head, file->bytes, sizeof head);
    *at = (struct pen__island_moment){.steps = head.steps};
    if (kept->waiting != NULL)
        memcpy(at, file->bytes + file->length - sizeof *at, sizeof *at);
    return head.magic == MAGIC && head.bytes == bytes &&
           head.check == pen_crc32c(file->bytes + sizeof head, bytes);
}

bool pen__island_recall(const struct pen__island_kept *kept, uint64_t steps)
{
    struct pen_text file = PEN_TEXT_EMPTY;
    struct pen__island_moment at;
    if (steps == 0) {
        pen__island_clear(kept);
        return true;
    }
    bool is_there = read_kept(kept, parity_of(kept, steps), &file, &at) &&
                    at.steps == steps;
    if (is_there)
        (void)copy_all(kept, IN, file.bytes + sizeof(struct head));
    if (is_there && kept->waiting != NULL)
        memset(kept->waiting, 0, kept->setting->count * sizeof(float));
    pen_text_release(&file);
    return is_there;
}

bool pen__island_recall_late(const struct pen__island_kept *kept,
                             uint64_t first, uint64_t round,
                             struct pen__island_moment *out)
{
    *out = (struct pen__island_moment){.steps = 0};
    for (uint64_t parity = 0; parity < 2; parity++) {
        struct pen_text file = PEN_TEXT_EMPTY;
        struct pen__island_moment at;
        if (read_kept(kept, parity, &file, &at) && at.first == first &&
            at.round < round && at.steps > out->steps) {
            (void)copy_all(kept, IN, file.bytes + sizeof(struct head));
            *out = at;
        }
        pen_text_release(&file);
    }
    return out->steps > 0;
}
