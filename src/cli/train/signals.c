#include "cli/train/signals.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* All registers, tiles included, are 12 kB. */
#define SIGNAL_STACK_BYTES ((size_t)64 << 10)

/* A signal reaches the process, not an object, so these are at file scope. */
static volatile sig_atomic_t stop_seen;
static volatile sig_atomic_t save_seen;
static volatile sig_atomic_t is_quiet;

/* Called in a signal handler, which can do nothing about a failure. */
static void say(const char *words, size_t length)
{
    ssize_t written = write(STDERR_FILENO, words, length);
    (void)written;
}

static void note_stop(int number)
{
    static const char words[] = "\npenstock: finishing the step";
    static const char more[] = "; press Ctrl-C again to stop at once";
    bool is_repeated = stop_seen != 0;
    stop_seen = number;
    if (is_quiet || is_repeated)
        return;
    say(words, sizeof words - 1);
    if (number == SIGINT)
        say(more, sizeof more - 1);
    say("\n", 1);
}

static void note_save(int number)
{
    (void)number;
    save_seen = 1;
}

/*
 * The handlers have a stack of their own: while oneDNN multiplies, the stack
 * pointer may be in the heap, and a signal's frame there would overwrite what
 * lies below. Linux gives signals of the process to this thread, not to those
 * of the engine.
 */
pen_status pen__train_signals_watch(struct pen__train_signals *signals)
{
    struct sigaction interrupt = {.sa_handler = note_stop,
                                  .sa_flags = (int)SA_RESETHAND | SA_ONSTACK};
    struct sigaction stop = {.sa_handler = note_stop, .sa_flags = SA_ONSTACK};
    struct sigaction save = {.sa_handler = note_save,
                             .sa_flags = SA_ONSTACK | SA_RESTART};
    signals->stack = malloc(SIGNAL_STACK_BYTES);
    if (signals->stack == NULL)
        return PEN_NOMEM;
    const stack_t stack = {.ss_sp = signals->stack,
                           .ss_size = SIGNAL_STACK_BYTES};
    is_quiet = signals->is_quiet;
    sigaltstack(&stack, NULL);
    sigemptyset(&interrupt.sa_mask);
    sigemptyset(&stop.sa_mask);
    sigemptyset(&save.sa_mask);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGUSR1, &save, NULL);
    return PEN_OK;
}

void pen__train_signals_release(struct pen__train_signals *signals)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (signals->stack != NULL)
        sigaltstack(&none, NULL);
    free(signals->stack);
    signals->stack = NULL;
}

int pen__train_signal_to_stop(void)
{
    return (int)stop_seen;
}

bool pen__train_signal_to_save(void)
{
    bool is_seen = save_seen != 0;
    save_seen = 0;
    return is_seen;
}
