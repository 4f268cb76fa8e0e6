/*
 * Steps from text to normalized text. Each appends to its output; what goes in
 * is checked UTF-8 and so is what comes out.
 */
#include "data/normalize.h"

#include "data/nfc.h"
#include "data/utf8.h"

#include <string.h>

bool pen__normalize_is_full(const struct pen__normal_state *state)
{
    return state->out.length > state->room;
}

static void normalize_nfc(struct pen__normal_state *state,
                          const struct pen__block *block, size_t *done)
{
    *done = block->is_end ? block->length
                          : pen__nfc_decided(block->text, block->length);
    pen__nfc_add(&state->out, block->text, *done);
}

static void prepend(const struct pen__normal_step *step,
                    struct pen__normal_state *state,
                    const struct pen__block *block, size_t *done)
{
    if (block->length > 0 && !state->has_begun)
        pen_text_add_bytes(&state->out, pen_text_string(&step->to),
                           step->to.length);
    state->has_begun |= block->length > 0;
    pen_text_add_bytes(&state->out, block->text, block->length);
    *done = block->length;
}

/*
 * Returns the end of the text that no match can reach which ends after the
 * block.
 */
static size_t end_of_rest(const struct pen__block *block, size_t done,
                          size_t size)
{
    if (block->is_end)
        return block->length;
    if (block->length - done < size)
        return done;
    size_t end = block->length - (size - 1);
    while (end > done && end < block->length &&
           ((uint8_t)block->text[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static void replace_string(const struct pen__normal_step *step,
                           struct pen__normal_state *state,
                           const struct pen__block *block, size_t *done)
{
    const struct pen_text *from = &step->from;
    const char *text = block->text;
    while (*done < block->length && !pen__normalize_is_full(state)) {
        const char *found = pen__search(text + *done, block->length - *done,
                                        from->bytes, from->length);
        size_t at = found == NULL ? end_of_rest(block, *done, from->length)
                                  : (size_t)(found - text);
        pen_text_add_bytes(&state->out, text + *done, at - *done);
        *done = at;
        if (found == NULL)
            break;
        pen_text_add_bytes(&state->out, pen_text_string(&step->to),
                           step->to.length);
        *done += from->length;
    }
}

static pen_status replace_pattern(const struct pen__normalizer *normalizer,
                                  const struct pen__normal_step *step,
                                  struct pen__normal_state *state,
                                  const struct pen__block *block, size_t *done)
{
    const char *text = block->text;
    size_t length = block->length;
    size_t at = state->behind;
    size_t from = at + state->ahead;
    size_t stop = length;
    while (from < length && !pen__normalize_is_full(state)) {
        struct pen__match match;
        pen_status status = pen__pattern_find(
            step->pattern, normalizer->matcher, block, from, &match);
        if (status != PEN_OK)
            return status;
        stop = match.begin;
        if (match.is_open || match.begin == length)
            break;
        stop = length;
        from = match.begin + pen__utf8_size(text[match.begin]);
        if (match.begin == match.end)
            continue;
        pen_text_add_bytes(&state->out, text + at, match.begin - at);
        pen_text_add_bytes(&state->out, pen_text_string(&step->to),
                           step->to.length);
        at = from = match.end;
    }
    if (!block->is_end && !pen__pattern_may_skip(step->pattern))
        stop = at;
    pen_text_add_bytes(&state->out, text + at, stop - at);
    *done = pen__pattern_keeps(step->pattern, block, stop);
    state->behind = stop - *done;
    state->ahead = from > stop ? from - stop : 0;
    return PEN_OK;
}

static pen_status apply(const struct pen__normalizer *normalizer,
                        const struct pen__normal_step *step,
                        struct pen__normal_state *state,
                        const struct pen__block *block, size_t *done)
{
    switch (step->kind) {
    case PEN__NORMAL_NFC:
        normalize_nfc(state, block, done);
        break;
    case PEN__NORMAL_PREPEND:
        prepend(step, state, block, done);
        break;
    case PEN__NORMAL_REPLACE:
        replace_string(step, state, block, done);
        break;
    case PEN__NORMAL_PATTERN:
        return replace_pattern(normalizer, step, state, block, done);
    case PEN__NORMAL_CHARSMAP:
        return pen__normalize_graphemes(normalizer, step, state, block, done);
    case PEN__NORMAL_SENTENCEPIECE:
        pen__normalize_sentencepiece(normalizer, step, state, block, done);
        break;
    }
    return PEN_OK;
}

void pen__normalizer_init(struct pen__normalizer *normalizer,
                          const struct pen_tokenizer *tokenizer,
                          struct pen__matcher *matcher)
{
    *normalizer =
        (struct pen__normalizer){.tokenizer = tokenizer, .matcher = matcher};
}

void pen__normalizer_release(struct pen__normalizer *normalizer)
{
    for (size_t i = 0; i < PEN__STEPS_MAX; i++) {
        pen_text_release(&normalizer->steps[i].held);
        pen_text_release(&normalizer->steps[i].out);
    }
}

/*
 * Ends a step: the next block begins a text; `made` counts for the document and
 * stays.
 */
static void end_step(struct pen__normal_state *state)
{
    struct pen_text held = state->held;
    struct pen_text out = state->out;
    pen_text_clear(&held);
    *state = (struct pen__normal_state){
        .held = held, .out = out, .made = state->made};
}

void pen__normalizer_reset(struct pen__normalizer *normalizer)
{
    normalizer->taken = 0;
    for (size_t i = 0; i < normalizer->tokenizer->num_normal; i++) {
        end_step(&normalizer->steps[i]);
        normalizer->steps[i].made = 0;
    }
}

static pen_status fail(struct pen__normalizer *normalizer,
                       enum pen__fault fault)
{
    normalizer->fault = fault;
    return PEN_INVALID;
}

static pen_status feed_step(struct pen__normalizer *normalizer, size_t index,
                            struct pen__block *block)
{
    struct pen__normal_state *state = &normalizer->steps[index];
    uint64_t limit = normalizer->taken * PEN__GROWTH_MAX + PEN__GROWTH_FREE;
    size_t done = 0;
    pen_text_clear(&state->out);
    state->room = limit > state->made ? limit - state->made : 0;
    struct pen__block joined = pen__hold_join(&state->held, *block);
    pen_status status = apply(normalizer, &normalizer->tokenizer->normal[index],
                              state, &joined, &done);
    if (state->out.has_failed || state->held.has_failed)
        return PEN_NOMEM;
    if (status == PEN_INVALID)
        return fail(normalizer, PEN__FAULT_STEPS);
    if (pen__normalize_is_full(state))
        return fail(normalizer, PEN__FAULT_GROWTH);
    if (!block->is_end && !pen__hold_keep(&state->held, joined, done))
        return fail(normalizer, PEN__FAULT_UNCUT);
    state->made += state->out.length;
    if (block->is_end)
        end_step(state);
    block->text = pen_text_string(&state->out);
    block->length = state->out.length;
    return status;
}

pen_status pen__normalizer_feed(struct pen__normalizer *normalizer,
                                struct pen__block *block)
{
    pen_status status = PEN_OK;
    normalizer->taken += block->length;
    for (size_t i = 0;
         i < normalizer->tokenizer->num_normal && status == PEN_OK; i++)
        status = feed_step(normalizer, i, block);
    return status;
}
