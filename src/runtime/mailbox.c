#include "runtime/mailbox.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

enum { LABEL_BYTES = 64 };

_Static_assert(sizeof(struct pen_label) <= LABEL_BYTES, "a label has room");

enum slot_state {
    FREE,
    UNDER_WAY, /* a send or receive is posted, or it is being filled */
    FILLED,    /* not sent */
    THERE,     /* arrived, not taken */
    TAKEN
};

struct slot {
    char *bytes;
    enum slot_state state;
    struct pen_request request;
    struct pen_label label;
};

/* A message that comes in every pass. */
struct expected {
    uint32_t stage;
    uint32_t microbatch;
};

struct pen_mailbox {
    struct pen_transport *transport;
    struct pen_mailbox_options options;
    char *block;
    char *plain;  /* after the slots: the values, where these are coded */
    bool is_read; /* they are of a message that was taken */
    struct slot *slots;
    struct slot *claimed;
    uint64_t pass;
    struct expected *expected;
    uint32_t num_expected;
    uint32_t capacity;
    uint32_t num_posted; /* of them, in this pass */
    bool is_open;        /* more than the early ones may be */
};

static bool is_coded(const struct pen_mailbox_options *options)
{
    return options->code.blocks.bits != 0;
}

static size_t payload_bytes(const struct pen_mailbox_options *options)
{
    return pen_message_code_bytes(&options->code, options->bytes);
}

static size_t message_bytes(const struct pen_mailbox_options *options)
{
    return payload_bytes(options) + LABEL_BYTES;
}

/* Bytes of a payload in a buffer. */
static size_t kept_bytes(const struct pen_mailbox_options *options)
{
    return options->is_phantom ? 0 : payload_bytes(options);
}

static size_t slot_bytes(const struct pen_mailbox_options *options)
{
    return (kept_bytes(options) + LABEL_BYTES + 63) / 64 * 64;
}

static pen_status make_slots(struct pen_mailbox *mailbox)
{
    uint32_t count = mailbox->options.num_slots;
    size_t bytes = pen_mailbox_bytes(mailbox);
    mailbox->slots = calloc(count, sizeof *mailbox->slots);
    mailbox->block =
        pen_engine_take(mailbox->options.engine, PEN_PLACE_STAGING, bytes);
    if (mailbox->slots == NULL || mailbox->block == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        mailbox->slots[i].bytes =
            mailbox->block + i * slot_bytes(&mailbox->options);
    mailbox->plain = mailbox->block + count * slot_bytes(&mailbox->options);
    return PEN_OK;
}

pen_status pen_mailbox_create(struct pen_transport *transport,
                              const struct pen_mailbox_options *options,
                              struct pen_mailbox **out)
{
    PEN_BUG_UNLESS(options->bytes % 64 == 0 && options->num_slots > 0);
    struct pen_mailbox *mailbox = calloc(1, sizeof *mailbox);
    if (mailbox == NULL)
        return PEN_NOMEM;
    mailbox->transport = transport;
    mailbox->options = *options;
    pen_status status = make_slots(mailbox);
    if (status == PEN_OK)
        *out = mailbox;
    else
        pen_mailbox_free(mailbox);
    return status;
}

void pen_mailbox_free(struct pen_mailbox *mailbox)
{
    if (mailbox == NULL)
        return;
    free(mailbox->expected);
    free(mailbox->slots);
    pen_engine_give(mailbox->options.engine, PEN_PLACE_STAGING, mailbox->block,
                    pen_mailbox_bytes(mailbox));
    free(mailbox);
}

const struct pen_mailbox_options *
pen_mailbox_options(const struct pen_mailbox *mailbox)
{
    return &mailbox->options;
}

size_t pen_mailbox_bytes(const struct pen_mailbox *mailbox)
{
    const struct pen_mailbox_options *options = &mailbox->options;
    return options->num_slots * slot_bytes(options) +
           (is_coded(options) ? options->bytes : 0);
}

pen_status pen_mailbox_expect(struct pen_mailbox *mailbox, uint32_t stage,
                              uint32_t microbatch)
{
    if (mailbox->num_expected == mailbox->capacity) {
        uint32_t capacity = 2 * mailbox->capacity + 64;
        struct expected *grown =
            realloc(mailbox->expected, capacity * sizeof *grown);
        if (grown == NULL)
            return PEN_NOMEM;
        mailbox->expected = grown;
        mailbox->capacity = capacity;
    }
    mailbox->expected[mailbox->num_expected++] =
        (struct expected){stage, microbatch};
    return PEN_OK;
}

static struct slot *free_slot(struct pen_mailbox *mailbox)
{
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++)
        if (mailbox->slots[i].state == FREE)
            return &mailbox->slots[i];
    return NULL;
}

