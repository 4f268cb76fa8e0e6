#ifndef PEN_SCHEDULE_SEARCH_PLACEMENT_H
#define PEN_SCHEDULE_SEARCH_PLACEMENT_H

#include "schedule/search.h"

/*
 * In place of one of enum pen_search_placements: published schedules of the
 * placements that the search does not vary.
 */
#define PEN__SEARCH_REST 8u

/*
 * Searches args->placements, which is one placement here. INVALID, with words,
 * when the costs do not fit it. INFEASIBLE, without words, when nothing fits
 * the limit. Except after INVALID and with PEN__SEARCH_REST, *least is the
 * least memory that could work, in A.
 */
pen_status pen__search_placement(const struct pen_search_args *args,
                                 struct pen_schedule **out,
                                 struct pen_search_report *report,
                                 double *least, struct pen_text *why);

#endif
