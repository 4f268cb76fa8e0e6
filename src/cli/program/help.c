#include "cli/program/help.h"

#include "base/text.h"
#include "cli/program/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    json_t *commands; /* NULL: help is printed */
    const struct pen__help_others *others;
} help;

void pen__help_set_others(const struct pen__help_others *others)
{
    help.others = others;
}

bool pen__help_is_collected(void)
{
    return help.commands != NULL;
}

/* ---- one option ---- */

/* The JSON type of an option, from the name of its value in the help. */
static const char *type_of(const char *value)
{
    static const struct {
        const char *value;
        const char *type;
    } types[] = {
        {"N", "count"},       {"P", "count"},        {"M", "count"},
        {"V", "count"},       {"K", "count"},        {"PORT", "count"},
        {"X", "number"},      {"A", "number"},       {"S", "number"},
        {"T", "number"},      {"SHARE", "share"},    {"X%", "share"},
        {"BYTES", "bytes"},   {"SIZE", "bytes"},     {"RATE", "rate"},
        {"TIME", "duration"}, {"FILE", "path"},      {"DIR", "path"},
        {"PATH", "path"},     {"RUN", "path"},       {"PLAN", "path"},
        {"PREFIX", "path"},   {"NAME", "name"},      {"METHOD", "name"},
        {"MODEL", "model"},   {"LIST", "list"},      {"COSTS", "costs"},
        {"MEM", "costs"},     {"CLUSTER", "cluster"}};
    if (value == NULL)
        return "flag";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].value, value) == 0)
            return types[i].type;
    return "text";
}

/*
 * Adds the part of the meaning, between semicolons, that says "when not given".
 */
static void add_absence(const char *meaning, json_t *object)
{
    static const char words[] = "when not given";
    const char *at = strstr(meaning, words);
    if (at == NULL)
        return;
    for (const char *next = at; next != NULL; next = strstr(next + 1, words))
        at = next; /* the last one is of the option itself */
    const char *start = at;
    while (start > meaning && start[-1] != ';')
        start--;
    start += strspn(start, " ");
    const char *end = at + strcspn(at, ";");
    if (at == start) /* "when not given, 1" */
        start += sizeof words - 1 + strspn(at + sizeof words - 1, ", ");
    else /* "1 when not given" */
        end = at;
    while (end > start && strchr(" ,", end[-1]) != NULL)
        end--;
    json_object_set_new(object, "when_not_given",
                        json_stringn(start, (size_t)(end - start)));
}

static json_t *option_json(const struct argp_option *option)
{
    const char *meaning = option->doc == NULL ? "" : option->doc;
    char letter[2] = {(char)option->key, '\0'};
    bool has_letter = option->key > ' ' && option->key < 127;
    json_t *object =
        json_pack("{s:s, s:s?, s:s?, s:s, s:s, s:b}", "name", option->name,
                  "short", has_letter ? letter : NULL, "value", option->arg,
                  "type", type_of(option->arg), "meaning", meaning, "hidden",
                  (option->flags & OPTION_HIDDEN) != 0);
    add_absence(meaning, object);
    return object;
}

static json_t *options_json(const struct argp_option *options)
{
    json_t *list = json_array();
    for (size_t i = 0;
         options != NULL && (options[i].name != NULL || options[i].key != 0 ||
                             options[i].doc != NULL);
         i++)
        if (options[i].name != NULL)
            pen__json_append(&list, option_json(&options[i]));
    return list;
}

/* ---- one command ---- */

static json_t *usages_json(const char *name, const char *words)
{
    json_t *list = json_array();
    struct pen_text usage = PEN_TEXT_EMPTY;
    for (const char *at = words == NULL ? "" : words;; at++) {
        size_t length = strcspn(at, "\n");
        pen_text_clear(&usage);
        pen_text_add(&usage, "%s [OPTION...]%s%.*s", name,
                     length > 0 ? " " : "", (int)length, at);
        pen__json_append(&list, json_string(pen_text_string(&usage)));
        at += length;
        if (*at == '\0')
            break;
    }
    pen_text_release(&usage);
    return list;
}

