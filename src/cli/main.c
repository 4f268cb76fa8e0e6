/*
 * penstock: finds the command and hands the line over to it.
 */
#include "cli/cli.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

static const struct pen__command *const commands[] = {&pen__schedule,
                                                      &pen__tokenize, NULL};

static void print_usage(FILE *out)
{
    fputs("usage: penstock COMMAND ...\n"
          "       penstock help [COMMAND ...]\n"
          "       penstock --version\n"
          "\n"
          "Plans, simulates and runs the parallel training of neural "
          "networks.\n"
          "\n",
          out);
    for (size_t i = 0; commands[i] != NULL; i++)
        fprintf(out, "  %-10s  %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nMore: penstock help COMMAND, or man penstock.\n", out);
}

static const struct pen__command *find_command(const char *name)
{
    struct pen__nearest nearest = pen__nearest_to(name);
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
        pen__nearest_offer(&nearest, commands[i]->name);
    }
    pen_log(PEN_LOG_ERROR, "there is no command '%s'%s%s", name,
            nearest.best != NULL ? "; did you mean " : "",
            nearest.best != NULL ? nearest.best : "");
    print_usage(stderr);
    return NULL;
}

static int help(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stdout);
        return PEN__EXIT_OK;
    }
    const struct pen__command *command = find_command(argv[1]);
    if (command == NULL)
        return PEN__EXIT_USAGE;
    return command->help(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return PEN__EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        puts("penstock " PEN_VERSION);
        return PEN__EXIT_OK;
    }
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0)
        return help(argc - 1, argv + 1);
    const struct pen__command *command = find_command(word);
    if (command == NULL)
        return PEN__EXIT_USAGE;
    return command->run(argc - 1, argv + 1);
}
