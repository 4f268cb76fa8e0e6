#include "ring/net/wire.h"

#include "base/crc32c.h"

#include <string.h>

#define MOST_NUMBER ((uint64_t)INT64_MAX)
#define ALL_ISLANDS (((uint64_t)1 << PEN_RING_ISLANDS) - 1)

/* A walk through a body, either to read or to write it. */
struct coder {
    uint8_t *bytes;
    size_t at;
    size_t end;
    bool is_reading;
    const char *bad; /* the first field that is wrong; NULL: none */
};

static bool is_reading(const struct coder *coder)
{
    return coder->is_reading;
}

static void refuse(struct coder *coder, const char *field)
{
    if (coder->bad == NULL)
        coder->bad = field;
}

static void bytes(struct coder *coder, const char *field, void *value,
                  size_t length)
{
    if (coder->bad != NULL || coder->end - coder->at < length) {
        refuse(coder, field);
        return;
    }
    if (is_reading(coder))
        memcpy(value, coder->bytes + coder->at, length);
    else
        memcpy(coder->bytes + coder->at, value, length);
    coder->at += length;
}

/* Codes a number of `width` bytes, from `least` to `most`. */
static void number(struct coder *coder, const char *field, uint64_t *value,
                   size_t width, uint64_t least, uint64_t most)
{
    uint8_t raw[8];
    for (size_t i = 0; i < width; i++)
        raw[i] = (uint8_t)(*value >> 8 * i);
    bytes(coder, field, raw, width);
    if (is_reading(coder) && coder->bad == NULL) {
        *value = 0;
        for (size_t i = 0; i < width; i++)
            *value |= (uint64_t)raw[i] << 8 * i;
    }
    if (*value < least || *value > most)
        refuse(coder, field);
}

static void count(struct coder *coder, const char *field, uint64_t *value)
{
    number(coder, field, value, 8, 0, MOST_NUMBER);
}

static void small(struct coder *coder, const char *field, uint32_t *value,
                  uint32_t least, uint32_t most)
{
    uint64_t wide = is_reading(coder) ? least : *value;
    number(coder, field, &wide, 4, least, most);
    *value = (uint32_t)wide;
}

static void flag(struct coder *coder, const char *field, bool *value)
{
    uint64_t wide = is_reading(coder) ? 0 : *value;
    number(coder, field, &wide, 1, 0, 1);
    *value = wide != 0;
}

static void hash(struct coder *coder, struct pen_ring_hash *value)
{
    for (size_t i = 0; i < 4; i++)
        number(coder, "hash", &value->words[i], 8, 0, UINT64_MAX);
}

static void islands(struct coder *coder, const char *field, uint64_t *value)
{
    number(coder, field, value, 8, 0, ALL_ISLANDS);
}

static void offer(struct coder *coder, struct pen_ring_offer *value)
{
    count(coder, "first batch", &value->first);
    number(coder, "last batch", &value->last, 8, value->first, MOST_NUMBER);
    count(coder, "tokens", &value->tokens);
    small(coder, "number of fragments", &value->num_fragments, 1,
          PEN_RING_FRAGMENTS);
    hash(coder, &value->hash);
}

static void record(struct coder *coder, struct pen_ring_record *value)
{
    count(coder, "epoch", &value->epoch);
    islands(coder, "members", &value->members);
    islands(coder, "revoked keys", &value->revoked);
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        count(coder, "incarnation", &value->incarnations[i]);
        count(coder, "cursor", &value->cursors[i]);
    }
    count(coder, "round", &value->round);
    count(coder, "epoch of the round", &value->round_epoch);
    islands(coder, "contributors", &value->contributors);
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        if (pen_ring_has(value->contributors, i))
            offer(coder, &value->offers[i]);
    hash(coder, &value->hash);
}

/* ---- messages: fields of each kind, in addition to those of all kinds */

enum { HAS_SET = 1, HAS_FRAGMENTS = 2, HAS_HASH = 4, HAS_OFFER = 8 };
enum { HAS_FRAGMENT = 16, HAS_RECORD = 32, IS_PIECE = 64 };

