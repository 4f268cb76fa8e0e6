/* Keeps what the parser prints by putting a file in the place of stderr. */
#include "cli/program/parser_error.h"

#include "base/text.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    FILE *file; /* of what is kept; NULL: nothing is */
    int err;    /* stderr as it was */
    bool is_registered;
} kept;

/* Gives stderr back what it has missed. */
static void restore(struct pen_text *out)
{
    char block[4096];
    size_t length;
    fflush(stderr);
    dup2(kept.err, STDERR_FILENO);
    close(kept.err);
    rewind(kept.file);
    while ((length = fread(block, 1, sizeof block, kept.file)) > 0)
        pen_text_add_bytes(out, block, length);
    fclose(kept.file);
    kept.file = NULL;
    fputs(pen_text_string(out), stderr);
}

/* Returns the words after "penstock plan: ", without the usage that follows. */
static const char *words_of(struct pen_text *text)
{
    char *usage = strstr(text->bytes, "\nUsage:");
    char *words = strstr(text->bytes, ": ");
    if (usage != NULL)
        *usage = '\0';
    for (size_t end = strlen(text->bytes);
         end > 0 && text->bytes[end - 1] == '\n'; end--)
        text->bytes[end - 1] = '\0';
    return words == NULL ? text->bytes : words + 2;
}

/*
 * Runs when the program ends, as it does after --help, too, then without an
 * error.
 */
static void at_exit(void)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (kept.file == NULL)
        return;
    restore(&text);
    if (text.length > 0) {
        pen__answer_add_error(words_of(&text));
        pen__answer_end(PEN__EXIT_USAGE);
    }
    pen_text_release(&text);
}

void pen__parser_error_begin(void)
{
    if (!pen__answer_is_json() || kept.file != NULL)
        return;
    if (!kept.is_registered && atexit(at_exit) != 0)
        return;
    kept.is_registered = true;
    fflush(stderr);
    kept.file = tmpfile();
    if (kept.file == NULL)
        return;
    kept.err = dup(STDERR_FILENO);
    dup2(fileno(kept.file), STDERR_FILENO);
}

void pen__parser_error_end(void)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (kept.file != NULL)
        restore(&text);
    pen_text_release(&text);
}
