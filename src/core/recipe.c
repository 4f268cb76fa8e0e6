/* Names and members of a recipe. Its text is recipe_text.c. */
#include "core/recipe.h"

#include <string.h>

#define KEY(name, key) key,

const char *const pen_dispatcher_names[PEN_DISPATCHERS + 1] = {
    PEN_DISPATCHER_TABLE(KEY) NULL};

const char *const pen_graphs_names[PEN_GRAPHSES + 1] = {PEN_GRAPHS_TABLE(KEY)
                                                            NULL};

const char *const pen_module_names[PEN_MODULES + 1] = {PEN_MODULE_TABLE(KEY)
                                                           NULL};

const char *const pen_optimizer_names[PEN_OPTIMIZERS + 1] = {
    PEN_OPTIMIZER_TABLE(KEY) NULL};

#define MOST_BLOCKS (1u << 16)
#define MOST_MTP 64u

#define AT(member) offsetof(struct pen_recipe, member)
#define FLAG(key, member)                                                      \
    {                                                                          \
        key, PEN_RECIPE_FLAG, AT(member), NULL, 1, 0                           \
    }
#define WORD(key, member, names, count)                                        \
    {                                                                          \
        key, PEN_RECIPE_WORD, AT(member), names, count, 0                      \
    }
#define MODULES(key, member)                                                   \
    {                                                                          \
        key, PEN_RECIPE_LIST, AT(member), pen_module_names, PEN_MODULES, 0     \
    }
#define COUNT(key, member, most)                                               \
    {                                                                          \
        key, PEN_RECIPE_COUNT, AT(member), NULL, most, 0                       \
    }
#define CHOICE(key, member, choices)                                           \
    {                                                                          \
        key, PEN_RECIPE_CHOICE, AT(member), NULL, 0, choices                   \
    }

#define TWO_OR_FOUR (1u << 2 | 1u << 4)
/* Each of two moments has 1, 2 or 4 bytes. */
#define MOMENTS (1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 8)

const struct pen_recipe_field pen_recipe_fields[] = {
    WORD("dispatcher", dispatcher, pen_dispatcher_names, PEN_DISPATCHERS),
    FLAG("overlap_experts", overlaps_experts),
    FLAG("delay_weight_gradients", delays_weights),
    FLAG("drop_tokens", drops_tokens),
    FLAG("paged_stash", is_paged),
    FLAG("fused_experts", has_fused_experts),
    WORD("graphs", graphs, pen_graphs_names, PEN_GRAPHSES),
    MODULES("recompute_modules", modules),
    MODULES("offload_modules", offloaded),
    COUNT("offload_blocks", offload_blocks, MOST_BLOCKS),
    FLAG("offload_optimizer", offloads_optimizer),
    WORD("optimizer", optimizer, pen_optimizer_names, PEN_OPTIMIZERS),
    CHOICE("gradient_bytes", gradient_bytes, TWO_OR_FOUR),
    CHOICE("master_bytes", master_bytes, TWO_OR_FOUR),
    CHOICE("moment_bytes", moment_bytes, MOMENTS),
    FLAG("narrow_gather", gathers_narrow),
    FLAG("narrow_attention", has_narrow_attention),
    COUNT("mtp_blocks", mtp_blocks, MOST_MTP),
    {NULL, PEN_RECIPE_FLAG, 0, NULL, 0, 0}};

/* Words and lists are numbers of the same size. */
_Static_assert(sizeof(enum pen_dispatcher) == sizeof(unsigned) &&
                   sizeof(enum pen_graphs) == sizeof(unsigned) &&
                   sizeof(enum pen_optimizer_kind) == sizeof(unsigned) &&
                   sizeof(uint32_t) == sizeof(unsigned),
               "members are read by their offset");

_Static_assert(sizeof(struct pen_recipe) ==
                   10 * sizeof(unsigned) + 8 * sizeof(bool),
               "recipes are compared by their bytes");

unsigned pen_recipe_get(const struct pen_recipe *recipe,
                        const struct pen_recipe_field *field)
{
    const char *at = (const char *)recipe + field->at;
    unsigned value;
    if (field->kind == PEN_RECIPE_FLAG)
        return *(const bool *)at;
    memcpy(&value, at, sizeof value);
    return value;
}

void pen_recipe_set(struct pen_recipe *recipe,
                    const struct pen_recipe_field *field, unsigned value)
{
    char *at = (char *)recipe + field->at;
    if (field->kind == PEN_RECIPE_FLAG)
        *(bool *)at = value != 0;
    else
        memcpy(at, &value, sizeof value);
}

bool pen_recipe_allows(const struct pen_recipe_field *field, unsigned value)
{
    switch (field->kind) {
    case PEN_RECIPE_FLAG:
    case PEN_RECIPE_COUNT:
        return value <= field->most;
    case PEN_RECIPE_WORD:
        return value < field->most;
    case PEN_RECIPE_LIST:
        return value >> field->most == 0;
    case PEN_RECIPE_CHOICE:
        return value == 0 || (value < 32 && (field->choices >> value & 1) != 0);
    }
    return false;
}

bool pen_modules_parse(const char *text, unsigned *out)
{
    unsigned bits = 0;
    for (const char *at = text; at != NULL;) {
        size_t length = strcspn(at, ",");
        unsigned name = 0;
        while (name < PEN_MODULES &&
               (strlen(pen_module_names[name]) != length ||
                memcmp(pen_module_names[name], at, length) != 0))
            name++;
        if (name == PEN_MODULES)
            return false;
        bits |= 1u << name;
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    *out = bits;
    return true;
}

bool pen_recipe_is_plain(const struct pen_recipe *recipe)
{
    const struct pen_recipe_field *field = pen_recipe_fields;
    while (field->key != NULL && pen_recipe_get(recipe, field) == 0)
        field++;
    return field->key == NULL;
}
