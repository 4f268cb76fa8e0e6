/* Runs each case on the reference engine once and on the other one twice. */
#include "profiler/examine.h"

#include "base/bug.h"
#include "base/clock.h"
#include "profiler/attempt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMED_CALLS = 5 };

/*
 * Tolerances, as shares of the largest number of a result. Sums of 50,000 terms
 * in float are off by about 1e-5 of it; a backward in bf16 has four roundings
 * of 2^-9 and a sum that may cancel.
 */
#define TOLERANCE_F32 1e-4
#define TOLERANCE_BF16 0x1p-5

/* The numbers of an attempt, result after result. */
struct numbers {
    double *all;
    size_t counts[PEN__ATTEMPT_ARRAYS];
    size_t num_results;
    size_t total;
};

static double number_at(enum pen_precision dtype, const void *at, size_t i)
{
    if (dtype == PEN_PRECISION_F64)
        return ((const double *)at)[i];
    if (dtype == PEN_PRECISION_F32)
        return (double)((const float *)at)[i];
    return (double)pen_bf16_to_float(((const uint16_t *)at)[i]);
}

static pen_status read_part(struct pen__attempt *attempt,
                            const struct pen__result *it, double *out)
{
    void *plain = malloc(it->count * pen_precision_bytes(it->dtype));
    if (plain == NULL)
        return PEN_NOMEM;
    attempt->engine->ops->parameter_export(attempt->engine, it->parameter,
                                           it->part, PEN_ORDER_ROWS, plain);
    for (size_t i = 0; i < it->count; i++)
        out[i] = number_at(it->dtype, plain, i);
    free(plain);
    return PEN_OK;
}

static pen_status read_results(struct pen__attempt *attempt,
                               struct numbers *out)
{
    pen_status status = PEN_OK;
    size_t total = 0;
    for (size_t i = 0; i < attempt->num_results; i++)
        total += attempt->results[i].count;
    PEN_BUG_UNLESS(total > 0);
    *out = (struct numbers){.all = malloc(total * sizeof(double)),
                            .num_results = attempt->num_results,
                            .total = total};
    if (out->all == NULL)
        return PEN_NOMEM;
    double *to = out->all;
    for (size_t i = 0; i < attempt->num_results && status == PEN_OK; i++) {
        const struct pen__result *it = &attempt->results[i];
        out->counts[i] = it->count;
        if (it->parameter != NULL)
            status = read_part(attempt, it, to);
        for (size_t k = 0; k < it->count && it->parameter == NULL; k++)
            to[k] = number_at(it->dtype, it->at, k);
        to += it->count;
    }
    return status;
}

static void release(struct pen__attempt *attempt)
{
    pen_engine_await(attempt->engine);
    for (size_t i = 0; i < attempt->num_arrays; i++)
        pen_engine_give(attempt->engine, PEN_PLACE_STAGING,
                        attempt->arrays[i].at, attempt->arrays[i].bytes);
    for (size_t i = 0; i < attempt->num_parameters; i++)
        attempt->engine->ops->parameter_free(attempt->engine,
                                             attempt->parameters[i]);
}

static double bytes_of(const struct pen__attempt *attempt)
{
    double bytes = attempt->bytes;
    for (size_t i = 0; i < attempt->num_arrays && attempt->bytes == 0; i++)
        bytes += (double)attempt->arrays[i].bytes;
    return bytes;
}

/* Returns the shortest time, since others may be using the machine. */
static double time_calls(struct pen__attempt *attempt)
{
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < TIMED_CALLS; i++) {
        int64_t before = pen_clock_ns();
        attempt->it->call(attempt);
        pen_engine_await(attempt->engine);
        int64_t after = pen_clock_ns();
        if (after - before < shortest)
            shortest = after - before;
    }
    return 1e-9 * (double)(shortest > 0 ? shortest : 1);
}

/*
 * Runs one examination; `row` gets seconds and rates; NULL: they are not
 * wanted.
 */
