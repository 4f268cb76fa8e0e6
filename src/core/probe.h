#ifndef PEN_CORE_PROBE_H
#define PEN_CORE_PROBE_H

#include "core/tally.h"

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A probe: figures of whole tensors of a training in chosen steps, as JSON
 * lines (docs/formats.md, "Probe").
 *
 *   {"format":"penstock-probe","version":1}
 *   {"step":1,"pass":"forward","layer":0,"name":"output","count":4096,...}
 *
 * Neither the layout of the run nor its speed is in it: two bit-identical runs
 * have the same file.
 */

/* In the order of a step. */
enum pen_probe_pass {
    PEN_PROBE_WEIGHTS,   /* that the step began with */
    PEN_PROBE_FORWARD,   /* outputs of layers */
    PEN_PROBE_LOSS,      /* of the step */
    PEN_PROBE_BACKWARD,  /* gradients of those outputs */
    PEN_PROBE_GRADIENTS, /* of weights, before they are clipped */
    PEN_PROBE_UPDATED,   /* weights after the step */
    PEN_PROBE_PASSES
};

/* The words of the file; NULL after the last. */
extern const char *const pen_probe_pass_names[PEN_PROBE_PASSES + 1];

/*
 * Returns whether gradients of this pass appear from the last layer to the
 * first.
 */
bool pen_probe_goes_back(enum pen_probe_pass pass);

#define PEN_PROBE_NAME_SIZE 200
#define PEN_PROBE_MAX_LAYER 1000000u
#define PEN_PROBE_MAX_RECORDS 10000000u

/* Names of records other than weights. */
#define PEN_PROBE_OUTPUT "output"
#define PEN_PROBE_LOSS_NAME "loss"

struct pen_probe_record {
    uint64_t step; /* from 1 */
    enum pen_probe_pass pass;
    uint32_t layer; /* of the model, from the embedding to the head */
    char name[PEN_PROBE_NAME_SIZE]; /* unique in step, pass and layer */
    struct pen_tally_result is;
};

/* Print the first line, and that of a record; both end in a newline. */
void pen_probe_print_head(struct pen_text *out);
void pen_probe_print(const struct pen_probe_record *record,
                     struct pen_text *out);

struct pen_probe {
    struct pen_probe_record *records; /* as in the file */
    size_t num_records;
};

/*
 * Reads a file. A last line without its newline is left out: its writer was
 * killed. On success *out is owned by the caller; free it with
 * pen_probe_free().
 */
pen_status pen_probe_load(const char *path, struct pen_probe **out,
                          struct pen_text *why);
pen_status pen_probe_parse(const char *text, size_t length,
                           struct pen_probe **out, struct pen_text *why);
void pen_probe_free(struct pen_probe *probe);

#endif
