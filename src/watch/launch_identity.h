#ifndef PEN_WATCH_LAUNCH_IDENTITY_H
#define PEN_WATCH_LAUNCH_IDENTITY_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The identity of a rank: facts that must be the same on all ranks before a job
 * may start. One rank sends its own to all others, which compare. The struct
 * has no pointers, and its size stays the same in all versions, so that another
 * build can be recognised.
 */

/* Each part of an identity: its name, and its name in a sentence. */
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
        char words[112]; /* for readers; cut when longer */
        char hash[PEN_HASH_SIZE];
    } parts[PEN_IDENTITY_PARTS];
    char reserved[75];
};

void pen_launch_identity_init(struct pen_launch_identity *identity,
                              uint32_t rank, const char *host);

/*
 * Sets one part: its words for readers, and the bytes that must be equal on all
 * ranks.
 */
pen_status pen_launch_identity_set(struct pen_launch_identity *identity,
                                   enum pen_identity_part part,
                                   const char *words, const void *bytes,
                                   size_t length, struct pen_text *why);

/*
 * Sets the data to its files: their names, without folders, and sizes, since
 * nodes may have them in different places. Refuses a file that does not exist.
 */
pen_status pen_launch_identity_set_files(struct pen_launch_identity *identity,
                                         const char *const *paths, size_t count,
                                         struct pen_text *why);

/*
 * Sets the build: version, compiler, the libraries that compute and the
 * instructions that they use.
 */
pen_status pen_launch_identity_set_build(struct pen_launch_identity *identity,
                                         const char *version,
                                         const char *library,
                                         const char *instructions,
                                         struct pen_text *why);

/*
 * Refuses unless both are the same, in one line that names both ranks, both
 * hosts and all parts that differ. `other` may come from an untrusted rank.
 */
pen_status pen_launch_identity_compare(const struct pen_launch_identity *own,
                                       const struct pen_launch_identity *other,
                                       struct pen_text *why);

#endif
