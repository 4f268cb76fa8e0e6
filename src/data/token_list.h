#ifndef PEN_DATA_TOKEN_LIST_H
#define PEN_DATA_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>

/*
 * Ids that grow. As with pen_text, no memory is not reported call by call: the
 * list stays as it was and has_failed is set.
 */
struct pen_token_list {
    uint32_t *ids;
    size_t count;
    size_t capacity;
    int has_failed;
};

#define PEN_TOKEN_LIST_EMPTY                                                   \
    {                                                                          \
        NULL, 0, 0, 0                                                          \
    }

void pen_token_list_release(struct pen_token_list *list);
void pen_token_list_add(struct pen_token_list *list, const uint32_t *ids,
                        size_t count);
void pen_token_list_add_one(struct pen_token_list *list, uint32_t id);

#endif
