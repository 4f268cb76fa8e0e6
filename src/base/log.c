#include "base/log.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

/* Like stderr: one for the process, whatever ranks it simulates. */
static pen_log_hook *watcher;

void pen_log_watch(pen_log_hook *hook)
{
    watcher = hook;
}

__attribute__((format(printf, 2, 0))) static void
tell_watcher(enum pen_log_level level, const char *format, va_list args)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    pen_text_add_list(&words, format, args);
    watcher(level, pen_text_string(&words));
    pen_text_release(&words);
}

void pen_log(enum pen_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error: ", "warning: ", ""};
    va_list args;
    va_start(args, format);
    fprintf(stderr, "penstock: %s", names[level]);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    if (watcher == NULL)
        return;
    va_start(args, format);
    tell_watcher(level, format, args);
    va_end(args);
}
