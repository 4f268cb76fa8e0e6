/* Where a rank's devices are follows the order that a user names. */
#include "support/support.h"

#include "sim/mapping.h"

#include <string.h>

#define MAX_RANKS 4096u

static void place(const struct pen_mapping *mapping, uint64_t *devices)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_mapping_devices(mapping, devices, &why) != PEN_OK)
        fail_msg("refused: %s", pen_text_string(&why));
    pen_text_release(&why);
}

static void expect_devices(const struct pen_mapping *mapping,
                           const uint64_t *expected, uint32_t count)
{
    uint64_t found[MAX_RANKS];
    place(mapping, found);
    for (uint32_t i = 0; i < count; i++) {
        if (found[i] != expected[i])
            fail_msg("rank %u is on device %llu, expected %llu", i,
                     (unsigned long long)found[i],
                     (unsigned long long)expected[i]);
    }
}

static void replicas_lie_side_by_side_by_default(void **state)
{
    (void)state;
    struct pen_mapping mapping = {.kind = PEN_MAPPING_REPLICAS_FIRST,
                                  .num_replicas = 3,
                                  .num_rows = 2,
                                  .lockstep = 4};
    /* Ranks are replica by replica, devices row by row. */
    static const uint64_t expected[] = {0, 12, 4, 16, 8, 20};
    expect_devices(&mapping, expected, 6);
}

static void a_pipeline_lies_side_by_side_when_it_comes_first(void **state)
{
    (void)state;
    struct pen_mapping mapping = {.kind = PEN_MAPPING_PIPELINE_FIRST,
                                  .num_replicas = 3,
                                  .num_rows = 2,
                                  .lockstep = 4};
    static const uint64_t expected[] = {0, 4, 8, 12, 16, 20};
    expect_devices(&mapping, expected, 6);
}

/* Every device once, and what was in a node together still is. */
static void expect_shuffle(const struct pen_mapping *mapping)
{
    uint32_t num_ranks = mapping->num_replicas * mapping->num_rows;
    uint64_t devices[MAX_RANKS];
    uint64_t before[MAX_RANKS];
    bool is_taken[MAX_RANKS] = {false};
    struct pen_mapping plain = *mapping;
    plain.kind = PEN_MAPPING_REPLICAS_FIRST;
    place(mapping, devices);
    place(&plain, before);
    for (uint32_t i = 0; i < num_ranks; i++) {
        uint64_t turn = devices[i] / mapping->lockstep;
        assert_int_equal(devices[i] % mapping->lockstep, 0);
        assert_true(turn < num_ranks && !is_taken[turn]);
        is_taken[turn] = true;
        assert_int_equal(devices[i] % mapping->node_size,
                         before[i] % mapping->node_size);
        for (uint32_t j = 0; j < i; j++)
            assert_int_equal(before[i] / mapping->node_size ==
                                 before[j] / mapping->node_size,
                             devices[i] / mapping->node_size ==
                                 devices[j] / mapping->node_size);
    }
}

static void a_shuffle_moves_whole_nodes(void **state)
{
    (void)state;
    struct pen_mapping mapping = {.kind = PEN_MAPPING_SHUFFLED,
                                  .num_replicas = 16,
                                  .num_rows = 8,
                                  .lockstep = 2,
                                  .node_size = 8,
                                  .seed = 1};
    uint64_t first[MAX_RANKS];
    uint64_t again[MAX_RANKS];
    uint64_t other[MAX_RANKS];
    expect_shuffle(&mapping);
    place(&mapping, first);
    place(&mapping, again);
    assert_memory_equal(first, again, 128 * sizeof *first);
    mapping.seed = 2;
    place(&mapping, other);
    assert_true(memcmp(first, other, 128 * sizeof *first) != 0);
    /* A last node that is not full. */
    mapping.num_replicas = 9;
    mapping.num_rows = 3;
    expect_shuffle(&mapping);
}

static void expect_refusal(const struct pen_mapping *mapping, const char *part)
{
    uint64_t devices[MAX_RANKS];
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_mapping_devices(mapping, devices, &why));
    if (strstr(pen_text_string(&why), part) == NULL)
        fail_msg("'%s' does not have '%s'", pen_text_string(&why), part);
    pen_text_release(&why);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct pen_mapping mapping = {.kind = PEN_MAPPING_SHUFFLED,
                                  .num_replicas = 4,
                                  .num_rows = 4,
                                  .lockstep = 3,
                                  .node_size = 8};
    expect_refusal(&mapping, "do not fill nodes of 8");
    mapping.lockstep = 12;
    expect_refusal(&mapping, "do not fill nodes of 8");
    mapping.lockstep = 0;
    expect_refusal(&mapping, "1 to 10000000 devices");
    mapping.num_replicas = mapping.num_rows = mapping.lockstep = UINT32_MAX;
    expect_refusal(&mapping, "1 to 10000000 devices");
}

static void ranks_of_whole_nodes_are_shuffled_too(void **state)
{
    (void)state;
    struct pen_mapping mapping = {.kind = PEN_MAPPING_SHUFFLED,
                                  .num_replicas = 4,
                                  .num_rows = 4,
                                  .lockstep = 16,
                                  .node_size = 8,
                                  .seed = 5};
    uint64_t devices[MAX_RANKS];
    bool is_taken[16] = {false};
    place(&mapping, devices);
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(0, devices[i] % 16);
        assert_true(devices[i] / 16 < 16 && !is_taken[devices[i] / 16]);
        is_taken[devices[i] / 16] = true;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_lie_side_by_side_by_default),
        cmocka_unit_test(a_pipeline_lies_side_by_side_when_it_comes_first),
        cmocka_unit_test(a_shuffle_moves_whole_nodes),
        cmocka_unit_test(ranks_of_whole_nodes_are_shuffled_too),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
