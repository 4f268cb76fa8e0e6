#include "export/megatron_pattern.h"

#include <stdlib.h>
#include <string.h>

/* Blocks listed so far; those after the last one count as zeros. */
struct blocks {
    char *bits; /* 0 or 1 */
    uint32_t count;
    uint32_t most;
};

static bool read_number(const char **at, uint32_t most, uint32_t *out)
{
    size_t length = strspn(*at, "0123456789");
    unsigned long number = strtoul(*at, NULL, 10);
    if (length == 0 || length > 9 || number > most)
        return false;
    *at += length;
    *out = (uint32_t)number;
    return true;
}

/* "[1]*5", or "[1]". */
static bool read_run(const char **at, struct blocks *blocks)
{
    uint32_t times = 1;
    char bit = (*at)[0] == '[' ? (*at)[1] : '\0';
    if ((bit != '0' && bit != '1') || (*at)[2] != ']')
        return false;
    *at += 3;
    if (**at == '*') {
        ++*at;
        if (!read_number(at, blocks->most, &times))
            return false;
    }
    if (times > blocks->most - blocks->count)
        return false;
    memset(blocks->bits + blocks->count, bit - '0', times);
    blocks->count += times;
    return true;
}

/* "(" runs with + between them ")". */
static bool read_runs(const char *text, struct blocks *blocks)
{
    bool has_bracket = *text == '(';
    text += has_bracket;
    while (read_run(&text, blocks)) {
        if (*text != '+')
            return strcmp(text, has_bracket ? ")" : "") == 0;
        text++;
    }
    return false;
}

static bool is_pattern(const struct blocks *blocks,
                       const struct pen__megatron_pattern *pattern)
{
    for (uint32_t i = 0; i < blocks->most; i++)
        if (blocks->bits[i] !=
            (i >= pattern->num_first && (i + 1) % pattern->step == 0))
            return false;
    return true;
}

static struct pen__megatron_pattern classify(const struct blocks *blocks)
{
    uint32_t zeros = 0;
    while (zeros < blocks->most && blocks->bits[zeros] == 0)
        zeros++;
    struct pen__megatron_pattern split = {zeros, 1, true};
    struct pen__megatron_pattern stepped = {0, zeros + 1, true};
    if (is_pattern(blocks, &split))
        return split;
    stepped.is_exact = is_pattern(blocks, &stepped);
    return stepped;
}

pen_status pen__megatron_pattern_parse(const char *text, const char *name,
                                       uint32_t num_blocks,
                                       struct pen__megatron_pattern *out,
                                       struct pen_text *why)
{
    const char *end = text;
    uint32_t step;
    if (read_number(&end, num_blocks, &step) && *end == '\0' && step > 0) {
        *out = (struct pen__megatron_pattern){0, step, step == 1};
        return PEN_OK;
    }
    struct blocks blocks = {calloc(num_blocks, 1), 0, num_blocks};
    pen_status status = PEN_OK;
    if (blocks.bits == NULL) {
        pen_why(why, "no memory for a list of blocks");
        status = PEN_NOMEM;
    } else if (!read_runs(text, &blocks)) {
        pen_why(
            why,
            "--%s must be a number or a list as ([0]*3+[1]*5) for %u blocks",
            name, num_blocks);
        status = PEN_INVALID;
    } else {
        *out = classify(&blocks);
    }
    free(blocks.bits);
    return status;
}