static struct pen_tag tag_of(const struct pen_mailbox *mailbox, uint32_t stage)
{
    bool is_act = mailbox->options.direction == PEN_DIRECTION_ACT;
    return (struct pen_tag){is_act ? PEN_TAG_ACT : PEN_TAG_GRAD, stage};
}

static void receive(struct pen_mailbox *mailbox, uint32_t stage,
                    struct slot *slot)
{
    const struct pen_mailbox_options *options = &mailbox->options;
    struct pen_tag tag = tag_of(mailbox, stage);
    if (options->is_phantom)
        pen_transport_receive_phantom(mailbox->transport, options->peer, tag,
                                      slot->bytes, LABEL_BYTES,
                                      message_bytes(options), &slot->request);
    else
        pen_transport_receive(mailbox->transport, options->peer, tag,
                              slot->bytes, message_bytes(options),
                              &slot->request);
}

static void send(struct pen_mailbox *mailbox, struct slot *slot)
{
    const struct pen_mailbox_options *options = &mailbox->options;
    struct pen_tag tag = tag_of(mailbox, slot->label.stage);
    if (options->is_phantom)
        pen_transport_send_phantom(mailbox->transport, options->peer, tag,
                                   slot->bytes, LABEL_BYTES,
                                   message_bytes(options), &slot->request);
    else
        pen_transport_send(mailbox->transport, options->peer, tag, slot->bytes,
                           message_bytes(options), &slot->request);
}

/* Receives of the pass that may be posted now. */
static uint32_t most_posted(const struct pen_mailbox *mailbox)
{
    return mailbox->is_open ? mailbox->num_expected
                            : mailbox->options.num_early;
}

static void post_receives(struct pen_mailbox *mailbox)
{
    while (mailbox->num_posted < most_posted(mailbox)) {
        struct slot *slot = free_slot(mailbox);
        if (slot == NULL)
            return;
        struct expected next = mailbox->expected[mailbox->num_posted++];
        slot->state = UNDER_WAY;
        slot->label = (struct pen_label){.pass = mailbox->pass,
                                         .stage = next.stage,
                                         .microbatch = next.microbatch};
        receive(mailbox, next.stage, slot);
    }
}

void pen_mailbox_begin(struct pen_mailbox *mailbox, uint64_t pass, bool is_open)
{
    bool is_in = mailbox->options.kind == PEN_MAILBOX_IN;
    PEN_BUG_UNLESS(!is_in || mailbox->num_posted == most_posted(mailbox) ||
                   mailbox->pass == 0);
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++)
        PEN_BUG_UNLESS(mailbox->slots[i].state != FILLED);
    mailbox->pass = pass;
    mailbox->num_posted = 0;
    mailbox->is_open = is_open;
    if (is_in)
        post_receives(mailbox);
}

void pen_mailbox_open(struct pen_mailbox *mailbox)
{
    mailbox->is_open = true;
    if (mailbox->options.kind == PEN_MAILBOX_IN)
        post_receives(mailbox);
}

bool pen_mailbox_rewind(struct pen_mailbox *mailbox)
{
    PEN_BUG_UNLESS(!mailbox->is_open && mailbox->claimed == NULL);
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++)
        if (!mailbox->slots[i].request.is_active)
            mailbox->slots[i].state = FREE;
    if (mailbox->options.kind == PEN_MAILBOX_IN)
        post_receives(mailbox);
    return pen_mailbox_is_idle(mailbox);
}

static void read_label(struct pen_mailbox *mailbox, struct slot *slot)
{
    struct pen_label came;
    memcpy(&came, slot->bytes + kept_bytes(&mailbox->options), sizeof came);
    PEN_BUG_UNLESS(came.pass == slot->label.pass &&
                   came.stage == slot->label.stage &&
                   came.microbatch == slot->label.microbatch);
    slot->label = came;
}

void pen_mailbox_poll(struct pen_mailbox *mailbox)
{
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++) {
        struct slot *slot = &mailbox->slots[i];
        if (!slot->request.is_active ||
            pen_transport_test(mailbox->transport, &slot->request) != PEN_OK)
            continue;
        if (mailbox->options.kind == PEN_MAILBOX_IN) {
            read_label(mailbox, slot);
            slot->state = THERE;
        } else {
            slot->state = FREE;
        }
    }
}

