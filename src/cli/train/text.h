#ifndef PEN_CLI_TRAIN_TEXT_H
#define PEN_CLI_TRAIN_TEXT_H

#include "cli/train/options.h"

/*
 * penstock train TEXT...: options that are not given are chosen, and tokens of
 * the texts are made before the training:
 *
 *   play.txt                      a text
 *   play-run/                     --save, unless it is given
 *     text/config.json            --model, unless it is given, with
 *     text/tokenizer.json         the characters of the texts
 *     text/tokens_text_document   --data-path
 *     log.jsonl                   --log
 */

/* An option that may be chosen: its name and what it is then. */
struct pen__choice {
    const char *name;
    struct pen_text word;
};

enum { PEN__CHOICES_MAX = 16 };

struct pen__choices {
    struct pen__choice items[PEN__CHOICES_MAX];
    size_t count;
};

/*
 * Chooses the settings that suit the texts, for one rank where there is no
 * launcher.
 */
void pen__train_text_choose(const struct pen__train_args *args,
                            struct pen__choices *out);
void pen__choices_release(struct pen__choices *choices);

/* Adds why a word of the line cannot be a text; false: it can. */
bool pen__train_text_is_wrong(const char *path, struct pen_text *why);

/*
 * Makes tokens and, without a --model of the user, tokenizer and config.json;
 * for the first rank. Refused, and nothing is written, where --save has
 * checkpoints.
 */
pen_status pen__train_text_make(const struct pen__train_args *args,
                                struct pen_text *why);

#endif
