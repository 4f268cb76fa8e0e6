/*
 * Command lines by getopt_long(), with argp's interface and its words. The
 * words of argv may change places: options first, as in GNU's.
 */
#include <argp.h>

#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OPTIONS 128
#define KEY_HELP (-1000)
#define KEY_USAGE (-1001)
#define LAST_LETTER 0x7e

error_t argp_err_exit_status = 64;

/* The same options as getopt_long() wants them. */
struct lists {
    struct option names[MOST_OPTIONS];
    char letters[2 * MOST_OPTIONS + 4];
};

static bool is_last(const struct argp_option *option)
{
    return option->name == NULL && option->key == 0 && option->doc == NULL;
}

static bool has_letter(const struct argp_option *option)
{
    return option->key > ' ' && option->key <= LAST_LETTER;
}

static void add_name(struct lists *lists, size_t *count, const char *name,
                     bool has_value, int key)
{
    if (*count + 1 < MOST_OPTIONS)
        lists->names[(*count)++] = (struct option){
            .name = name,
            .has_arg = has_value ? required_argument : no_argument,
            .val = key};
}

/*
 * Lists the options, after a colon: then getopt_long() prints nothing and
 * returns which argument is missing.
 */
static void list_options(const struct argp *argp, unsigned flags,
                         struct lists *lists)
{
    size_t count = 0;
    char *letter = lists->letters;
    if ((flags & ARGP_IN_ORDER) != 0)
        *letter++ = '-';
    *letter++ = ':';
    for (const struct argp_option *option = argp->options;
         option != NULL && !is_last(option); option++) {
        if (option->name != NULL)
            add_name(lists, &count, option->name, option->arg != NULL,
                     option->key);
        if (has_letter(option) && count < MOST_OPTIONS) {
            *letter++ = (char)option->key;
            if (option->arg != NULL)
                *letter++ = ':';
        }
    }
    add_name(lists, &count, "help", false, KEY_HELP);
    add_name(lists, &count, "usage", false, KEY_USAGE);
    *letter = '\0';
}

__attribute__((format(printf, 3, 0))) static void
print_error(const struct argp_state *state, int errnum, const char *format,
            va_list values)
{
    if (state != NULL && state->name != NULL)
        fprintf(stderr, "%s: ", state->name);
    vfprintf(stderr, format, values);
    if (errnum != 0)
        fprintf(stderr, ": %s", strerror(errnum));
    fputc('\n', stderr);
}

void argp_error(const struct argp_state *state, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_error(state, 0, format, values);
    va_end(values);
    if (state != NULL && state->name != NULL)
        fprintf(stderr,
                "Try `%s --help' or `%s --usage' for more information.\n",
                state->name, state->name);
    exit(argp_err_exit_status);
}

void argp_failure(const struct argp_state *state, int status, int errnum,
                  const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_error(state, errnum, format, values);
    va_end(values);
    if (status != 0)
        exit(status);
}

static void print_option(FILE *stream, const struct argp_option *option)
{
    if (option->name == NULL || (option->flags & OPTION_HIDDEN) != 0)
        return;
    fprintf(stream, "  --%s%s%s\n      %s\n", option->name,
            option->arg != NULL ? "=" : "",
            option->arg != NULL ? option->arg : "", option->doc);
}

void argp_help(const struct argp *argp, FILE *stream, unsigned flags,
               char *name)
{
    const char *doc = argp->doc != NULL ? argp->doc : "";
    const char *second = strchr(doc, '\v');
    size_t first = second != NULL ? (size_t)(second - doc) : strlen(doc);
    (void)flags;
    fprintf(stream, "Usage: %s [OPTION...] %s\n%.*s\n\n", name,
            argp->args_doc != NULL ? argp->args_doc : "", (int)first, doc);
    for (const struct argp_option *option = argp->options;
         option != NULL && !is_last(option); option++)
        print_option(stream, option);
    if (second != NULL)
        fprintf(stream, "\n%s\n", second + 1);
}

/* Refuses the word that getopt_long() did not accept. */
static void refuse(const struct argp_state *state, int letter)
{
    const char *word = state->argv[optind - 1];
    if (letter == ':')
        argp_error(state, "option '%s' requires an argument", word);
    if (strncmp(word, "--", 2) == 0)
        argp_error(state, "unrecognized option '%s'", word);
    argp_error(state, "invalid option -- '%c'", optopt);
}

/* Takes one word, or all that are left if the parser wants them together. */
static error_t take_word(struct argp_state *state, char *word)
{
    error_t error = state->root_argp->parser(ARGP_KEY_ARG, word, state);
    if (error == ARGP_ERR_UNKNOWN) {
        int first = --state->next;
        error = state->root_argp->parser(ARGP_KEY_ARGS, NULL, state);
        if (error == 0 && state->next == first)
            state->next = state->argc;
    }
    if (error == ARGP_ERR_UNKNOWN)
        argp_error(state, "Too many arguments");
    state->arg_num++;
    return error;
}

static error_t take_option(struct argp_state *state, int key)
{
    if (key == KEY_HELP || key == KEY_USAGE) {
        argp_help(state->root_argp, stdout, ARGP_HELP_STD_HELP, state->name);
        exit(0);
    }
    if (key == ':' || key == '?')
        refuse(state, key);
    return state->root_argp->parser(key, optarg, state);
}

/* Takes options, and with them, if asked for, the words between them. */
static error_t take_options(struct argp_state *state, unsigned flags)
{
    struct lists lists = {.letters = ""};
    list_options(state->root_argp, flags, &lists);
    error_t error = 0;
    int key;
    while (error == 0 &&
           (key = getopt_long(state->argc, state->argv, lists.letters,
                              lists.names, NULL)) != -1) {
        state->next = optind;
        if (key != 1) {
            error = take_option(state, key);
        } else {
            error = take_word(state, optarg);
            optind = state->next;
        }
    }
    state->next = optind;
    return error;
}

error_t argp_parse(const struct argp *argp, int argc, char **argv,
                   unsigned flags,
                   int *index, /* NOLINT(readability-non-const-parameter) */
                   void *input)
{
    struct argp_state state = {.root_argp = argp,
                               .argc = argc,
                               .argv = argv,
                               .input = input,
                               .name = argv[0]};
    (void)index;
    optind = 1;
    error_t error = take_options(&state, flags);
    while (error == 0 && state.next < argc) {
        char *word = argv[state.next++];
        error = take_word(&state, word);
    }
    if (error == 0 && state.arg_num == 0)
        error = argp->parser(ARGP_KEY_NO_ARGS, NULL, &state);
    if (error == ARGP_ERR_UNKNOWN)
        error = 0;
    if (error == 0)
        error = argp->parser(ARGP_KEY_END, NULL, &state);
    return error == ARGP_ERR_UNKNOWN ? 0 : error;
}
