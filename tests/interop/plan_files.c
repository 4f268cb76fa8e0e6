/*
 * Writes random plans: plan_files DIR TARGET COUNT [SEED]. Each is one that
 * `penstock export --to TARGET` takes; they are called plan-0.json and so on.
 */
#include "support/random_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: plan_files DIR TARGET COUNT [SEED]\n");
        return 2;
    }
    struct pen_random random = {.state =
                                    argc > 4 ? strtoull(argv[4], NULL, 10) : 1};
    unsigned long count = strtoul(argv[3], NULL, 10);
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    for (unsigned long i = 0; status == PEN_OK && i < count; i++) {
        struct random_plan made;
        char path[4096];
        random_plan_make(&random, argv[2], &made);
        snprintf(path, sizeof path, "%s/plan-%lu.json", argv[1], i);
        status = pen_plan_save(made.plan, path, &why);
        random_plan_release(&made);
    }
    if (status != PEN_OK)
        fprintf(stderr, "%s\n", pen_text_string(&why));
    pen_text_release(&why);
    return status != PEN_OK;
}
