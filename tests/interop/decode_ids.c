/*
 * What tests/interop/run_tokenizers asks of Penstock: the text of ids.
 *
 *   decode_ids TOKENIZER
 *
 * Each line of standard input is a sequence of ids; its text goes to standard
 * output as a line of hexadecimal bytes, for a sequence that somebody made up
 * need not end with a whole character.
 */
#include "data/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void read_ids(char *line, struct pen_token_list *out)
{
    char *end;
    out->count = 0;
    for (;; line = end) {
        unsigned long id = strtoul(line, &end, 10);
        if (end == line)
            return;
        pen_token_list_add_one(out, (uint32_t)id);
    }
}

static void print_hexadecimal(const struct pen_text *text)
{
    for (size_t i = 0; i < text->length; i++)
        printf("%02x", (unsigned char)text->bytes[i]);
    putchar('\n');
}

int main(int argc, char **argv)
{
    struct pen_tokenizer *tokenizer = NULL;
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    char *line = NULL;
    size_t capacity = 0;
    if (argc != 2) {
        fputs("usage: decode_ids TOKENIZER\n", stderr);
        return 2;
    }
    pen_status status = pen_tokenizer_load(argv[1], &tokenizer, &why);
    while (status == PEN_OK && getline(&line, &capacity, stdin) >= 0) {
        read_ids(line, &ids);
        pen_text_clear(&text);
        status =
            pen_tokenizer_decode(tokenizer, ids.ids, ids.count, &text, &why);
        if (status == PEN_OK)
            print_hexadecimal(&text);
    }
    if (status != PEN_OK)
        fprintf(stderr, "%s\n", pen_text_string(&why));
    free(line);
    pen_token_list_release(&ids);
    pen_text_release(&text);
    pen_text_release(&why);
    pen_tokenizer_free(tokenizer);
    return status != PEN_OK;
}
