#include "cli/view/chart_bars.h"

#include <stdlib.h>

bool pen__chart_bars_init(struct pen__chart_bars *out, size_t num_bars,
                          size_t num_parts)
{
    *out = (struct pen__chart_bars){.chart = {.num_parts = num_parts}};
    out->bars = calloc(num_bars, sizeof *out->bars);
    out->parts = calloc(num_bars * num_parts, sizeof *out->parts);
    out->labels = calloc(num_bars, sizeof *out->labels);
    out->notes = calloc(num_bars, sizeof *out->notes);
    out->chart.bars = out->bars;
    return out->bars != NULL && out->parts != NULL && out->labels != NULL &&
           out->notes != NULL;
}

double *pen__chart_bars_add(struct pen__chart_bars *out)
{
    size_t i = out->chart.num_bars++;
    double *parts = out->parts + i * out->chart.num_parts;
    out->bars[i] = (struct pen_report_bar){
        .label = out->labels[i], .note = out->notes[i], .parts = parts};
    return parts;
}

void pen__chart_bars_release(struct pen__chart_bars *bars)
{
    free(bars->bars);
    free(bars->parts);
    free(bars->labels);
    free(bars->notes);
}