static const unsigned fields_of[] = {
    [PEN_RING_JOIN] = HAS_HASH,
    [PEN_RING_BEAT] = HAS_HASH | HAS_SET,
    [PEN_RING_OFFER] = HAS_OFFER,
    [PEN_RING_ACK] = HAS_HASH | HAS_SET,
    [PEN_RING_LEAVE] = HAS_HASH,
    [PEN_RING_RECORD] = HAS_RECORD,
    [PEN_RING_PROPOSE] = HAS_RECORD,
    [PEN_RING_FRAGMENT] = HAS_OFFER | HAS_FRAGMENT | IS_PIECE,
    [PEN_RING_FETCH] = HAS_FRAGMENTS,
    [PEN_RING_PULL] = HAS_SET,
    [PEN_RING_STATE] = HAS_HASH | HAS_SET | IS_PIECE};

static void message(struct coder *coder, struct pen_ring_message *value,
                    unsigned is_piece)
{
    uint32_t kind = is_reading(coder) ? 0 : value->kind;
    small(coder, "kind of message", &kind, PEN_RING_JOIN, PEN_RING_STATE);
    unsigned has = kind <= PEN_RING_STATE ? fields_of[kind] : 0;
    if ((has & IS_PIECE) != is_piece)
        refuse(coder, "kind of message");
    if (coder->bad != NULL)
        return;
    value->kind = (enum pen_ring_kind)kind;
    count(coder, "incarnation", &value->incarnation);
    count(coder, "revision", &value->revision);
    count(coder, "epoch", &value->epoch);
    count(coder, "round", &value->round);
    if (has & HAS_SET)
        islands(coder, "set of islands", &value->set);
    if (has & HAS_FRAGMENTS)
        number(coder, "set of fragments", &value->set, 8, 0, UINT64_MAX);
    if (has & HAS_HASH)
        hash(coder, &value->hash);
    if (has & HAS_OFFER)
        offer(coder, &value->offer);
    if ((has & HAS_FRAGMENT) && coder->bad == NULL)
        small(coder, "fragment", &value->fragment, 0,
              value->offer.num_fragments - 1);
    if (has & HAS_RECORD)
        record(coder, &value->record);
}

/* ---- bodies */

static void hello(struct coder *coder, struct pen__frame *frame)
{
    char magic[] = "penstock";
    bytes(coder, "magic", magic, 8);
    if (memcmp(magic, "penstock", 8) != 0)
        refuse(coder, "magic");
    bytes(coder, "configuration", frame->as.hello.config, PEN__WIRE_CONFIG);
}

static void words(struct coder *coder, struct pen__frame *frame)
{
    char *text = frame->as.words;
    size_t length = is_reading(coder) ? coder->end : strlen(text);
    if (length > PEN__WIRE_WORDS) {
        refuse(coder, "words");
        return;
    }
    bytes(coder, "words", text, length);
    text[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            refuse(coder, "words");
}

static void whole_message(struct coder *coder, struct pen__frame *frame)
{
    message(coder, &frame->as.message, 0);
}

static void piece(struct coder *coder, struct pen__frame *frame)
{
    struct pen__piece *value = &frame->as.piece;
    uint64_t check = 0;
    message(coder, &value->message, IS_PIECE);
    number(coder, "total", &value->total, 8, 1, PEN__WIRE_MOST_TOTAL);
    number(coder, "offset", &value->offset, 8, 0, PEN__WIRE_MOST_TOTAL);
    small(coder, "length", &value->length, 1, PEN__WIRE_PIECE);
    if (coder->bad != NULL)
        return;
    if (value->offset + value->length > value->total ||
        (is_reading(coder) && coder->end - coder->at < 4 + value->length)) {
        refuse(coder, "length");
        return;
    }
    if (is_reading(coder))
        value->bytes = coder->bytes + coder->at + 4;
    uint64_t wanted = pen_crc32c(value->bytes, value->length);
    check = wanted;
    number(coder, "check sum", &check, 4, wanted, wanted);
    if (!is_reading(coder))
        bytes(coder, "bytes", (void *)(uintptr_t)value->bytes, value->length);
    else if (coder->bad == NULL)
        coder->at += value->length;
}

static void ask(struct coder *coder, struct pen__frame *frame)
{
    uint32_t order = is_reading(coder) ? 0 : frame->as.ask.order;
    small(coder, "order", &order, 0, PEN__ORDERS - 1);
    frame->as.ask.order = (enum pen__order)order;
    small(coder, "island", &frame->as.ask.island, 0, PEN_RING_ISLANDS - 1);
}

static void status(struct coder *coder, struct pen__frame *frame)
{
    struct pen__ring_status *value = &frame->as.status;
    flag(coder, "is serving", &value->is_serving);
    small(coder, "islands", &value->num_islands, 1, PEN_RING_ISLANDS);
    small(coder, "quorum", &value->quorum, 1, PEN_RING_ISLANDS);
    count(coder, "patience", &value->patience);
    count(coder, "revision", &value->revision);
    record(coder, &value->record);
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        flag(coder, "is connected", &value->islands[i].is_connected);
        flag(coder, "is heard", &value->islands[i].is_heard);
        count(coder, "silence", &value->islands[i].silent);
        count(coder, "round", &value->islands[i].round);
    }
}

