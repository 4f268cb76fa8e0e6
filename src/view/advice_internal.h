#ifndef PEN_VIEW_ADVICE_INTERNAL_H
#define PEN_VIEW_ADVICE_INTERNAL_H

#include "view/advice.h"

/* Adds an empty advice, to be filled in. */
struct pen_advice *pen__advice_add(struct pen_advices *advices);

/* Each function examines one aspect; the part that it reads exists. */
void pen__advise_repeats(const struct pen_run_parts *parts,
                         struct pen_advices *out);
void pen__advise_numbers(const struct pen_run_parts *parts,
                         struct pen_advices *out);
void pen__advise_spikes(const struct pen_run_parts *parts,
                        struct pen_advices *out);
void pen__advise_loss(const struct pen_run_parts *parts,
                      struct pen_advices *out);
void pen__advise_validation(const struct pen_run_parts *parts,
                            struct pen_advices *out);
void pen__advise_experts(const struct pen_run_parts *parts,
                         struct pen_advices *out);
void pen__advise_dropped_tokens(const struct pen_run_parts *parts,
                                struct pen_advices *out);
void pen__advise_speed(const struct pen_run_parts *parts,
                       struct pen_advices *out);
void pen__advise_share(const struct pen_run_parts *parts,
                       const struct pen_summary *summary,
                       struct pen_advices *out);
void pen__advise_cut(const struct pen_run_parts *parts,
                     struct pen_advices *out);

#endif
