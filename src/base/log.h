#ifndef PEN_BASE_LOG_H
#define PEN_BASE_LOG_H

/*
 * Messages for users, on stderr; results are printed to stdout. A message is
 * lower case and names the thing and the number; a hint is on a second line.
 */

enum pen_log_level {
    PEN_LOG_ERROR, /* we stop */
    PEN_LOG_WARN,  /* the program continues, differently */
    PEN_LOG_INFO   /* a handful per run */
};

void pen_log(enum pen_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Also gives every message to the hook, without "penstock: " and its level;
 * the words are for this call only. For programs with one thread that logs.
 */
typedef void pen_log_hook(enum pen_log_level level, const char *words);
void pen_log_watch(pen_log_hook *hook);

#endif
