#ifndef PEN_CLI_PROBE_H
#define PEN_CLI_PROBE_H

#include "core/probe_diff.h"
#include "view/chart.h"

/* The contents of the output of `penstock probe diff`. */
struct pen__probe_answer {
    const char *paths[2];
    struct pen_probe *probes[2]; /* owned by the command */
    struct pen_probe_diff diff;
    double tolerance;
};

/* Print the answer; each returns the exit code. */
int pen__probe_print_text(const struct pen__probe_answer *answer);
int pen__probe_print_json(const struct pen__probe_answer *answer);

/* Adds "step 1, backward, layer 3, output". */
void pen__probe_add_place(const struct pen_probe_record *record,
                          struct pen_text *out);

pen_status pen__probe_draw(const struct pen__probe_answer *answer,
                           const char *path, struct pen_text *why);

#endif