static json_t *examples_json(const char *command)
{
    json_t *list = json_array();
    for (const struct pen__example *it = pen__examples; it->line != NULL; it++)
        if (strcmp(it->command, command) == 0)
            pen__json_append(&list, json_string(it->line));
    return list;
}

void pen__help_add(const struct argp *parser, const char *name)
{
    const char *doc = parser->doc == NULL ? "" : parser->doc;
    size_t length = strcspn(doc, "\v");
    const char *command = strchr(name, ' ');
    command = command == NULL ? name : command + 1;
    pen__json_append(&help.commands,
                     json_pack("{s:s, s:s%, s:s, s:o, s:o, s:o}", "name",
                               command, "description", doc, length, "details",
                               doc[length] == '\v' ? doc + length + 1 : "",
                               "usages", usages_json(name, parser->args_doc),
                               "options", options_json(parser->options),
                               "examples", examples_json(command)));
}

/* ---- all commands ---- */

static void run_help(const struct pen__command *command)
{
    char option[] = "--help";
    char *words[] = {(char *)command->name, option, NULL};
    if (command->help != NULL)
        command->help(1, words);
    else
        command->run(2, words);
}

static void add_own(const struct pen__program *program,
                    const struct pen__command *command)
{
    size_t first = json_array_size(help.commands);
    run_help(command);
    for (size_t i = first; i < json_array_size(help.commands); i++) {
        json_t *item = json_array_get(help.commands, i);
        json_object_set_new(item, "summary", json_string(command->summary));
        json_object_set_new(item, "program", json_string(program->name));
        json_object_set_new(item, "installed", json_true());
    }
}

static const char *program_of(const struct pen__command *command)
{
    return help.others == NULL ? NULL : help.others->program_of(command->name);
}

/* Adds a program that is not installed, by its name. */
static void add_missing(const struct pen__command *command, const char *program)
{
    pen__json_append(&help.commands,
                     json_pack("{s:s, s:s, s:s, s:b}", "name", command->name,
                               "summary", command->summary, "program", program,
                               "installed", 0));
}

/* Asks each program once, where its first command is listed. */
static void add_others(const struct pen__program *program, size_t index)
{
    const struct pen__command *command = program->commands[index];
    const char *other = program_of(command);
    for (size_t i = 0; i < index; i++) {
        const char *before = program_of(program->commands[i]);
        if (before != NULL && strcmp(before, other) == 0)
            return;
    }
    json_t *answer = help.others->ask(other);
    if (answer != NULL)
        json_array_extend(help.commands, json_object_get(answer, "commands"));
    for (size_t i = index; answer == NULL && program->commands[i] != NULL;
         i++) {
        const char *it = program_of(program->commands[i]);
        if (it != NULL && strcmp(it, other) == 0)
            add_missing(program->commands[i], other);
    }
    json_decref(answer);
}

/* Keeps a command and its verbs. */
static void keep_only(const char *name, json_t *commands)
{
    size_t length = strlen(name);
    for (size_t i = json_array_size(commands); i-- > 0;) {
        const char *it = json_string_value(
            json_object_get(json_array_get(commands, i), "name"));
        if (strncmp(it, name, length) != 0 ||
            (it[length] != '\0' && it[length] != ' '))
            json_array_remove(commands, i);
    }
}

int pen__help_print_json(const struct pen__program *program, const char *name)
{
    help.commands = json_array();
    for (size_t i = 0; program->commands[i] != NULL; i++) {
        const struct pen__command *command = program->commands[i];
        if (name != NULL && strcmp(name, command->name) != 0)
            continue;
        if (program_of(command) != NULL)
            add_others(program, i);
        else
            add_own(program, command);
    }
    json_t *commands = help.commands;
    help.commands = NULL;
    if (name != NULL)
        keep_only(name, commands);
    return pen__print_json("help", json_pack("{s:s, s:s, s:o}", "program",
                                             program->name, "release",
                                             pen__program_version(), "commands",
                                             commands));
}
