/*
 * Steps that ranks of an earlier epoch left in memory: the newest that is whole
 * and right on all of them is opened, tensors are found in whatever memory they
 * lie, and matrices that lie column by column read as all others.
 */
#include "support/folder.h"
#include "support/support.h"

#include "checkpoint/snapshot.h"
#include "core/tensor_piece.h"
#include "holder/holder.h"
#include "runtime/commits.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { RANKS = 2, ROWS = 3, COLUMNS = 5, COUNT = ROWS * COLUMNS };

static char path[sizeof folder + 16];
static const uint64_t shape[] = {ROWS, COLUMNS};

static float value(uint32_t rank, uint64_t step, uint32_t part, size_t i)
{
    return (float)(1000 * step + (size_t)100 * rank + (size_t)20 * part + i);
}

/* Element i of a tensor of the rank, wherever it lies. */
static void fill(struct pen_snapshot *snapshot, uint32_t rank, uint64_t step)
{
    for (uint32_t part = 0; part < 2; part++) {
        float *to =
            pen_snapshot_part(snapshot, (enum pen_checkpoint_part)part, 0);
        for (size_t i = 0; i < COUNT; i++) {
            size_t at = rank == 1 ? i % COLUMNS * ROWS + i / COLUMNS : i;
            to[at] = value(rank, step, part, i);
        }
    }
}

static void print_manifest(uint64_t step, struct pen_text *out)
{
    struct pen_manifest manifest;
    assert_int_equal(pen_manifest_init(&manifest, NULL), PEN_OK);
    manifest.step = step;
    manifest.num_moments = 1;
    assert_int_equal(pen_manifest_print(&manifest, out, NULL), PEN_OK);
    pen_manifest_release(&manifest);
}

struct rank {
    struct pen_holder_client client;
    struct pen_shard shard;
    struct pen_snapshot *snapshot;
    char name[16];
    struct pen_checkpoint_tensor tensor;
    bool is_transposed;
};

/* The tensor of rank 1 lies column by column. */
static void start_rank(struct rank *it, uint32_t rank)
{
    struct pen_shard_about about = {
        .epoch = 1, .rank = rank, .num_ranks = RANKS};
    snprintf(it->name, sizeof it->name, "tensor%u", (unsigned)rank);
    it->tensor = (struct pen_checkpoint_tensor){
        .spec = {it->name, PEN_DTYPE_F32, 2, shape}, .has_moments = true};
    it->is_transposed = rank == 1;
    const struct pen_snapshot_contents contents = {.tensors = &it->tensor,
                                                   .count = 1,
                                                   .num_moments = 1,
                                                   .transposed =
                                                       &it->is_transposed};
    assert_int_equal(pen_snapshot_plan(&contents, 4096, &it->snapshot, NULL),
                     PEN_OK);
    about.slot_bytes = pen_snapshot_block_bytes(it->snapshot);
    assert_int_equal(pen_shard_create(&about, &it->shard, NULL), PEN_OK);
    assert_int_equal(
        pen_holder_connect(path, 1, rank, RANKS, &it->client, NULL), PEN_OK);
    assert_int_equal(pen_holder_offer(&it->client, &it->shard, NULL), PEN_OK);
}

static void commit(struct rank *it, uint32_t rank, uint64_t step, bool is_right)
{
    struct pen_shard_about about;
    struct pen_text note = PEN_TEXT_EMPTY;
    uint32_t slot = pen_shard_begin(&it->shard);
    pen_shard_describe(&it->shard, &about);
    pen_snapshot_use(it->snapshot, pen_shard_slot(&it->shard, slot));
    print_manifest(step, &note);
    pen_snapshot_set_note(it->snapshot, note.bytes, note.length);
    fill(it->snapshot, rank, step);
    uint32_t check = pen_shard_check_block(pen_shard_slot(&it->shard, slot),
                                           about.slot_bytes, 0);
    assert_int_equal(pen_shard_num_blocks(about.slot_bytes), 1);
    check ^= is_right ? 0 : 1;
    pen_shard_commit(&it->shard, slot, step, &check);
    pen_text_release(&note);
}

