/*
 * Finds the places of ops in the text of a schedule, for messages about the
 * ops.
 */
#include "schedule/text_reader.h"

#include <string.h>

/* Skips to the line of rank 0. */
static void skip_header(struct pen__reader *reader)
{
    static const char magic[] = "# penstock-schedule";
    size_t length = sizeof magic - 1;
    pen__reader_next_line(reader);
    if (reader->length >= length && memcmp(reader->text, magic, length) == 0) {
        pen__reader_next_line(reader); /* name */
        pen__reader_next_line(reader); /* ranks */
        pen__reader_next_line(reader);
        if (pen__reader_take_word(reader, "rules"))
            pen__reader_next_line(reader);
    } else if (pen__reader_at_line_end(reader) ||
               reader->text[reader->at] == '#') {
        pen__reader_next_line(reader);
    }
}

static void skip_rank(struct pen__reader *reader)
{
    if (!pen__reader_take_word(reader, "rank"))
        return;
    while (reader->at < reader->line_end && reader->text[reader->at] != ':')
        reader->at++;
    if (reader->at < reader->line_end)
        reader->at++;
}

/*
 * Returns whether a letter comes between ops: blanks and, in PyTorch's form,
 * commas and pairs.
 */
static bool is_between(char c)
{
    return pen__reader_is_space(c) || c == ',' || c == '(' || c == ';';
}

size_t pen_schedule_find_op(const char *text, size_t length, uint32_t rank,
                            uint32_t index)
{
    struct pen__reader reader = {.text = text, .length = length};
    skip_header(&reader);
    while (rank-- > 0)
        pen__reader_next_line(&reader);
    skip_rank(&reader);
    for (;;) {
        while (reader.at < reader.line_end && is_between(text[reader.at]))
            reader.at++;
        if (reader.at == reader.line_end || index-- == 0)
            break;
        while (reader.at < reader.line_end && !is_between(text[reader.at]))
            reader.at++;
    }
    while (reader.at > reader.line_start && reader.at == reader.line_end &&
           pen__reader_is_space(text[reader.at - 1]))
        reader.line_end = --reader.at;
    return reader.at;
}
