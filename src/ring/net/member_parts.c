/*
 * Contributions and states in pieces. Each island sends one thing at a time to
 * another one, from its first byte to its last. A piece that does not continue
 * the one before it is dropped, and the agreement asks for it again.
 */
#include "ring/net/member_parts.h"

#include "base/clock.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_ROOM (PEN__WIRE_PIECE + 1024)

void pen__bytes_free(struct pen_ring_bytes *bytes)
{
    free(bytes->bytes);
    *bytes = (struct pen_ring_bytes){NULL, 0};
}

pen_status pen__bytes_hash(const void *bytes, size_t length,
                           struct pen_ring_hash *out)
{
    char text[PEN_HASH_SIZE];
    pen_status status = pen_hash_bytes(bytes, length, text, NULL);
    for (size_t i = 4; i-- > 0 && status == PEN_OK;) {
        out->words[i] = strtoull(text + 16 * i, NULL, 16);
        text[16 * i] = '\0';
    }
    return status;
}

/* ---- out */

/* Returns the bytes of a fragment: shares that differ by one byte at most. */
static struct pen_ring_bytes fragment_of(const struct pen_ring_bytes *all,
                                         uint32_t count, uint32_t index)
{
    size_t from = all->length * index / count;
    size_t to = all->length * (index + 1) / count;
    return (struct pen_ring_bytes){all->bytes + from, to - from};
}

/* Chooses what to send next to an island, and its message; false: nothing. */
static bool next_of(struct pen_ring_member *member, struct pen__outgoing *out,
                    struct pen_ring_bytes *bytes,
                    struct pen_ring_message *message)
{
    uint32_t self = member->island.number;
    const struct pen_ring_kept *kept = &member->island.kept;
    const struct pen_ring_part *own = &kept->parts[self];
    *message = (struct pen_ring_message){.incarnation = kept->incarnation,
                                         .revision = kept->revision,
                                         .epoch = kept->record.epoch};
    if ((out->is_state || out->offset == 0) &&
        pen__member_next_state(member, out, bytes, message))
        return true;
    if (out->fragments == 0 || own->offer.num_fragments == 0 ||
        !pen_ring_same_hash(&member->held[self].hash, &own->offer.hash))
        return false;
    message->kind = PEN_RING_FRAGMENT;
    message->epoch = own->epoch;
    message->round = own->round;
    message->offer = own->offer;
    if (out->offset == 0)
        for (out->fragment = 0; !pen_ring_has(out->fragments, out->fragment);)
            out->fragment++;
    message->fragment = out->fragment;
    if (message->fragment >= own->offer.num_fragments)
        return false;
    *bytes = fragment_of(&member->held[self].all, own->offer.num_fragments,
                         message->fragment);
    return bytes->length > 0;
}

static void sent(struct pen_ring_member *member, struct pen__outgoing *out)
{
    if (out->is_state)
        pen__member_state_sent(member, out);
    else
        out->fragments &= ~pen_ring_bit(out->fragment);
    out->is_state = false;
    out->offset = 0;
}

void pen__member_pump(struct pen_ring_member *member, uint32_t island)
{
    struct pen__outgoing *out = &member->outgoing[island];
    while (pen__net_room(member->net, island) >= FRAME_ROOM) {
        struct pen__frame frame = {.kind = PEN__FRAME_PIECE};
        struct pen__piece *piece = &frame.as.piece;
        struct pen_ring_bytes bytes;
        if (!next_of(member, out, &bytes, &piece->message)) {
            out->fragments = 0;
            out->offset = 0;
            return;
        }
        size_t left = bytes.length - out->offset;
        piece->total = bytes.length;
        piece->offset = out->offset;
        piece->length =
            (uint32_t)(left < PEN__WIRE_PIECE ? left : PEN__WIRE_PIECE);
        piece->bytes = bytes.bytes + out->offset;
        if (!pen__net_send(member->net, island, &frame))
            return;
        out->offset += piece->length;
        if (out->offset == bytes.length)
            sent(member, out);
    }
}

/* ---- in */

static bool is_same(const struct pen_ring_message *a,
                    const struct pen_ring_message *b)
{
    return a->kind == b->kind && a->epoch == b->epoch && a->round == b->round &&
           a->fragment == b->fragment &&
           pen_ring_same_hash(&a->hash, &b->hash) &&
           pen_ring_same_hash(&a->offer.hash, &b->offer.hash);
}

