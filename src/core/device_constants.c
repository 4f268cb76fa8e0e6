/*
 * The constants by which devices are slower than their data sheets: one set per
 * kind, fitted as docs/accuracy.md says and then frozen. Kinds that were never
 * measured take those of the most similar kind, with their own number of units.
 * Number formats do likewise: products of mxfp8 and nvfp4 have the share of fp8
 * until they are fitted.
 */
#include "core/cluster.h"

#include <string.h>

static const double a100[PEN_CONSTANTS] = {
    [PEN_CONSTANT_UNITS] = 108,
    [PEN_CONSTANT_PRODUCT_SHARE] = 0.825,
    [PEN_CONSTANT_PRODUCT_SHARE_FP8] = 0.80,
    [PEN_CONSTANT_PRODUCT_SHARE_MXFP8] = 0.80,
    [PEN_CONSTANT_PRODUCT_SHARE_FP4] = 0.80,
    [PEN_CONSTANT_TILE_HALF] = 8.79,
    [PEN_CONSTANT_DEPTH_HALF] = 114.6,
    [PEN_CONSTANT_ROUNDING] = 0.3846,
    [PEN_CONSTANT_ATTENTION_SHARE] = 0.45,
    [PEN_CONSTANT_RECURRENCE_SHARE] = 0.15,
    [PEN_CONSTANT_BYTES_SHARE] = 0.7414,
    [PEN_CONSTANT_BYTES_HALF] = 4.315e+06,
    [PEN_CONSTANT_LAUNCH] = 5.695e-05,
    [PEN_CONSTANT_LINK_SHARE] = 0.71,
    [PEN_CONSTANT_LINK_HALF] = 1e6,
    [PEN_CONSTANT_LINK_SEC] = 2.399e-05,
    [PEN_CONSTANT_MESSAGE_SHARE] = 0.2378,
    [PEN_CONSTANT_EXCHANGE_SHARE] = 0.71,
    [PEN_CONSTANT_HOST_RATE] = 25e9,
    [PEN_CONSTANT_EXPERT_LAUNCH] = 60e-6,
    [PEN_CONSTANT_DISPATCH_SEC] = 0,
    [PEN_CONSTANT_COUNT_SEC] = 0,
    [PEN_CONSTANT_NETWORK_SHARE] = 0.66,
    [PEN_CONSTANT_NETWORK_SEC] = 100e-6,
    [PEN_CONSTANT_STEP_SEC] = 0.001272,
    [PEN_CONSTANT_MICROBATCH_SEC] = 0.003365};

static const double h100[PEN_CONSTANTS] = {
    [PEN_CONSTANT_UNITS] = 132,
    [PEN_CONSTANT_PRODUCT_SHARE] = 0.689,
    [PEN_CONSTANT_PRODUCT_SHARE_FP8] = 0.5946,
    [PEN_CONSTANT_PRODUCT_SHARE_MXFP8] = 0.5946,
    [PEN_CONSTANT_PRODUCT_SHARE_FP4] = 0.5946,
    [PEN_CONSTANT_TILE_HALF] = 20,
    [PEN_CONSTANT_DEPTH_HALF] = 300,
    [PEN_CONSTANT_ROUNDING] = 0.5,
    [PEN_CONSTANT_ATTENTION_SHARE] = 0.4697,
    [PEN_CONSTANT_RECURRENCE_SHARE] = 0.5,
    [PEN_CONSTANT_BYTES_SHARE] = 0.5047,
    [PEN_CONSTANT_BYTES_HALF] = 4e6,
    [PEN_CONSTANT_LAUNCH] = 10e-6,
    [PEN_CONSTANT_LINK_SHARE] = 0.78,
    [PEN_CONSTANT_LINK_HALF] = 1e6,
    [PEN_CONSTANT_LINK_SEC] = 20e-6,
    [PEN_CONSTANT_MESSAGE_SHARE] = 0.2,
    [PEN_CONSTANT_EXCHANGE_SHARE] = 0.5654,
    [PEN_CONSTANT_HOST_RATE] = 50e9,
    [PEN_CONSTANT_EXPERT_LAUNCH] = 7.376e-05,
    [PEN_CONSTANT_DISPATCH_SEC] = 6.469e-05,
    [PEN_CONSTANT_COUNT_SEC] = 0.0009206,
    [PEN_CONSTANT_NETWORK_SHARE] = 0.8,
    [PEN_CONSTANT_NETWORK_SEC] = 50e-6,
    [PEN_CONSTANT_STEP_SEC] = 0.02387,
    [PEN_CONSTANT_MICROBATCH_SEC] = 0};

