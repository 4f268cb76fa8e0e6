#ifndef PEN_CLI_DOCTOR_H
#define PEN_CLI_DOCTOR_H

#include "base/text.h"
#include "host/threads.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The common part of `penstock doctor`: the findings. */

/* Measured with one number of threads; 0 where it was refused. */
struct pen__speed {
    double f32_flops;    /* per second */
    double bf16_flops;   /* likewise */
    double memory_bytes; /* likewise */
};

/* Others' software, told by a program on PATH. */
struct pen__software {
    const char *name;        /* "MPI" */
    const char *programs[3]; /* the first that is there counts; NULL ends */
};

enum { PEN__NUM_SOFTWARE = 3 };

struct pen__findings {
    struct pen_topology topology;
    struct pen_threads threads;
    struct pen__speed one;  /* thread */
    struct pen__speed all;  /* threads */
    double load;            /* processes that want to run, over a minute */
    struct pen_text onednn; /* its version */
    struct pen_text software[PEN__NUM_SOFTWARE]; /* paths; empty: not there */
    struct pen_text missing; /* why training cannot work; empty: it can */
    struct pen_text no_bf16; /* why there are no products in bf16 */
};

/* A sentence, and the command that does something about it. */
struct pen__advice {
    struct pen_text text;
    struct pen_text command;
};

struct pen__doctor_args {
    const char *engine; /* NULL: the machine is examined */
    const char *model;
    const char *output; /* NULL: no report */
    uint64_t seq_length;
    uint64_t micro_batch_size;
    bool is_bf16;
};

/* Examines the engine; the exit code. */
int pen__doctor_engine(const struct pen__doctor_args *args);

enum { PEN__MAX_ADVICE = 16 };

struct pen__advices {
    struct pen__advice list[PEN__MAX_ADVICE];
    size_t count;
};

extern const struct pen__software pen__software[PEN__NUM_SOFTWARE];

/* Adds what should be changed, what matters most first. */
void pen__doctor_advise(const struct pen__findings *findings,
                        struct pen__advices *out);

void pen__doctor_print(const struct pen__findings *findings,
                       const struct pen__advices *advices,
                       struct pen_text *out);

/* Makes the JSON; NULL when memory ran out. */
json_t *pen__doctor_json(const struct pen__findings *findings,
                         const struct pen__advices *advices);

#endif
