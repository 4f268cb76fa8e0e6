#ifndef PEN_BASE_BUG_H
#define PEN_BASE_BUG_H

/*
 * PEN_BUG_UNLESS states what our own code guarantees. It stays in every build:
 * a wrong schedule that runs for a week costs more than the test. Never used on
 * input.
 */
#define PEN_BUG_UNLESS(cond)                                                   \
    ((cond) ? (void)0 : pen_bug(__FILE__, __LINE__, #cond))

_Noreturn void pen_bug(const char *file, int line, const char *condition);

#endif
