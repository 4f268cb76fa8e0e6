/*
 * Answers and errors as JSON. stderr is the same with and without --json; this
 * file collects each message as it is printed.
 *
 * The only state that a program has for its command line: there is one.
 */
#include "cli/program/answer.h"

#include "base/log.h"
#include "base/text.h"
#include "cli/program/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1 /* of all answers; raised when a key changes */

static struct {
    bool is_wanted;
    bool is_given;
    json_t *notes;
    struct pen_text error; /* the first one */
    const char *code;      /* NULL: none was set */
    json_t *more;          /* keys of the error; NULL: none */
} answer;

static void take_message(enum pen_log_level level, const char *words)
{
    if (level == PEN_LOG_ERROR)
        pen__answer_add_error(words);
    else if (answer.notes != NULL)
        pen__json_append(&answer.notes,
                         json_pack("{s:s, s:s}", "level",
                                   level == PEN_LOG_WARN ? "warning" : "info",
                                   "text", words));
}

void pen__answer_begin(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        answer.is_wanted |= strcmp(argv[i], "--json") == 0;
    if (!answer.is_wanted)
        return;
    answer.notes = json_array();
    pen_log_watch(take_message);
}

bool pen__answer_is_json(void)
{
    return answer.is_wanted;
}

void pen__answer_set_code(const char *code)
{
    answer.code = code;
}

const char *pen__answer_code_of(pen_status status)
{
    static const char *const codes[] = {
        [PEN_OK] = "failed",       [PEN_NOMEM] = "no-memory",
        [PEN_INVALID] = "invalid", [PEN_INFEASIBLE] = "unfit",
        [PEN_IO] = "file",         [PEN_DAMAGED] = "damaged",
        [PEN_LATE] = "late",       [PEN_BUSY] = "failed",
        [PEN_LOST] = "failed"};
    return codes[status];
}

void pen__answer_add_to_error(const char *key, json_t *value)
{
    if (answer.is_wanted && answer.more == NULL)
        answer.more = json_object();
    if (!answer.is_wanted)
        json_decref(value);
    else
        json_object_set_new(answer.more, key, value);
}

void pen__answer_add_error(const char *words)
{
    if (answer.error.length == 0)
        pen_text_add_string(&answer.error, words);
}

json_t *pen__answer_make(const char *name, json_t *value)
{
    struct pen_text format = PEN_TEXT_EMPTY;
    json_t *object = NULL;
    pen_text_add(&format, "penstock-answer-%s", name);
    if (value != NULL)
        object = json_pack("{s:s, s:i}", "format", pen_text_string(&format),
                           "version", VERSION);
    pen_text_release(&format);
    json_t *notes =
        answer.notes == NULL ? json_array() : json_incref(answer.notes);
    if (object == NULL || json_object_update(object, value) != 0 ||
        json_object_set(object, "notes", notes) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(notes);
    json_decref(value);
    answer.is_given = true;
    return object;
}

bool pen__answer_find_place(const char *words, size_t *line, size_t *column)
{
    for (const char *at = strstr(words, "line "); at != NULL;
         at = strstr(at + 1, "line "))
        if (sscanf(at, "line %zu, column %zu", line, column) == 2)
            return true;
    return false;
}

/* Adds the file of "FILE: line 2, column 7", at the beginning of a message. */
static void add_place(const char *words, json_t *object)
{
    size_t line;
    size_t column;
    const char *place = strstr(words, ": line ");
    if (!pen__answer_find_place(words, &line, &column))
        return;
    if (place != NULL && strcspn(words, "\n") > (size_t)(place - words))
        json_object_set_new(object, "file",
                            json_stringn(words, (size_t)(place - words)));
    json_object_set_new(object, "line", json_integer((json_int_t)line));
    json_object_set_new(object, "column", json_integer((json_int_t)column));
}

/*
 * Makes the error: its first line is the message; hints and excerpts are below
 * it.
 */
static json_t *error_json(int code)
{
    const char *words = pen_text_string(&answer.error);
    size_t length = strcspn(words, "\n");
    const char *name = code == PEN__EXIT_USAGE ? "usage"
                       : answer.code != NULL   ? answer.code
                                               : "failed";
    json_t *object =
        json_pack("{s:s, s:s%}", "code", name, "message",
                  length > 0 ? words : "no reason is known",
                  length > 0 ? length : strlen("no reason is known"));
    if (words[length] == '\n')
        json_object_set_new(object, "detail", json_string(words + length + 1));
    add_place(words, object);
    if (answer.more != NULL)
        json_object_update(object, answer.more);
    return json_pack("{s:o}", "error", object);
}

int pen__answer_end(int code)
{
    if (answer.is_wanted && !answer.is_given && code != PEN__EXIT_OK)
        pen__print_json("error", error_json(code));
    json_decref(answer.notes);
    json_decref(answer.more);
    answer.notes = NULL;
    answer.more = NULL;
    answer.is_wanted = false;
    pen_text_release(&answer.error);
    return code;
}
