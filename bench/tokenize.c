/*
 * How fast does one thread encode? Each line of a text is a document.
 *
 *   tokenize TOKENIZER TEXT [REPETITIONS]
 *
 * Prints one line of JSON with the median: milliseconds, megabytes per second
 * and tokens. tokenize_ratio.py runs it turn by turn with the peers.
 */
#include "measure.h"

#include "base/file.h"
#include "data/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPETITIONS_MAX 1000

static pen_status encode_lines(struct pen_encoder *encoder,
                               const struct pen_text *text,
                               struct pen_token_list *ids, struct pen_text *why)
{
    ids->count = 0;
    pen_status status = PEN_OK;
    for (size_t at = 0; at < text->length && status == PEN_OK;) {
        const char *line = text->bytes + at;
        const char *newline = memchr(line, '\n', text->length - at);
        size_t length =
            newline == NULL ? text->length - at : (size_t)(newline - line);
        status = pen_encoder_encode(encoder, line, length, ids, why);
        at += length + 1;
    }
    return status;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    struct pen_tokenizer *tokenizer = NULL;
    struct pen_encoder *encoder = NULL;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    double times[REPETITIONS_MAX];
    int count = argc > 3 ? atoi(argv[3]) : 7;
    if (argc < 3 || count < 1 || count > REPETITIONS_MAX) {
        fputs("usage: tokenize TOKENIZER TEXT [REPETITIONS]\n", stderr);
        return 2;
    }
    pen_status status = pen_tokenizer_load(argv[1], &tokenizer, &why);
    if (status == PEN_OK)
        status = pen_encoder_create(tokenizer, &encoder);
    if (status == PEN_OK)
        status = pen_file_read(argv[2], (size_t)1 << 31, &text, &why);
    for (int i = 0; i < count && status == PEN_OK; i++) {
        double begin = now_ms();
        status = encode_lines(encoder, &text, &ids, &why);
        times[i] = now_ms() - begin;
    }
    if (status == PEN_OK) {
        qsort(times, (size_t)count, sizeof *times, compare);
        double median = times[count / 2];
        printf("{\"ms\": %.3f, \"mb_per_sec\": %.2f, \"tokens\": %zu}\n",
               median, 1e-3 * (double)text.length / median, ids.count);
    } else {
        fprintf(stderr, "%s\n", pen_text_string(&why));
    }
    pen_token_list_release(&ids);
    pen_encoder_free(encoder);
    pen_tokenizer_free(tokenizer);
    pen_text_release(&text);
    pen_text_release(&why);
    return status != PEN_OK;
}
