#ifndef PEN_CHECKPOINT_CHECKPOINT_H
#define PEN_CHECKPOINT_CHECKPOINT_H

#include "checkpoint/manifest.h"
#include "core/any_model.h"
#include "core/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Checkpoints of a run:
 *
 *   RUN/step-00001000/model.safetensors       weights, float32; or shards
 *                     optimizer.safetensors   NAME.moment1, NAME.moment2
 *                     sync.safetensors        NAME.version1, ... and extras,
 *                                             if any
 *                     config.json             and tokenizer files
 *                     MANIFEST.json           sizes, hashes, and all that a run
 *                                             needs to resume exactly
 *
 * A step appears under its name when all of it is on disk, and is loaded only
 * if every byte matches the manifest. There is no pointer to the newest: a
 * reader looks, verifies, and takes the largest step that is whole.
 */

/* The kinds of data kept of a tensor. */
enum pen_checkpoint_part {
    PEN_CHECKPOINT_WEIGHT,
    PEN_CHECKPOINT_MOMENT1,
    PEN_CHECKPOINT_MOMENT2,
    PEN_CHECKPOINT_VERSION1 /* the weight one step before; then older ones */
};

#define PEN_CHECKPOINT_MAX_VERSIONS 65536u

/*
 * A caller that wants the progress of a long reading; may be NULL everywhere.
 */
struct pen_checkpoint_watch {
    void (*report)(void *context, uint64_t done, uint64_t total); /* bytes */
    void *context;
};

/* Files are hashed in blocks of this many bytes, one at a time. */
#define PEN_CHECKPOINT_BLOCK_BYTES ((size_t)1 << 20)

/* ------------------------------------------------------------- Writing */

struct pen_checkpoint_writer;

/* Moments that come with a tensor; a truth value says all or none. */
enum pen_checkpoint_moments {
    PEN_MOMENTS_NONE, /* the weight is all: a running statistic */
    PEN_MOMENTS_ALL,
    PEN_MOMENTS_FIRST /* of a matrix that Muon steps */
};

/* A tensor that is going to be kept. */
struct pen_checkpoint_tensor {
    struct pen_tensor_spec spec;
    enum pen_checkpoint_moments has_moments;
    uint32_t num_versions; /* older weights in float32 */
};

/* Moments of a tensor in a checkpoint that keeps at most num_moments. */
static inline uint32_t
pen_checkpoint_tensor_moments(enum pen_checkpoint_moments has,
                              uint32_t num_moments)
{
    if (has == PEN_MOMENTS_NONE)
        return 0;
    return has == PEN_MOMENTS_FIRST && num_moments > 1 ? 1 : num_moments;
}

/*
 * Returns the moments of a tensor under this optimizer, by its name in the
 * manifest.
 */
static inline enum pen_checkpoint_moments
pen_checkpoint_moments_of(const char *optimizer,
                          const struct pen_any_tensor *tensor)
{
    if (!tensor->is_trained)
        return PEN_MOMENTS_NONE;
    return strcmp(optimizer, "muon") == 0 && tensor->is_block_matrix
               ? PEN_MOMENTS_FIRST
               : PEN_MOMENTS_ALL;
}

/*
 * Begins step `step` of a run, whose folder is made when it is missing. Removes
 * the remains of an interrupted writer; refuses a second writer at the same
 * time. Each tensor has one weight and, unless it has none, num_moments moments
 * of the same shape in float32. Tensors are only read during the call. They
 * come as records of shares; see share.h.
 *
 * On success end with pen_checkpoint_finish() or pen_checkpoint_abandon().
 */
pen_status pen_checkpoint_begin(const char *run, uint64_t step,
                                const struct pen_checkpoint_tensor *tensors,
                                size_t count, uint32_t num_moments,
                                struct pen_checkpoint_writer **out,
                                struct pen_text *why);

/*
 * Begins a step likewise for all tensors of a model, with the names and types
 * of pen_any_model_tensor(); writes config.json, too.
 */
pen_status pen_checkpoint_begin_for(const struct pen_any_model *model,
                                    const char *run, uint64_t step,
                                    uint32_t num_moments,
                                    struct pen_checkpoint_writer **out,
                                    struct pen_text *why);

/*
 * Drops from the expected tensors those that the optimizer of the run does not
 * keep; call it before the first record. Names are those of manifests.
 */
