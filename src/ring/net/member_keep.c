/*
 * The files of an island: the bytes of whole contributions, the committed
 * state, and last the file "kept", which says which of these count. Hashes
 * prove that contributions and states are whole.
 */
#include "ring/net/kept.h"
#include "ring/net/member_parts.h"

#include "base/draft.h"
#include "base/file.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void path_of(const struct pen_ring_member *member, const char *name,
                    uint64_t number, struct pen_text *out)
{
    pen_text_clear(out);
    pen_text_add(out, "%s/%s-%" PRIu64, member->options.folder, name, number);
}

/*
 * Names one of two files that take turns, so that the round before stays
 * readable.
 */
static uint64_t part_file(uint32_t island, uint64_t round)
{
    return (uint64_t)2 * island + round % 2;
}

static pen_status keep_parts(struct pen_ring_member *member,
                             struct pen_text *path, struct pen_text *why)
{
    pen_status status = PEN_OK;
    uint64_t whole = pen_ring_island_whole(&member->island);
    for (uint32_t i = 0; i < PEN_RING_ISLANDS && status == PEN_OK; i++) {
        struct pen__held *held = &member->held[i];
        if (!pen_ring_has(whole, i) ||
            pen_ring_same_hash(&held->hash, &held->kept))
            continue;
        path_of(member, "part", part_file(i, member->island.kept.round + 1),
                path);
        status = pen_draft_write_file(pen_text_string(path), held->all.bytes,
                                      held->all.length, why);
        if (status == PEN_OK)
            held->kept = held->hash;
    }
    return status;
}

/* Moves a state that has become the committed one into place. */
static void promote(struct pen_ring_member *member)
{
    const struct pen_ring_kept *kept = &member->island.kept;
    if (kept->round == 0 ||
        pen_ring_same_hash(&kept->hash, &member->state_hash) ||
        !pen_ring_same_hash(&kept->hash, &member->next_hash))
        return;
    pen__member_hold_back(member);
    pen__bytes_free(&member->state);
    member->state = member->next;
    member->state_hash = member->next_hash;
    member->next = (struct pen_ring_bytes){NULL, 0};
    member->next_round = 0;
    memset(&member->next_hash, 0, sizeof member->next_hash);
    pen__member_drop_fragments(member);
    member->options.commit(member->options.context, kept->round,
                           &member->state);
}

static pen_status keep_state(struct pen_ring_member *member,
                             struct pen_text *path, struct pen_text *why)
{
    promote(member);
    if (member->state.length == 0 ||
        pen_ring_same_hash(&member->state_kept, &member->state_hash))
        return PEN_OK;
    path_of(member, "state", member->island.kept.round % 2, path);
    pen_status status = pen_draft_write_file(
        pen_text_string(path), member->state.bytes, member->state.length, why);
    if (status == PEN_OK)
        member->state_kept = member->state_hash;
    return status;
}

pen_status pen__member_keep(struct pen_ring_member *member,
                            struct pen_text *why)
{
    struct pen__kept_file *file = malloc(sizeof *file);
    struct pen_text path = PEN_TEXT_EMPTY;
    if (file == NULL)
        return PEN_NOMEM;
    pen_status status = keep_state(member, &path, why);
    if (status == PEN_OK)
        status = keep_parts(member, &path, why);
    pen__kept_write(&member->island.kept, file);
    path_of(member, "kept", 0, &path);
    if (status == PEN_OK)
        status = pen_draft_write_file(pen_text_string(&path), file,
                                      sizeof *file, why);
    pen_text_release(&path);
    free(file);
    return status;
}

/* ---- a restart */

static void tell_damaged(const char *path)
{
    pen_log(PEN_LOG_WARN,
            "%s is damaged: its bytes have another hash than was kept; they "
            "come from other islands",
            path);
}

/* Reads the bytes of a file that has this hash. */
static bool recall_bytes(const struct pen_ring_member *member, const char *name,
                         uint64_t number, const struct pen_ring_hash *wanted,
                         struct pen_ring_bytes *out)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text bytes = PEN_TEXT_EMPTY;
    struct pen_ring_hash found;
    path_of(member, name, number, &path);
    bool is_read =
        pen_file_read(pen_text_string(&path), member->options.most_bytes,
                      &bytes, NULL) == PEN_OK;
    bool is_there = is_read &&
                    pen__bytes_hash(pen_text_string(&bytes), bytes.length,
                                    &found) == PEN_OK &&
                    pen_ring_same_hash(&found, wanted);
    if (is_read && !is_there)
        tell_damaged(pen_text_string(&path));
    pen_text_release(&path);
    if (is_there)
        *out = (struct pen_ring_bytes){(uint8_t *)bytes.bytes, bytes.length};
    else
        pen_text_release(&bytes);
    return is_there;
}

static bool read_kept(const struct pen_ring_member *member,
                      struct pen_ring_kept *out)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text bytes = PEN_TEXT_EMPTY;
    path_of(member, "kept", 0, &path);
    bool is_there =
        pen_file_read(pen_text_string(&path), sizeof(struct pen__kept_file),
                      &bytes, NULL) == PEN_OK;
    bool is_read =
        is_there && pen__kept_read(pen_text_string(&bytes), bytes.length, out);
    if (is_there && !is_read)
        tell_damaged(pen_text_string(&path));
    pen_text_release(&path);
    pen_text_release(&bytes);
    return is_read;
}

bool pen__member_recall(struct pen_ring_member *member,
                        struct pen_ring_kept *out)
{
    if (!read_kept(member, out))
        return false;
    if (out->round > 0 && !recall_bytes(member, "state", out->round % 2,
                                        &out->hash, &member->state)) {
        /* The island holds nothing, and pulls the state from another one. */
        out->round = 0;
        memset(&out->hash, 0, sizeof out->hash);
        memset(out->parts, 0, sizeof out->parts);
    }
    member->state_hash = member->state_kept = out->hash;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        struct pen__held *held = &member->held[i];
        if (out->parts[i].round != out->round + 1 ||
            out->parts[i].fragments == 0 ||
            !recall_bytes(member, "part", part_file(i, out->round + 1),
                          &out->parts[i].offer.hash, &held->all))
            out->parts[i] = (struct pen_ring_part){.epoch = 0};
        else
            held->hash = held->kept = out->parts[i].offer.hash;
    }
    return true;
}
