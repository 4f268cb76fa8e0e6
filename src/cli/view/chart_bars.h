#ifndef PEN_CLI_CHART_BARS_H
#define PEN_CLI_CHART_BARS_H

#include "view/report.h"

/* Bars of a report with what they point to. */
struct pen__chart_bars {
    struct pen_report_bars chart; /* points into what follows */
    struct pen_report_bar *bars;  /* owned, as all below */
    double *parts;
    char (*labels)[32];
    char (*notes)[48];
    char limit_name[48];
};

/*
 * Makes room for bars, none of them added. False: no memory; then, too,
 * release.
 */
bool pen__chart_bars_init(struct pen__chart_bars *out, size_t num_bars,
                          size_t num_parts);

/*
 * Adds the next bar, with an empty label and an empty note; returns its parts.
 */
double *pen__chart_bars_add(struct pen__chart_bars *out);

void pen__chart_bars_release(struct pen__chart_bars *bars);

#endif
