#ifndef PEN_RING_STORES_STORES_H
#define PEN_RING_STORES_STORES_H

#include "ring/store.h"

#include <stddef.h>

/*
 * Stores that outlive a process, by name:
 *
 *   journal:PATH                     a file of one coordinator
 *   etcd://HOST:PORT[,...]/NAME      an etcd cluster, for several coordinators
 *
 * On success end with store->close(store->target).
 */
pen_status pen_ring_store_open(const char *name, bool is_read_only,
                               struct pen_ring_store *out,
                               struct pen_text *why);

/*
 * A journal has a line for each revision, with its CRC32C, on disk before a
 * swap is answered. A line that was cut off at the end is dropped; any other
 * damage is refused. One process at a time holds it to write; whoever reads
 * sees it as it was when it was opened.
 */
pen_status pen_ring_journal_open(const char *path, bool is_read_only,
                                 struct pen_ring_store *out,
                                 struct pen_text *why);

/*
 * etcd by its JSON interface. Revisions are the versions of one key, and swaps
 * are transactions that compare them; etcd's locks are not used. The lease is
 * a second key with a lease of etcd, which lasts 2 s at least.
 */
pen_status pen_ring_etcd_open(const char *endpoints, const char *name,
                              struct pen_ring_store *out, struct pen_text *why);

/* A record and its revision as one line of JSON, without its end. */
pen_status pen_ring_record_print(const struct pen_ring_record *record,
                                 uint64_t revision, struct pen_text *out);

/* Refused when any number is out of its bounds. */
pen_status pen_ring_record_parse(const char *text, size_t length,
                                 struct pen_ring_record *out,
                                 uint64_t *revision, struct pen_text *why);

#endif
