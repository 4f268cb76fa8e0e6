#include "planner/operations.h"

#include "base/bug.h"

#include <math.h>

/* ---- lists ---- */

static struct pen_operation *add(struct pen_operation_list *list)
{
    PEN_BUG_UNLESS(list->count < PEN_MAX_OPERATIONS);
    struct pen_operation *operation = &list->items[list->count++];
    *operation = (struct pen_operation){.kernels = 1, .gain = 1};
    return operation;
}

void pen_operations_add_product(struct pen_operation_list *list, double batch,
                                double m, double n, double k)
{
    struct pen_operation *operation = add(list);
    operation->kind = PEN_OPERATION_PRODUCT;
    operation->batch = batch;
    operation->m = m;
    operation->n = n;
    operation->k = k;
}

void pen_operations_add_convolution(struct pen_operation_list *list, double m,
                                    double n, double k, double bytes,
                                    double gain)
{
    pen_operations_add_product(list, 1, m, n, k);
    struct pen_operation *operation = &list->items[list->count - 1];
    operation->bytes = bytes;
    operation->gain = gain;
}

void pen_operations_add_attention(struct pen_operation_list *list, double flops)
{
    struct pen_operation *operation = add(list);
    operation->kind = PEN_OPERATION_ATTENTION;
    operation->flops = flops;
}

void pen_operations_add_recurrence(struct pen_operation_list *list,
                                   double flops)
{
    pen_operations_add_attention(list, flops);
    list->items[list->count - 1].kind = PEN_OPERATION_RECURRENCE;
}

void pen_operations_add_rows(struct pen_operation_list *list, double bytes,
                             double kernels)
{
    struct pen_operation *operation = add(list);
    operation->kind = PEN_OPERATION_ROWS;
    operation->bytes = bytes;
    operation->kernels = kernels;
}

/* ---- seconds ---- */

/* The tiles that a library cuts a product into; it takes what is fastest. */
static const struct {
    double m;
    double n;
} tiles[] = {{256, 128}, {128, 256}, {128, 128},
             {128, 64},  {64, 128},  {64, 64}};

/*
 * Rounds of tiles over the units of the device. The last round may be part
 * empty; libraries fill some of it by cutting along k.
 */
static double count_rounds(const struct pen_device *device, double tiles_in_all)
{
    double units = device->constants[PEN_CONSTANT_UNITS];
    double full = tiles_in_all / units;
    double whole = ceil(full);
    double least = fmax(full, fmin(1, full * 4));
    return least + device->constants[PEN_CONSTANT_ROUNDING] * (whole - least);
}

/* Small tiles move more bytes per product through the caches. */
static double tile_share(const struct pen_device *device, double m, double n)
{
    double reuse = m * n / (m + n);
    double most = 256.0 * 128 / (256 + 128);
    double half = device->constants[PEN_CONSTANT_TILE_HALF];
    return reuse / (reuse + half) * (most + half) / most;
}

double pen_device_peak(const struct pen_device *device, enum pen_number number)
{
    static const enum pen_number wider[PEN_NUMBERS] = {
        [PEN_NUMBER_NVFP4] = PEN_NUMBER_MXFP8,
        [PEN_NUMBER_MXFP8] = PEN_NUMBER_FP8,
        [PEN_NUMBER_FP8] = PEN_NUMBER_BF16,
        [PEN_NUMBER_BF16] = PEN_NUMBER_FP16,
        [PEN_NUMBER_FP16] = PEN_NUMBER_F32};
    while (device->flops[number] == 0 && number != PEN_NUMBER_F32)
        number = wider[number];
    return device->flops[number];
}

static double product_time(const struct pen_device *device,
                           enum pen_number number,
                           const struct pen_operation *op)
{
    double best = INFINITY;
    double share = pen_device_product_share(device, number);
    double depth = op->k / (op->k + device->constants[PEN_CONSTANT_DEPTH_HALF]);
    double unit = pen_device_peak(device, number) * share * depth /
                  device->constants[PEN_CONSTANT_UNITS];
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        double count = ceil(op->m / tiles[i].m) * ceil(op->n / tiles[i].n);
        double rounds = count_rounds(device, count * op->batch);
        double flops = 2 * tiles[i].m * tiles[i].n * op->k;
        double sec = rounds * flops /
                     (unit * tile_share(device, tiles[i].m, tiles[i].n));
        best = fmin(best, sec);
    }
    double bytes = op->bytes;
    if (bytes == 0)
        bytes = pen_number_bytes(number) * op->batch *
                (op->m * op->k + op->k * op->n + op->m * op->n);
    return fmax(best / op->gain, pen_bytes_time(device, bytes));
}

double pen_bytes_time(const struct pen_device *device, double bytes)
{
    const double *constants = device->constants;
    return (bytes + constants[PEN_CONSTANT_BYTES_HALF]) /
           (device->memory_bytes_per_sec * constants[PEN_CONSTANT_BYTES_SHARE]);
}

double pen_operation_time(const struct pen_device *device,
                          enum pen_number number,
                          const struct pen_operation *operation)
{
    double peak = 0;
    switch (operation->kind) {
    case PEN_OPERATION_PRODUCT:
        return product_time(device, number, operation);
    case PEN_OPERATION_ATTENTION:
        peak = pen_device_peak(device, pen_number_beside(number));
        return operation->flops /
               (peak * device->constants[PEN_CONSTANT_ATTENTION_SHARE]);
    case PEN_OPERATION_RECURRENCE:
        peak = pen_device_peak(device, pen_number_beside(number));
        return operation->flops /
               (peak * device->constants[PEN_CONSTANT_RECURRENCE_SHARE]);
    case PEN_OPERATION_ROWS:
        return pen_bytes_time(device, operation->bytes);
    }
    return 0;
}

double pen_operations_part_busy(const struct pen_device *device,
                                enum pen_number number,
                                const struct pen_operation_list *list,
                                bool is_expert)
{
    double busy = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].is_expert == is_expert)
            busy += pen_operation_time(device, number, &list->items[i]);
    return busy;
}

double pen_operations_busy(const struct pen_device *device,
                           enum pen_number number,
                           const struct pen_operation_list *list)
{
    return pen_operations_part_busy(device, number, list, false) +
           pen_operations_part_busy(device, number, list, true);
}

double pen_operations_part_host(const struct pen_device *device,
                                const struct pen_operation_list *list,
                                bool is_expert)
{
    double kernels = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].is_expert == is_expert)
            kernels += list->items[i].kernels;
    return kernels * device->constants[PEN_CONSTANT_LAUNCH];
}

double pen_operations_host(const struct pen_device *device,
                           const struct pen_operation_list *list)
{
    return pen_operations_part_host(device, list, false) +
           pen_operations_part_host(device, list, true);
}
