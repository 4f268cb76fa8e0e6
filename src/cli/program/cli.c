#include "cli/program/cli.h"

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/program/answer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int pen__refuse(const struct pen_text *why)
{
    size_t length = why->length;
    while (length > 0 && why->bytes[length - 1] == '\n')
        length--;
    if (length > 0)
        pen_log(PEN_LOG_ERROR, "%.*s", (int)length, pen_text_string(why));
    return PEN__EXIT_NO;
}

int pen__refuse_as(pen_status status, const struct pen_text *why)
{
    pen__answer_set_code(pen__answer_code_of(status));
    return pen__refuse(why);
}

void pen__warn_skipped(const struct pen_checkpoint *checkpoint)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (checkpoint != NULL)
        pen_checkpoint_describe_skipped(checkpoint, &text);
    if (text.length > 0)
        pen_log(PEN_LOG_WARN, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

int pen__print(struct pen_text *text)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = PEN_NOMEM;
    if (text->has_failed)
        pen_why(&why, "out of memory while printing");
    else
        status = pen_file_write("-", pen_text_string(text), text->length, &why);
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse(&why);
    pen_text_release(&why);
    pen_text_release(text);
    return code;
}

int pen__print_json(const char *name, json_t *value)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    char *bytes = NULL;
    value = pen__answer_make(name, value);
    if (value != NULL)
        bytes = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (bytes == NULL)
        text.has_failed = 1;
    else
        pen_text_add(&text, "%s\n", bytes);
    int code = pen__print(&text);
    free(bytes);
    json_decref(value);
    return code;
}

void pen__json_append(json_t **array, json_t *item)
{
    if (json_array_append_new(*array, item) == 0)
        return;
    json_decref(*array);
    *array = NULL;
}

size_t pen__page_width(void)
{
#ifdef TIOCGWINSZ
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        return size.ws_col;
#endif
    return 0;
}
