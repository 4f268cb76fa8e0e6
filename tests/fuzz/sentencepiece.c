/* Any bytes are a SentencePiece model that works or are refused with a reason.
 */
#include "tokenizer_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_tokenizer *tokenizer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status =
        pen_tokenizer_parse_sentencepiece(data, size, &tokenizer, &why);
    if (status == PEN_OK)
        check_tokenizer(tokenizer);
    else
        PEN_BUG_UNLESS(why.length > 0);
    pen_tokenizer_free(tokenizer);
    pen_text_release(&why);
    return 0;
}