void pen_checkpoint_expect(struct pen_checkpoint_writer *writer,
                           const struct pen_any_model *model,
                           const char *optimizer);

/*
 * Adds a record; refuses one that is malformed, of another step, or added
 * already.
 */
pen_status pen_checkpoint_add_record(struct pen_checkpoint_writer *writer,
                                     const char *record, size_t length,
                                     struct pen_text *why);

/*
 * Begins a step that this process writes alone, with pen_checkpoint_put().
 * Shards as pen_weights_create() makes them.
 */
pen_status pen_checkpoint_create(const char *run, uint64_t step,
                                 const struct pen_checkpoint_tensor *tensors,
                                 size_t count, uint32_t num_moments,
                                 uint64_t max_shard_bytes,
                                 struct pen_checkpoint_writer **out,
                                 struct pen_text *why);

/*
 * Begins a step likewise for all tensors of a model, numbered as the model
 * numbers them.
 */
pen_status pen_checkpoint_create_for(const struct pen_any_model *model,
                                     const char *run, uint64_t step,
                                     uint32_t num_moments,
                                     uint64_t max_shard_bytes,
                                     struct pen_checkpoint_writer **out,
                                     struct pen_text *why);

/*
 * Appends bytes to a part of tensors[tensor]. Any order is right; going through
 * the tensors once, with all parts of each, keeps two files open.
 */
pen_status pen_checkpoint_put(struct pen_checkpoint_writer *writer,
                              enum pen_checkpoint_part part, size_t tensor,
                              const void *bytes, size_t length,
                              struct pen_text *why);

/* Adds a further file by its name, which no other has: config.json. */
pen_status pen_checkpoint_add_file(struct pen_checkpoint_writer *writer,
                                   const char *name, const void *bytes,
                                   size_t length, struct pen_text *why);

/* Copies a file, which keeps its name. */
pen_status pen_checkpoint_copy_file(struct pen_checkpoint_writer *writer,
                                    const char *path, struct pen_text *why);

/*
 * Copies those files of a directory that belong to a tokenizer or to
 * generation (tokenizer.json, merges.txt, generation_config.json, ...).
 */
pen_status pen_checkpoint_copy_tokenizer(struct pen_checkpoint_writer *writer,
                                         const char *directory,
                                         struct pen_text *why);

/*
 * Returns the manifest, in which the caller sets sample, dtype, optimizer,
 * random states and settings before the end. The writer sets everything else.
 * Borrowed.
 */
struct pen_manifest *
pen_checkpoint_manifest(struct pen_checkpoint_writer *writer);

/*
 * The steps that stay when a new one exists; the same object for all steps of a
 * run.
 */
struct pen_checkpoint_keep {
    uint32_t count;  /* the newest steps that stay; 0: all */
    bool has_loaded; /* and this one, which the run was resumed from */
    uint64_t loaded;
    uint64_t *verified; /* steps whose bytes were read; released with it */
    size_t num_verified;
};

void pen_checkpoint_keep_release(struct pen_checkpoint_keep *keep);

/*
 * Completes the step. Every tensor must be complete, or in one of the records.
 * Refuses a folder that has a step of another run. Syncs everything, then gives
 * the step its name; a step of this number that is there already is replaced.
 *
 * Then, if keep is not NULL and has a count, verifies the newest steps of this
 * run up to this one until that many are whole, and removes those before them.
 * Steps whose manifest or sizes are wrong do not count and stay; all steps stay
 * when the new one is not whole. A removal that fails is not reported.
 *
 * Frees the writer in either case. On failure nothing of the step is left and
 * the steps that were there are untouched; only if the very last sync fails,
 * the step is there, whole, and a power failure may take it.
 */
pen_status pen_checkpoint_finish(struct pen_checkpoint_writer *writer,
                                 struct pen_checkpoint_keep *keep,
                                 struct pen_text *why);

void pen_checkpoint_abandon(struct pen_checkpoint_writer *writer);

/* ------------------------------------------------------------- Reading */

enum pen_checkpoint_kind {
    PEN_CHECKPOINT_NONE, /* anything else, such as weights without a manifest */
    PEN_CHECKPOINT_STEP, /* a directory with a manifest */
    PEN_CHECKPOINT_RUN   /* a directory with step-NNNNNNNN directories */
};

enum pen_checkpoint_kind pen_checkpoint_kind_of(const char *path);