#define RECORD_BYTES 2048u /* at most */

static const struct {
    void (*walk)(struct coder *coder, struct pen__frame *frame);
    size_t most; /* bytes of the body */
} kinds_of[] = {[PEN__FRAME_HELLO] = {hello, 8 + PEN__WIRE_CONFIG},
                [PEN__FRAME_REFUSE] = {words, PEN__WIRE_WORDS},
                [PEN__FRAME_MESSAGE] = {whole_message, RECORD_BYTES},
                [PEN__FRAME_PIECE] = {piece, PEN__WIRE_PIECE + 512},
                [PEN__FRAME_ASK] = {ask, 8},
                [PEN__FRAME_STATUS] = {status, RECORD_BYTES}};
#define NUM_KINDS (sizeof kinds_of / sizeof *kinds_of)

size_t pen__wire_encode(const struct pen__frame *frame, uint8_t *out,
                        size_t room)
{
    struct pen__frame copy = *frame;
    if (room < PEN__WIRE_HEADER || copy.kind < PEN__FRAME_HELLO ||
        copy.kind >= NUM_KINDS)
        return 0;
    struct coder coder = {.bytes = out + PEN__WIRE_HEADER,
                          .end = room - PEN__WIRE_HEADER};
    kinds_of[copy.kind].walk(&coder, &copy);
    if (coder.bad != NULL)
        return 0;
    for (size_t i = 0; i < 4; i++)
        out[i] = (uint8_t)(coder.at >> 8 * i);
    out[4] = PEN__WIRE_VERSION;
    out[5] = (uint8_t)copy.kind;
    out[6] = out[7] = 0;
    return PEN__WIRE_HEADER + coder.at;
}

/* Reads the header. On success *body has the bytes of the body. */
static pen_status read_header(const uint8_t *header, uint32_t kinds,
                              size_t *body, struct pen_text *why)
{
    uint8_t kind = header[5];
    *body = 0;
    for (size_t i = 0; i < 4; i++)
        *body |= (size_t)header[i] << 8 * i;
    if (header[6] != 0 || header[7] != 0)
        pen_why(why, "these are not bytes of a ring");
    else if (header[4] != PEN__WIRE_VERSION)
        pen_why(why, "version %u of the messages is not known, only %u",
                header[4], PEN__WIRE_VERSION);
    else if (kind >= NUM_KINDS || (kinds >> kind & 1) == 0 ||
             kinds_of[kind].walk == NULL)
        pen_why(why, "a frame of kind %u does not belong here", kind);
    else if (*body > kinds_of[kind].most)
        pen_why(why, "a frame of kind %u has %zu bytes; %zu are the most", kind,
                *body, kinds_of[kind].most);
    else
        return PEN_OK;
    return PEN_INVALID;
}

pen_status pen__wire_decode(const uint8_t *bytes_in, size_t length,
                            uint32_t kinds, struct pen__frame *out,
                            size_t *used, struct pen_text *why)
{
    size_t body;
    if (length < PEN__WIRE_HEADER)
        return PEN_BUSY;
    pen_status read = read_header(bytes_in, kinds, &body, why);
    if (read != PEN_OK)
        return read;
    if (length - PEN__WIRE_HEADER < body)
        return PEN_BUSY;
    struct coder coder = {.bytes =
                              (uint8_t *)(uintptr_t)bytes_in + PEN__WIRE_HEADER,
                          .end = body,
                          .is_reading = true};
    memset(out, 0, sizeof *out);
    out->kind = (enum pen__frame_kind)bytes_in[5];
    kinds_of[out->kind].walk(&coder, out);
    if (coder.at != coder.end)
        refuse(&coder, "length");
    if (coder.bad != NULL) {
        pen_why(why, "a frame of kind %u has a wrong %s", bytes_in[5],
                coder.bad);
        return PEN_INVALID;
    }
    *used = PEN__WIRE_HEADER + body;
    return PEN_OK;
}
