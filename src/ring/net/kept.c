#include "ring/net/kept.h"

#include "base/crc32c.h"

#include <string.h>

#define MAGIC UINT64_C(0x315452504b4e4550)

void pen__kept_write(const struct pen_ring_kept *kept,
                     struct pen__kept_file *out)
{
    memset(out, 0, sizeof *out);
    out->magic = MAGIC;
    out->length = sizeof *out;
    memcpy(&out->kept, kept, sizeof out->kept);
    out->check = pen_crc32c(&out->kept, sizeof out->kept);
}

/*
 * Returns whether the values that the agreement indexes and shifts by are
 * within bounds.
 */
static bool is_possible(const struct pen_ring_kept *kept)
{
    const struct pen_ring_record *record = &kept->record;
    uint64_t sets = record->members | record->revoked | record->contributors;
    bool is_well = sets >> PEN_RING_ISLANDS == 0 &&
                   (record->members & record->revoked) == 0 &&
                   kept->round <= record->round &&
                   kept->incarnation < UINT64_MAX;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS && is_well; i++) {
        const struct pen_ring_offer *offer = &kept->parts[i].offer;
        is_well = offer->num_fragments <= PEN_RING_FRAGMENTS &&
                  record->offers[i].num_fragments <= PEN_RING_FRAGMENTS &&
                  offer->first <= offer->last &&
                  record->offers[i].first <= record->offers[i].last;
    }
    return is_well;
}

bool pen__kept_read(const void *bytes, size_t length, struct pen_ring_kept *out)
{
    struct pen__kept_file file;
    if (length != sizeof file)
        return false;
    memcpy(&file, bytes, sizeof file);
    if (file.magic != MAGIC || file.length != sizeof file ||
        file.check != pen_crc32c(&file.kept, sizeof file.kept) ||
        !is_possible(&file.kept))
        return false;
    memcpy(out, &file.kept, sizeof *out);
    return true;
}
