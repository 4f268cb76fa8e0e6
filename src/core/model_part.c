/* The part of a config.json that is for text. */
#include "core/model_internal.h"

#include "core/config_keys.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static pen_status open_text(const struct pen_json *json,
                            struct pen__model_part *out, struct pen_text *why)
{
    static const char *const keys[] = {"text_config", "llm_config",
                                       "language_config"};
    if (pen__config_has(json, "hidden_size") || pen__config_has(json, "n_embd"))
        return PEN_OK;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        out->is_part = pen__config_has(json, keys[i]);
        if (out->is_part)
            return pen_json_open(json, keys[i], &out->text, why);
    }
    return PEN_OK;
}

pen_status pen__model_open_part(const struct pen_json *json,
                                struct pen__model_part *out,
                                struct pen_text *why)
{
    *out = (struct pen__model_part){.whole = *json, .text = *json};
    pen_status status = open_text(json, out, why);
    if (status != PEN_OK)
        return status;
    const struct pen_json *named = pen__model_place(out, "model_type");
    if (!pen__config_has(named, "model_type")) {
        pen_why(why, "model_type is missing; is this a model's config.json?");
        return PEN_INVALID;
    }
    return pen_json_read_word(named, "model_type", out->type, sizeof out->type,
                              why);
}

const struct pen_json *pen__model_place(const struct pen__model_part *part,
                                        const char *key)
{
    return pen__config_has(&part->text, key) ? &part->text : &part->whole;
}
