#ifndef PEN_CULPRITS_SOURCES_H
#define PEN_CULPRITS_SOURCES_H

#include "culprits/course.h"

/*
 * The rank that an op waits for, by the schedule:
 *
 *   compute, receive   the send of its activation or gradient; an op that
 *                      gets none, for the receiver of its own, as below
 *   send               the receiver, as long as its window is full
 *   SYNC               the rank that comes last to the synchronisation
 *   STEP               likewise, or the one that comes last to its own STEP:
 *                      a norm is of all gradients
 */
enum pen__source_kind {
    PEN__SOURCE_NONE, /* no rank: it reads data, or is late by itself */
    PEN__SOURCE_MESSAGE,
    PEN__SOURCE_WINDOW,
    PEN__SOURCE_GROUP
};

struct pen__source {
    enum pen__source_kind kind;
    uint32_t line;
    uint32_t position; /* of the send, or of the other rank's SYNC */
    double at_sec;     /* when it was sent, or the last rank came */
    uint32_t link;     /* of a message, by pen__link_at() */
};

/* The places of the sends and the steps of a schedule. */
struct pen__sources {
    const struct pen_schedule *schedule; /* borrowed */
    uint32_t *sent_at;    /* per direction, stage, micro-batch, slice */
    uint32_t *link_of;    /* per direction and stage that sends */
    uint32_t *steps;      /* places of the STEPs of all rows, row by row */
    uint64_t *first_step; /* per row, then the count of all */
};

/* Indexes a schedule, which must have passed the verifier. */
pen_status pen__sources_init(struct pen__sources *sources,
                             const struct pen_schedule *schedule);
void pen__sources_release(struct pen__sources *sources);

struct pen__source pen__source_of(const struct pen__sources *sources,
                                  const struct pen__course *course,
                                  uint32_t line, uint32_t position);

/*
 * Extends each synchronisation to when its last rank has come: until then all
 * others wait, also where an executor counted it as work.
 */
void pen__course_await_groups(struct pen__course *course);

/*
 * Links are numbered by replica, direction and stage that sends: the first of
 * the stages that send between the same two ranks.
 */
struct pen__link {
    uint32_t from_line;
    uint32_t to_line;
    uint32_t stage;
    enum pen_direction direction;
};

uint32_t pen__num_links(const struct pen__course *course);
struct pen__link pen__link_at(const struct pen__course *course, uint32_t link);

#endif