static void stop_rank(struct rank *it)
{
    pen_holder_leave(&it->client, false);
    pen_shard_close(&it->shard);
    pen_snapshot_free(it->snapshot);
}

static void expect_tensor(const struct pen_weights *weights, const char *name,
                          uint32_t rank, uint64_t step, uint32_t part)
{
    float found[COUNT];
    const struct pen_tensor_piece whole = pen_tensor_piece_whole(2, shape);
    const struct pen_safetensor *it = pen_weights_find(weights, name);
    assert_non_null(it);
    assert_int_equal(it->shape[0], ROWS);
    assert_int_equal(it->shape[1], COLUMNS);
    pen_tensor_piece_read(&whole, it, found);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(found[i] == value(rank, step, part, i));
}

static void expect_step(struct pen_kept *kept, uint64_t step)
{
    assert_non_null(kept->checkpoint);
    assert_int_equal(kept->checkpoint->manifest.step, step);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        char name[32];
        snprintf(name, sizeof name, "tensor%u", (unsigned)rank);
        expect_tensor(kept->checkpoint->model, name, rank, step, 0);
        snprintf(name, sizeof name, "tensor%u.moment1", (unsigned)rank);
        expect_tensor(kept->checkpoint->optimizer, name, rank, step, 1);
    }
}

/* Opens what epoch 1 left, as the only rank of a later one. */
static void open_kept(struct pen_holder *holder, uint64_t epoch, uint64_t from,
                      struct pen_kept *kept)
{
    struct pen_holder_client client = PEN_HOLDER_CLIENT_NONE;
    struct pen_transport *transport = NULL;
    assert_int_equal(pen_holder_set_epoch(holder, epoch, NULL), PEN_OK);
    assert_int_equal(pen_transport_open_alone(&transport), PEN_OK);
    assert_int_equal(pen_holder_connect(path, epoch, 0, 1, &client, NULL),
                     PEN_OK);
    struct pen_node_map nodes;
    assert_int_equal(pen_node_map_init(&nodes, transport, 1), PEN_OK);
    const struct pen_kept_options options = {.client = &client,
                                             .transport = transport,
                                             .nodes = &nodes,
                                             .from = from};
    assert_int_equal(pen_kept_open(kept, &options, NULL), PEN_OK);
    pen_node_map_release(&nodes);
    pen_holder_leave(&client, false);
    pen_transport_close(transport);
}

static void the_newest_step_that_is_right_is_taken(void **state)
{
    (void)state;
    struct pen_holder holder;
    struct pen_kept kept;
    struct rank ranks[RANKS];
    assert_int_equal(chmod(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/holder", folder);
    assert_int_equal(pen_holder_start(path, 1, &holder, NULL), PEN_OK);
    for (uint32_t i = 0; i < RANKS; i++)
        start_rank(&ranks[i], i);
    open_kept(&holder, 2, 0, &kept); /* nothing was committed yet */
    assert_null(kept.checkpoint);
    pen_kept_release(&kept);

    for (uint32_t i = 0; i < RANKS; i++) {
        commit(&ranks[i], i, 4, true);
        commit(&ranks[i], i, 5, true);
    }
    commit(&ranks[0], 0, 6, true); /* of one rank alone */
    open_kept(&holder, 3, 0, &kept);
    expect_step(&kept, 5);
    pen_kept_release(&kept);
    open_kept(&holder, 4, 6, &kept); /* the disk has step 6 */
    assert_null(kept.checkpoint);
    pen_kept_release(&kept);

    commit(&ranks[1], 1, 6, false); /* damaged: the step before it is left */
    open_kept(&holder, 5, 0, &kept);
    expect_step(&kept, 5);
    pen_kept_release(&kept);
    for (uint32_t i = 0; i < RANKS; i++)
        stop_rank(&ranks[i]);
    pen_holder_stop(&holder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_step_that_is_right_is_taken)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
