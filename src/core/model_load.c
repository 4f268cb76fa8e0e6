/*
 * Where models come from: a file, a directory, or a preset.
 */
#include "core/model.h"

#include "base/nearest.h"
#include "core/config_keys.h"
#include "core/model_internal.h"

#include <string.h>
#include <unistd.h>

static void hint_at_presets(const char *word, struct pen_text *why)
{
    struct pen_nearest nearest = pen_nearest_to(word);
    for (size_t i = 0; pen_model_preset_at(i) != NULL; i++)
        pen_nearest_offer(&nearest, pen_model_preset_at(i));
    if (nearest.best != NULL)
        pen_why(why, "; did you mean %s, a preset", nearest.best);
    pen_why(why, "; `penstock models` lists the presets");
}

pen_status pen_model_load(const char *source, struct pen_model **out,
                          struct pen_text *why)
{
    static const char preset[] = "preset:";
    if (strncmp(source, preset, sizeof preset - 1) == 0)
        return pen__model_make_preset(source + sizeof preset - 1, out, why);
    if (access(source, F_OK) != 0 && pen__model_is_preset(source))
        return pen__model_make_preset(source, out, why);
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen__config_read(source, &path, &text, why);
    if (status != PEN_OK && strchr(source, '/') == NULL)
        hint_at_presets(source, why);
    if (status == PEN_OK) {
        status = pen_model_parse(text.bytes, text.length, out, &reason);
        if (status != PEN_OK)
            pen_why(why, "%s: %s", pen_text_string(&path),
                    pen_text_string(&reason));
    }
    pen_text_release(&path);
    pen_text_release(&text);
    pen_text_release(&reason);
    return status;
}
