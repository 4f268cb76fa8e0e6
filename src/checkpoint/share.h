#ifndef PEN_CHECKPOINT_SHARE_H
#define PEN_CHECKPOINT_SHARE_H

#include "checkpoint/checkpoint.h"
#include "core/tensor_piece.h"

/*
 * A checkpoint that several processes write:
 *
 *   leader  pen_checkpoint_begin_for(), then lets the others know
 *   each    writes its tensors as a share and sends the record, which is text,
 *           to the leader
 *   leader  pen_checkpoint_add_record() of each, pen_checkpoint_finish()
 *
 * Every tensor is in one share, with all of its parts. Further data of a
 * process, such as the state of a replica, are extras: tensors of any name and
 * shape, next to the older weights. Nothing here sends anything: the caller
 * transports the records. A share lies in the temporary directory until the
 * end; if it is missing, or the leader gives up, nothing of it stays. A process
 * must not write a share of a step that its leader has given up.
 *
 * A share and the leader's writer have nothing in common in memory: one thread
 * may write a share while another adds records.
 */
struct pen_checkpoint_share;

/*
 * The layout of a tensor in memory: pieces that tile it, one after the other,
 * as the ranks that share it have handed them in. Files have it whole.
 */
struct pen_checkpoint_cut {
    const struct pen_tensor_piece *pieces;
    size_t count;
};

struct pen_checkpoint_share_args {
    const char *run;
    uint64_t step;
    uint32_t number; /* each share has another, at most 999,999 */
    const struct pen_checkpoint_tensor *tensors; /* that this process has */
    const struct pen_checkpoint_cut *cuts; /* theirs; NULL: all are whole */
    size_t count;
    uint32_t num_moments;
    /* F32 or F64; no other share has one of these names, and none is that of a
     * version. */
    const struct pen_tensor_spec *extras;
    size_t num_extras;
    uint64_t max_shard_bytes; /* of a file; 0: no limit */
};

/*
 * Arguments are only read during the call. On success end with
 * pen_checkpoint_share_finish() or pen_checkpoint_share_abandon().
 */
pen_status
pen_checkpoint_share_create(const struct pen_checkpoint_share_args *args,
                            struct pen_checkpoint_share **out,
                            struct pen_text *why);

/* Puts bytes like pen_checkpoint_put(), with the numbers of args->tensors. */
pen_status pen_checkpoint_share_put(struct pen_checkpoint_share *share,
                                    enum pen_checkpoint_part part,
                                    size_t tensor, const void *bytes,
                                    size_t length, struct pen_text *why);

/* Puts bytes of an extra likewise, with the numbers of args->extras. */
pen_status pen_checkpoint_share_put_extra(struct pen_checkpoint_share *share,
                                          size_t extra, const void *bytes,
                                          size_t length, struct pen_text *why);

/*
 * Completes the share, of which every tensor must be complete. Appends the
 * record to *record once everything is on disk. Frees the share in either case;
 * on failure its files are gone.
 */
pen_status pen_checkpoint_share_finish(struct pen_checkpoint_share *share,
                                       struct pen_text *record,
                                       struct pen_text *why);

void pen_checkpoint_share_abandon(struct pen_checkpoint_share *share);

/* Where the bytes of a part are, as it is cut; they must not change meanwhile.
 */
struct pen_checkpoint_source {
    const void *(*bytes_of)(void *context, enum pen_checkpoint_part part,
                            size_t tensor);
    const void *(*extra_of)(void *context, size_t extra); /* NULL: none */
    void *context;
};

/*
 * Writes a whole share out of memory: one file after the other from begin to
 * end, hashed on the way, so that no byte is read again.
 */
pen_status
pen_checkpoint_share_write(const struct pen_checkpoint_share_args *args,
                           const struct pen_checkpoint_source *source,
                           struct pen_text *record, struct pen_text *why);

#endif
