/* A command line as words and options; what they mean is megatron_line.c. */
#include "export/megatron_words.h"

#include "base/shell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE_BYTES ((size_t)1 << 20)

static const char *const names[] = {
#define OPTION_NAME(name, word) word,
    PEN__MEGATRON_TABLE(OPTION_NAME)};

/* ---- words ---- */

static pen_status split(const char *text, size_t length, struct pen_text *out,
                        struct pen_text *why)
{
    struct pen_shell_scanner scanner = {.text = text, .length = length};
    struct pen_shell_token word = {.kind = PEN_SHELL_WORD};
    if (length > MAX_LINE_BYTES || memchr(text, '\0', length) != NULL) {
        pen_why(why, "a command line is a text of at most 1 MiB");
        return PEN_INVALID;
    }
    while ((word = pen_shell_next(&scanner)).kind == PEN_SHELL_WORD) {
        pen_shell_unquote(text, &word, out);
        pen_text_add_bytes(out, "", 1);
    }
    if (word.kind == PEN_SHELL_BROKEN) {
        pen_why(why, "the command line ends inside a quote");
        return PEN_INVALID;
    }
    if (out->has_failed) {
        pen_why(why, "no memory for a command line");
        return PEN_NOMEM;
    }
    return PEN_OK;
}

/* ---- options ---- */

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-' && word[2] != '\0';
}

/* "$ARGS" or "${ARGS[@]}", which only a shell could expand. */
static bool is_variable(const char *word)
{
    return word[0] == '$' && word[1] != '\0';
}

/* torchrun has its names with underscores, too. */
static bool is_name(const char *word, size_t length, const char *name)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (word[i] != name[i] && (word[i] != '_' || name[i] != '-'))
            return false;
    return true;
}

#define MOST_NAME ((size_t)80)     /* letters of a name in a note */
#define MOST_UNREAD ((size_t)4096) /* letters of all of them */

/* Notes each unread option once; the length is that of the name in the word. */
static void note_unread(struct pen__megatron_words *words, const char *word,
                        size_t length)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_text *all = &words->unread;
    pen_text_add_string(&name, " ");
    pen_text_add_printable(&name, word,
                           length < MOST_NAME ? length : MOST_NAME);
    pen_text_add_string(&name, ",");
    if (all->length < MOST_UNREAD &&
        strstr(pen_text_string(all), pen_text_string(&name)) == NULL)
        pen_text_add_bytes(all, pen_text_string(&name), name.length);
    pen_text_release(&name);
}

static void note_option(struct pen__megatron_words *words, const char *word,
                        const char *next)
{
    size_t length = strcspn(word + 2, "=");
    const char *value = "";
    if (word[2 + length] == '=')
        value = word + 2 + length + 1;
    else if (next != NULL && !is_option(next))
        value = next;
    for (int i = 0; i < PEN__MEGATRON_OPTIONS; i++)
        if (is_name(word + 2, length, names[i])) {
            words->values[i] = value;
            return;
        }
    note_unread(words, word, 2 + length);
}

pen_status pen__megatron_words_init(struct pen__megatron_words *words,
                                    const char *text, size_t length,
                                    struct pen_text *why)
{
    *words = (struct pen__megatron_words){.words = PEN_TEXT_EMPTY,
                                          .unread = PEN_TEXT_EMPTY};
    pen_status status =
        length == 0 ? PEN_OK : split(text, length, &words->words, why);
    if (status != PEN_OK) {
        pen_text_release(&words->words);
        return status;
    }
    if (words->words.length == 0)
        return PEN_OK;
    const char *end = words->words.bytes + words->words.length;
    bool is_value = false;
    for (const char *word = words->words.bytes; word < end;) {
        const char *next = word + strlen(word) + 1;
        if (is_option(word))
            note_option(words, word, next < end ? next : NULL);
        else if (is_variable(word) && !is_value)
            note_unread(words, word, strlen(word));
        is_value = is_option(word);
        word = next;
    }
    return PEN_OK;
}

void pen__megatron_words_release(struct pen__megatron_words *words)
{
    pen_text_release(&words->words);
    pen_text_release(&words->unread);
}

bool pen__megatron_has(const struct pen__megatron_words *words,
                       enum pen__megatron_option option)
{
    return words->values[option] != NULL;
}

bool pen__megatron_is(const struct pen__megatron_words *words,
                      enum pen__megatron_option option, const char *value)
{
    return words->values[option] != NULL &&
           strcmp(words->values[option], value) == 0;
}

const char *pen__megatron_name(enum pen__megatron_option option)
{
    return names[option];
}

/* A value after "=" is the only one. */
const char *pen__megatron_next(const struct pen__megatron_words *words,
                               const char *value)
{
    const char *next = value + strlen(value) + 1;
    bool is_alone = value[0] == '\0' || value[-1] == '=';
    return is_alone || next >= words->words.bytes + words->words.length ||
                   is_option(next)
               ? NULL
               : next;
}

static pen_status refuse_value(const struct pen__megatron_words *words,
                               enum pen__megatron_option option,
                               const char *expected, struct pen_text *why)
{
    const char *value = words->values[option];
    if (value[0] == '\0') {
        pen_why(why, "--%s has no value, expected %s", names[option], expected);
        return PEN_INVALID;
    }
    if (is_variable(value))
        expected = "what the shell makes of it: variables are not expanded";
    pen_why(why, "--%s is '", names[option]);
    if (why != NULL)
        pen_text_add_printable(why, value, strnlen(value, 40));
    pen_why(why, "', expected %s", expected);
    return PEN_INVALID;
}

pen_status pen__megatron_count(const struct pen__megatron_words *words,
                               enum pen__megatron_option option, uint32_t most,
                               uint32_t *out, struct pen_text *why)
{
    const char *value = words->values[option];
    if (value == NULL)
        return PEN_OK;
    size_t length = strspn(value, "0123456789");
    unsigned long number = strtoul(value, NULL, 10);
    if (length == 0 || length > 10 || value[length] != '\0' || number < 1 ||
        number > most)
        return refuse_value(words, option, "a whole number in its range", why);
    *out = (uint32_t)number;
    return PEN_OK;
}

pen_status pen__megatron_real(const struct pen__megatron_words *words,
                              enum pen__megatron_option option, double *out,
                              struct pen_text *why)
{
    const char *value = words->values[option];
    char *end;
    if (value == NULL)
        return PEN_OK;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(number))
        return refuse_value(words, option, "a number", why);
    *out = number;
    return PEN_OK;
}
