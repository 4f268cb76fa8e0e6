#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void pen_log(enum pen_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error: ", "warning: ", ""};
    va_list args;
    va_start(args, format);
    fprintf(stderr, "penstock: %s", names[level]);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
