#include "cli/program/verbs.h"

#include "base/log.h"
#include "base/nearest.h"
#include "cli/program/cli.h"
#include "cli/program/help.h"

#include <stdio.h>
#include <string.h>

static void print_usage(const struct pen__verbs *verbs, FILE *out)
{
    fprintf(out, "Usage: penstock %s COMMAND ...\n\n", verbs->command);
    for (size_t i = 0; i < verbs->count; i++)
        fprintf(out, "  %-*s %-*s  %s\n", verbs->name_width,
                verbs->items[i].name, verbs->words_width, verbs->items[i].words,
                verbs->items[i].summary);
    fprintf(out, "\nMore: penstock help %s [COMMAND], or man penstock-%s.\n",
            verbs->command, verbs->command);
}

static int find(const struct pen__verbs *verbs, const char *name)
{
    struct pen_nearest nearest = pen_nearest_to(name);
    for (size_t i = 0; i < verbs->count; i++) {
        const struct pen__verb *verb = &verbs->items[i];
        if (verb->doc != NULL && strcmp(verb->name, name) == 0)
            return (int)i;
        pen_nearest_offer(&nearest, verb->name);
    }
    pen_log(PEN_LOG_ERROR, "there is no command '%s %s'%s%s%s%s",
            verbs->command, name, nearest.best != NULL ? "; did you mean " : "",
            nearest.best != NULL ? verbs->command : "",
            nearest.best != NULL ? " " : "",
            nearest.best != NULL ? nearest.best : "");
    print_usage(verbs, stderr);
    return -1;
}

int pen__verbs_find(const struct pen__verbs *verbs, int argc, char **argv,
                    int *code)
{
    *code = PEN__EXIT_USAGE;
    if (argc < 2) {
        print_usage(verbs, stderr);
        return -1;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_usage(verbs, stdout);
        *code = PEN__EXIT_OK;
        return -1;
    }
    return find(verbs, argv[1]);
}

/* Makes the line of one verb; the caller releases the texts that it borrows. */
static struct pen__line line_of(const struct pen__verbs *verbs, int index,
                                struct pen_text *name, struct pen_text *doc)
{
    const struct pen__verb *verb = &verbs->items[index];
    pen_text_add(name, "penstock %s %s", verbs->command, verb->name);
    pen_text_add(doc, "%s.\v%s", verb->summary, verb->doc);
    return (struct pen__line){.name = pen_text_string(name),
                              .fields = verb->fields,
                              .num_fields = verb->num_fields,
                              .usage = verb->words,
                              .words_offset = verbs->words_offset,
                              .least_words = verb->least_words,
                              .most_words = verb->most_words,
                              .doc = pen_text_string(doc),
                              .check = verbs->check};
}

bool pen__verbs_parse(const struct pen__verbs *verbs, int index, int argc,
                      char **argv, void *args)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_text doc = PEN_TEXT_EMPTY;
    struct pen__line line = line_of(verbs, index, &name, &doc);
    bool is_read = pen__line_read(&line, argc - 1, argv + 1, args);
    pen_text_release(&name);
    pen_text_release(&doc);
    return is_read;
}

static void help_on(const struct pen__verbs *verbs, int index)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_text doc = PEN_TEXT_EMPTY;
    struct pen__line line = line_of(verbs, index, &name, &doc);
    pen__line_help(&line);
    pen_text_release(&name);
    pen_text_release(&doc);
}

int pen__verbs_help(const struct pen__verbs *verbs, int argc, char **argv)
{
    if (argc >= 2) {
        int index = find(verbs, argv[1]);
        if (index < 0)
            return PEN__EXIT_USAGE;
        help_on(verbs, index);
        return PEN__EXIT_OK;
    }
    bool is_collected = pen__help_is_collected();
    if (!is_collected)
        print_usage(verbs, stdout);
    for (size_t i = 0; i < verbs->count; i++) {
        if (verbs->items[i].doc == NULL)
            continue;
        if (!is_collected)
            putchar('\n');
        help_on(verbs, (int)i);
    }
    return PEN__EXIT_OK;
}
