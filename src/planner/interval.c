#include "planner/interval.h"

#include "base/real.h"

#include <math.h>
#include <string.h>

/* Logarithms of measured over predicted seconds: 9 of 10 are between them. */
struct spread {
    double low;
    double high;
};

/* One class each: their rows were calibrated together. */
#define BLACKWELL                                                              \
    {                                                                          \
        -0.14, 0.14                                                            \
    }
#define EXPERTS                                                                \
    {                                                                          \
        -0.29, 0.37                                                            \
    }

/* By kind of device (the beginning of its name), experts, and tensor ranks. */
static const struct row {
    const char *kind;
    bool has_experts;
    uint32_t most_tensor;
    struct spread spread;
} rows[] = {{"a100", false, 1, {-0.13, 0.13}},
            {"a100", false, 2, {-0.19, 0.105}},
            {"a100", false, 4, {-0.24, 0.11}},
            /* More than in any row that was fitted. */
            {"a100", false, UINT32_MAX, {-0.36, 0.36}},
            {"h100", false, UINT32_MAX, {-0.16, 0.16}},
            {"b200", false, UINT32_MAX, BLACKWELL},
            {"b300", false, UINT32_MAX, BLACKWELL},
            {"gb200", false, UINT32_MAX, BLACKWELL},
            {"gb300", false, UINT32_MAX, BLACKWELL},
            {"h100", true, UINT32_MAX, EXPERTS},
            {"b200", true, UINT32_MAX, EXPERTS},
            {"b300", true, UINT32_MAX, EXPERTS},
            {"gb200", true, UINT32_MAX, EXPERTS},
            {"gb300", true, UINT32_MAX, EXPERTS}};

/* The spread where no published run was compared. */
static const struct spread unknown = {-0.36, 0.36};

/* The spread with a profile of the machine. */
static const struct spread measured = {-0.05, 0.05};

/* A network of an unknown type may do work that is not counted. */
#define GUESSED_MORE 2.0

static struct spread find_spread(const struct pen_setting *setting,
                                 const struct pen_plan *plan,
                                 const struct pen_device *device)
{
    bool has_experts = setting->model->num_experts > 0;
    if (setting->model->images != NULL)
        return unknown;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(device->kind, rows[i].kind, strlen(rows[i].kind)) == 0 &&
            rows[i].has_experts == has_experts &&
            plan->degrees[PEN_DEGREE_TP] <= rows[i].most_tensor)
            return rows[i].spread;
    return unknown;
}

void pen__interval_set(const struct pen_setting *setting,
                       const struct pen_plan *plan,
                       const struct pen_device *device, bool is_measured,
                       struct pen_prediction *prediction)
{
    struct spread spread =
        is_measured ? measured : find_spread(setting, plan, device);
    double more = setting->model->is_guessed ? GUESSED_MORE : 1;
    double step = prediction->step_sec;
    double low = pen_real_exp(more * spread.low);
    double high = pen_real_exp(more * spread.high);
    prediction->low_sec = step * low;
    prediction->high_sec = step * high;
    prediction->step_error = fmax(high - 1, 1 - low);
}
