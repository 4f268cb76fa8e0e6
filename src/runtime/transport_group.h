#ifndef PEN_RUNTIME_TRANSPORT_GROUP_H
#define PEN_RUNTIME_TRANSPORT_GROUP_H

#include "core/mesh.h"
#include "group/group.h"
#include "runtime/executor.h"

/*
 * Groups of ranks (group/group.h) over the messages of a transport.
 *
 * Channel c of a group has the tag of kind first.kind + c % num_kinds and
 * number first.number + c / num_kinds, so that traffic is counted by kind and
 * groups that are under way at the same time do not meet.
 */
struct pen_transport_group_options {
    struct pen_transport *transport;
    /* Looks after all other messages while the group waits; or NULL. */
    struct pen_executor *executor;
    struct pen_tag first;
    uint32_t num_kinds;
    uint32_t epoch;
};

/*
 * Ranks of the transport in the order of the members; copied. The rest is
 * borrowed. On failure *out is untouched.
 */
pen_status
pen_transport_group_create(const struct pen_transport_group_options *options,
                           const uint32_t *ranks, uint32_t count, uint32_t self,
                           struct pen_group **out);

/* All ranks of the transport. */
pen_status
pen_transport_group_all(const struct pen_transport_group_options *options,
                        struct pen_group **out);

/* The ranks that differ from this one along an axis of the mesh alone. */
pen_status
pen_transport_group_axis(const struct pen_transport_group_options *options,
                         const struct pen_mesh *mesh, enum pen_axis axis,
                         struct pen_group **out);

/* From here on waits with this executor, or with none. */
void pen_transport_group_set_executor(struct pen_group *group,
                                      struct pen_executor *executor);

/* No window of the group may be open. NULL is fine. */
void pen_transport_group_free(struct pen_group *group);

#endif
