#ifndef PEN_DATA_STEPS_JSON_H
#define PEN_DATA_STEPS_JSON_H

#include "base/json.h"
#include "data/pipeline.h"

/*
 * Read the parts "normalizer", "pre_tokenizer" and "decoder" of tokenizer.json.
 * Each may be null. An unknown type is refused by name: leaving out a step
 * would give other ids.
 */
pen_status pen__read_normalizer(const json_t *value,
                                struct pen_tokenizer *tokenizer,
                                struct pen_text *why);
pen_status pen__read_pre_tokenizer(const json_t *value,
                                   struct pen_tokenizer *tokenizer,
                                   struct pen_text *why);
pen_status pen__read_decoder(const json_t *value,
                             struct pen_tokenizer *tokenizer,
                             struct pen_text *why);

/* Adds the split of GPT-2, also that of ByteLevel in tokenizer.json. */
pen_status pen__add_gpt2_split(struct pen_tokenizer *tokenizer,
                               struct pen_text *why);

#endif
