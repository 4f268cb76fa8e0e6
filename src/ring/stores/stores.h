#ifndef PEN_RING_STORES_STORES_H
#define PEN_RING_STORES_STORES_H

#include "ring/store.h"

#include <stddef.h>

/*
 * Opens a store that outlives a process, by name:
 *
 *   journal:PATH                     a file of one coordinator
 *   etcd://HOST:PORT[,...]/NAME      an etcd cluster, for several coordinators
 *   etcds://HOST:PORT[,...]/NAME?ca=FILE&cert=FILE&key=FILE
 *                                    the same through TLS; each file may be
 *                                    left out
 *
 * On success end with store->close(store->target).
 */
pen_status pen_ring_store_open(const char *name, bool is_read_only,
                               struct pen_ring_store *out,
                               struct pen_text *why);

/*
 * Opens a journal. It has a line for each revision, with its CRC32C, on disk
 * before a swap is answered. A line that was cut off at the end is dropped; any
 * other damage is refused. One process at a time may write to it; a reader sees
 * it as it was when it was opened.
 */
pen_status pen_ring_journal_open(const char *path, bool is_read_only,
                                 struct pen_ring_store *out,
                                 struct pen_text *why);

/*
 * Reads all rounds of a journal; free out->rounds. INVALID when there is none,
 * or the file lacks the first ones.
 */
pen_status pen_ring_journal_past(const char *path, struct pen_ring_past *out,
                                 struct pen_text *why);

/* Files of TLS; an empty name means none, or for `ca` those of the system. */
struct pen_ring_etcd_tls {
    struct pen_text ca;   /* certificates that sign those of the servers */
    struct pen_text cert; /* proves the identity of this client */
    struct pen_text key;
};

/*
 * Opens a store in etcd by its JSON interface. Revisions are the versions of
 * one key, and swaps are transactions that compare them; etcd's locks are not
 * used. The lease is a second key with a lease of etcd, which lasts 2 s at
 * least. Without `tls` it uses plain HTTP.
 */
pen_status pen_ring_etcd_open(const char *endpoints, const char *name,
                              const struct pen_ring_etcd_tls *tls,
                              struct pen_ring_store *out, struct pen_text *why);

/* Prints a record and its revision as one line of JSON, without its end. */
pen_status pen_ring_record_print(const struct pen_ring_record *record,
                                 uint64_t revision, struct pen_text *out);

/* Parses such a line; refuses numbers out of bounds. */
pen_status pen_ring_record_parse(const char *text, size_t length,
                                 struct pen_ring_record *out,
                                 uint64_t *revision, struct pen_text *why);

#endif
