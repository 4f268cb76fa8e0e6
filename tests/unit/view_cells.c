/* A picture shows every op at its time, overlap as lanes, and the path. */
#include "view/cells.h"
#include "view_item.h"

static void overlapped_ops_share_their_time(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("dualpipe", 4, 8, 0);
    struct pen__sheet sheet;
    assert_int_equal(PEN_OK, pen__sheet_init(&sheet, &item));
    uint32_t pairs = 0;
    for (uint32_t rank = 0; rank < 4; rank++) {
        for (uint32_t i = 0; i + 1 < sheet.rows[rank].count; i++) {
            const struct pen__cell *first = &sheet.rows[rank].cells[i];
            const struct pen__cell *second = first + 1;
            if (first->lanes == 1 || first->lane != 0)
                continue;
            assert_int_equal(2, first->lanes);
            assert_int_equal(1, second->lane);
            expect_close(3, first->end_sec - first->start_sec, "pair");
            expect_close(first->start_sec, second->start_sec, "start");
            expect_close(first->end_sec, second->end_sec, "end");
            pairs++;
        }
    }
    assert_int_equal(12, pairs); /* three on each rank, schedules.md 8 */
    assert_true(sheet.has_lanes);
    pen__sheet_release(&sheet);
    free_item(&item);
}

/* Without transfers the path has no gap: its ops fill the makespan. */
static void critical_cells_fill_the_makespan(void **state)
{
    (void)state;
    const char *const names[] = {"gpipe", "1f1b", "zb-h1", "interleaved"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct pen_picture_item item = make_item(names[n], 4, 8, 0);
        struct pen__sheet sheet;
        assert_int_equal(PEN_OK, pen__sheet_init(&sheet, &item));
        double sum_sec = 0;
        for (uint32_t rank = 0; rank < 4; rank++) {
            for (uint32_t i = 0; i < sheet.rows[rank].count; i++) {
                const struct pen__cell *cell = &sheet.rows[rank].cells[i];
                if (cell->is_critical)
                    sum_sec += cell->end_sec - cell->start_sec;
            }
        }
        expect_close(item.timing->makespan_sec, sum_sec, names[n]);
        pen__sheet_release(&sheet);
        free_item(&item);
    }
}

static void chunks_and_copies_are_told_apart(void **state)
{
    (void)state;
    struct pen_picture_item items[] = {make_item("zb-v", 4, 8, 0),
                                       make_item("chimera", 4, 8, 0)};
    struct pen__sheet *sheets = pen__sheets_create(items, 2);
    assert_non_null(sheets);
    for (size_t s = 0; s < 2; s++) {
        const struct pen_shape *shape = &items[s].schedule->shape;
        for (uint32_t rank = 0; rank < 4; rank++) {
            const struct pen_row *row = &items[s].schedule->rows[rank];
            for (uint32_t i = 0; i < sheets[s].rows[rank].count; i++) {
                const struct pen__cell *cell = &sheets[s].rows[rank].cells[i];
                uint32_t stage = row->ops[cell->position].stage;
                assert_int_equal(
                    pen_shape_stage_at(shape, rank, cell->is_up, cell->chunk),
                    stage);
            }
        }
    }
    pen__sheets_free(sheets, 2);
    free_item(&items[0]);
    free_item(&items[1]);
}

static void ticks_are_round_numbers(void **state)
{
    (void)state;
    expect_close(5, pen__nice_step(33, 10), "33 in 10");
    expect_close(0.002, pen__nice_step(0.019, 10), "0.019 in 10");
    expect_close(100, pen__nice_step(957, 10), "957 in 10");
    expect_close(1, pen__nice_step(10, 10), "10 in 10");
    expect_close(1, pen__nice_step(0, 10), "nothing");
}

static void labels_are_cleaned(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__add_clean(STRANGE_LABEL, &text);
    assert_string_equal(STRANGE_LABEL_CLEAN, pen_text_string(&text));
    pen_text_clear(&text);
    pen__add_clean("\xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82", &text);
    assert_string_equal("??? ???? ??", pen_text_string(&text));
    pen_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapped_ops_share_their_time),
        cmocka_unit_test(critical_cells_fill_the_makespan),
        cmocka_unit_test(chunks_and_copies_are_told_apart),
        cmocka_unit_test(ticks_are_round_numbers),
        cmocka_unit_test(labels_are_cleaned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
