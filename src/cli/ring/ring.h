#ifndef PEN_CLI_RING_H
#define PEN_CLI_RING_H

#include "ring/net/commands.h"

#include <jansson.h>

/* The verbs of `penstock ring`; each returns the exit code. */

/* Shows the record in a store of this name. */
int pen__ring_show(const char *store);

int pen__ring_key(const char *path, const char *address);
int pen__ring_coordinate(struct pen_ring_coordinate_options *options,
                         const char *patience);
int pen__ring_status(const char *address, const char *key, const char *keys);
int pen__ring_evict(const char *address, const char *island, const char *key,
                    const char *keys);

/* Print the contents of a record, as text and as stores keep it. */
void pen__ring_add_record(const struct pen_ring_record *record,
                          uint64_t revision, struct pen_text *out);
json_t *pen__ring_record_json(const struct pen_ring_record *record,
                              uint64_t revision);

#endif
