#ifndef PEN_CULPRITS_SENDS_H
#define PEN_CULPRITS_SENDS_H

#include "schedule/schedule.h"

/*
 * Finds where in its row each message of a schedule is sent: positions by
 * direction, stage that sends, micro-batch and slice (pen_message_cell).
 * Returns NULL when memory runs out; end with free().
 */
uint32_t *pen__sends_find(const struct pen_schedule *schedule);

/* The place of a message that no rank sends. */
#define PEN__NO_SEND UINT32_MAX

#endif
