/*
 * Frames of a ring: what is written reads back as the same, every beginning of
 * it is waited for, and every change of it is refused or is another frame that
 * writes as these bytes.
 */
#include "support/support.h"

#include "base/random.h"
#include "ring/net/wire.h"

#include <string.h>

enum { FRAMES = 20000, CHANGED = 300, LONGEST = 300 };

static struct pen_random rng = {.state = 25};
static uint8_t content[PEN__WIRE_PIECE];

static uint64_t any_count(void)
{
    return pen_random_next(&rng) >> (1 + pen_random_below(&rng, 63));
}

static struct pen_ring_hash any_hash(void)
{
    struct pen_ring_hash hash;
    for (size_t i = 0; i < 4; i++)
        hash.words[i] = pen_random_next(&rng);
    return hash;
}

static uint64_t any_islands(void)
{
    return pen_random_below(&rng, 1u << PEN_RING_ISLANDS);
}

static struct pen_ring_offer any_offer(void)
{
    struct pen_ring_offer offer = {
        .first = any_count() / 2,
        .tokens = any_count(),
        .num_fragments = 1 + pen_random_below(&rng, PEN_RING_FRAGMENTS),
        .hash = any_hash()};
    offer.last = offer.first + any_count() / 2;
    return offer;
}

static void fill_record(struct pen_ring_record *record)
{
    *record = (struct pen_ring_record){.epoch = any_count(),
                                       .members = any_islands(),
                                       .revoked = any_islands(),
                                       .round = any_count(),
                                       .round_epoch = any_count(),
                                       .contributors = any_islands(),
                                       .hash = any_hash()};
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        record->incarnations[i] = any_count();
        record->cursors[i] = any_count();
        if (pen_ring_has(record->contributors, i))
            record->offers[i] = any_offer();
    }
}

static void fill_message(struct pen_ring_message *message,
                         enum pen_ring_kind kind)
{
    *message = (struct pen_ring_message){.kind = kind,
                                         .incarnation = any_count(),
                                         .revision = any_count(),
                                         .epoch = any_count(),
                                         .round = any_count()};
    if (kind == PEN_RING_BEAT || kind == PEN_RING_ACK || kind == PEN_RING_STATE)
        message->set = any_islands();
    if (kind == PEN_RING_FETCH)
        message->set = pen_random_next(&rng);
    if (kind <= PEN_RING_BEAT || kind == PEN_RING_ACK ||
        kind == PEN_RING_LEAVE || kind == PEN_RING_STATE)
        message->hash = any_hash();
    if (kind == PEN_RING_OFFER || kind == PEN_RING_FRAGMENT)
        message->offer = any_offer();
    if (kind == PEN_RING_FRAGMENT)
        message->fragment =
            pen_random_below(&rng, message->offer.num_fragments);
    if (kind == PEN_RING_RECORD || kind == PEN_RING_PROPOSE)
        fill_record(&message->record);
}

static void fill_piece(struct pen__piece *piece)
{
    fill_message(&piece->message, pen_random_below(&rng, 2) == 0
                                      ? PEN_RING_FRAGMENT
                                      : PEN_RING_STATE);
    piece->length = 1 + pen_random_below(&rng, LONGEST);
    piece->offset = pen_random_below(&rng, 1u << 30);
    piece->total = piece->offset + piece->length + pen_random_below(&rng, 9);
    piece->bytes = content + pen_random_below(&rng, 1000);
}

static void fill_status(struct pen__ring_status *status)
{
    status->is_serving = pen_random_below(&rng, 2) != 0;
    status->num_islands = 1 + pen_random_below(&rng, PEN_RING_ISLANDS);
    status->quorum = 1 + pen_random_below(&rng, PEN_RING_ISLANDS);
    status->patience = any_count();
    status->revision = any_count();
    fill_record(&status->record);
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        status->islands[i].is_connected = pen_random_below(&rng, 2) != 0;
        status->islands[i].silent = any_count();
    }
}

static void fill_frame(struct pen__frame *frame)
{
    static const enum pen_ring_kind whole[] = {
        PEN_RING_JOIN,   PEN_RING_BEAT,    PEN_RING_OFFER,
        PEN_RING_ACK,    PEN_RING_LEAVE,   PEN_RING_FETCH,
        PEN_RING_RECORD, PEN_RING_PROPOSE, PEN_RING_PULL};
    memset(frame, 0, sizeof *frame);
    frame->kind =
        (enum pen__frame_kind)(1 + pen_random_below(&rng, PEN__FRAME_STATUS));
    switch (frame->kind) {
    case PEN__FRAME_HELLO:
        for (size_t i = 0; i < PEN__WIRE_CONFIG; i++)
            frame->as.hello.config[i] = (uint8_t)pen_random_next(&rng);
        break;
    case PEN__FRAME_REFUSE:
        memset(frame->as.words, 'a', pen_random_below(&rng, PEN__WIRE_WORDS));
        break;
    case PEN__FRAME_MESSAGE:
        fill_message(&frame->as.message, whole[pen_random_below(&rng, 9)]);
        break;
    case PEN__FRAME_PIECE:
        fill_piece(&frame->as.piece);
        break;
    case PEN__FRAME_ASK:
        frame->as.ask.order =
            (enum pen__order)pen_random_below(&rng, PEN__ORDERS);
        frame->as.ask.island = pen_random_below(&rng, PEN_RING_ISLANDS);
        break;
    case PEN__FRAME_STATUS:
        fill_status(&frame->as.status);
        break;
    }
}

