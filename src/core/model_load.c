/*
 * Where models come from: a file, a directory, or a preset.
 */
#include "core/model.h"

#include "core/config_keys.h"
#include "core/model_internal.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static pen_status make_preset(const char *name, struct pen_model **out,
                              struct pen_text *why)
{
    static const struct {
        const char *name;
        uint32_t hidden;
        uint32_t num_blocks;
        uint32_t num_heads;
    } presets[] = {{"gpt2", 768, 12, 12},
                   {"gpt2-medium", 1024, 24, 16},
                   {"gpt2-large", 1280, 36, 20},
                   {"gpt2-xl", 1600, 48, 25}};
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        if (strcmp(name, presets[i].name) != 0)
            continue;
        struct pen_model model = {.family = PEN_FAMILY_GPT2,
                                  .hidden = presets[i].hidden,
                                  .num_blocks = presets[i].num_blocks,
                                  .num_heads = presets[i].num_heads,
                                  .intermediate = 4 * presets[i].hidden,
                                  .vocab = 50257,
                                  .max_positions = 1024,
                                  .norm_eps = 1e-5,
                                  .has_tied_embeddings = true,
                                  .dtype = PEN_DTYPE_F32};
        pen__model_complete_gpt2(&model);
        return pen__model_create(&model, out, why);
    }
    pen_why(why, "there is no preset:%s; known are", name);
    for (size_t i = 0; i < COUNT_OF(presets); i++)
        pen_why(why, "%s preset:%s", i == 0 ? "" : ",", presets[i].name);
    return PEN_INVALID;
}

pen_status pen_model_load(const char *source, struct pen_model **out,
                          struct pen_text *why)
{
    static const char preset[] = "preset:";
    if (strncmp(source, preset, sizeof preset - 1) == 0)
        return make_preset(source + sizeof preset - 1, out, why);
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen__config_read(source, &path, &text, why);
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
