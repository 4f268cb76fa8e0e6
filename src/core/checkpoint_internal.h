#ifndef PEN_CORE_CHECKPOINT_INTERNAL_H
#define PEN_CORE_CHECKPOINT_INTERNAL_H

/* What the files of the checkpoint share. */
#include "core/checkpoint.h"

#define PEN__MAX_SETTINGS 1024u
#define PEN__MAX_SETTING_BYTES 65536u
/* Sums of sizes stay far below 2^64. */
#define PEN__MAX_FILE_BYTES (UINT64_C(1) << 47)
#define PEN__MAX_STEP UINT64_C(999999999999)

bool pen__is_setting_name(const char *name);
bool pen__is_file_name(const char *name);

/* Reads and parses the manifest of a step directory. */
pen_status pen__checkpoint_read_manifest(const char *path,
                                         struct pen_manifest *out,
                                         struct pen_text *why);

/* Names of writers that are at work, or were when they ended. */
#define PEN__TEMPORARY ".tmp-"

/* Whether exactly the files of the manifest are there, with their sizes. */
pen_status pen__checkpoint_check_files(const char *path,
                                       const struct pen_manifest *manifest,
                                       struct pen_text *why);

/* As pen_checkpoint_verify(); gives the manifest. */
pen_status pen__checkpoint_verify(const char *path,
                                  const struct pen_checkpoint_watch *watch,
                                  struct pen_manifest *out,
                                  struct pen_text *why);

/* All names in a directory, sorted. */
struct pen__names {
    char **names;
    size_t count;
};

pen_status pen__names_list(const char *path, struct pen__names *out,
                           struct pen_text *why);
void pen__names_release(struct pen__names *names);

/* "step-00001000" of a step and back; false for any other name. */
#define PEN__STEP_NAME_SIZE 32u
void pen__step_name(uint64_t step, char out[PEN__STEP_NAME_SIZE]);
bool pen__step_parse(const char *name, uint64_t *out);

/* Adds RUN/step-NNNNNNNN. */
void pen__step_path(const char *run, uint64_t step, struct pen_text *out);

/* The numbers in a run's directory, sorted. Free `steps`. */
struct pen__steps {
    uint64_t *steps;
    size_t count;
};

pen_status pen__steps_list(const char *run, struct pen__steps *out,
                           struct pen_text *why);

/* How far a long reading is, and who wants to know. */
struct pen__reading {
    const struct pen_checkpoint_watch *watch;
    uint64_t done;
    uint64_t total;
};

void pen__reading_add(struct pen__reading *reading, uint64_t num_bytes);

/* Size and hash of a regular file, which must not be a link. */
struct pen__file_facts {
    uint64_t num_bytes;
    char hash[PEN_HASH_SIZE];
};

pen_status pen__file_hash(const char *path, struct pen__reading *reading,
                          struct pen__file_facts *out, struct pen_text *why);

/* As pen_checkpoint_find(). */
pen_status pen__find_part(const struct pen_any_model *model, uint32_t tensor,
                          enum pen_checkpoint_part part,
                          const struct pen_weights *weights,
                          const struct pen_weights *optimizer,
                          const struct pen_safetensor **out,
                          struct pen_text *why);

/*
 * What cannot be removed stays: it takes room, but no reader looks at it. A
 * step gets such a name before it is removed.
 */
void pen__tree_remove(const char *path);
void pen__step_remove(const char *run, uint64_t step);
void pen__leftovers_remove(const char *run); /* of interrupted writers */

struct pen_checkpoint_writer {
    struct pen_text run;
    struct pen_text temporary;
    int run_handle; /* open and locked */
    struct pen_manifest manifest;
    struct pen_text names;           /* of all tensors, each with a NUL */
    uint64_t *dims;                  /* of all tensors */
    struct pen_tensor_spec *specs;   /* weights, */
    struct pen_tensor_spec *moments; /* then the moments of each in turn */
    size_t *first_moments;           /* of each weight, in moments */
    size_t num_specs;
    size_t num_moment_specs;
    struct pen_weights_writer *model;     /* NULL once finished, */
    struct pen_weights_writer *optimizer; /* or when there are no moments */
};

void pen__checkpoint_deallocate(struct pen_checkpoint_writer *writer);

#endif