/*
 * Returns the limit on a transfer: contributions of a round come as one, each
 * with its header.
 */
static uint64_t most_total(const struct pen_ring_member *member,
                           const struct pen_ring_message *message)
{
    uint32_t count = message->kind == PEN_RING_STATE && message->set != 0
                         ? pen_ring_count(message->set)
                         : 1;
    return count * ((uint64_t)member->options.most_bytes +
                    (message->set != 0 ? PEN__PART_HEADER : 0));
}

bool pen__member_take_piece(struct pen_ring_member *member, uint32_t from,
                            const struct pen__piece *piece)
{
    struct pen__incoming *in = &member->incoming[from];
    in->at = pen_clock_ns();
    if (piece->offset == 0) {
        pen__bytes_free(&in->bytes);
        in->length = 0;
        if (piece->total > most_total(member, &piece->message))
            return false;
        in->bytes.bytes = malloc(piece->total);
        in->bytes.length = in->bytes.bytes == NULL ? 0 : piece->total;
        in->message = piece->message;
        in->message.from = from;
    }
    if (in->bytes.bytes == NULL || piece->total != in->bytes.length ||
        piece->offset != in->length || !is_same(&in->message, &piece->message))
        return false;
    memcpy(in->bytes.bytes + in->length, piece->bytes, piece->length);
    in->length += piece->length;
    return in->length == in->bytes.length;
}

static void drop_fragments(struct pen__held *held)
{
    for (uint32_t i = 0; i < PEN_RING_FRAGMENTS; i++)
        pen__bytes_free(&held->fragments[i]);
}

static size_t bytes_of(const struct pen__held *held)
{
    size_t length = 0;
    for (uint32_t i = 0; i < PEN_RING_FRAGMENTS; i++)
        length += held->fragments[i].length;
    return length;
}

/* Joins all fragments, and checks the result against the hash of the offer. */
static bool join(struct pen__held *held, const struct pen_ring_part *part)
{
    struct pen_ring_bytes all = {malloc(bytes_of(held)), 0};
    for (uint32_t i = 0; i < PEN_RING_FRAGMENTS && all.bytes != NULL; i++) {
        if (held->fragments[i].length > 0)
            memcpy(all.bytes + all.length, held->fragments[i].bytes,
                   held->fragments[i].length);
        all.length += held->fragments[i].length;
        pen__bytes_free(&held->fragments[i]);
    }
    drop_fragments(held);
    held->all = all;
    return all.bytes != NULL &&
           pen__bytes_hash(all.bytes, all.length, &held->hash) == PEN_OK &&
           pen_ring_same_hash(&held->hash, &part->offer.hash);
}

bool pen__member_hold(struct pen_ring_member *member, uint32_t from)
{
    struct pen__incoming *in = &member->incoming[from];
    struct pen__held *held = &member->held[from];
    const struct pen_ring_part *part = &member->island.kept.parts[from];
    uint32_t index = in->message.fragment;
    if (pen_ring_count(part->fragments) == 1) {
        drop_fragments(held);
        pen__bytes_free(&held->all); /* its round is over */
    }
    pen__bytes_free(&held->fragments[index]);
    held->fragments[index] = in->bytes;
    in->bytes = (struct pen_ring_bytes){NULL, 0};
    if (bytes_of(held) > member->options.most_bytes)
        return false;
    if (pen_ring_count(part->fragments) < part->offer.num_fragments)
        return true;
    return join(held, part);
}

void pen__member_drop_fragments(struct pen_ring_member *member)
{
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        struct pen__outgoing *out = &member->outgoing[i];
        out->fragments = 0;
        if (!out->is_state)
            out->offset = 0;
    }
}

void pen__member_forget(struct pen_ring_member *member, uint32_t island)
{
    pen__bytes_free(&member->incoming[island].bytes);
    member->incoming[island] = (struct pen__incoming){.length = 0};
    member->outgoing[island] = (struct pen__outgoing){0};
    if (member->early.from == island)
        pen__bytes_free(&member->early.bytes);
    if (member->leader == island)
        member->has_followed = false;
}
