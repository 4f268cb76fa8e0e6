/* Finds libcuda, and a device in it. */
#include "engine/device/cuda.h"

#include "engine/device/symbols.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

static pen_status load(struct pen__cuda_api *api, struct pen_text *why)
{
    const struct pen__symbol functions[] = {
#define FUNCTION(name, symbol, arguments) {#symbol, &api->name},
        PEN__CUDA_TABLE(FUNCTION)
#undef FUNCTION
    };
    static const struct pen__symbol_library library = {
        .file = LIBRARY,
        .engine = "cuda",
        .source = ", which NVIDIA's driver brings (package libcuda1, or "
                  "the driver's installer)",
        .version = "CUDA 11.0"};
    return pen__symbols_find(&library, functions,
                             sizeof functions / sizeof *functions, why);
}

static bool describe(const struct pen__cuda_api *api, int32_t number,
                     struct pen__cuda_device *out)
{
    int32_t version = 0;
    *out = (struct pen__cuda_device){.device = -1};
    if (api->get_device(&out->device, number) != 0)
        return false;
    api->get_version(&version);
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", version / 1000,
             version % 1000 / 10);
    api->get_name(out->name, sizeof out->name - 1, out->device);
    api->get_attribute(&out->major, PEN__CUDA_MAJOR, out->device);
    api->get_attribute(&out->minor, PEN__CUDA_MINOR, out->device);
    return true;
}

static int32_t number_of_devices(const struct pen__cuda_api *api)
{
    int32_t count = 0;
    if (api->init(0) != 0 || api->count_devices(&count) != 0)
        return 0;
    return count;
}

static bool find(const struct pen__cuda_api *api, const char *text,
                 struct pen__cuda_device *out)
{
    char *end = NULL;
    long number = text != NULL ? strtol(text, &end, 10) : 0;
    int32_t count = number_of_devices(api);
    if (text == NULL || (*text >= '0' && *text <= '9' && *end == '\0'))
        return number < count && describe(api, (int32_t)number, out);
    for (int32_t i = 0; i < count; i++)
        if (describe(api, i, out) && strstr(out->name, text) != NULL)
            return true;
    return false;
}

static void refuse(const struct pen__cuda_api *api, const char *text,
                   struct pen_text *why)
{
    struct pen_text names = PEN_TEXT_EMPTY;
    struct pen__cuda_device device;
    int32_t count = number_of_devices(api);
    for (int32_t i = 0; i < count; i++)
        if (describe(api, i, &device))
            pen_text_add(&names, "%s%d (%s)", i > 0 ? ", " : "", i,
                         device.name);
    if (count == 0)
        pen_why(why,
                "--engine cuda: %s knows no device. `nvidia-smi` shows whether "
                "the kernel's driver is loaded and as new as the library, and "
                "CUDA_VISIBLE_DEVICES hides devices",
                LIBRARY);
    else
        pen_why(why,
                "--engine cuda:%s: no device has this number, or this text in "
                "its name. Use one of %s",
                text != NULL ? text : "0", pen_text_string(&names));
    pen_text_release(&names);
}

pen_status pen__cuda_choose(const char *text, struct pen__cuda_api *api,
                            struct pen__cuda_device *out, struct pen_text *why)
{
    pen_status status = load(api, why);
    if (status != PEN_OK)
        return status;
    if (find(api, text, out))
        return PEN_OK;
    refuse(api, text, why);
    return PEN_INVALID;
}

void pen_engine_cuda_describe(const char *device, struct pen_text *out)
{
    struct pen__cuda_api api;
    struct pen__cuda_device found;
    if (pen__cuda_choose(device, &api, &found, NULL) == PEN_OK)
        pen_text_add(out, "%s on %s", found.driver, found.name);
}
