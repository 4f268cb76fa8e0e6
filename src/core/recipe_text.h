#ifndef PEN_CORE_RECIPE_TEXT_H
#define PEN_CORE_RECIPE_TEXT_H

#include "base/json.h"
#include "core/recipe.h"

/* A recipe as an object of plan.json; pen_recipe_print() prints it. */

/* Reads the object, strictly. */
pen_status pen__recipe_read(const struct pen_json *json, struct pen_recipe *out,
                            struct pen_text *why);

#endif
