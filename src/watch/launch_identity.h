#ifndef PEN_WATCH_LAUNCH_IDENTITY_H
#define PEN_WATCH_LAUNCH_IDENTITY_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What must be the same on all ranks before a job may start. One rank sends its
 * own to all others, which compare: the struct has no pointers, and its size
 * stays as it is in all versions, so that another build can be told.
 */

/* Name, and how a sentence calls it. */
#define PEN_IDENTITY_TABLE(X)                                                  \
    X(BUILD, "build")                                                          \
    X(PLAN, "plan")                                                            \
    X(MODEL, "model")                                                          \
    X(OPTIONS, "options")                                                      \
    X(DATA, "data")

enum pen_identity_part {
#define PEN_IDENTITY_ENUM(name, words) PEN_IDENTITY_##name,
    PEN_IDENTITY_TABLE(PEN_IDENTITY_ENUM)
#undef PEN_IDENTITY_ENUM
        PEN_IDENTITY_PARTS
};

struct pen_launch_identity {
    uint32_t magic;
    uint32_t rank;
    char host[56];
    struct {
        char words[112]; /* for people; cut when longer */
        char hash[PEN_HASH_SIZE];
    } parts[PEN_IDENTITY_PARTS];
    char reserved[75];
};

void pen_launch_identity_init(struct pen_launch_identity *identity,
                              uint32_t rank, const char *host);

/* What a part is, as people call it, and the bytes that have to be equal. */
pen_status pen_launch_identity_set(struct pen_launch_identity *identity,
                                   enum pen_identity_part part,
                                   const char *words, const void *bytes,
                                   size_t length, struct pen_text *why);

/*
 * The data as its files: their names, without folders, and sizes. Nodes may
 * have them in other places. Refuses a file that is not there.
 */
pen_status pen_launch_identity_set_files(struct pen_launch_identity *identity,
                                         const char *const *paths, size_t count,
                                         struct pen_text *why);

/*
 * The build: version, compiler, the libraries that compute and the instructions
 * that they use.
 */
pen_status pen_launch_identity_set_build(struct pen_launch_identity *identity,
                                         const char *version,
                                         const char *library,
                                         const char *instructions,
                                         struct pen_text *why);

/*
 * Refuses, in one line that names both ranks and hosts and all parts that
 * differ, unless both are the same. `other` may have come from anywhere.
 */
pen_status pen_launch_identity_compare(const struct pen_launch_identity *own,
                                       const struct pen_launch_identity *other,
                                       struct pen_text *why);

#endif
