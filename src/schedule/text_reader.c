#include "schedule/text_reader.h"

#include <string.h>

/*
 * Wrong ops that a refusal lists; more of them would not help, since the text
 * is probably not a schedule.
 */
#define MOST_REFUSED 10u

pen_status pen__reader_refuse(struct pen__reader *reader, size_t at,
                              const char *what)
{
    if (at > reader->line_end)
        at = reader->line_end;
    struct pen_text *why = reader->why;
    if (reader->num_refused++ > 0)
        pen_why(why, "\n");
    pen_why(why, "line %u, column %zu", reader->line,
            at - reader->line_start + 1);
    if (reader->rank != UINT32_MAX)
        pen_why(why, " (rank %u)", reader->rank);
    pen_why(why, ": %s", what);
    if (why != NULL)
        pen_text_add_excerpt(why, reader->text, reader->length, at);
    return PEN_INVALID;
}

bool pen__reader_next_line(struct pen__reader *reader)
{
    for (;;) {
        size_t start = reader->line == 0 ? 0 : reader->line_end + 1;
        if (start > reader->length || (start == reader->length && start > 0))
            return false;
        const char *newline =
            memchr(reader->text + start, '\n', reader->length - start);
        reader->line_start = start;
        reader->line_end =
            newline == NULL ? reader->length : (size_t)(newline - reader->text);
        reader->at = start;
        reader->line++;
        bool is_first = reader->line == 1;
        while (reader->at < reader->line_end &&
               pen__reader_is_space(reader->text[reader->at]))
            reader->at++;
        bool is_empty = reader->at == reader->line_end;
        if (is_first || (!is_empty && reader->text[reader->at] != '#'))
            return true;
    }
}

bool pen__reader_take_word(struct pen__reader *reader, const char *word)
{
    pen__reader_skip_spaces(reader);
    size_t length = strlen(word);
    size_t end = reader->at + length;
    if (end > reader->line_end ||
        memcmp(reader->text + reader->at, word, length) != 0)
        return false;
    if (end < reader->line_end && !pen__reader_is_space(reader->text[end]) &&
        reader->text[end] != ':')
        return false;
    reader->at = end;
    return true;
}

pen_status pen__reader_expect_word(struct pen__reader *reader, const char *word)
{
    if (pen__reader_take_word(reader, word))
        return PEN_OK;
    char what[64] = "expected the word '";
    strcat(strcat(what, word), "'");
    return pen__reader_refuse(reader, reader->at, what);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline pen_status take_number(struct pen__reader *reader, uint32_t limit,
                                     const char *what, uint32_t *out)
{
    size_t start = reader->at;
    uint64_t number = 0;
    while (reader->at < reader->line_end &&
           is_digit(reader->text[reader->at])) {
        number = number * 10 + (uint64_t)(reader->text[reader->at] - '0');
        if (number > limit)
            return pen__reader_refuse(reader, start, what);
        reader->at++;
    }
    size_t digits = reader->at - start;
    if (digits == 0 || (digits > 1 && reader->text[start] == '0'))
        return pen__reader_refuse(reader, start, what);
    *out = (uint32_t)number;
    return PEN_OK;
}

pen_status pen__reader_take_number(struct pen__reader *reader, uint32_t limit,
                                   const char *what, uint32_t *out)
{
    return take_number(reader, limit, what, out);
}

pen_status pen__reader_take_field(struct pen__reader *reader, const char *word,
                                  uint32_t limit, uint32_t *out)
{
    pen_status status = pen__reader_expect_word(reader, word);
    if (status != PEN_OK)
        return status;
    pen__reader_skip_spaces(reader);
    return take_number(reader, limit,
                       "expected a number in its range, without leading zeros",
                       out);
}

pen_status pen__reader_expect_line_end(struct pen__reader *reader)
{
    return pen__reader_at_line_end(reader)
               ? PEN_OK
               : pen__reader_refuse(reader, reader->at,
                                    "unexpected text at the end of the line");
}

/* Letters are read greedily, so that SA is never S and A. */
static pen_status take_kind(struct pen__reader *reader, uint8_t *out)
{
    size_t start = reader->at;
    size_t end = start;
    while (end < reader->line_end && reader->text[end] >= 'A' &&
           reader->text[end] <= 'Z')
        end++;
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        const char *text = pen_op_info(kind)->text;
        if (end > start && text[0] == reader->text[start] &&
            strlen(text) == end - start &&
            memcmp(text, reader->text + start, end - start) == 0) {
            *out = (uint8_t)kind;
            reader->at = end;
            return PEN_OK;
        }
    }
    return pen__reader_refuse(
        reader, start,
        "expected F, B, I, W, R, SA, RA, SG, RG, EV, LD, SYNC or "
        "STEP");
}

/* No slice and no group has this number. */
#define UNMARKED UINT32_MAX

/* Takes a number after a mark such as '@'; absent is fine. */
static pen_status take_marked(struct pen__reader *reader, char mark,
                              uint32_t limit, const char *what, uint32_t *out)
{
    if (reader->at == reader->line_end || reader->text[reader->at] != mark)
        return PEN_OK;
    reader->at++;
    return take_number(reader, limit, what, out);
}

pen_status pen__reader_take_op(struct pen__reader *reader,
                               const struct pen_shape *shape,
                               uint32_t own_stage, struct pen_op *op)
{
    *op = (struct pen_op){.version = PEN_OP_CURRENT,
                          .microbatch = PEN_OP_NO_MICROBATCH};
    uint32_t stage = own_stage;
    uint32_t slice = UNMARKED;
    uint32_t group = UNMARKED;
    size_t start = reader->at;
    pen_status status = PEN_OK;
    if (own_stage == PEN_NO_STAGE)
        status = take_number(reader, shape->num_stages - 1,
                             "expected the number of a stage of this schedule",
                             &stage);
    if (status == PEN_OK)
        status = take_kind(reader, &op->kind);
    if (status == PEN_OK && pen_op_has_microbatch(op->kind)) {
        status =
            take_number(reader, shape->num_microbatches - 1,
                        "expected the number of a micro-batch of this schedule",
                        &op->microbatch);
        if (status == PEN_OK)
            status = take_marked(
                reader, '.', shape->num_slices - 1,
                "expected the number of a slice of this schedule", &slice);
    }
    if (status == PEN_OK)
        status = take_marked(reader, '@', UINT32_MAX - 1,
                             "expected the number of a version", &op->version);
    if (status == PEN_OK)
        status = take_marked(reader, '~', UINT16_MAX,
                             "expected the number of a group", &group);
    if (status != PEN_OK)
        return status;
    if (reader->at < reader->line_end &&
        !pen__reader_is_space(reader->text[reader->at]))
        return pen__reader_refuse(reader, reader->at,
                                  "expected a space after an op");
    /* Written out, these would not come back as the same bytes. */
    if (slice == 0 || group == 0)
        return pen__reader_refuse(
            reader, start,
            "slice 0 and group 0 are the default and must be omitted");
    op->stage = (uint16_t)stage;
    op->slice = slice == UNMARKED ? 0 : (uint16_t)slice;
    op->group = group == UNMARKED ? 0 : (uint16_t)group;
    return PEN_OK;
}

bool pen__reader_skip_op(struct pen__reader *reader)
{
    while (reader->at < reader->line_end &&
           !pen__reader_is_space(reader->text[reader->at]))
        reader->at++;
    return reader->num_refused < MOST_REFUSED;
}
