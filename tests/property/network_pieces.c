/*
 * Tensors that are cut in rows and columns, in any way: files that are written
 * of pieces are byte for byte those of whole tensors, whoever writes which, and
 * any piece is read out of them; they are resharded as any other. A piece of
 * random weights is that of the whole tensor's.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/random.h"
#include "checkpoint/rewrite.h"
#include "checkpoint/share.h"
#include "network/fill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG                                                                 \
    "{\"model_type\":\"gpt2\",\"n_embd\":6,\"n_layer\":2,\"n_head\":2,"        \
    "\"n_positions\":5,\"vocab_size\":11}"

enum {
    MOMENTS = 2,
    MOST_SHARES = 4,
    MOST_TENSORS = 32,
    MOST_VALUES = 200,
    MOST_PIECES = 9,
    TRIALS = 40
};

static struct pen_any_model model;
static struct pen_random random_state;

static uint32_t below(uint32_t count)
{
    return (uint32_t)pen_random_below(&random_state, count);
}

static int make_all(void **state)
{
    random_state.state = 23;
    if (make_folder(state) != 0)
        return -1;
    return pen_model_parse(CONFIG, strlen(CONFIG), &model.decoder, NULL) !=
           PEN_OK;
}

static int remove_all(void **state)
{
    pen_any_model_release(&model);
    return remove_folder(state);
}

static void require(pen_status status, const struct pen_text *why)
{
    if (status != PEN_OK)
        fail_msg("%s", pen_text_string(why));
}

/* ---- cutting ---- */

struct cut {
    struct pen_tensor_piece whole;
    struct pen_tensor_piece pieces[MOST_PIECES];
    size_t count;
};

/* One of the pieces becomes two, along rows or columns. */
static void cut_once(struct cut *cut)
{
    struct pen_tensor_piece *from = &cut->pieces[below((uint32_t)cut->count)];
    struct pen_tensor_piece *rest = &cut->pieces[cut->count++];
    *rest = *from;
    if (below(2) == 0) {
        from->num_rows = below((uint32_t)from->num_rows + 1);
        rest->first_row += from->num_rows;
        rest->num_rows -= from->num_rows;
    } else {
        from->num_columns = below((uint32_t)from->num_columns + 1);
        rest->first_column += from->num_columns;
        rest->num_columns -= from->num_columns;
    }
}

static struct cut cut_randomly(uint32_t num_dims, const uint64_t *shape)
{
    struct cut cut = {.whole = pen_tensor_piece_whole(num_dims, shape),
                      .count = 1};
    cut.pieces[0] = cut.whole;
    for (uint32_t left = below(MOST_PIECES); left > 0; left--)
        cut_once(&cut);
    for (size_t i = cut.count; i-- > 1;) {
        size_t k = below((uint32_t)i + 1);
        struct pen_tensor_piece kept = cut.pieces[i];
        cut.pieces[i] = cut.pieces[k];
        cut.pieces[k] = kept;
    }
    return cut;
}

static float number_of(uint32_t part, uint32_t tensor, uint64_t element)
{
    return 1000.f * (float)part + 20.f * (float)tensor + 0.01f * (float)element;
}

static size_t fill_piece(const struct cut *cut, size_t piece, uint32_t part,
                         uint32_t tensor, float *out)
{
    const struct pen_tensor_piece *it = &cut->pieces[piece];
    size_t count = 0;
    for (uint64_t r = 0; r < it->num_rows; r++)
        for (uint64_t c = 0; c < it->num_columns; c++)
            out[count++] =
                number_of(part, tensor,
                          (it->first_row + r) * cut->whole.num_columns +
                              it->first_column + c);
    return count;
}

static void pieces_that_do_not_tile_are_found(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        const uint64_t shape[] = {1 + below(9), 1 + below(5), 1 + below(3)};
        struct cut cut = cut_randomly(1 + below(3), shape);
        assert_true(pen_tensor_pieces_tile(&cut.whole, cut.pieces, cut.count));
        struct pen_tensor_piece *it = &cut.pieces[cut.count - 1];
        if (pen_tensor_piece_count(it) == 0)
            continue;
        assert_false(
            pen_tensor_pieces_tile(&cut.whole, cut.pieces, cut.count - 1));
        it->num_rows++; /* over another, or over the edge */
        assert_false(pen_tensor_pieces_tile(&cut.whole, cut.pieces, cut.count));
    }
}

