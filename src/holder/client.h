#ifndef PEN_HOLDER_CLIENT_H
#define PEN_HOLDER_CLIENT_H

#include "holder/message.h"
#include "holder/names.h"
#include "holder/shard.h"

#include <stdbool.h>

/*
 * A rank's side of a holder. The socket stays open as long as the process
 * lives: its end is how the holder learns of a death.
 */
struct pen_holder_client {
    int socket; /* -1: none */
    uint64_t epoch;
    uint32_t rank;
    uint32_t num_ranks;
};

#define PEN_HOLDER_CLIENT_NONE ((struct pen_holder_client){.socket = -1})

/*
 * Connects and says hello; refused by a holder of another epoch. On success end
 * with pen_holder_leave().
 */
pen_status pen_holder_connect(const char *path, uint64_t epoch, uint32_t rank,
                              uint32_t num_ranks, struct pen_holder_client *out,
                              struct pen_text *why);

/* Hands over the memory, which the holder keeps from now on. */
pen_status pen_holder_offer(struct pen_holder_client *client,
                            const struct pen_shard *shard,
                            struct pen_text *why);

/*
 * Offers likewise the copy of a step, or of the steps, of a rank of another
 * node.
 */
pen_status pen_holder_offer_copy(struct pen_holder_client *client,
                                 const struct pen_shard *shard,
                                 struct pen_text *why);

/*
 * Says that a step is in the memory. drops_older: every rank has a commit of
 * this epoch, and earlier epochs are not needed any more. PEN_LOST: the holder
 * is gone, or has gone on to another epoch.
 */
pen_status pen_holder_tell_commit(struct pen_holder_client *client,
                                  uint64_t step, bool drops_older);

/* Reads an entry, like pen_holder_entry(). */
pen_status pen_holder_list(struct pen_holder_client *client, uint32_t index,
                           struct pen_holder_message *out,
                           struct pen_text *why);

/*
 * Fetches the memory of a rank, or a copy of it, that has a step; 0: any. Close
 * it.
 */
pen_status pen_holder_fetch(struct pen_holder_client *client, uint64_t epoch,
                            uint32_t rank, uint64_t step, struct pen_shard *out,
                            struct pen_text *why);

/*
 * Leaves regularly: no death is reported. is_done: no launch will need the
 * steps. PEN_HOLDER_CLIENT_NONE is fine.
 */
void pen_holder_leave(struct pen_holder_client *client, bool is_done);

#endif