static pen_status run(const struct pen__case *it, struct pen_engine *engine,
                      struct pen_examined *row, struct numbers *out)
{
    struct pen__attempt attempt = {
        .it = it, .engine = engine, .random = {.state = 1}};
    *out = (struct numbers){.all = NULL};
    it->set_up(&attempt);
    if (attempt.status == PEN_OK) {
        it->call(&attempt);
        pen_engine_await(engine);
        attempt.status = read_results(&attempt, out);
    }
    if (attempt.status == PEN_OK && row != NULL) {
        row->sec = time_calls(&attempt);
        row->flops = attempt.flops;
        row->bytes = attempt.flops > 0 ? 0 : bytes_of(&attempt);
    }
    release(&attempt);
    return attempt.status;
}

/*
 * Returns the largest difference, NaN where a number is missing, which no
 * tolerance admits.
 */
static double largest_difference(const struct numbers *truth,
                                 const struct numbers *found)
{
    double worst = 0;
    const double *a = truth->all, *b = found->all;
    for (size_t k = 0; k < truth->num_results; k++) {
        double largest = 0, apart = 0;
        for (size_t i = 0; i < truth->counts[k]; i++) {
            if (!isfinite(b[i]))
                return NAN;
            largest = fmax(largest, fabs(a[i]));
            apart = fmax(apart, fabs(a[i] - b[i]));
        }
        a += truth->counts[k];
        b += truth->counts[k];
        if (apart > 0)
            worst = fmax(worst, largest > 0 ? apart / largest : INFINITY);
    }
    return worst;
}

static pen_status examine(const struct pen__case *it, struct pen_engine *truth,
                          struct pen_engine *engine, struct pen_examined *row)
{
    struct numbers expected, found, again = {.all = NULL};
    *row = (struct pen_examined){
        .name = it->name,
        .tolerance = it->options->is_bf16 ? TOLERANCE_BF16 : TOLERANCE_F32};
    snprintf(row->shape, sizeof row->shape,
             it->out > 0 ? "%zu x %zu x %zu" : "%zu x %zu", it->rows, it->in,
             it->out);
    pen_status status = run(it, truth, NULL, &expected);
    found.all = NULL;
    if (status == PEN_OK)
        status = run(it, engine, row, &found);
    if (status == PEN_OK)
        status = run(it, engine, NULL, &again);
    if (status == PEN_OK) {
        PEN_BUG_UNLESS(expected.all != NULL && found.all != NULL &&
                       again.all != NULL);
        PEN_BUG_UNLESS(expected.total == found.total &&
                       found.total == again.total);
        row->difference = largest_difference(&expected, &found);
        row->has_same_bits =
            memcmp(found.all, again.all, found.total * sizeof(double)) == 0;
    }
    free(expected.all);
    free(found.all);
    free(again.all);
    return status;
}

static pen_status
examine_all(const struct pen_examine_options *options, struct pen_engine *truth,
            struct pen_engine *engine,
            void (*tell)(void *context, uint32_t done, uint32_t total),
            void *context, struct pen_examination *out)
{
    struct pen__case cases[PEN_EXAMINE_MOST];
    size_t count = pen__examine_cases(options, cases);
    pen_status status = PEN_OK;
    PEN_BUG_UNLESS(count <= PEN_EXAMINE_MOST);
    out->count = 0;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = examine(&cases[i], truth, engine, &out->rows[out->count]);
        if (status == PEN_OK)
            out->count++;
        if (tell != NULL)
            tell(context, (uint32_t)i + 1, (uint32_t)count);
    }
    return status;
}

pen_status
pen_examine(const struct pen_examine_options *options,
            void (*tell)(void *context, uint32_t done, uint32_t total),
            void *context, struct pen_examination *out, struct pen_text *why)
{
    struct pen_engine *truth = NULL, *engine = NULL;
    const struct pen_engine_choice choice = {
        .dtype = options->is_bf16 ? PEN_PRECISION_BF16 : PEN_PRECISION_F32,
        .threads = options->threads,
        .device = options->device};
    pen_status status = options->engine->create(&choice, why, &engine);
    if (status != PEN_OK)
        return status;
    status = pen_engine_reference_create(PEN_PRECISION_F64, why, &truth);
    if (status == PEN_OK)
        status = examine_all(options, truth, engine, tell, context, out);
    if (status == PEN_NOMEM && (why == NULL || why->length == 0))
        pen_why(why, "no memory for the shapes of this model; use a smaller "
                     "--seq-length or --micro-batch-size");
    pen_engine_free(truth);
    pen_engine_free(engine);
    return status;
}
