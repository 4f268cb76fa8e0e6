/*
 * Data of penstock reproduce 2bw: a text becomes tokens, one for each letter,
 * once with the part that rates are chosen by and once with the part that
 * tests.
 */
#include "base/file.h"
#include "cli/reproduce/2bw.h"
#include "data/tokenizer.h"

#include <string.h>

#define TEXT_NAME "input.txt"

enum { MOST_TEXT = 1 << 26, LEAST_TEXT = 20000, SEQUENCE = 32 };

/* Returns the end of the line at `at`, past its newline. */
static size_t line_end(const struct pen_text *text, size_t at)
{
    const char *begin = pen_text_string(text);
    const char *end = memchr(begin + at, '\n', text->length - at);
    return end == NULL ? text->length : (size_t)(end - begin) + 1;
}

/* Writes the text for training, or the part after it for judging. */
static pen_status write_text(struct pen__2bw *it, const char *name,
                             const struct pen_text *text, size_t first,
                             size_t count, struct pen_text *why)
{
    struct pen_text part = PEN_TEXT_EMPTY, path = PEN_TEXT_EMPTY;
    pen_text_add_bytes(&part, pen_text_string(text), it->train_bytes);
    pen_text_add_bytes(&part, pen_text_string(text) + first, count);
    pen_text_add(&path, "%s/%s.txt", pen_text_string(&it->text), name);
    pen_status status = pen_file_write_text(pen_text_string(&path), &part, why);
    pen_text_release(&part);
    pen_text_release(&path);
    return status;
}

/*
 * Cuts the text: nine tenths for training, a twentieth for validation, a
 * twentieth for the test.
 */
static pen_status cut_text(struct pen__2bw *it, const char *path,
                           struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, MOST_TEXT, &text, why);
    if (status == PEN_OK && text.length < LEAST_TEXT) {
        pen_why(why, "%s has %zu bytes, and the experiment needs %d", path,
                text.length, LEAST_TEXT);
        status = PEN_INVALID;
    }
    if (status == PEN_OK) {
        size_t held = line_end(&text, text.length / 10 * 9);
        size_t test = line_end(&text, text.length / 20 * 19);
        it->train_bytes = held;
        it->held_bytes = test - held;
        it->test_bytes = text.length - test;
        status = write_text(it, "held", &text, held, it->held_bytes, why);
        if (status == PEN_OK)
            status = write_text(it, "test", &text, test, it->test_bytes, why);
    }
    pen_text_release(&text);
    return status;
}

static pen_status tokenize(struct pen__2bw *it, const char *name,
                           struct pen_text *why)
{
    const char *folder = pen_text_string(&it->text);
    struct pen__words words = {0};
    struct pen_text job = PEN_TEXT_EMPTY;
    pen__words_add(&words, "tokenize");
    pen__words_add(&words, "%s/%s.txt", folder, name);
    pen__words_add(&words, "--tokenizer");
    pen__words_add(&words, "%s", folder);
    pen__words_add(&words, "-o");
    pen__words_add(&words, "%s/%s", folder, name);
    pen_text_add(&job, "tokenize-%s", name);
    pen_status status =
        pen__jobs_run(&it->jobs, pen_text_string(&job), 0, 0, &words, why);
    pen_text_release(&job);
    return status;
}

/* Writes a model with as many words as the text has letters. */
static pen_status write_model(const struct pen__2bw *it, struct pen_text *why)
{
    struct pen_tokenizer *tokenizer;
    struct pen_text config = PEN_TEXT_EMPTY;
    pen_status status =
        pen_tokenizer_load(pen_text_string(&it->text), &tokenizer, why);
    if (status != PEN_OK)
        return status;
    pen_text_add(&config,
                 "{\"model_type\": \"gpt2\", \"vocab_size\": %u, "
                 "\"n_positions\": %d, \"n_embd\": 64, \"n_layer\": 4, "
                 "\"n_head\": 4, \"tie_word_embeddings\": false}\n",
                 pen_tokenizer_vocab_size(tokenizer), SEQUENCE);
    pen_tokenizer_free(tokenizer);
    status = pen_file_write_text(pen_text_string(&it->model), &config, why);
    pen_text_release(&config);
    return status;
}

pen_status pen__2bw_write_text(struct pen__2bw *it, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen__words words = {0};
    pen_text_add(&path, "%s/" TEXT_NAME, it->args->data);
    pen_status status =
        pen_file_make_folder(pen_text_string(&it->text), 0777, why);
    if (status == PEN_OK)
        status = cut_text(it, pen_text_string(&path), why);
    if (status == PEN_OK) {
        pen__words_split(&words, "tokenize --train-chars");
        pen__words_add(&words, "%s", pen_text_string(&path));
        pen__words_add(&words, "-o");
        pen__words_add(&words, "%s", pen_text_string(&it->text));
        status = pen__jobs_run(&it->jobs, "tokenizer", 0, 0, &words, why);
    }
    if (status == PEN_OK)
        status = tokenize(it, "held", why);
    if (status == PEN_OK)
        status = tokenize(it, "test", why);
    if (status == PEN_OK)
        status = write_model(it, why);
    pen_text_release(&path);
    return status;
}
