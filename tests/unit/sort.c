/* Short lists keep the order of equal items. */
#include "support/support.h"

#include "base/random.h"
#include "base/sort.h"

struct item {
    uint32_t key;
    uint32_t place;
};

static int by_key(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static void equal_items_keep_their_order(void **state)
{
    (void)state;
    struct pen_random random = {1};
    for (uint32_t count = 0; count < 60; count++) {
        struct item items[60];
        for (uint32_t i = 0; i < count; i++)
            items[i] = (struct item){pen_random_below(&random, 8), i};
        pen_sort_few(items, count, sizeof *items, by_key);
        for (uint32_t i = 1; i < count; i++)
            assert_true(items[i - 1].key < items[i].key ||
                        (items[i - 1].key == items[i].key &&
                         items[i - 1].place < items[i].place));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_items_keep_their_order),
    };
    return cmocka_run_group_tests_name("sort", tests, NULL, NULL);
}
