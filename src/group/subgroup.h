#ifndef PEN_GROUP_SUBGROUP_H
#define PEN_GROUP_SUBGROUP_H

#include "group/group.h"

/*
 * Some members of a group as a group of their own: member k of it is member
 * first + k * stride of the whole. For messages only, not for windows. Bytes
 * that it sends count for the whole group, too, and so does a loss.
 */
struct pen_subgroup {
    struct pen_group group; /* first: the ops get it */
    struct pen_group *all;
    uint32_t first;
    uint32_t stride;
};

/*
 * Makes a subgroup. The own member must be in it. `all` stays in place
 * meanwhile.
 */
void pen_subgroup_init(struct pen_subgroup *subgroup, struct pen_group *all,
                       uint32_t first, uint32_t stride, uint32_t count);

#endif