static uint8_t wire[PEN__WIRE_MOST], again[PEN__WIRE_MOST];

/* As they are written: what a kind does not have does not count. */
static void check_same(const struct pen__frame *first,
                       const struct pen__frame *second)
{
    size_t length = pen__wire_encode(first, wire, sizeof wire);
    assert_true(length > 0);
    assert_int_equal(pen__wire_encode(second, again, sizeof again), length);
    assert_memory_equal(wire, again, length);
}

static void reads_back(void **state)
{
    (void)state;
    struct pen__frame first, second;
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)pen_random_next(&rng);
    for (int i = 0; i < FRAMES; i++) {
        fill_frame(&first);
        size_t length = pen__wire_encode(&first, wire, sizeof wire);
        size_t used = 0;
        assert_true(length >= PEN__WIRE_HEADER);
        assert_int_equal(pen__wire_encode(&first, again, length - 1), 0);
        assert_int_equal(
            pen__wire_decode(wire, length, UINT32_MAX, &second, &used, NULL),
            PEN_OK);
        assert_int_equal(used, length);
        if (first.kind != PEN__FRAME_PIECE)
            assert_memory_equal(&first, &second, sizeof first);
        check_same(&first, &second);
        assert_int_equal(
            pen__wire_decode(wire, pen_random_below(&rng, (uint32_t)length),
                             UINT32_MAX, &second, &used, NULL),
            PEN_BUSY);
        assert_int_equal(pen__wire_decode(wire, length,
                                          ~pen__frame_bit(first.kind), &second,
                                          &used, NULL),
                         PEN_INVALID);
    }
}

static void check_change(const uint8_t *bytes, size_t length, bool is_content)
{
    struct pen__frame frame;
    struct pen_text why = PEN_TEXT_EMPTY;
    size_t used = 0;
    pen_status status =
        pen__wire_decode(bytes, length, UINT32_MAX, &frame, &used, &why);
    assert_int_equal(status == PEN_INVALID, why.length > 0);
    if (is_content)
        assert_int_equal(status, PEN_INVALID);
    if (status == PEN_OK) {
        assert_int_equal(pen__wire_encode(&frame, again, sizeof again), used);
        assert_memory_equal(again, bytes, used);
    }
    pen_text_release(&why);
}

static void finds_changes(void **state)
{
    (void)state;
    for (int i = 0; i < CHANGED; i++) {
        struct pen__frame frame;
        fill_frame(&frame);
        size_t length = pen__wire_encode(&frame, wire, sizeof wire);
        size_t from = frame.kind == PEN__FRAME_PIECE
                          ? length - frame.as.piece.length
                          : length;
        for (size_t at = 0; at < length; at++) {
            uint8_t bit = (uint8_t)(1u << pen_random_below(&rng, 8));
            wire[at] ^= bit;
            check_change(wire, length, at >= from);
            wire[at] ^= bit;
        }
    }
}

/* The largest piece fits; a larger one, and numbers out of bounds, do not. */
static void has_bounds(void **state)
{
    (void)state;
    struct pen__frame frame;
    memset(&frame, 0, sizeof frame);
    frame.kind = PEN__FRAME_PIECE;
    fill_piece(&frame.as.piece);
    frame.as.piece.bytes = content;
    frame.as.piece.offset = 0;
    frame.as.piece.total = PEN__WIRE_MOST_TOTAL;
    frame.as.piece.length = PEN__WIRE_PIECE;
    assert_true(pen__wire_encode(&frame, wire, sizeof wire) > PEN__WIRE_PIECE);
    frame.as.piece.length++;
    assert_int_equal(pen__wire_encode(&frame, wire, sizeof wire), 0);
    fill_piece(&frame.as.piece);
    frame.as.piece.offset = frame.as.piece.total;
    assert_int_equal(pen__wire_encode(&frame, wire, sizeof wire), 0);
    frame.kind = PEN__FRAME_MESSAGE; /* a fragment comes in pieces only */
    fill_message(&frame.as.message, PEN_RING_FRAGMENT);
    assert_int_equal(pen__wire_encode(&frame, wire, sizeof wire), 0);
    fill_message(&frame.as.message, PEN_RING_BEAT);
    frame.as.message.set = 1u << PEN_RING_ISLANDS;
    assert_int_equal(pen__wire_encode(&frame, wire, sizeof wire), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_back),
                                       cmocka_unit_test(finds_changes),
                                       cmocka_unit_test(has_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