/* ---- writing ---- */

struct portion {
    struct pen_any_tensor infos[MOST_TENSORS];
    struct pen_checkpoint_tensor tensors[MOST_TENSORS];
    struct cut cuts[MOST_TENSORS];
    struct pen_checkpoint_cut layouts[MOST_TENSORS];
    uint32_t numbers[MOST_TENSORS];
    size_t count;
    float values[MOST_VALUES];
};

static const void *bytes_of(void *context, enum pen_checkpoint_part part,
                            size_t tensor)
{
    struct portion *portion = context;
    const struct cut *cut = &portion->cuts[tensor];
    size_t count = 0;
    for (size_t i = 0; i < cut->count; i++)
        count += fill_piece(cut, i, part, portion->numbers[tensor],
                            portion->values + count);
    assert_int_equal(count, portion->infos[tensor].num_elements);
    return portion->values;
}

static void add_tensor(struct portion *portion, uint32_t tensor, bool is_cut)
{
    size_t at = portion->count++;
    struct pen_any_tensor *info = &portion->infos[at];
    struct cut *cut = &portion->cuts[at];
    pen_any_model_tensor(&model, tensor, info);
    assert_in_range(info->num_elements, 1, MOST_VALUES);
    portion->numbers[at] = tensor;
    *cut = cut_randomly(info->num_dims, info->shape);
    if (!is_cut) {
        cut->pieces[0] = cut->whole;
        cut->count = 1;
    }
    portion->tensors[at] = (struct pen_checkpoint_tensor){
        .spec = {info->name, info->dtype, info->num_dims, info->shape},
        .has_moments = true};
    portion->layouts[at] =
        (struct pen_checkpoint_cut){cut->pieces, is_cut ? cut->count : 0};
}

static void write_share(const char *run, uint32_t number,
                        const uint32_t *share_of, uint64_t max_bytes,
                        bool is_cut, struct pen_checkpoint_writer *writer)
{
    struct pen_text why = PEN_TEXT_EMPTY, record = PEN_TEXT_EMPTY;
    struct portion *portion = calloc(1, sizeof *portion);
    assert_non_null(portion);
    for (uint32_t i = 0; i < pen_any_model_num_tensors(&model); i++)
        if (share_of[i] == number)
            add_tensor(portion, i, is_cut);
    const struct pen_checkpoint_share_args args = {
        .run = run,
        .step = 7,
        .number = number,
        .tensors = portion->tensors,
        .cuts = is_cut ? portion->layouts : NULL,
        .count = portion->count,
        .num_moments = MOMENTS,
        .max_shard_bytes = max_bytes};
    const struct pen_checkpoint_source source = {bytes_of, NULL, portion};
    if (portion->count > 0) {
        require(pen_checkpoint_share_write(&args, &source, &record, &why),
                &why);
        require(pen_checkpoint_add_record(writer, record.bytes, record.length,
                                          &why),
                &why);
    }
    pen_text_release(&record);
    free(portion);
}

static struct pen_checkpoint *save(const char *run, const uint32_t *share_of,
                                   uint64_t max_bytes, bool is_cut)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_checkpoint *checkpoint = NULL;
    require(pen_checkpoint_begin_for(&model, run, 7, MOMENTS, &writer, &why),
            &why);
    for (uint32_t i = 0; i < MOST_SHARES; i++)
        write_share(run, i, share_of, max_bytes, is_cut, writer);
    require(pen_checkpoint_finish(writer, 0, &why), &why);
    require(pen_checkpoint_open(run, NULL, &checkpoint, &why), &why);
    return checkpoint;
}

static void expect_same_files(const struct pen_checkpoint *a,
                              const struct pen_checkpoint *b)
{
    assert_int_equal(a->manifest.num_files, b->manifest.num_files);
    for (size_t i = 0; i < a->manifest.num_files; i++) {
        assert_string_equal(a->manifest.files[i].name,
                            b->manifest.files[i].name);
        assert_string_equal(a->manifest.files[i].hash,
                            b->manifest.files[i].hash);
    }
}

