#ifndef PEN_SCHEDULE_TEXT_READER_H
#define PEN_SCHEDULE_TEXT_READER_H

#include "schedule/schedule.h"

/*
 * The text form of a schedule, line by line and word by word: what its forms,
 * with a header (text.c) and without (text_bare.c), share. Set text, length,
 * why and rank; the rest begins as zeros.
 */
struct pen__reader {
    const char *text;
    size_t length;
    size_t at;            /* next byte */
    size_t line_start;    /* first byte of the line being read */
    size_t line_end;      /* its newline, or the end of the text */
    uint32_t line;        /* from 1 */
    uint32_t version;     /* of the format */
    uint32_t rank;        /* of the row being read, UINT32_MAX in the header */
    uint32_t num_refused; /* places that were refused */
    struct pen_text *why;
};

static inline bool pen__reader_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/*
 * Says what is wrong at byte `at` and shows the line around it. Answers
 * PEN_INVALID.
 */
pen_status pen__reader_refuse(struct pen__reader *reader, size_t at,
                              const char *what);

/*
 * Moves to the next line that is not empty or a comment, the first line in any
 * case; false at the end.
 */
bool pen__reader_next_line(struct pen__reader *reader);

static inline void pen__reader_skip_spaces(struct pen__reader *reader)
{
    while (reader->at < reader->line_end &&
           pen__reader_is_space(reader->text[reader->at]))
        reader->at++;
}

static inline bool pen__reader_at_line_end(struct pen__reader *reader)
{
    pen__reader_skip_spaces(reader);
    return reader->at == reader->line_end;
}

/* Takes the word if it is next, with the spaces before it. */
bool pen__reader_take_word(struct pen__reader *reader, const char *word);
pen_status pen__reader_expect_word(struct pen__reader *reader,
                                   const char *word);

/* Takes a decimal number without leading zeros, at most `limit`. */
pen_status pen__reader_take_number(struct pen__reader *reader, uint32_t limit,
                                   const char *what, uint32_t *out);

/* Takes a word and a number. */
pen_status pen__reader_take_field(struct pen__reader *reader, const char *word,
                                  uint32_t limit, uint32_t *out);
pen_status pen__reader_expect_line_end(struct pen__reader *reader);

/*
 * Takes an op within the bounds of the shape, with its stage in front, or
 * without one where own_stage is not PEN_NO_STAGE.
 */
pen_status pen__reader_take_op(struct pen__reader *reader,
                               const struct pen_shape *shape,
                               uint32_t own_stage, struct pen_op *op);

/* Moves past a wrong op; false when enough of them were reported. */
bool pen__reader_skip_op(struct pen__reader *reader);

/*
 * Read the form without a header, text_bare.c: whether the text has it, and the
 * schedule. Errors are as in pen_schedule_parse().
 */
bool pen__text_is_bare(const char *text, size_t length);
pen_status pen__text_parse_bare(const char *text, size_t length,
                                struct pen_schedule **out,
                                struct pen_text *why);

#endif
