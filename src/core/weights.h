#ifndef PEN_CORE_WEIGHTS_H
#define PEN_CORE_WEIGHTS_H

#include "core/image_model.h"
#include "core/model.h"
#include "core/safetensors.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The weights of a model on disk, as Hugging Face lays them out: one file
 * model.safetensors, or shards with an index that says which tensor is where.
 *
 *   model-00001-of-00002.safetensors
 *   model-00002-of-00002.safetensors
 *   model.safetensors.index.json
 */

/* "weight_map" of an index, sorted by file, then tensor. */
struct pen_weight_index {
    struct pen_weight_place {
        const char *file; /* a name in the folder of the index, never a path */
        const char *tensor;
    } * places;
    size_t num_places;
    void *json; /* has the strings */
};

/* Parses an index. On success release with pen_weight_index_release(). */
pen_status pen_weight_index_parse(const char *text, size_t length,
                                  struct pen_weight_index *out,
                                  struct pen_text *why);

void pen_weight_index_release(struct pen_weight_index *index);

struct json_t;
struct pen_weights;

/*
 * Opens a .safetensors file, an index.json, or a directory that has
 * model.safetensors or model.safetensors.index.json. Every file is checked as
 * pen_safetensors_open() does, and every tensor of the index must be in the
 * file that it names.
 */
pen_status pen_weights_open(const char *path, struct pen_weights **out,
                            struct pen_text *why);

/*
 * Joins the tensors of several files, whose names must differ. Takes the files
 * over in either case; the array stays the caller's.
 */
pen_status pen_weights_join(struct pen_safetensors *const *files, size_t count,
                            struct pen_weights **out, struct pen_text *why);

void pen_weights_close(struct pen_weights *weights);

size_t pen_weights_count(const struct pen_weights *weights);

/*
 * Returns a tensor in the order of names; borrowed until the weights are
 * closed, as below.
 */
const struct pen_safetensor *pen_weights_at(const struct pen_weights *weights,
                                            size_t index);

/*
 * Returns the sections of a model with heads in the middle that these weights
 * are of (model_local.c); 1 where they have no such heads.
 */
uint32_t pen_weights_num_sections(const struct pen_weights *weights);

/* Returns the tensor of this name, or NULL. */
const struct pen_safetensor *pen_weights_find(const struct pen_weights *weights,
                                              const char *name);

/* Refuses another shape, or a type that pen_dtype_to_float() does not read. */
pen_status pen_weights_check(const struct pen_safetensor *tensor,
                             const char *name, uint32_t num_dims,
                             const uint64_t *shape, struct pen_text *why);

/*
 * Finds the bytes of a model's tensor, under its name or the bare one. They
 * must have the model's shape and a type that pen_dtype_to_float() reads, or
 * are refused.
 */
pen_status pen_weights_find_tensor(const struct pen_weights *weights,
                                   const struct pen_model *model,
                                   uint32_t tensor,
                                   const struct pen_safetensor **out,
                                   struct pen_text *why);

/* Finds the same for an image model; a number of batches is one I64. */
pen_status pen_weights_find_image_tensor(const struct pen_weights *weights,
                                         const struct pen_image_model *model,
                                         uint32_t tensor,
                                         const struct pen_safetensor **out,
                                         struct pen_text *why);

/*
 * Writes PREFIX.safetensors, or shards of at most max_shard_bytes (0: no limit)
 * and PREFIX.safetensors.index.json, into a directory that exists. Tensors go
 * to shards in the order of specs; a larger one gets a shard of its own. A
 * shard is on disk, under its final name, as soon as it is complete, so that
 * putting in the order of specs keeps one file open.
 */
struct pen_weights_writer;

/*
 * Specs and names must live until the writer ends; names must differ. On
 * success end with _finish() or _abandon().
 */
pen_status pen_weights_create(const char *directory, const char *prefix,
                              const struct pen_tensor_spec *specs, size_t count,
                              uint64_t max_shard_bytes,
                              struct pen_weights_writer **out,
                              struct pen_text *why);

/* Puts bytes like pen_safetensors_put(). */
pen_status pen_weights_put(struct pen_weights_writer *writer, size_t tensor,
                           const void *bytes, size_t length,
                           struct pen_text *why);

/* Puts bytes like pen_safetensors_put_at(). */
pen_status pen_weights_put_at(struct pen_weights_writer *writer, size_t tensor,
                              uint64_t at, const void *bytes, size_t length,
                              struct pen_text *why);

/*
 * Completes all files, whose tensors must all be complete, but writes no index.
 * For callers that write one index over the files of several writers; they end
 * with pen_weights_free().
 */
pen_status pen_weights_flush(struct pen_weights_writer *writer,
                             struct pen_text *why);

/* A file after pen_weights_flush(). */
struct pen_weights_file {
    struct pen_file_facts facts; /* as pen_safetensors_finish() gives them */
    size_t first;                /* of the specs that it has, */
    size_t count;                /* and how many follow */
    uint64_t tensor_bytes;
};

size_t pen_weights_num_files(const struct pen_weights_writer *writer);

/* Adds the name to `name`. */
void pen_weights_file(const struct pen_weights_writer *writer, size_t file,
                      struct pen_text *name, struct pen_weights_file *out);

/*
 * Writes the given specs to order[count] in an order that fills one file after
 * the other from begin to end.
 */
void pen_weights_order(const struct pen_weights_writer *writer,
                       const struct pen_tensor_spec **order);

/* Frees the writer and leaves the files that were written. */
void pen_weights_free(struct pen_weights_writer *writer);

/*
 * Completes the files, of which every tensor must be complete. Writes the index
 * last; removes a single file or index of an earlier write that would now
 * contradict it. Frees the writer in either case.
 */
pen_status pen_weights_finish(struct pen_weights_writer *writer,
                              struct pen_text *why);

/* Removes what was written. */
void pen_weights_abandon(struct pen_weights_writer *writer);

/* Adds "PREFIX.safetensors" or "PREFIX-00001-of-00002.safetensors". */
void pen_weights_add_name(const char *prefix, size_t file, size_t num_files,
                          struct pen_text *out);

/*
 * Prints the text of an index: takes an object of names and files. NULL when
 * there is no memory; free it.
 */
char *pen_weight_index_print(struct json_t *map, uint64_t total_bytes);

#endif
