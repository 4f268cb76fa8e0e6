#include "export/megatron_layout.h"

#include "export/export_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Stages and blocks of the largest plan, each a letter. */
#define MAX_LETTERS ((size_t)1 << 18)

/* ---- printing ---- */

static void print_stage(const struct pen_plan *plan,
                        const struct pen_model *model,
                        const struct pen_layer_range *stage,
                        struct pen_text *out)
{
    uint32_t blocks = pen__export_num_blocks(model, stage);
    if (pen__export_has_embedding(stage))
        pen_text_add_string(out, "E");
    if (blocks > 2)
        pen_text_add(out, "t*%u", blocks);
    else
        pen_text_add_repeat(out, 't', blocks);
    if (!pen__export_has_head(model, stage))
        return;
    pen_text_add_repeat(out, 'm', plan->recipe.mtp_blocks);
    pen_text_add_string(out, "L");
}

/*
 * Counts the stages from here on that have equally many blocks and nothing
 * else.
 */
static uint32_t count_alike(const struct pen_plan *plan,
                            const struct pen_model *model, uint32_t first)
{
    const struct pen_layer_range *stages = plan->stages;
    uint32_t last = first + 1;
    if (pen__export_has_embedding(&stages[first]))
        return 1;
    while (last < plan->num_stages &&
           stages[last].count == stages[first].count &&
           !pen__export_has_head(model, &stages[last]))
        last++;
    return last - first;
}

void pen_megatron_layout_print(const struct pen_plan *plan,
                               const struct pen_model *model,
                               struct pen_text *out)
{
    uint32_t count;
    for (uint32_t i = 0; i < plan->num_stages; i += count) {
        count = count_alike(plan, model, i);
        pen_text_add_string(out, count > 1 ? "(" : "");
        print_stage(plan, model, &plan->stages[i], out);
        if (count > 1)
            pen_text_add(out, "|)*%u", count);
        else if (i + 1 < plan->num_stages)
            pen_text_add_string(out, "|");
    }
}

/* ---- reading ---- */

/* Reads a number after a star; returns 0 letters when there is none. */
static size_t read_factor(const char *text, size_t *out)
{
    size_t length = 1;
    size_t factor = 0;
    if (text[0] != '*' || !isdigit((unsigned char)text[1]))
        return 0;
    while (isdigit((unsigned char)text[length])) {
        if (factor <= MAX_LETTERS)
            factor = 10 * factor + (size_t)(text[length] - '0');
        length++;
    }
    *out = factor;
    return length;
}

static bool repeat(struct pen_text *out, const char *bytes, size_t length,
                   size_t factor)
{
    if (factor > MAX_LETTERS || out->length + length * factor > MAX_LETTERS)
        return false;
    for (size_t i = 0; i < factor; i++)
        pen_text_add_bytes(out, bytes, length);
    return true;
}

/* "(ab)*2c" becomes "ababc"; a bracket without a number stays. */
static bool expand_groups(const char *text, struct pen_text *out)
{
    while (*text != '\0') {
        size_t inside = *text == '(' ? strcspn(text + 1, ")") : 0;
        size_t factor = 1;
        size_t behind = 0;
        if (inside > 0 && text[1 + inside] == ')')
            behind = read_factor(text + inside + 2, &factor);
        bool is_group = behind > 0;
        if (!repeat(out, is_group ? text + 1 : text, is_group ? inside : 1,
                    factor))
            return false;
        text += is_group ? inside + 2 + behind : 1;
    }
    return true;
}

/* "t*3" becomes "ttt". */
static bool expand_letters(const char *text, struct pen_text *out)
{
    while (*text != '\0') {
        size_t factor = 1;
        size_t behind = read_factor(text + 1, &factor);
        if (!repeat(out, text, 1, factor))
            return false;
        text += 1 + behind;
    }
    return true;
}

