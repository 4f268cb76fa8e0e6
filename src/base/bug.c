#include "base/bug.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void pen_bug(const char *file, int line, const char *condition)
{
    fprintf(stderr, "penstock: bug at %s:%d: '%s' is false\n", file, line,
            condition);
    abort();
}
