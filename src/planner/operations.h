#ifndef PEN_PLANNER_OPERATIONS_H
#define PEN_PLANNER_OPERATIONS_H

#include "core/cluster.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The work of a layer as a short list of operations, and how long one of them
 * takes on a device.
 */

enum pen_operation_kind {
    PEN_OPERATION_PRODUCT,    /* batch products of [m, k] by [k, n] */
    PEN_OPERATION_ATTENTION,  /* fused: no matrix of pairs in memory */
    PEN_OPERATION_RECURRENCE, /* a state that passes over the positions */
    PEN_OPERATION_ROWS        /* norm, activation, softmax: bytes */
};

struct pen_operation {
    enum pen_operation_kind kind;
    double m;
    double n;
    double k;
    double batch;
    double gain;    /* of a product: flops counted per flop computed */
    double flops;   /* of fused attention, and of a recurrence */
    double bytes;   /* read and written; of a product 0: of its matrices */
    double kernels; /* that are launched for it */
    bool is_expert; /* of a mixture: launched once the tokens have come */
};

#define PEN_MAX_OPERATIONS 48u

/* The operations of one pass of one layer. */
struct pen_operation_list {
    struct pen_operation items[PEN_MAX_OPERATIONS];
    uint32_t count;
};

void pen_operations_add_product(struct pen_operation_list *list, double batch,
                                double m, double n, double k);
/*
 * A convolution: a product whose first matrix is never written, so that the
 * bytes are those of images and filters.
 */
void pen_operations_add_convolution(struct pen_operation_list *list, double m,
                                    double n, double k, double bytes,
                                    double gain);
void pen_operations_add_attention(struct pen_operation_list *list,
                                  double flops);
void pen_operations_add_recurrence(struct pen_operation_list *list,
                                   double flops);
void pen_operations_add_rows(struct pen_operation_list *list, double bytes,
                             double kernels);

/* Flops a second by the sheet, of the nearest numbers that it offers. */
double pen_device_peak(const struct pen_device *device, enum pen_number number);

/* Seconds of the device itself, without the launch. */
double pen_operation_time(const struct pen_device *device,
                          enum pen_number number,
                          const struct pen_operation *operation);

/*
 * Seconds of the device for a whole list, and of the host that launches it; of
 * experts alone, or of all but them.
 */
double pen_operations_busy(const struct pen_device *device,
                           enum pen_number number,
                           const struct pen_operation_list *list);
double pen_operations_host(const struct pen_device *device,
                           const struct pen_operation_list *list);
double pen_operations_part_busy(const struct pen_device *device,
                                enum pen_number number,
                                const struct pen_operation_list *list,
                                bool is_expert);
double pen_operations_part_host(const struct pen_device *device,
                                const struct pen_operation_list *list,
                                bool is_expert);

/* Seconds to read and write `bytes` bytes. */
double pen_bytes_time(const struct pen_device *device, double bytes);

#endif
