#ifndef PEN_CLI_PROFILE_LINK_H
#define PEN_CLI_PROFILE_LINK_H

#include "core/profile.h"
#include "runtime/transport.h"

/*
 * Sends messages of a few bytes, and of `bytes`, to and fro between this rank
 * and its peer, as a pipeline does: receives are posted before, and no rank
 * waits inside MPI. All ranks call it at the same time, in pairs; a rank
 * without a peer gives itself. All get the answer of rank 0, which has a peer.
 * INFEASIBLE when a long message takes no longer than a short one.
 */
pen_status pen__profile_link(struct pen_transport *transport, uint32_t peer,
                             size_t bytes, struct pen_profile_link *out,
                             struct pen_text *why);

#endif
