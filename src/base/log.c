#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

/* The one mutable variable at file scope that the style allows. */
static enum pen_log_level log_level = PEN_LOG_INFO;

void pen_log_set_level(enum pen_log_level level)
{
    log_level = level;
}

void pen_log(enum pen_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error: ", "warning: ", "", "debug: "};
    if (level > log_level)
        return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "penstock: %s", names[level]);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