/* ---- reading ---- */

static void expect_pieces(const struct pen_checkpoint *checkpoint)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    for (uint32_t t = 0; t < pen_any_model_num_tensors(&model); t++) {
        const struct pen_safetensor *tensor = NULL;
        uint32_t part = below(MOMENTS + 1);
        float expected[MOST_VALUES], found[MOST_VALUES];
        require(pen_checkpoint_find(checkpoint, &model, t, part, &tensor, &why),
                &why);
        struct cut cut = cut_randomly(tensor->num_dims, tensor->shape);
        for (size_t i = 0; i < cut.count; i++) {
            size_t count = fill_piece(&cut, i, part, t, expected);
            pen_tensor_piece_read(&cut.pieces[i], tensor, found);
            assert_memory_equal(expected, found, count * sizeof *found);
        }
    }
}

static void expect_resharded(const struct pen_checkpoint *checkpoint,
                             const char *run)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint *other = NULL;
    char before[PEN_HASH_SIZE], after[PEN_HASH_SIZE];
    require(pen_checkpoint_hash(checkpoint, &model, NULL, before, &why), &why);
    require(
        pen_checkpoint_reshard(checkpoint, &model, run, 100 + below(900), &why),
        &why);
    require(pen_checkpoint_open(run, NULL, &other, &why), &why);
    require(pen_checkpoint_hash(other, &model, NULL, after, &why), &why);
    assert_string_equal(before, after);
    expect_pieces(other);
    pen_checkpoint_close(other);
}

static void files_of_pieces_are_those_of_whole_tensors(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        uint32_t share_of[MOST_TENSORS];
        char paths[3][sizeof folder + 24];
        for (int i = 0; i < 3; i++)
            snprintf(paths[i], sizeof paths[i], "%s/%d-%d", folder, trial, i);
        for (size_t i = 0; i < MOST_TENSORS; i++)
            share_of[i] = below(MOST_SHARES);
        uint64_t most = below(2) == 0 ? 0 : 100 + below(900);
        struct pen_checkpoint *whole = save(paths[0], share_of, most, false);
        struct pen_checkpoint *cut = save(paths[1], share_of, most, true);
        expect_same_files(whole, cut);
        expect_pieces(cut);
        expect_resharded(cut, paths[2]);
        pen_checkpoint_close(whole);
        pen_checkpoint_close(cut);
    }
}

/* ---- random weights ---- */

static void draw(const struct pen__fill *fill, int kind)
{
    if (kind == 0)
        pen__fill_normal(fill, 5, 0.02);
    else if (kind == 1)
        pen__fill_uniform(fill, 5, 0.5);
    else
        pen__fill_constant(fill, 1);
}

static void random_weights_do_not_depend_on_cuts(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        const uint64_t shape[] = {1 + below(9), 1 + below(7)};
        struct cut cut = cut_randomly(1 + below(2), shape);
        float whole[MOST_VALUES], own[MOST_VALUES];
        struct pen_tensor_slice slice = {.tensor = 3, .piece = cut.whole};
        struct pen__fill fill = {
            .slice = &slice, .whole = cut.whole, .plain = whole};
        draw(&fill, trial % 3);
        fill.plain = own;
        slice.first = 2;
        for (size_t i = 0; i < cut.count; i++) {
            const struct pen_tensor_piece *it = &cut.pieces[i];
            size_t count = 2;
            slice.piece = *it;
            draw(&fill, trial % 3);
            for (uint64_t r = 0; r < it->num_rows; r++)
                for (uint64_t c = 0; c < it->num_columns; c++)
                    assert_memory_equal(
                        &own[count++],
                        &whole[(it->first_row + r) * cut.whole.num_columns +
                               it->first_column + c],
                        sizeof *own);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_that_do_not_tile_are_found),
        cmocka_unit_test(files_of_pieces_are_those_of_whole_tensors),
        cmocka_unit_test(random_weights_do_not_depend_on_cuts),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
