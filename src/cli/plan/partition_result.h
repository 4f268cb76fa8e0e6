#ifndef PEN_CLI_PLAN_PARTITION_RESULT_H
#define PEN_CLI_PLAN_PARTITION_RESULT_H

#include "base/table.h"
#include "base/text.h"

#include <jansson.h>
#include <stdint.h>

/*
 * The parts of a partition's output: a summary line, a table, and both as JSON.
 */
struct pen__partition {
    struct pen_table table;
    struct pen_text summary;
    json_t *stages;
    json_t *root;
};

/* Prepares a result; `kind` is the format of the file. */
void pen__partition_init(struct pen__partition *result, const char *kind,
                         const struct pen_column *columns, size_t num_columns);
void pen__partition_set(struct pen__partition *result, const char *key,
                        double value);
/* Warns of what a search left out; NULL: nothing. */
void pen__partition_leave_out(struct pen__partition *result,
                              const char *left_out);
/* Sets the stage of each node. */
void pen__partition_set_nodes(struct pen__partition *result,
                              const uint32_t *stages, uint32_t count);

/* Prints and releases. */
int pen__partition_print(struct pen__partition *result);

/* A network of layers that are cut one by one; prints. Zeros are not given. */
struct pen__split_wish {
    double num_devices;
    double bytes_per_sec;
    double flops_per_sec;
};
int pen__partition_layers(const struct pen_text *file,
                          const struct pen__split_wish *wish,
                          struct pen_text *why);

#endif
