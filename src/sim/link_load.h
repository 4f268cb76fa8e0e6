#ifndef PEN_SIM_LINK_LOAD_H
#define PEN_SIM_LINK_LOAD_H

#include "sim/simulation.h"

/*
 * How much each link carried: the bytes of every message, on all links of its
 * way. SimGrid's own plugin takes rates times time and counts bytes that seem
 * to flow during the latency of a message, many times what small ones have.
 */
struct pen__link_load;

/*
 * Starts measuring, once the platform of `num_ranks` is made. On failure *out
 * is untouched.
 */
pen_status pen__link_load_create(uint32_t num_ranks,
                                 struct pen__link_load **out);
void pen__link_load_free(struct pen__link_load *load);

/* Counts a message that is sent from rank to rank. */
void pen__link_load_add(struct pen__link_load *load, uint32_t from, uint32_t to,
                        double bytes);

uint64_t pen__link_load_messages(const struct pen__link_load *load);

/*
 * Reads the links that carried anything in `seconds`, the fullest first, as
 * many as there is room for.
 */
pen_status pen__link_load_read(const struct pen__link_load *load,
                               double seconds, struct pen_sim_link *links,
                               uint32_t room, uint32_t *num);

#endif
