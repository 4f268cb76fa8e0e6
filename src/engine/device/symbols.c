#include "engine/device/symbols.h"

#include <dlfcn.h>
#include <string.h>

bool pen__symbols_find(const char *library, const struct pen__symbol *symbols,
                       size_t count, const char **missing)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    *missing = NULL;
    if (handle == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (found == NULL) {
            *missing = symbols[i].name;
            dlclose(handle);
            return false;
        }
        memcpy(symbols[i].place, &found, sizeof found);
    }
    return true;
}
