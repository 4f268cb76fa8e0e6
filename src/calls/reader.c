/* The common part of the readers of one rank's file. */
#include "calls/reader.h"

#include "base/room.h"

#include <stdlib.h>
#include <string.h>

#define MOST_GROUPS 65536u

void pen__copy_word(const char *text, char *out, size_t size)
{
    size_t length = 0;
    for (; *text != '\0' && length + 1 < size; text++)
        out[length++] =
            *text > ' ' && *text < 0x7f && *text != '"' && *text != '\\' ? *text
                                                                         : '?';
    out[length] = '\0';
}

int64_t pen__whole(const json_t *value)
{
    char *end;
    if (json_is_integer(value))
        return json_integer_value(value);
    const char *text = json_string_value(value);
    if (text == NULL || *text == '\0')
        return -1;
    long long number = strtoll(text, &end, 10);
    return *end == '\0' ? number : -1;
}

static int compare_numbers(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

static pen_status refuse_ranks(struct pen_text *why)
{
    pen_why(why, "a list of ranks must have whole numbers from 0 to %u",
            PEN_CALLS_MOST_RANKS - 1);
    return PEN_INVALID;
}

/* "[0, 1, 2]" as PyTorch prints lists; a text with "..." says nothing. */
static json_t *list_of_text(const char *text)
{
    json_t *list = json_loads(text, 0, NULL);
    return list == NULL ? json_array() : list;
}

pen_status pen__read_ranks(const json_t *value, uint32_t **out, uint32_t *count,
                           struct pen_text *why)
{
    pen_status status = PEN_OK;
    const char *text = json_string_value(value);
    json_t *list =
        text == NULL ? json_incref((json_t *)value) : list_of_text(text);
    size_t length = json_array_size(list);
    uint32_t *ranks = NULL;
    *out = NULL;
    *count = 0;
    if (length > PEN_CALLS_MOST_RANKS)
        status = refuse_ranks(why);
    else if (length > 0 && (ranks = malloc(length * sizeof *ranks)) == NULL)
        status = PEN_NOMEM;
    for (size_t i = 0; i < length && status == PEN_OK; i++) {
        int64_t rank = pen__whole(json_array_get(list, i));
        if (rank < 0 || rank >= PEN_CALLS_MOST_RANKS)
            status = refuse_ranks(why);
        else
            ranks[i] = (uint32_t)rank;
    }
    json_decref(list);
    if (status != PEN_OK || length == 0) {
        free(ranks);
        return status;
    }
    qsort(ranks, length, sizeof *ranks, compare_numbers);
    uint32_t kept = 1;
    for (size_t i = 1; i < length; i++) {
        if (ranks[i] != ranks[kept - 1])
            ranks[kept++] = ranks[i];
    }
    *out = ranks;
    *count = kept;
    return PEN_OK;
}

static bool is_group(const struct pen_call_group *group, const char *name,
                     const uint32_t *ranks, uint32_t count)
{
    return strcmp(group->name, name) == 0 &&
           (count == 0 || group->count == 0 ||
            (group->count == count &&
             memcmp(group->ranks, ranks, count * sizeof *ranks) == 0));
}

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "out of memory");
    return PEN_NOMEM;
}

static pen_status set_ranks(struct pen_call_group *group, const uint32_t *ranks,
                            uint32_t count, struct pen_text *why)
{
    if (count == 0 || group->count > 0)
        return PEN_OK;
    group->ranks = malloc(count * sizeof *ranks);
    if (group->ranks == NULL)
        return refuse_memory(why);
    memcpy(group->ranks, ranks, count * sizeof *ranks);
    group->count = count;
    return PEN_OK;
}

pen_status pen__rank_group(struct pen_call_rank *rank, const char *name,
                           const uint32_t *ranks, uint32_t count, uint32_t *out,
                           struct pen_text *why)
{
    char word[sizeof rank->groups->name];
    uint32_t index = 0;
    pen__copy_word(name, word, sizeof word);
    while (index < rank->num_groups &&
           !is_group(&rank->groups[index], word, ranks, count))
        index++;
    if (index == MOST_GROUPS) {
        pen_why(why, "there are more than %u process groups", MOST_GROUPS);
        return PEN_INVALID;
    }
    if (index == rank->num_groups) {
        struct pen_call_group *again =
            pen_room_again(rank->groups, rank->num_groups + 1u, sizeof *again);
        if (again == NULL)
            return refuse_memory(why);
        rank->groups = again;
        rank->groups[index] = (struct pen_call_group){.ranks = NULL};
        memcpy(rank->groups[index].name, word, sizeof word);
        rank->num_groups++;
    }
    *out = index;
    return set_ranks(&rank->groups[index], ranks, count, why);
}

