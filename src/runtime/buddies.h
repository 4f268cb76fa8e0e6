#ifndef PEN_RUNTIME_BUDDIES_H
#define PEN_RUNTIME_BUDDIES_H

#include "holder/client.h"
#include "runtime/node_map.h"

/*
 * Copies of the committed steps on the next node, so that no step is lost with
 * a node. Each rank sends its slot to a rank of the next node, which keeps it
 * in memory that its own holder has, too. A copy travels during the next step:
 *
 *   commit N    slot written ─ begin: copy of N sets out ─► step N+1 computes
 *   commit N+1  finish: copy of N is whole on all nodes ─► slot of N-1 written
 *
 * B1. The slots of N-1, own and copied, are overwritten by any rank only when
 *     own slots and copies of N are whole on all ranks: finish() ends with a
 *     sum over all ranks.
 * B2. At any moment, therefore, some step is whole in the own slots of all
 *     ranks and in their copies. It is the last one for which finish() has
 *     returned, or a later one. Any one node may then be lost with its holder.
 */
struct pen_buddies;

/* All borrowed. */
struct pen_buddies_options {
    struct pen_transport *transport;
    const struct pen_node_map *nodes; /* two or more */
    struct pen_holder_client *client;
    const struct pen_shard *shard; /* of this rank */
};

/* By all ranks: makes the memory of copies and hands it to the holder. */
pen_status pen_buddies_create(const struct pen_buddies_options *options,
                              struct pen_buddies **out, struct pen_text *why);

/*
 * NULL is fine. Waits for copies under way, but not for long: false where they
 * are not done, and the memory of this rank must stay mapped.
 */
bool pen_buddies_free(struct pen_buddies *buddies);

/* Bytes of the copies that this rank keeps. */
size_t pen_buddies_bytes(const struct pen_buddies *buddies);

/* By all ranks: begins to send a copy of this slot, which is whole. */
void pen_buddies_begin(struct pen_buddies *buddies, uint32_t slot);

/*
 * By all ranks: waits for the copies that are under way. *step is that of all
 * of them, 0 if there is none yet. *num_missed counts the ranks that came with
 * is_missed, and those that have not got their copies.
 */
pen_status pen_buddies_finish(struct pen_buddies *buddies, bool is_missed,
                              uint64_t *step,
                              uint32_t *num_missed) PEN_MUST_CHECK;

#endif
