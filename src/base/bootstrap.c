#include "base/bootstrap.h"

#include "base/bug.h"
#include "base/median.h"
#include "base/random.h"

#include <stdlib.h>

enum { SAMPLES = 10000, TAIL = SAMPLES / 40 /* 2.5 % on each side */ };

pen_status pen_bootstrap(pen_bootstrap_figure *figure, void *context,
                         uint32_t count, uint64_t seed,
                         struct pen_interval *out)
{
    PEN_BUG_UNLESS(count > 0);
    double *figures = malloc(SAMPLES * sizeof *figures);
    uint32_t *picks = malloc(count * sizeof *picks);
    struct pen_random random = {seed};
    pen_status status = PEN_NOMEM;
    if (figures != NULL && picks != NULL) {
        for (uint32_t k = 0; k < count; k++)
            picks[k] = k;
        out->middle = figure(context, picks, count);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            for (uint32_t k = 0; k < count; k++)
                picks[k] = pen_random_below(&random, count);
            figures[i] = figure(context, picks, count);
        }
        pen_sort(figures, SAMPLES);
        out->low = figures[TAIL];
        out->high = figures[SAMPLES - 1 - TAIL];
        status = PEN_OK;
    }
    free(figures);
    free(picks);
    return status;
}
