#ifndef PEN_CLI_TRAIN_PROBE_H
#define PEN_CLI_TRAIN_PROBE_H

#include "base/journal.h"
#include "runtime/trainer.h"

/*
 * --probe: the file, which the first rank writes, and the steps of
 * --probe-steps. A zeroed one writes nothing.
 */
struct pen__train_probe {
    struct pen_probe_sink sink;
    const char *steps;   /* NULL: the first that the run takes */
    uint64_t first_step; /* that was asked for; 0: none yet */
    bool is_open;
    bool is_told; /* that it cannot be written */
    struct pen_journal journal;
    struct pen_text line;
};

/* Whether a text is a list of steps: "1,5,10-20". */
bool pen__train_probe_is_list(const char *steps);

/* The sink that the trainer of every rank gets. Borrows all. */
const struct pen_probe_sink *
pen__train_probe_sink(struct pen__train_probe *probe, const char *steps);

/* Opens the file on the rank that writes. A resumed run begins it anew. */
pen_status pen__train_probe_open(struct pen__train_probe *probe,
                                 const char *path, struct pen_text *why);
void pen__train_probe_close(struct pen__train_probe *probe);

#endif
