#ifndef PEN_TESTS_MODELS_H
#define PEN_TESTS_MODELS_H

#include "core/model.h"

/* The folder of the shared configurations; a test that needs it and has it not
 * is skipped, or fails where PEN_REQUIRE_SHARED is set. */
#define MODEL_CONFIGS PEN_SOURCE_DIR "/../shared/data/configs/"
void need_folder(const char *path);

/* Loads or parses, or fails the test with the reason; free the result. */
struct pen_model *load_model(const char *source);
struct pen_model *parse_model(const char *text);

/* Fails unless both are one model, but for the type of its numbers on disk. */
void expect_same_shape(const char *source, const char *other);

/* Fails unless this config.json is refused with exactly these words. */
void expect_model_refusal(const char *text, const char *reason);

#endif
