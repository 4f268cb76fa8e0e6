#ifndef PEN_CHECKPOINT_INTERNAL_H
#define PEN_CHECKPOINT_INTERNAL_H

/* Declarations shared by the files of the checkpoint. */
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/record.h"
#include "checkpoint/share.h"

#define PEN__MAX_SETTINGS 1024u
#define PEN__MAX_SETTING_BYTES 65536u
/* Sums of sizes stay far below 2^64. */
#define PEN__MAX_FILE_BYTES (UINT64_C(1) << 47)
#define PEN__MAX_STEP UINT64_C(999999999999)

bool pen__is_setting_name(const char *name);

/* Adds "lr is 1 in the checkpoint and 2 here"; NULL is nothing. */
void pen__tell_difference(const char *name, const json_t *saved,
                          const json_t *wanted, struct pen_text *why);

/* Reads the key "sync" of a manifest; *out is another reference to it. */
pen_status pen__manifest_read_sync(const struct pen_json *json, json_t **out,
                                   struct pen_text *why);

/* Reads the key "command" likewise, if it exists. */
pen_status pen__manifest_read_command(const struct pen_json *json,
                                      uint32_t version, json_t **out,
                                      struct pen_text *why);
bool pen__is_file_name(const char *name);

/*
 * Returns whether a file of a checkpoint has tensors, or is an index of them.
 */
bool pen__is_tensor_file(const char *name);

/* Adds "weight", "moment2", "version1". */
void pen__part_word(enum pen_checkpoint_part part, struct pen_text *out);

/* Adds the name that a part has in its file: "NAME", "NAME.moment2". */
void pen__part_name(const char *tensor, enum pen_checkpoint_part part,
                    struct pen_text *out);

/*
 * Returns whether the name ends with ".version" and a number, which no extra's
 * name may.
 */
bool pen__is_version_name(const char *name);

/* Returns the next extra by name, NULL after the last; *at is 0 at first. */
const struct pen_safetensor *
pen__next_extra(const struct pen_checkpoint *checkpoint, size_t *at);

/* Reads and parses the manifest of a step directory. */
pen_status pen__checkpoint_read_manifest(const char *path,
                                         struct pen_manifest *out,
                                         struct pen_text *why);

/* Names of writers that are at work, or were when they ended. */
#define PEN__TEMPORARY ".tmp-"

/* Checks that exactly the files of the manifest exist, with their sizes. */
pen_status pen__checkpoint_check_files(const char *path,
                                       const struct pen_manifest *manifest,
                                       struct pen_text *why);

/* Verifies like pen_checkpoint_verify(), and returns the manifest. */
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

/* Adds RUN/step-NNNNNNNN, and what it is called while it is written. */
void pen__step_path(const char *run, uint64_t step, struct pen_text *out);
void pen__temporary_path(const char *run, uint64_t step, struct pen_text *out);

/* Makes the folder of a run (mode 0700) unless it is there. */
pen_status pen__run_make(const char *run, struct pen_text *why);

/* Refuses unless all whole steps of the list are of one run; names the runs. */
pen_status pen__list_check_run(const struct pen_checkpoint_list *list,
                               const char *path, struct pen_text *why);

/* The numbers in a run's directory, sorted. Free `steps`. */
struct pen__steps {
    uint64_t *steps;
    size_t count;
};

pen_status pen__steps_list(const char *run, struct pen__steps *out,
                           struct pen_text *why);

/* The progress of a long reading, and the caller that wants to know it. */
struct pen__reading {
    const struct pen_checkpoint_watch *watch;
    uint64_t done;
    uint64_t total;
};

void pen__reading_add(struct pen__reading *reading, uint64_t num_bytes);

/* Computes the facts of a regular file, which must not be a link. */
pen_status pen__file_hash(const char *path, struct pen__reading *reading,
                          struct pen_file_facts *out, struct pen_text *why);

/*
 * Remove as much as possible: a file that cannot be removed takes room, but no
 * reader looks at it. A step gets a temporary name before it is removed.
 */
void pen__tree_remove(const char *path);
void pen__step_remove(const char *run, int run_handle, uint64_t step);
void pen__leftovers_remove(const char *run); /* of interrupted writers */

struct pen_checkpoint_writer {
    struct pen_text run;
    struct pen_text temporary;
    int run_handle; /* open and locked */
    struct pen_manifest manifest;
    char other_run[PEN_RUN_ID_SIZE];    /* that a step there has; "": none */
    bool has_several_runs;              /* and another one has another */
    json_t *missing[PEN_RECORD_SYNC];   /* names that no file has, by kind */
    struct pen_checkpoint_share *share; /* its own, or NULL */
    struct pen_record *records;         /* of all shares */
    size_t num_records;
};

void pen__checkpoint_deallocate(struct pen_checkpoint_writer *writer);

/* Does what pen_checkpoint_finish() says of keep, after the step has a name. */
void pen__checkpoint_remove_old(const struct pen_checkpoint_writer *writer,
                                struct pen_checkpoint_keep *keep);

/*
 * Makes one set of files of all shares: names, indexes, entries of the
 * manifest. Refused unless they have every tensor once.
 */
pen_status pen__checkpoint_collect(struct pen_checkpoint_writer *writer,
                                   struct pen_text *why);

#endif