/* All kinds of Blackwell share the constants that are no parameter here. */
#define BLACKWELL(units, bf16, fp8, mxfp8, fp4, attention, host, looped)       \
    {                                                                          \
        [PEN_CONSTANT_UNITS] = (units), [PEN_CONSTANT_PRODUCT_SHARE] = (bf16), \
        [PEN_CONSTANT_PRODUCT_SHARE_FP8] = (fp8),                              \
        [PEN_CONSTANT_PRODUCT_SHARE_MXFP8] = (mxfp8),                          \
        [PEN_CONSTANT_PRODUCT_SHARE_FP4] = (fp4),                              \
        [PEN_CONSTANT_TILE_HALF] = 20, [PEN_CONSTANT_DEPTH_HALF] = 300,        \
        [PEN_CONSTANT_ROUNDING] = 0.5,                                         \
        [PEN_CONSTANT_ATTENTION_SHARE] = (attention),                          \
        [PEN_CONSTANT_RECURRENCE_SHARE] = 0.03874,                             \
        [PEN_CONSTANT_BYTES_SHARE] = 0.5, [PEN_CONSTANT_BYTES_HALF] = 4e6,     \
        [PEN_CONSTANT_LAUNCH] = 10e-6, [PEN_CONSTANT_LINK_SHARE] = 0.78,       \
        [PEN_CONSTANT_LINK_HALF] = 1e6, [PEN_CONSTANT_LINK_SEC] = 20e-6,       \
        [PEN_CONSTANT_MESSAGE_SHARE] = 0.2,                                    \
        [PEN_CONSTANT_EXCHANGE_SHARE] = 0.5654,                                \
        [PEN_CONSTANT_HOST_RATE] = (host),                                     \
        [PEN_CONSTANT_EXPERT_LAUNCH] = (looped),                               \
        [PEN_CONSTANT_DISPATCH_SEC] = 6.469e-05,                               \
        [PEN_CONSTANT_COUNT_SEC] = 0.0009206,                                  \
        [PEN_CONSTANT_NETWORK_SHARE] = 0.8,                                    \
        [PEN_CONSTANT_NETWORK_SEC] = 50e-6, [PEN_CONSTANT_STEP_SEC] = 0.03671  \
    }

static const double b200[PEN_CONSTANTS] =
    BLACKWELL(148, 0.5589, 0.4898, 0.4632, 0.6317, 0.47, 50e9, 7.376e-05);
static const double gb200[PEN_CONSTANTS] =
    BLACKWELL(152, 0.5589, 0.4898, 0.4632, 0.6317, 0.47, 200e9, 5.18e-05);
static const double gb300[PEN_CONSTANTS] =
    BLACKWELL(152, 0.6455, 0.6267, 0.5843, 0.6285, 0.55, 200e9, 5.18e-05);

static const double processor[PEN_CONSTANTS] = {
    [PEN_CONSTANT_UNITS] = 1,
    [PEN_CONSTANT_PRODUCT_SHARE] = 0.9,
    [PEN_CONSTANT_PRODUCT_SHARE_FP8] = 0.9,
    [PEN_CONSTANT_PRODUCT_SHARE_MXFP8] = 0.9,
    [PEN_CONSTANT_PRODUCT_SHARE_FP4] = 0.9,
    [PEN_CONSTANT_TILE_HALF] = 4,
    [PEN_CONSTANT_DEPTH_HALF] = 32,
    [PEN_CONSTANT_ROUNDING] = 0.1,
    [PEN_CONSTANT_ATTENTION_SHARE] = 0.4,
    [PEN_CONSTANT_RECURRENCE_SHARE] = 0.4,
    [PEN_CONSTANT_BYTES_SHARE] = 0.9,
    [PEN_CONSTANT_BYTES_HALF] = 4096,
    [PEN_CONSTANT_LAUNCH] = 1e-6,
    [PEN_CONSTANT_LINK_SHARE] = 1,
    [PEN_CONSTANT_MESSAGE_SHARE] = 1,
    [PEN_CONSTANT_EXCHANGE_SHARE] = 1,
    [PEN_CONSTANT_HOST_RATE] = 10e9,
    [PEN_CONSTANT_NETWORK_SHARE] = 1};

/* Kinds, by the beginning of their names. */
struct kind {
    const char *name;
    const double *constants;
    double units; /* 0: those of the set */
};

static const struct kind kinds[] = {
    {"a100", a100, 0},      {"v100", a100, 80},    {"h100", h100, 0},
    {"h200", h100, 0},      {"h800", h100, 0},     {"h20", h100, 78},
    {"b200", b200, 0},      {"gb200", gb200, 0},   {"b300", gb300, 148},
    {"gb300", gb300, 0},    {"mi250", a100, 110},  {"mi300", a100, 304},
    {"mi355", a100, 256},   {"rtx3080", a100, 68}, {"rtx4090", h100, 128},
    {"xeon", processor, 0}, {"host", processor, 0}};

/* For kinds that are not in the table. */
static const struct kind other = {"", h100, 0};

static const struct kind *find_kind(const struct pen_device *device)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(device->kind, kinds[i].name, strlen(kinds[i].name)) == 0)
            return &kinds[i];
    return &other;
}

double pen_device_product_share(const struct pen_device *device,
                                enum pen_number number)
{
    static const enum pen_constant shares[PEN_NUMBERS] = {
        [PEN_NUMBER_F32] = PEN_CONSTANT_PRODUCT_SHARE,
        [PEN_NUMBER_BF16] = PEN_CONSTANT_PRODUCT_SHARE,
        [PEN_NUMBER_FP16] = PEN_CONSTANT_PRODUCT_SHARE,
        [PEN_NUMBER_FP8] = PEN_CONSTANT_PRODUCT_SHARE_FP8,
        [PEN_NUMBER_MXFP8] = PEN_CONSTANT_PRODUCT_SHARE_MXFP8,
        [PEN_NUMBER_NVFP4] = PEN_CONSTANT_PRODUCT_SHARE_FP4};
    return device->constants[shares[number]];
}

bool pen_device_default_constants(struct pen_device *device)
{
    const struct kind *kind = find_kind(device);
    memcpy(device->constants, kind->constants, sizeof device->constants);
    if (kind->units > 0)
        device->constants[PEN_CONSTANT_UNITS] = kind->units;
    return kind != &other;
}
