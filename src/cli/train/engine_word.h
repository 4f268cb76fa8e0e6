#ifndef PEN_CLI_ENGINE_WORD_H
#define PEN_CLI_ENGINE_WORD_H

#include "engine/registry.h"

#include <argp.h>

/*
 * The engine that --engine names, onednn where the text is NULL; *device is
 * NULL or a part of the text. Ends the program on another word, and on engines
 * for tests.
 */
const struct pen_engine_kind *pen__engine_word(const char *text,
                                               const char **device,
                                               const struct argp_state *state);

#endif
