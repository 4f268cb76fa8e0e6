#ifndef PEN_TESTS_THREAD_GROUP_H
#define PEN_TESTS_THREAD_GROUP_H

#include "group/group.h"

/*
 * Replicas as threads of one process, joined by queues: what a send costs is
 * nothing, but it is complete only when its receive is posted. What is put
 * into a window arrives when its owner looks after messages.
 */
struct thread_world;

struct thread_world *thread_world_create(uint32_t num_members);
void thread_world_free(struct thread_world *world);

/* From here on every test and wait of all members answers PEN_LOST. */
void thread_world_lose(struct thread_world *world, uint32_t member);

/* The group as a member sees it; borrowed until the world is freed. */
struct pen_group *thread_world_group(struct thread_world *world,
                                     uint32_t member);

#endif