bool pen_mailbox_is_idle(const struct pen_mailbox *mailbox)
{
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++)
        if (mailbox->slots[i].request.is_active)
            return false;
    return true;
}

void *pen_mailbox_claim(struct pen_mailbox *mailbox)
{
    PEN_BUG_UNLESS(mailbox->options.kind != PEN_MAILBOX_IN &&
                   mailbox->claimed == NULL);
    struct slot *slot = free_slot(mailbox);
    if (slot == NULL)
        return NULL;
    slot->state = UNDER_WAY;
    mailbox->claimed = slot;
    return is_coded(&mailbox->options) ? mailbox->plain : slot->bytes;
}

void pen_mailbox_fill(struct pen_mailbox *mailbox, struct pen_label label)
{
    struct slot *slot = mailbox->claimed;
    PEN_BUG_UNLESS(slot != NULL);
    mailbox->claimed = NULL;
    label.pass = mailbox->pass;
    slot->label = label;
    if (mailbox->options.kind == PEN_MAILBOX_LOCAL) {
        slot->state = THERE;
        return;
    }
    if (is_coded(&mailbox->options))
        pen_message_encode(&mailbox->options.code, mailbox->plain,
                           mailbox->options.bytes, slot->bytes);
    char *behind = slot->bytes + kept_bytes(&mailbox->options);
    memset(behind, 0, LABEL_BYTES);
    memcpy(behind, &label, sizeof label);
    slot->state = FILLED;
}

/* The slot of a message; NULL where there is none. */
static struct slot *find_slot(const struct pen_mailbox *mailbox,
                              enum slot_state state, uint32_t stage,
                              uint32_t microbatch)
{
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++) {
        struct slot *slot = &mailbox->slots[i];
        if (slot->state == state && slot->label.stage == stage &&
            slot->label.microbatch == microbatch)
            return slot;
    }
    return NULL;
}

bool pen_mailbox_send(struct pen_mailbox *mailbox, uint32_t stage,
                      uint32_t microbatch)
{
    struct slot *slot = find_slot(mailbox, FILLED, stage, microbatch);
    uint32_t num_active = 0;
    PEN_BUG_UNLESS(slot != NULL && mailbox->options.kind == PEN_MAILBOX_OUT);
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++)
        num_active += mailbox->slots[i].request.is_active;
    if (num_active >= mailbox->options.window)
        return false;
    slot->state = UNDER_WAY;
    send(mailbox, slot);
    return true;
}

/* Decodes the values of a message; its buffer is free for the next one. */
static const void *read_coded(struct pen_mailbox *mailbox, struct slot *slot)
{
    PEN_BUG_UNLESS(!mailbox->is_read);
    pen_message_decode(&mailbox->options.code, slot->bytes,
                       mailbox->options.bytes, mailbox->plain);
    mailbox->is_read = true;
    slot->state = FREE;
    post_receives(mailbox);
    return mailbox->plain;
}

bool pen_mailbox_has(const struct pen_mailbox *mailbox, uint32_t stage,
                     uint32_t microbatch)
{
    return find_slot(mailbox, THERE, stage, microbatch) != NULL;
}

const void *pen_mailbox_take(struct pen_mailbox *mailbox, uint32_t stage,
                             uint32_t microbatch, struct pen_label *label)
{
    struct slot *slot = find_slot(mailbox, THERE, stage, microbatch);
    if (slot == NULL)
        return NULL;
    *label = slot->label;
    if (is_coded(&mailbox->options))
        return read_coded(mailbox, slot);
    slot->state = TAKEN;
    return slot->bytes;
}

void pen_mailbox_release(struct pen_mailbox *mailbox, const void *buffer)
{
    if (is_coded(&mailbox->options)) {
        PEN_BUG_UNLESS(mailbox->is_read && buffer == mailbox->plain);
        mailbox->is_read = false;
        return;
    }
    for (uint32_t i = 0; i < mailbox->options.num_slots; i++) {
        struct slot *slot = &mailbox->slots[i];
        if (slot->bytes != buffer)
            continue;
        PEN_BUG_UNLESS(slot->state == TAKEN);
        slot->state = FREE;
        if (mailbox->options.kind == PEN_MAILBOX_IN)
            post_receives(mailbox);
        return;
    }
    PEN_BUG_UNLESS(false);
}
