#ifndef PEN_BASE_LOG_H
#define PEN_BASE_LOG_H

/*
 * Messages for people, on stderr. Results go to stdout. A message is lower
 * case, names the thing and the number; a hint goes on a second line.
 */

enum pen_log_level {
    PEN_LOG_ERROR, /* we stop */
    PEN_LOG_WARN,  /* we go on, differently */
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
