/*
 * The first rank of a tensor group gets every piece that the others list, in
 * whatever order it asks, also of members without any; a lost member ends
 * serving and fetching.
 */
#include "base/random.h"
#include "runtime/checkpoint_pieces.h"
#include "support/support.h"
#include "support/thread_group.h"

#include <pthread.h>
#include <stdlib.h>

enum { MEMBERS = 4, PIECES = 5, ROUNDS = 3, MOST = 64 };

struct member {
    struct pen_group *group;
    size_t num_pieces;
    float numbers[MOST];
    pen_status status;
    pthread_t thread;
};

static struct pen_tensor_slice slice_of(uint32_t member, size_t number)
{
    return (struct pen_tensor_slice){
        .tensor = member * PIECES + (uint32_t)number,
        .piece = {.num_rows = number + 1, .num_columns = member}};
}

static float number_of(uint32_t member, size_t piece,
                       enum pen_checkpoint_part part, size_t element)
{
    return (float)(((member * PIECES + piece) * 3 + (size_t)part) * MOST +
                   element);
}

static const float *read_piece(void *context, size_t number,
                               enum pen_checkpoint_part part, size_t *count)
{
    struct member *it = context;
    uint32_t self = it->group->self;
    const struct pen_tensor_slice slice = slice_of(self, number);
    assert_true(number < it->num_pieces);
    *count = pen_tensor_piece_count(&slice.piece);
    assert_true(*count <= MOST);
    for (size_t i = 0; i < *count; i++)
        it->numbers[i] = number_of(self, number, part, i);
    return it->numbers;
}

static void *run_member(void *context)
{
    struct member *it = context;
    struct pen_tensor_slice slices[PIECES];
    for (size_t i = 0; i < it->num_pieces; i++)
        slices[i] = slice_of(it->group->self, i);
    it->status = pen__pieces_tell(it->group, slices, it->num_pieces);
    for (int round = 0;
         round < ROUNDS && it->status == PEN_OK && it->num_pieces > 0; round++)
        it->status = pen__pieces_serve(it->group, read_piece, it);
    return NULL;
}

static void start(struct member *members, struct thread_world *world)
{
    for (uint32_t k = 0; k < MEMBERS; k++) {
        members[k] = (struct member){.group = thread_world_group(world, k),
                                     .num_pieces = k == 2 ? 0 : PIECES};
        if (k > 0)
            assert_int_equal(pthread_create(&members[k].thread, NULL,
                                            run_member, &members[k]),
                             0);
    }
}

static void join(struct member *members, pen_status expected)
{
    for (uint32_t k = 1; k < MEMBERS; k++) {
        pthread_join(members[k].thread, NULL);
        if (members[k].num_pieces > 0)
            assert_int_equal(members[k].status, expected);
    }
}

static void hear(struct pen_group *group, uint32_t member, size_t expected)
{
    struct pen_tensor_slice *slices;
    size_t count;
    assert_int_equal(pen__pieces_hear(group, member, &slices, &count), PEN_OK);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(slices[i].tensor, slice_of(member, i).tensor);
        assert_int_equal(slices[i].piece.num_rows, i + 1);
    }
    free(slices);
}

static void fetch(struct pen_group *group, struct pen_random *random)
{
    static const uint32_t servers[] = {1, 3};
    uint32_t member = servers[pen_random_below(random, 2)];
    size_t number = (size_t)pen_random_below(random, PIECES);
    enum pen_checkpoint_part part =
        (enum pen_checkpoint_part)pen_random_below(random, 3);
    const struct pen_tensor_slice slice = slice_of(member, number);
    size_t count = pen_tensor_piece_count(&slice.piece);
    float numbers[MOST];
    pen__pieces_fetch(group, member, number, part, numbers, count);
    for (size_t i = 0; i < count; i++)
        assert_true(numbers[i] == number_of(member, number, part, i));
}

static void the_first_gets_what_it_asks_for(void **state)
{
    (void)state;
    struct pen_random random = {.state = 5};
    struct thread_world *world = thread_world_create(MEMBERS);
    struct member members[MEMBERS];
    start(members, world);
    for (uint32_t k = 1; k < MEMBERS; k++)
        hear(members[0].group, k, members[k].num_pieces);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 20; i++)
            fetch(members[0].group, &random);
        assert_int_equal(pen__pieces_end(members[0].group, 1), PEN_OK);
        assert_int_equal(pen__pieces_end(members[0].group, 3), PEN_OK);
    }
    join(members, PEN_OK);
    thread_world_free(world);
}

static void a_loss_ends_serving(void **state)
{
    (void)state;
    float numbers[MOST];
    struct thread_world *world = thread_world_create(MEMBERS);
    struct member members[MEMBERS];
    start(members, world);
    for (uint32_t k = 1; k < MEMBERS; k++)
        hear(members[0].group, k, members[k].num_pieces);
    thread_world_lose(world, 3);
    pen__pieces_fetch(members[0].group, 1, 0, PEN_CHECKPOINT_WEIGHT, numbers,
                      1);
    assert_int_equal(pen__pieces_end(members[0].group, 1), PEN_LOST);
    join(members, PEN_LOST);
    thread_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_gets_what_it_asks_for),
        cmocka_unit_test(a_loss_ends_serving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
