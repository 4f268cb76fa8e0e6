#include "cli/program/line.h"

#include "cli/program/parser.h"

struct reading {
    const struct pen__line *line;
    void *args;
};

static bool has_lists(const struct pen__line *line)
{
    for (size_t i = 0; i < line->num_fields; i++)
        if (line->fields[i].kind == PEN__FIELD_LIST)
            return true;
    return false;
}

static struct pen__rest *words_of(const struct reading *reading)
{
    return (void *)((char *)reading->args + reading->line->words_offset);
}

static void take_words(const struct reading *reading,
                       const struct argp_state *state)
{
    const struct pen__line *line = reading->line;
    struct pen__rest words = {state->argv + state->next,
                              (size_t)(state->argc - state->next)};
    size_t most = line->usage == NULL ? 0 : line->most_words;
    if (words.count > most)
        argp_error(state, "unexpected argument '%s'", words.words[most]);
    *words_of(reading) = words;
}

static void finish(const struct reading *reading,
                   const struct argp_state *state)
{
    const struct pen__line *line = reading->line;
    if (line->least_words > 0 && words_of(reading)->count < line->least_words)
        argp_error(state, "expected %s",
                   line->expected != NULL ? line->expected : line->usage);
    if (line->check != NULL)
        line->check(reading->args, state);
}

/* Words of a list belong to the list; all others come at once. */
static error_t parse_key(int key, char *text, struct argp_state *state)
{
    struct reading *reading = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (!has_lists(reading->line))
            return ARGP_ERR_UNKNOWN;
        break;
    case ARGP_KEY_ARGS:
        take_words(reading, state);
        return 0;
    case ARGP_KEY_END:
        finish(reading, state);
        return 0;
    default:
        break;
    }
    state->input = reading->args;
    error_t error = pen__fields_parse(
        reading->line->fields, reading->line->num_fields, key, text, state);
    state->input = reading;
    return error;
}

static struct argp parser_of(const struct pen__line *line,
                             struct argp_option *options)
{
    pen__fields_list(line->fields, line->num_fields, options);
    if (line->shown != NULL)
        pen__fields_show(line->shown, options);
    if (line->hidden != NULL)
        pen__fields_hide(line->hidden, options);
    return (struct argp){.options = options,
                         .parser = parse_key,
                         .args_doc = line->usage,
                         .doc = line->doc};
}

bool pen__line_read(const struct pen__line *line, int argc, char **argv,
                    void *args)
{
    struct argp_option options[PEN__FIELDS_MAX + 1];
    struct argp parser = parser_of(line, options);
    struct reading reading = {line, args};
    return pen__parse(&parser, line->name, has_lists(line) ? ARGP_IN_ORDER : 0,
                      argc, argv, &reading);
}

int pen__line_help(const struct pen__line *line)
{
    struct argp_option options[PEN__FIELDS_MAX + 1];
    struct argp parser = parser_of(line, options);
    return pen__parser_help(&parser, line->name);
}

void pen__line_require(const struct argp_state *state, bool is_there,
                       const char *option)
{
    if (!is_there)
        argp_error(state, "--%s is required", option);
}
