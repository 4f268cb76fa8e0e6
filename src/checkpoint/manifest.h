#ifndef PEN_CHECKPOINT_MANIFEST_H
#define PEN_CHECKPOINT_MANIFEST_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * MANIFEST.json of a checkpoint: everything that a run needs in addition to its
 * tensors in order to resume exactly, and size and hash of every file. Its last
 * key is its own hash, so that a single wrong bit anywhere is found.
 */
#define PEN_MANIFEST_NAME "MANIFEST.json"
#define PEN_MANIFEST_MAX_BYTES (16u << 20)
#define PEN_MANIFEST_MAX_FILES 65536u
#define PEN_MANIFEST_MAX_MOMENTS 2u
#define PEN_MANIFEST_MAX_REPLICAS (1u << 20)
#define PEN_MANIFEST_MAX_PIECES 1024u
#define PEN_MANIFEST_WORD_SIZE 32u

/*
 * A run has an id of 16 hexadecimal digits, drawn once when it starts and kept
 * when it is resumed in its folder. Release 0.1.0 wrote none: its steps, and
 * those of the runs that it began, have the id PEN_RUN_ID_OLD.
 */
#define PEN_RUN_ID_SIZE 17u
#define PEN_RUN_ID_OLD "0000000000000000"

pen_status pen_run_id_draw(char out[PEN_RUN_ID_SIZE], struct pen_text *why);
bool pen_run_id_is_valid(const char *text);

struct pen_manifest_file {
    char *name; /* in the directory of the manifest; never a path */
    uint64_t num_bytes;
    char hash[PEN_HASH_SIZE];
};

struct pen_manifest {
    char run[PEN_RUN_ID_SIZE];
    uint64_t step;        /* how many were taken */
    uint64_t sample;      /* the first that no step has used; a global index */
    enum pen_dtype dtype; /* the run computes in: F32 or BF16 */
    char optimizer[PEN_MANIFEST_WORD_SIZE]; /* "adamw" */
    uint32_t num_moments;                   /* that it keeps per weight */
    uint32_t num_replicas;        /* logical ones, whose gradients are summed */
    uint32_t num_pieces;          /* that the decoder is cut into, usually 1 */
    struct json_t *random;        /* states by logical name */
    struct json_t *sync;          /* NULL: replicas are all the same */
    struct json_t *configuration; /* settings by name */
    struct json_t *command;       /* that trained; NULL: not known */
    char configuration_hash[PEN_HASH_SIZE];
    char previous[PEN_HASH_SIZE];    /* hash of the manifest before, or "" */
    struct pen_manifest_file *files; /* sorted by name */
    size_t num_files;
    char hash[PEN_HASH_SIZE]; /* of the file that was parsed or printed */
};

/*
 * Makes an empty manifest: PEN_RUN_ID_OLD, step 0, F32, optimizer "none", one
 * replica. Release in either case.
 */
pen_status pen_manifest_init(struct pen_manifest *manifest,
                             struct pen_text *why);
void pen_manifest_release(struct pen_manifest *manifest);

/*
 * Set or get the state of a random generator by its logical name, such as
 * "dropout": never by rank, since another layout continues with it. False when
 * there is none of that name. Names have up to 63 lower-case letters, digits
 * and "._-".
 */
pen_status pen_manifest_set_random(struct pen_manifest *manifest,
                                   const char *name, uint64_t state,
                                   struct pen_text *why);
bool pen_manifest_get_random(const struct pen_manifest *manifest,
                             const char *name, uint64_t *out);

/*
 * Settings that change the numbers of a run, by name as above. Text is UTF-8,
 * numbers are finite.
 */
pen_status pen_manifest_set_text(struct pen_manifest *manifest,
                                 const char *name, const char *value,
                                 struct pen_text *why);
pen_status pen_manifest_set_number(struct pen_manifest *manifest,
                                   const char *name, double value,
                                   struct pen_text *why);
pen_status pen_manifest_set_integer(struct pen_manifest *manifest,
                                    const char *name, int64_t value,
                                    struct pen_text *why);
pen_status pen_manifest_set_flag(struct pen_manifest *manifest,
                                 const char *name, bool value,
                                 struct pen_text *why);

/*
 * Refuses when the settings differ; why names each that does, with both
 * values.
 */
pen_status pen_manifest_compare_settings(const struct pen_manifest *saved,
                                         const struct pen_manifest *wanted,
                                         struct pen_text *why);

/* How replicas with weights of their own stay together. */
struct pen_manifest_sync {
    const char *method; /* a name as above, as the compressor's */
    uint32_t interval;  /* steps; at least 1 */
    uint32_t num_replicas;
    const char *compressor; /* NULL: none */
};

/* Sets or replaces it, without options. */
pen_status pen_manifest_set_sync(struct pen_manifest *manifest,
                                 const struct pen_manifest_sync *sync,
                                 struct pen_text *why);

/* Sets an option of the method, or of the compressor; finite. */
pen_status pen_manifest_set_sync_option(struct pen_manifest *manifest,
                                        bool is_of_compressor, const char *name,
                                        double value, struct pen_text *why);

/*
 * Reads the method. False when there is none. Borrowed until the manifest
 * changes.
 */
bool pen_manifest_get_sync(const struct pen_manifest *manifest,
                           struct pen_manifest_sync *out);

/*
 * Compares method, options and the rest, like pen_manifest_compare_settings().
 */
pen_status pen_manifest_compare_sync(const struct pen_manifest *saved,
                                     const struct pen_manifest *wanted,
                                     struct pen_text *why);

/*
 * Sets the command that trained: its ranks, from 1, and its options by name,
 * each with a list of the words that followed it. The object is referenced.
 */
pen_status pen_manifest_set_command(struct pen_manifest *manifest,
                                    uint32_t num_ranks, struct json_t *options,
                                    struct pen_text *why);

/* Returns the options; NULL when they are unknown. Borrowed, as above. */
struct json_t *pen_manifest_get_command(const struct pen_manifest *manifest,
                                        uint32_t *num_ranks);

/* Adds a file; names must differ. In their order it is fastest. */
pen_status pen_manifest_add_file(struct pen_manifest *manifest,
                                 const char *name, uint64_t num_bytes,
                                 const char hash[PEN_HASH_SIZE],
                                 struct pen_text *why);

/*
 * Returns the file of this name, or NULL. Borrowed until the manifest changes.
 */
const struct pen_manifest_file *
pen_manifest_find_file(const struct pen_manifest *manifest, const char *name);

uint64_t pen_manifest_total_bytes(const struct pen_manifest *manifest);

/*
 * Prints the file and sets the hashes of the configuration and of the file. The
 * text parses as the same manifest.
 */
pen_status pen_manifest_print(struct pen_manifest *manifest,
                              struct pen_text *out, struct pen_text *why);

/* Parses a manifest. On success release *out; on failure it is untouched. */
pen_status pen_manifest_parse(const char *text, size_t length,
                              struct pen_manifest *out, struct pen_text *why);

/*
 * Appends the key with the manifest's own hash and the closing brace to a text
 * that lacks both. Part of pen_manifest_print(); separate for tests of the
 * reader with manifests that no writer would write.
 */
pen_status pen_manifest_seal(struct pen_text *text, struct pen_text *why);

#endif
