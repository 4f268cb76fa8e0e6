#include "planner/failure_rate.h"

#include "base/real.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

#define HOUR 3600.0
#define DAY (24 * HOUR)
#define LLAMA3_PER_DEVICE_SEC (419 / (54 * DAY * 16384))

static const struct {
    double devices;
    double sec;
} meta[] = {{1024, 7.9 * HOUR}, {16384, 1.8 * HOUR}, {131072, 14 * 60.0}};

#define NUM_META (sizeof meta / sizeof *meta)

static double meta_mtbf(double devices)
{
    size_t i = 0;
    if (devices <= meta[0].devices)
        return meta[0].sec * meta[0].devices / devices;
    if (devices >= meta[NUM_META - 1].devices)
        return meta[NUM_META - 1].sec * meta[NUM_META - 1].devices / devices;
    while (devices > meta[i + 1].devices)
        i++;
    double slope = pen_real_log(meta[i + 1].sec / meta[i].sec) /
                   pen_real_log(meta[i + 1].devices / meta[i].devices);
    return meta[i].sec * pen_real_power(devices / meta[i].devices, slope);
}

static bool read_rate(const char *text, uint64_t devices,
                      struct pen_failure_rate *out)
{
    char *end;
    double number = strtod(text, &end);
    double seconds = 0;
    if (end != text && *end == '\0') {
        *out = (struct pen_failure_rate){PEN_FAILURE_PER_DEVICE, number / DAY};
        return number > 0 && number <= 1e6;
    }
    if (!pen_unit_parse(PEN_UNIT_SECONDS, text, &seconds) || !(seconds > 0))
        return false;
    *out = (struct pen_failure_rate){PEN_FAILURE_OF_JOB,
                                     1 / (seconds * (double)devices)};
    return true;
}

pen_status pen_failure_rate_parse(const char *text, uint64_t devices,
                                  struct pen_failure_rate *out,
                                  struct pen_text *why)
{
    struct pen_failure_rate rate = {PEN_FAILURE_LLAMA3, LLAMA3_PER_DEVICE_SEC};
    if (strcmp(text, "meta") == 0)
        rate = (struct pen_failure_rate){PEN_FAILURE_META, 0};
    else if (strcmp(text, "llama3") != 0 && !read_rate(text, devices, &rate)) {
        pen_why(why,
                "%s: expected llama3, meta, failures per device and day, as "
                "0.0005, or the mean time between failures of the job, as 3h",
                text);
        return PEN_INVALID;
    }
    *out = rate;
    return PEN_OK;
}

double pen_failure_mtbf(const struct pen_failure_rate *rate, uint64_t devices)
{
    if (rate->source == PEN_FAILURE_META)
        return meta_mtbf((double)devices);
    return 1 / (rate->per_device_sec * (double)devices);
}

const char *pen_failure_rate_origin(const struct pen_failure_rate *rate)
{
    static const char *const origins[] = {
        [PEN_FAILURE_LLAMA3] =
            "Llama 3: 419 interruptions in 54 days on 16,384 GPUs",
        [PEN_FAILURE_META] = "Meta's research clusters: mean time to failure "
                             "7.9 h on 1,024 GPUs, 1.8 h on 16,384, 14 min on "
                             "131,072 (secondary source)",
        [PEN_FAILURE_PER_DEVICE] = "failures per device and day, as given",
        [PEN_FAILURE_OF_JOB] = "mean time between failures, as given"};
    return origins[rate->source];
}