pen_status pen__rank_add(struct pen_call_rank *rank, struct pen_call **out,
                         struct pen_text *why)
{
    if (rank->count == PEN_CALLS_MOST_CALLS) {
        pen_why(why, "there are more than %u calls", PEN_CALLS_MOST_CALLS);
        return PEN_INVALID;
    }
    if (rank->count == rank->room) {
        size_t room = rank->room == 0 ? 64 : 2 * rank->room;
        struct pen_call *again =
            pen_room_again(rank->calls, room, sizeof *again);
        if (again == NULL)
            return refuse_memory(why);
        rank->calls = again;
        rank->room = room;
    }
    *out = &rank->calls[rank->count++];
    **out = (struct pen_call){.data.elements = PEN_CALL_NO_DATA};
    return PEN_OK;
}

uint32_t pen__rank_text(struct pen_call_rank *rank, const char *text)
{
    struct pen_text *texts = &rank->texts;
    if (texts->length == 0)
        pen_text_add_bytes(texts, "", 1);
    size_t length = strlen(text);
    /* Most calls come from the place of the one before. */
    for (size_t i = rank->count; i-- > 0 && i + 16 > rank->count;) {
        uint32_t site = rank->calls[i].site;
        if (site != 0 && strcmp(texts->bytes + site, text) == 0)
            return site;
    }
    size_t at = texts->length;
    if (at + length >= UINT32_MAX)
        return 0;
    pen_text_add_printable(texts, text, length);
    pen_text_add_bytes(texts, "", 1);
    return texts->has_failed ? 0 : (uint32_t)at;
}

static int compare_whole(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/*
 * Compares by all fields, so that the order does not depend on the C library's
 * qsort().
 */
static int compare_calls(const void *a, const void *b)
{
    const struct pen_call *x = a;
    const struct pen_call *y = b;
    int order = compare_whole(x->begin_ns, y->begin_ns);
    if (order == 0)
        order = compare_whole(x->end_ns, y->end_ns);
    if (order == 0)
        order = compare_whole(x->group, y->group);
    if (order == 0)
        order = compare_whole((int64_t)x->number, (int64_t)y->number);
    if (order == 0)
        order = compare_whole(x->op, y->op);
    return order;
}

void pen__rank_sort(struct pen_call_rank *rank)
{
    if (rank->count > 1)
        qsort(rank->calls, rank->count, sizeof *rank->calls, compare_calls);
}

void pen__rank_number(struct pen_call_rank *rank)
{
    for (uint32_t group = 0; group < rank->num_groups; group++) {
        uint64_t next = 1;
        for (size_t i = 0; i < rank->count; i++) {
            struct pen_call *call = &rank->calls[i];
            if (call->group != group || pen_call_op_is_message(call->op))
                continue;
            if (call->number == 0)
                call->number = next;
            next = call->number + 1;
        }
    }
}

void pen_call_rank_release(struct pen_call_rank *rank)
{
    for (uint32_t i = 0; i < rank->num_groups; i++)
        free(rank->groups[i].ranks);
    free(rank->groups);
    free(rank->calls);
    free(rank->path);
    pen_text_release(&rank->texts);
    *rank = (struct pen_call_rank){.path = NULL};
}

void pen_call_add_words(const struct pen_call *call, struct pen_text *out)
{
    pen_text_add(out, "%s", pen_call_op_info(call->op)->words);
    if (call->data.elements == PEN_CALL_NO_DATA ||
        (call->data.elements == 0 && call->data.dtype[0] == '\0'))
        return;
    pen_text_add(out, " of %llu%s%s", (unsigned long long)call->data.elements,
                 call->data.dtype[0] == '\0' ? " values" : " ",
                 call->data.dtype);
}
