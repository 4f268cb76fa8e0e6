/* Ranks and coordinates, in every order, against counting. */
#include "support/support.h"

#include "base/random.h"
#include "core/mesh.h"

#include <string.h>

/* The axes as the order's name lists them, the innermost first. */
static void read_axes(const char *name, enum pen_axis axes[PEN_AXES])
{
    static const char *const texts[] = {
#define TEXT(name, text) text,
        PEN_AXIS_TABLE(TEXT)
#undef TEXT
    };
    assert_int_equal(strlen(name), 3 * PEN_AXES - 1);
    for (int i = 0; i < PEN_AXES; i++) {
        int found = -1;
        for (int k = 0; k < PEN_AXES; k++)
            if (strncmp(name + (ptrdiff_t)3 * i, texts[k], 2) == 0)
                found = k;
        assert_true(found >= 0);
        axes[i] = (enum pen_axis)found;
    }
}

/* The next place: the innermost coordinate counts up first. */
static void step(const struct pen_mesh *mesh, const enum pen_axis *axes,
                 struct pen_mesh_place *place)
{
    for (int i = 0; i < PEN_AXES; i++) {
        if (++place->at[axes[i]] < mesh->sizes[axes[i]])
            return;
        place->at[axes[i]] = 0;
    }
}

static void every_rank_has_the_place_that_counting_gives(void **state)
{
    (void)state;
    struct pen_random random = {23};
    for (int trial = 0; trial < 200; trial++) {
        struct pen_mesh mesh = {.order =
                                    pen_random_below(&random, PEN_MESH_ORDERS)};
        enum pen_axis axes[PEN_AXES];
        struct pen_mesh_place place = {.at = {0}};
        read_axes(pen_mesh_order_names[mesh.order], axes);
        for (int i = 0; i < PEN_AXES; i++)
            mesh.sizes[i] = 1 + pen_random_below(&random, 5);
        for (uint32_t rank = 0; rank < pen_mesh_size(&mesh); rank++) {
            struct pen_mesh_place found = pen_mesh_place_of(&mesh, rank);
            assert_memory_equal(&found, &place, sizeof place);
            assert_int_equal(pen_mesh_rank(&mesh, place), rank);
            assert_int_equal(pen_mesh_row(&mesh, rank),
                             place.at[PEN_AXIS_PIPELINE]);
            uint32_t replica = pen_mesh_replica(&mesh, rank);
            struct pen_mesh_place again = place;
            assert_int_equal(replica, place.at[PEN_AXIS_CONTEXT] *
                                              pen_mesh_num_groups(&mesh) +
                                          place.at[PEN_AXIS_REPLICA]);
            assert_true(replica < pen_mesh_num_replicas(&mesh));
            again.at[PEN_AXIS_CONTEXT] = again.at[PEN_AXIS_REPLICA] = 99;
            pen_mesh_set_replica(&mesh, replica, &again);
            assert_memory_equal(&again, &place, sizeof place);
            step(&mesh, axes, &place);
        }
    }
}

static void orders_are_as_documented(void **state)
{
    (void)state;
    struct pen_mesh mesh = pen_mesh_fill(PEN_MESH_PIPELINE_FIRST, 3, 7);
    assert_int_equal(pen_mesh_size(&mesh), 6);
    assert_int_equal(pen_mesh_num_rows(&mesh), 3);
    assert_int_equal(pen_mesh_num_replicas(&mesh), 2);
    assert_int_equal(pen_mesh_rank_at(&mesh, 2, 0), 2);
    assert_int_equal(pen_mesh_rank_at(&mesh, 0, 1), 3);
    mesh.order = PEN_MESH_REPLICAS_FIRST;
    assert_int_equal(pen_mesh_rank_at(&mesh, 2, 0), 4);
    assert_int_equal(pen_mesh_rank_at(&mesh, 0, 1), 1);
    mesh = pen_mesh_split(pen_mesh_fill(PEN_MESH_PIPELINE_FIRST, 2, 12),
                          PEN_AXIS_TENSOR, 3);
    assert_int_equal(pen_mesh_size(&mesh), 12);
    assert_int_equal(pen_mesh_num_replicas(&mesh), 2);
    assert_int_equal(pen_mesh_rank_at(&mesh, 1, 1), 9);
    assert_int_equal(pen_mesh_place_of(&mesh, 11).at[PEN_AXIS_TENSOR], 2);
}

static void what_is_of_another_epoch_is_refused(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_mesh mesh = pen_mesh_of(PEN_MESH_PIPELINE_FIRST, 2, 2);
    assert_int_equal(pen_mesh_check_epoch(&mesh, 3, 0, &why), PEN_OK);
    mesh.epoch = 2;
    assert_int_equal(pen_mesh_check_epoch(&mesh, 3, 2, &why), PEN_OK);
    assert_int_equal(why.length, 0);
    assert_int_equal(pen_mesh_check_epoch(&mesh, 3, 1, &why), PEN_INVALID);
    assert_non_null(strstr(pen_text_string(&why),
                           "rank 3 is in epoch 1 of the layout, but the run is "
                           "in epoch 2"));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_has_the_place_that_counting_gives),
        cmocka_unit_test(orders_are_as_documented),
        cmocka_unit_test(what_is_of_another_epoch_is_refused),
    };
    return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}
