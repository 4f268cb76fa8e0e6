#include "engine/device/symbols.h"

#include <dlfcn.h>
#include <string.h>

pen_status pen__symbols_find(const struct pen__symbol_library *library,
                             const struct pen__symbol *symbols, size_t count,
                             struct pen_text *why)
{
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        pen_why(why, "--engine %s needs %s%s: %s", library->engine,
                library->file, library->source, dlerror());
        return PEN_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (found == NULL) {
            pen_why(why,
                    "--engine %s needs %s of %s or later; the one that is "
                    "installed has no %s. Install a newer driver",
                    library->engine, library->file, library->version,
                    symbols[i].name);
            dlclose(handle);
            return PEN_INVALID;
        }
        memcpy(symbols[i].place, &found, sizeof found);
    }
    return PEN_OK;
}
