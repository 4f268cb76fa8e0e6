#include "cli/train/recompute.h"

#include <inttypes.h>
#include <string.h>

/* One word of --recompute-stages; *next is NULL after the last one. */
static bool read_word(const char *at, enum pen_recompute *out,
                      const char **next)
{
    size_t length = strcspn(at, ",");
    *next = at[length] == ',' ? at + length + 1 : NULL;
    for (int i = 0; i < PEN_RECOMPUTES; i++)
        if (strlen(pen_recompute_names[i]) == length &&
            memcmp(pen_recompute_names[i], at, length) == 0) {
            *out = (enum pen_recompute)i;
            return true;
        }
    return false;
}

bool pen__train_recompute_has(const struct pen__train_args *args,
                              enum pen_recompute recompute)
{
    enum pen_recompute word = PEN_RECOMPUTE_NONE;
    if (args->recompute_stages == NULL)
        return args->recompute == (unsigned)recompute;
    for (const char *at = args->recompute_stages; at != NULL;)
        if (read_word(at, &word, &at) && word == recompute)
            return true;
    return false;
}

static pen_status check_stages(const struct pen__train_args *args,
                               struct pen_text *why)
{
    enum pen_recompute word;
    if (args->recompute != PEN_RECOMPUTE_NONE) {
        pen_why(why, "--recompute-stages and --recompute-granularity exclude "
                     "each other");
        return PEN_INVALID;
    }
    for (const char *at = args->recompute_stages; at != NULL;)
        if (!read_word(at, &word, &at)) {
            pen_why(why,
                    "--recompute-stages %s: expected none, selective or full "
                    "for each stage, as full,selective,none",
                    args->recompute_stages);
            return PEN_INVALID;
        }
    return PEN_OK;
}

static pen_status check_modules(struct pen__train_args *args,
                                struct pen_text *why)
{
    const char *text = args->recompute_modules;
    if (!pen_modules_parse(text, &args->modules) ||
        (args->modules & ~PEN_TRAINED_MODULES) != 0) {
        pen_why(why,
                "--recompute-modules %s: expected a list, as core_attn,mlp, of "
                "core_attn, layernorm, mlp",
                text);
        return PEN_INVALID;
    }
    if (args->recompute_stages == NULL && args->recompute == PEN_RECOMPUTE_NONE)
        args->recompute = PEN_RECOMPUTE_SELECTIVE;
    if (pen__train_recompute_has(args, PEN_RECOMPUTE_SELECTIVE))
        return PEN_OK;
    pen_why(why,
            "--recompute-modules %s needs selective recomputation: give "
            "--recompute-granularity selective, or selective for a stage "
            "of --recompute-stages",
            text);
    return PEN_INVALID;
}

enum { UNIFORM, BLOCK };

/*
 * Checks --recompute-method and --recompute-num-layers, as Megatron-LM has
 * them.
 */
static pen_status check_span(struct pen__train_args *args, struct pen_text *why)
{
    uint32_t count = (uint32_t)args->recompute_num_layers;
    bool is_full = pen__train_recompute_has(args, PEN_RECOMPUTE_FULL);
    if (args->recompute_method == BLOCK && count == 0)
        pen_why(why, "--recompute-method block needs --recompute-num-layers N, "
                     "the blocks of a stage that are computed again");
    else if (count > 0 && !is_full)
        pen_why(why,
                "--recompute-num-layers %" PRIu32
                " needs full recomputation: give --recompute-granularity full, "
                "or full for a stage of --recompute-stages",
                count);
    else {
        if (args->recompute_method == BLOCK)
            args->span.first = count;
        else
            args->span.chunk = count;
        return PEN_OK;
    }
    return PEN_INVALID;
}

pen_status pen__train_recompute_read(struct pen__train_args *args,
                                     struct pen_text *why)
{
    pen_status status = check_span(args, why);
    if (status == PEN_OK && args->recompute_stages != NULL)
        status = check_stages(args, why);
    if (status == PEN_OK && args->recompute_modules != NULL)
        status = check_modules(args, why);
    return status;
}

pen_status pen__train_recompute_set(const struct pen__train_args *args,
                                    struct pen_layer_range *stages,
                                    uint32_t num_stages, struct pen_text *why)
{
    uint32_t count = 0;
    if (args->recompute_stages == NULL)
        return PEN_OK;
    for (const char *at = args->recompute_stages; at != NULL; count++) {
        enum pen_recompute word = PEN_RECOMPUTE_NONE;
        bool is_known = read_word(at, &word, &at);
        if (is_known && count < num_stages)
            stages[count].recompute = word;
    }
    if (count == num_stages)
        return PEN_OK;
    pen_why(why,
            "--recompute-stages %s has %u stages, but the model is split into "
            "%u; give as many",
            args->recompute_stages, count, num_stages);
    return PEN_INVALID;
}
