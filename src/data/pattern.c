#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/pattern.h"

#include "data/utf8.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_MAX 8192u
#define MATCH_LIMIT 10000000u /* steps; a good pattern takes a few per byte */
#define STACK_START ((size_t)32u * 1024)
#define STACK_MAX ((size_t)1024u * 1024)

struct pen__pattern {
    pcre2_code *code;
    bool is_compiled;    /* to machine code */
    bool has_start;      /* \G: where a search begins is part of it */
    uint32_t looks_back; /* characters, at least 1 */
};

struct pen__matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/*
 * White space of Unicode. PCRE2's own \s also has U+180E, which lost the
 * property in Unicode 6.3.
 */
#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\p{Z}"

/* Copies the pattern, with \s and \S as Oniguruma has them. */
static pen_status translate(const char *text, size_t length,
                            struct pen_text *out, struct pen_text *why)
{
    bool is_in_class = false;
    for (size_t i = 0; i < length; i++) {
        char next = i + 1 < length ? text[i + 1] : '\0';
        if (text[i] == '\\' && i + 1 < length) {
            if (next == 's')
                pen_text_add(out, is_in_class ? "%s" : "[%s]", SPACES);
            else if (next == 'S' && !is_in_class)
                pen_text_add(out, "[^%s]", SPACES);
            else
                pen_text_add_bytes(out, text + i, 2);
            i++;
            continue;
        }
        if (is_in_class && ((text[i] == '&' && next == '&') ||
                            (text[i] == '[' && next != ':'))) {
            pen_why(why, "a class inside a class is not supported in the "
                         "pattern ");
            pen_text_add_printable(why, text, length);
            return PEN_INVALID;
        }
        if (text[i] == '[')
            is_in_class = true;
        else if (text[i] == ']')
            is_in_class = false;
        pen_text_add_bytes(out, text + i, 1);
    }
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}

static pcre2_code *compile(const struct pen_text *text, struct pen_text *why)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile(
        (PCRE2_SPTR)text->bytes, text->length,
        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK,
        &error, &at, NULL);
    if (code == NULL) {
        PCRE2_UCHAR words[128];
        pcre2_get_error_message(error, words, sizeof words);
        pen_why(why, "bad pattern: %s at byte %zu of ", (const char *)words,
                at);
        pen_text_add_printable(why, text->bytes, text->length);
    }
    return code;
}

pen_status pen__pattern_create(const char *text, size_t length,
                               struct pen__pattern **out, struct pen_text *why)
{
    struct pen_text translated = PEN_TEXT_EMPTY;
    struct pen__pattern *pattern = NULL;
    pcre2_code *code = NULL;
    if (length == 0 || length > LENGTH_MAX) {
        pen_why(why, "a pattern must have 1 to %u bytes, not %zu", LENGTH_MAX,
                length);
        return PEN_INVALID;
    }
    pen_status status = translate(text, length, &translated, why);
    if (status == PEN_OK) {
        code = compile(&translated, why);
        status = code == NULL ? PEN_INVALID : PEN_OK;
    }
    if (status == PEN_OK) {
        pattern = malloc(sizeof *pattern);
        status = pattern == NULL ? PEN_NOMEM : PEN_OK;
    }
    pen_text_release(&translated);
    if (status != PEN_OK) {
        pcre2_code_free(code);
        return status;
    }
    *pattern = (struct pen__pattern){.code = code};
    pattern->is_compiled =
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) ==
        0;
    pattern->has_start = pen__search(text, length, "\\G", 2) != NULL;
    pcre2_pattern_info(code, PCRE2_INFO_MAXLOOKBEHIND, &pattern->looks_back);
    if (pattern->looks_back == 0)
        pattern->looks_back = 1;
    *out = pattern;
    return PEN_OK;
}

void pen__pattern_free(struct pen__pattern *pattern)
{
    if (pattern == NULL)
        return;
    pcre2_code_free(pattern->code);
    free(pattern);
}

pen_status pen__matcher_create(struct pen__matcher **out)
{
    struct pen__matcher *matcher = calloc(1, sizeof *matcher);
    if (matcher == NULL)
        return PEN_NOMEM;
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_START, STACK_MAX, NULL);
    if (matcher->data == NULL || matcher->context == NULL) {
        pen__matcher_free(matcher);
        return PEN_NOMEM;
    }
    pcre2_set_match_limit(matcher->context, MATCH_LIMIT);
    if (matcher->stack != NULL)
        pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    *out = matcher;
    return PEN_OK;
}

void pen__matcher_free(struct pen__matcher *matcher)
{
    if (matcher == NULL)
        return;
    pcre2_jit_stack_free(matcher->stack);
    pcre2_match_context_free(matcher->context);
    pcre2_match_data_free(matcher->data);
    free(matcher);
}

pen_status pen__pattern_find(const struct pen__pattern *pattern,
                             struct pen__matcher *matcher,
                             const struct pen__block *block, size_t from,
                             struct pen__match *out)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)block->text;
    /* A match that would look at the end of the text is partial then. */
    uint32_t options = block->is_end ? 0 : PCRE2_PARTIAL_HARD;
    int result =
        pattern->is_compiled
            ? pcre2_jit_match(pattern->code, subject, block->length, from,
                              options, matcher->data, matcher->context)
            : pcre2_match(pattern->code, subject, block->length, from,
                          options | PCRE2_NO_UTF_CHECK, matcher->data,
                          matcher->context);
    if (result == PCRE2_ERROR_NOMATCH) {
        *out = (struct pen__match){block->length, block->length, false};
        return PEN_OK;
    }
    bool is_open = result == PCRE2_ERROR_PARTIAL;
    if (result < 0 && !is_open)
        return PEN_INVALID;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(matcher->data);
    /* \K in a look-ahead may put the beginning after the end. */
    if (ends[0] < from || ends[1] < ends[0])
        return PEN_INVALID;
    *out = (struct pen__match){ends[0], ends[1], is_open};
    return PEN_OK;
}

size_t pen__pattern_keeps(const struct pen__pattern *pattern,
                          const struct pen__block *block, size_t done)
{
    for (uint32_t i = 0; i < pattern->looks_back && done > 0; i++)
        done = pen__utf8_before(block->text, done);
    return done;
}

bool pen__pattern_may_skip(const struct pen__pattern *pattern)
{
    return !pattern->has_start;
}
