#include "data/token_list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void pen_token_list_release(struct pen_token_list *list)
{
    free(list->ids);
    *list = (struct pen_token_list)PEN_TOKEN_LIST_EMPTY;
}

static bool reserve(struct pen_token_list *list, size_t more)
{
    size_t need = list->count + more;
    if (need <= list->capacity)
        return true;
    size_t capacity = list->capacity < 256 ? 256 : list->capacity * 2;
    if (capacity < need)
        capacity = need;
    uint32_t *ids = realloc(list->ids, capacity * sizeof *ids);
    if (ids == NULL) {
        list->has_failed = 1;
        return false;
    }
    list->ids = ids;
    list->capacity = capacity;
    return true;
}

void pen_token_list_add(struct pen_token_list *list, const uint32_t *ids,
                        size_t count)
{
    if (count == 0 || !reserve(list, count))
        return;
    memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
}

void pen_token_list_add_one(struct pen_token_list *list, uint32_t id)
{
    if (reserve(list, 1))
        list->ids[list->count++] = id;
}