/* All pointers are borrowed until the checkpoint is closed. */
struct pen_checkpoint {
    struct pen_text path; /* of the step; pen_any_model_load() takes it */
    struct pen_manifest manifest;
    struct pen_weights *model;
    struct pen_weights *optimizer; /* NULL when there are no moments */
    struct pen_weights *sync;      /* NULL: neither versions nor extras */
    struct pen_text skipped; /* a line for each newer step that is not whole */
    bool is_newest;          /* of its run: the run was opened, not the step */
    bool is_in_memory;       /* of a run that continues in its folder */
};

/*
 * Opens a step, or of a run the newest that is whole; refused when its folder
 * has whole steps of several runs. Every byte is verified before any is used.
 * On success close with pen_checkpoint_close(). On failure why has the file and
 * what is wrong with it.
 */
pen_status pen_checkpoint_open(const char *path,
                               const struct pen_checkpoint_watch *watch,
                               struct pen_checkpoint **out,
                               struct pen_text *why);

void pen_checkpoint_close(struct pen_checkpoint *checkpoint);

/* Adds what to warn of when newer steps were skipped; nothing if none were. */
void pen_checkpoint_describe_skipped(const struct pen_checkpoint *checkpoint,
                                     struct pen_text *out);

/*
 * Finds one part of a tensor of the model, with the model's shape; all but
 * weights are F32. Refused when it is missing.
 */
pen_status pen_checkpoint_find(const struct pen_checkpoint *checkpoint,
                               const struct pen_any_model *model,
                               uint32_t tensor, enum pen_checkpoint_part part,
                               const struct pen_safetensor **out,
                               struct pen_text *why);

/* Returns how many older weights of a tensor there are. */
uint32_t pen_checkpoint_num_versions(const struct pen_checkpoint *checkpoint,
                                     const struct pen_any_model *model,
                                     uint32_t tensor);

/* Finds an extra of any share. Refused when it is missing. */
pen_status pen_checkpoint_find_extra(const struct pen_checkpoint *checkpoint,
                                     const char *name,
                                     const struct pen_safetensor **out,
                                     struct pen_text *why);

/*
 * Verifies a step without opening it: all files, all bytes. why has a line for
 * each file that is wrong.
 */
pen_status pen_checkpoint_verify(const char *path,
                                 const struct pen_checkpoint_watch *watch,
                                 struct pen_text *why);

/* A step of a run as its manifest and the sizes of its files have it. */
struct pen_checkpoint_entry {
    uint64_t step;
    struct pen_text path;
    uint64_t num_bytes;
    char run[PEN_RUN_ID_SIZE]; /* "" without a manifest that can be read */
    int64_t written_sec;       /* since 1970; 0 without a manifest */
    char manifest_hash[PEN_HASH_SIZE];
    bool is_whole;          /* bytes are not read */
    struct pen_text reason; /* why it is not */
};

struct pen_checkpoint_list {
    struct pen_checkpoint_entry *entries; /* by step */
    size_t count;
};

/*
 * Lists the steps of a run. On success release with
 * pen_checkpoint_list_release().
 */
pen_status pen_checkpoint_list_load(const char *run,
                                    struct pen_checkpoint_list *out,
                                    struct pen_text *why);
void pen_checkpoint_list_release(struct pen_checkpoint_list *list);

/*
 * Reads the manifest of a step, or of a run that of its newest step whose files
 * have their sizes; bytes are not read. *step is then the path of the step. On
 * success release both.
 */
pen_status pen_checkpoint_load_manifest(const char *path,
                                        struct pen_manifest *out,
                                        struct pen_text *step,
                                        struct pen_text *why);

/*
 * Computes one hash of all weights, moments and versions in the order of the
 * model's tensors, independent of the files and, since everything is widened to
 * float32, of the type; then of all extras by name, as they are. See
 * docs/formats.md.
 */
pen_status pen_checkpoint_hash(const struct pen_checkpoint *checkpoint,
                               const struct pen_any_model *model,
                               const struct pen_checkpoint_watch *watch,
                               char out[PEN_HASH_SIZE], struct pen_text *why);

/*
 * Computes the same hash of weights alone: those of a checkpoint, or of any
 * model.
 */
pen_status pen_weights_hash(const struct pen_weights *weights,
                            const struct pen_any_model *model,
                            const struct pen_checkpoint_watch *watch,
                            char out[PEN_HASH_SIZE], struct pen_text *why);

#endif
