/* Finds libOpenCL, and a device in it. */
#include "engine/device/opencl.h"

#include "engine/device/symbols.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libOpenCL.so.1"

enum { MOST_PLATFORMS = 16, MOST_DEVICES = 64 };

struct devices {
    int count;
    struct pen__opencl_device at[MOST_DEVICES];
};

static pen_status load(struct pen__opencl_api *api, struct pen_text *why)
{
    const struct pen__symbol functions[] = {
#define FUNCTION(result, name, symbol, arguments) {symbol, &api->name},
        PEN__OPENCL_TABLE(FUNCTION)
#undef FUNCTION
    };
    static const struct pen__symbol_library library = {
        .file = LIBRARY,
        .engine = "opencl",
        .source = " (package ocl-icd-libopencl1), and a driver for the "
                  "device (for processors: pocl-opencl-icd)",
        .version = "OpenCL 2.1"};
    return pen__symbols_find(&library, functions,
                             sizeof functions / sizeof *functions, why);
}

static void describe(const struct pen__opencl_api *api,
                     struct pen__opencl_device *it)
{
    char platform[80] = "", version[76] = "";
    api->get_platform_info(it->platform, PEN__CL_PLATFORM_NAME,
                           sizeof platform - 1, platform, NULL);
    api->get_device_info(it->device, PEN__CL_DRIVER_VERSION, sizeof version - 1,
                         version, NULL);
    api->get_device_info(it->device, PEN__CL_DEVICE_NAME, sizeof it->name - 1,
                         it->name, NULL);
    snprintf(it->driver, sizeof it->driver, "%s %s", platform, version);
}

static void list(const struct pen__opencl_api *api, struct devices *out)
{
    void *platforms[MOST_PLATFORMS];
    uint32_t num_platforms = 0;
    if (api->get_platforms(MOST_PLATFORMS, platforms, &num_platforms) != 0)
        return;
    for (uint32_t i = 0; i < num_platforms && i < MOST_PLATFORMS; i++) {
        void *devices[MOST_DEVICES];
        uint32_t count = 0;
        if (api->get_devices(platforms[i], UINT32_MAX, MOST_DEVICES, devices,
                             &count) != 0)
            continue;
        for (uint32_t k = 0; k < count && out->count < MOST_DEVICES; k++) {
            struct pen__opencl_device *it = &out->at[out->count++];
            *it = (struct pen__opencl_device){.platform = platforms[i],
                                              .device = devices[k]};
            describe(api, it);
        }
    }
}

static bool is_accelerator(const struct pen__opencl_api *api, void *device)
{
    uint64_t type = 0;
    api->get_device_info(device, PEN__CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return (type & (PEN__CL_TYPE_GPU | PEN__CL_TYPE_ACCELERATOR)) != 0;
}

/* -1: there is none. */
static int first_of(const struct pen__opencl_api *api,
                    const struct devices *devices)
{
    for (int i = 0; i < devices->count; i++)
        if (is_accelerator(api, devices->at[i].device))
            return i;
    return devices->count > 0 ? 0 : -1;
}

static int find(const struct devices *devices, const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0')
        return number < devices->count ? (int)number : -1;
    for (int i = 0; i < devices->count; i++)
        if (strstr(devices->at[i].name, text) != NULL)
            return i;
    return -1;
}

static void refuse(const struct devices *devices, const char *text,
                   struct pen_text *why)
{
    if (devices->count == 0) {
        pen_why(why,
                "--engine opencl: %s knows no device. Install the OpenCL "
                "driver of the device (for processors: pocl-opencl-icd)",
                LIBRARY);
        return;
    }
    struct pen_text names = PEN_TEXT_EMPTY;
    for (int i = 0; i < devices->count; i++)
        pen_text_add(&names, "%s%d (%s)", i > 0 ? ", " : "", i,
                     devices->at[i].name);
    pen_why(why,
            "--engine opencl:%s: no device has this number, or this text in "
            "its name. Use one of %s",
            text, pen_text_string(&names));
    pen_text_release(&names);
}

pen_status pen__opencl_choose(const char *text, struct pen__opencl_api *api,
                              struct pen__opencl_device *out,
                              struct pen_text *why)
{
    pen_status status = load(api, why);
    if (status != PEN_OK)
        return status;
    struct devices *devices = calloc(1, sizeof *devices);
    if (devices == NULL)
        return PEN_NOMEM;
    list(api, devices);
    int chosen = text == NULL ? first_of(api, devices) : find(devices, text);
    if (chosen >= 0)
        *out = devices->at[chosen];
    else
        refuse(devices, text, why);
    free(devices);
    return chosen >= 0 ? PEN_OK : PEN_INVALID;
}

void pen_engine_opencl_describe(const char *device, struct pen_text *out)
{
    struct pen__opencl_api api;
    struct pen__opencl_device found;
    if (pen__opencl_choose(device, &api, &found, NULL) == PEN_OK)
        pen_text_add(out, "%s on %s", found.driver, found.name);
}
