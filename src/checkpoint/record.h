#ifndef PEN_CHECKPOINT_RECORD_H
#define PEN_CHECKPOINT_RECORD_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The record of a process's share of a checkpoint, for the leader, which makes
 * one checkpoint of all shares: files with size and hash, and the names of the
 * tensors in them. One line of JSON:
 *
 *   {"format": "penstock-share", "version": 1, "step": 1000, "share": 3,
 *    "files": [{"kind": "model", "name": "model.000003.safetensors",
 *               "bytes": 96, "sha256": "...", "tensor_bytes": 16,
 *               "tensors": ["a"]}]}
 */
#define PEN_RECORD_MAX_BYTES (256u << 20)
#define PEN_RECORD_MAX_FILES 65536u
#define PEN_RECORD_MAX_SHARE 999999u

enum pen_record_kind {
    PEN_RECORD_MODEL,     /* weights */
    PEN_RECORD_OPTIMIZER, /* moments */
    PEN_RECORD_SYNC,      /* older weights, and extras */
    PEN_RECORD_KINDS
};

/* Returns "model", "optimizer" or "sync": the beginning of a file's name. */
const char *pen_record_kind_name(enum pen_record_kind kind);

struct pen_record_file {
    enum pen_record_kind kind;
    const char *name; /* in the directory of the checkpoint; "KIND. ..." */
    struct pen_file_facts facts;
    uint64_t tensor_bytes; /* without the header */
    const char **tensors;
    size_t num_tensors;
    size_t num_extras; /* the last of them: no versions; of kind sync only */
};

struct pen_record {
    uint64_t step;
    uint32_t share; /* the share number of the process that wrote it */
    struct pen_record_file *files;
    size_t num_files;
    void *json; /* has the strings, if it was parsed */
};

/* Prints the record. The text parses as the same record. */
pen_status pen_record_print(const struct pen_record *record,
                            struct pen_text *out, struct pen_text *why);

/*
 * Parses a record. On success release with pen_record_release(); else *out is
 * untouched.
 */
pen_status pen_record_parse(const char *text, size_t length,
                            struct pen_record *out, struct pen_text *why);

/* Files and lists of tensors; strings belong to the JSON. */
void pen_record_release(struct pen_record *record);

#endif
