#ifndef PEN_RUNTIME_MAILBOX_H
#define PEN_RUNTIME_MAILBOX_H

#include "engine/engine.h"
#include "runtime/message_code.h"
#include "runtime/transport.h"
#include "schedule/op.h"

/*
 * Messages from stage to stage: a ring of buffers for each channel of a rank,
 * that is (other rank, activation or gradient, in or out), and for each
 * boundary between two stages of its own.
 *
 *   out     claim  ->  computed into  ->  fill  ->  send  ->  (left)  ->  free
 *   in      (posted ahead)  ->  arrived  ->  take  ->  read  ->  free
 *   local   claim  ->  computed into  ->  fill  ->  take  ->  read  ->  free
 *
 * Receives are posted as soon as a buffer is free, in the order in which the
 * row receives them. A label travels with each message and is checked.
 *
 * Where messages are coded, the buffers have them as they travel, and one more
 * has the values of the message that is computed or read.
 */
struct pen_mailbox;

enum pen_mailbox_kind { PEN_MAILBOX_OUT, PEN_MAILBOX_IN, PEN_MAILBOX_LOCAL };

/* Which message: 64 bytes after the payload, coded or not. */
struct pen_label {
    uint64_t pass;
    uint32_t stage;      /* that consumes it */
    uint32_t microbatch; /* of the schedule */
    uint32_t version;    /* of the weights that its forward used */
};

struct pen_mailbox_options {
    enum pen_mailbox_kind kind;
    enum pen_direction direction;
    uint32_t peer;                /* world rank; the own one for local */
    uint32_t num_slots;           /* buffers */
    uint32_t window;              /* sends that may be under way; of an OUT */
    size_t bytes;                 /* of a payload; a multiple of 64 */
    struct pen_message_code code; /* on its way; not for local */
    bool is_phantom;              /* the buffers have labels alone */
    struct pen_engine *engine;    /* whose staging memory they are, or NULL */
    uint32_t num_early;           /* messages of a pass that are received before
                                     an IN is opened */
};

/* On failure *out is untouched. */
pen_status pen_mailbox_create(struct pen_transport *transport,
                              const struct pen_mailbox_options *options,
                              struct pen_mailbox **out);
void pen_mailbox_free(struct pen_mailbox *mailbox);

const struct pen_mailbox_options *
pen_mailbox_options(const struct pen_mailbox *mailbox);

/* Bytes that it holds. */
size_t pen_mailbox_bytes(const struct pen_mailbox *mailbox);

/* For an IN: a message comes in every pass, in the order of the calls. */
pen_status pen_mailbox_expect(struct pen_mailbox *mailbox, uint32_t stage,
                              uint32_t microbatch);

/*
 * Begins a pass; everything of the one before has been taken. One that is not
 * open receives its early messages alone.
 */
void pen_mailbox_begin(struct pen_mailbox *mailbox, uint64_t pass,
                       bool is_open);
void pen_mailbox_open(struct pen_mailbox *mailbox);

/*
 * For a pass that begins again before it was opened: throws away all messages,
 * filled or received. True when none is under way any more.
 */
bool pen_mailbox_rewind(struct pen_mailbox *mailbox);

/* Tests messages under way, and posts receives that can be posted. */
void pen_mailbox_poll(struct pen_mailbox *mailbox);

/* True when no send is under way. */
bool pen_mailbox_is_idle(const struct pen_mailbox *mailbox);

/* A buffer to compute into; NULL while none is free. */
void *pen_mailbox_claim(struct pen_mailbox *mailbox);

/*
 * The buffer that was claimed last is complete. pass of the label is set here.
 */
void pen_mailbox_fill(struct pen_mailbox *mailbox, struct pen_label label);

/* Sends a filled message; false while the window of the channel is full. */
bool pen_mailbox_send(struct pen_mailbox *mailbox, uint32_t stage,
                      uint32_t microbatch);

/*
 * The message, or NULL while it is not there. The next may be taken when this
 * one was released, where they are coded.
 */
const void *pen_mailbox_take(struct pen_mailbox *mailbox, uint32_t stage,
                             uint32_t microbatch, struct pen_label *label);

/* Whether pen_mailbox_take() would find the message. */
bool pen_mailbox_has(const struct pen_mailbox *mailbox, uint32_t stage,
                     uint32_t microbatch);

/* Frees a buffer that was taken. */
void pen_mailbox_release(struct pen_mailbox *mailbox, const void *buffer);

#endif
