/*
 * Finds the command of a program and hands the line over to it.
 */
#include "cli/program/program.h"

#include "base/log.h"
#include "base/nearest.h"
#include "cli/program/answer.h"
#include "cli/program/help.h"
#include "cli/program/parser_once.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_usage(const struct pen__program *program, FILE *out)
{
    fprintf(out,
            "Usage: %s COMMAND ...\n"
            "       %s help [COMMAND ...]\n"
            "       %s --version\n"
            "\n"
            "Plans, simulates and runs the parallel training of neural "
            "networks.\n"
            "\n",
            program->name, program->name, program->name);
    for (size_t i = 0; program->commands[i] != NULL; i++)
        fprintf(out, "  %-10s  %s\n", program->commands[i]->name,
                program->commands[i]->summary);
    fputs("\nMore: penstock help COMMAND, or man penstock.\n", out);
}

static const struct pen__command *
find_command(const struct pen__program *program, const char *name)
{
    struct pen_nearest nearest = pen_nearest_to(name);
    for (size_t i = 0; program->commands[i] != NULL; i++) {
        if (strcmp(program->commands[i]->name, name) == 0)
            return program->commands[i];
        pen_nearest_offer(&nearest, program->commands[i]->name);
    }
    pen__once_begin(); /* up to the end of the program */
    pen_log(PEN_LOG_ERROR, "there is no command '%s'%s%s", name,
            nearest.best != NULL ? "; did you mean " : "",
            nearest.best != NULL ? nearest.best : "");
    print_usage(program, stderr);
    return NULL;
}

static int run_for_help(const struct pen__command *command, int argc,
                        char **argv)
{
    char option[] = "--help";
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (words == NULL)
        return PEN__EXIT_NO;
    memcpy(words, argv, (size_t)argc * sizeof *words);
    words[argc] = option;
    int code = command->run(argc + 1, words);
    free(words);
    return code;
}

static int help(const struct pen__program *program, int argc, char **argv)
{
    const char *name = argc < 2 || argv[1][0] == '-' ? NULL : argv[1];
    const struct pen__command *command =
        name == NULL ? NULL : find_command(program, name);
    if (name != NULL && command == NULL)
        return PEN__EXIT_USAGE;
    if (pen__answer_is_json())
        return pen__help_print_json(program, name);
    if (command == NULL) {
        print_usage(program, stdout);
        return PEN__EXIT_OK;
    }
    return command->help != NULL ? command->help(argc - 1, argv + 1)
                                 : run_for_help(command, argc - 1, argv + 1);
}

static int run(const struct pen__program *program, int argc, char **argv)
{
    const char *word = argv[1];
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0)
        return help(program, argc - 1, argv + 1);
    const struct pen__command *command = find_command(program, word);
    if (command == NULL)
        return PEN__EXIT_USAGE;
    return command->run(argc - 1, argv + 1);
}

int pen__program_main(const struct pen__program *program, int argc, char **argv)
{
    if (argc < 2) {
        print_usage(program, stderr);
        return PEN__EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", program->name, pen__program_version());
        return PEN__EXIT_OK;
    }
    pen__answer_begin(argc, argv);
    return pen__answer_end(run(program, argc, argv));
}

const char *pen__program_version(void)
{
    return PEN_VERSION;
}