static pen_status refuse_letter(char letter, struct pen_text *why)
{
    pen_why(why, "the layout has '");
    if (why != NULL)
        pen_text_add_printable(why, &letter, 1);
    pen_why(why, "'; expected E, t, m, L or |");
    return PEN_INVALID;
}

/* Layers m of the last stage, right before L. */
static uint32_t count_further(const char *letters)
{
    size_t length = strlen(letters);
    uint32_t count = 0;
    while (count + 1 < length && letters[length - 2 - count] == 'm')
        count++;
    return count;
}

/* E is the first letter, L the last, and neither is elsewhere. */
static pen_status check_letters(const char *letters, struct pen_text *why)
{
    size_t length = strlen(letters);
    for (size_t i = 0; i < length; i++)
        if (strchr("EtmL|", letters[i]) == NULL)
            return refuse_letter(letters[i], why);
    if (letters[0] != 'E' || strchr(letters + 1, 'E') != NULL ||
        strchr(letters, 'L') != letters + length - 1) {
        pen_why(why,
                "the layout must begin with its only E and end with its only "
                "L%s",
                length > 0 && letters[length - 1] == '|'
                    ? "; the | at its end begins an empty stage"
                    : "");
        return PEN_INVALID;
    }
    size_t further = count_further(letters);
    if (memchr(letters, 'm', length - 1 - further) == NULL)
        return PEN_OK;
    pen_why(why, "the layout has multi-token prediction layers (m) elsewhere "
                 "than right before L, which a plan does not support");
    return PEN_INVALID;
}

static pen_status count_blocks(const char *letters,
                               struct pen_megatron_layout *out,
                               struct pen_text *why)
{
    struct pen_megatron_layout layout = {.num_stages = 1,
                                         .num_further = count_further(letters)};
    for (const char *at = letters; *at != '\0'; at++)
        layout.num_stages += *at == '|';
    if (layout.num_stages > PEN_PLAN_MAX_STAGES) {
        pen_why(why, "the layout has %u stages, more than %u",
                layout.num_stages, PEN_PLAN_MAX_STAGES);
        return PEN_INVALID;
    }
    layout.num_blocks = calloc(layout.num_stages, sizeof *layout.num_blocks);
    if (layout.num_blocks == NULL) {
        pen_why(why, "no memory for a layout");
        return PEN_NOMEM;
    }
    uint32_t stage = 0;
    for (const char *at = letters; *at != '\0'; at++) {
        stage += *at == '|';
        layout.num_blocks[stage] += *at == 't';
        layout.num_all_blocks += *at == 't';
    }
    *out = layout;
    return PEN_OK;
}

static bool expand(const char *text, struct pen_text *out)
{
    struct pen_text bare = PEN_TEXT_EMPTY;
    struct pen_text groups = PEN_TEXT_EMPTY;
    for (const char *at = text; *at != '\0'; at++)
        if (*at != ',')
            pen_text_add_bytes(&bare, at, 1);
    bool is_short = expand_groups(pen_text_string(&bare), &groups) &&
                    expand_letters(pen_text_string(&groups), out);
    out->has_failed |= bare.has_failed | groups.has_failed;
    pen_text_release(&bare);
    pen_text_release(&groups);
    return is_short;
}

pen_status pen_megatron_layout_parse(const char *text,
                                     struct pen_megatron_layout *out,
                                     struct pen_text *why)
{
    struct pen_text letters = PEN_TEXT_EMPTY;
    pen_status status = PEN_INVALID;
    if (!expand(text, &letters)) {
        pen_why(why, "the layout has more than %zu characters", MAX_LETTERS);
    } else if (letters.has_failed) {
        pen_why(why, "no memory for a layout");
        status = PEN_NOMEM;
    } else {
        status = check_letters(pen_text_string(&letters), why);
    }
    if (status == PEN_OK)
        status = count_blocks(pen_text_string(&letters), out, why);
    pen_text_release(&letters);
    return status;
}

void pen_megatron_layout_release(struct pen_megatron_layout *layout)
{
    free(layout->num_blocks);
    layout->num_blocks = NULL;
}
