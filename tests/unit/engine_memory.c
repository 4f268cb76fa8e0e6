/*
 * Memory of every engine of the registry: what is taken is given back, copies
 * and pieces of parameters arrive once a mark is reached, and the distant
 * engine gives the numbers of the reference engine and catches hosts that
 * reach into its memory or do not wait.
 */
#include "support/engine.h"

#include "engine/mirror.h"
#include "engine/registry.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 6, COLUMNS = 7, COUNT = ROWS * COLUMNS };

/* NULL where there is no oneDNN, or no device. */
static struct pen_engine *make_engine(const char *name,
                                      enum pen_precision dtype)
{
    struct pen_engine *engine = NULL;
    const struct pen_engine_choice choice = {.dtype = dtype, .threads = 2};
    pen_engine_find(name)->create(&choice, NULL, &engine);
    return engine;
}

typedef void claim(struct pen_engine *engine);

/* With every engine, in every type that it has and that is not double. */
static void for_all(claim *holds)
{
    for (size_t i = 0; i < pen_engine_num_kinds(); i++)
        for (int dtype = PEN_PRECISION_F32; dtype <= PEN_PRECISION_BF16;
             dtype++) {
            const struct pen_engine_kind *kind = pen_engine_kind_at(i);
            if (!pen_engine_has(kind, (enum pen_precision)dtype))
                continue;
            struct pen_engine *engine =
                make_engine(kind->name, (enum pen_precision)dtype);
            if (engine == NULL)
                continue;
            holds(engine);
            assert_int_equal(0, engine->taken[PEN_PLACE_ENGINE]);
            assert_int_equal(0, engine->taken[PEN_PLACE_STAGING]);
            pen_engine_free(engine);
        }
}

static void take_and_give(struct pen_engine *engine)
{
    size_t odd = 1001, large = (size_t)3 << 20;
    char *staging = pen_engine_take(engine, PEN_PLACE_STAGING, odd);
    char *own = pen_engine_take(engine, PEN_PLACE_ENGINE, large);
    assert_non_null(staging);
    assert_non_null(own);
    assert_int_equal(0, (uintptr_t)staging % 64);
    assert_int_equal(0, (uintptr_t)own % 64);
    for (size_t i = 0; i < odd; i++)
        assert_int_equal(0, staging[i]);
    assert_int_equal(odd, engine->taken[PEN_PLACE_STAGING]);
    assert_int_equal(large, engine->taken[PEN_PLACE_ENGINE]);
    pen_engine_give(engine, PEN_PLACE_STAGING, staging, odd);
    pen_engine_give(engine, PEN_PLACE_ENGINE, own, large);
    assert_null(pen_engine_take(engine, PEN_PLACE_ENGINE, 0));
    pen_engine_give(engine, PEN_PLACE_ENGINE, NULL, 0);
}

static void what_is_taken_is_given_back(void **state)
{
    (void)state;
    for_all(take_and_give);
}

/* Staging to the engine, within it, and back; new memory there is zero. */
static void copy_around(struct pen_engine *engine)
{
    enum { BYTES = 5000 };
    unsigned char *from = pen_engine_take(engine, PEN_PLACE_STAGING, BYTES);
    unsigned char *to = pen_engine_take(engine, PEN_PLACE_STAGING, BYTES);
    char *own = pen_engine_take(engine, PEN_PLACE_ENGINE, (size_t)2 * BYTES);
    for (size_t i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7);
    engine->ops->copy(engine, from, own + BYTES, BYTES);
    engine->ops->copy(engine, own + BYTES, own + 3, BYTES - 3);
    engine->ops->copy(engine, own, to, BYTES);
    uint64_t mark = engine->ops->mark(engine);
    pen_engine_await(engine);
    assert_true(engine->ops->is_reached(engine, mark));
    assert_null(engine->ops->fault(engine));
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(i < 3 ? 0 : from[i - 3], to[i]);
    pen_engine_give(engine, PEN_PLACE_STAGING, from, BYTES);
    pen_engine_give(engine, PEN_PLACE_STAGING, to, BYTES);
    pen_engine_give(engine, PEN_PLACE_ENGINE, own, (size_t)2 * BYTES);
}

static void copies_arrive_in_their_order(void **state)
{
    (void)state;
    for_all(copy_around);
}

static struct pen_parameter *make_parameter(struct pen_engine *engine)
{
    struct pen_parameter_shape shape = {.use = PEN_PARAMETER_DENSE,
                                        .rows = ROWS,
                                        .columns = COLUMNS,
                                        .moments = 2};
    struct pen_parameter *parameter = NULL;
    assert_int_equal(PEN_OK, engine->ops->parameter_create(engine, &shape, NULL,
                                                           &parameter));
    return parameter;
}

static void change_pieces(struct pen_engine *engine)
{
    const struct pen_engine_ops *ops = engine->ops;
    struct pen_parameter *parameter = make_parameter(engine);
    struct pen_mirror mirror;
    float expected[COUNT], found[COUNT];
    assert_int_equal(PEN_OK, pen_mirror_init(&mirror, engine, COUNT));
    for (int part = PEN_PART_VALUE; part <= PEN_PART_MOMENT2; part++) {
        struct pen_mirror_piece piece = {.parameter = parameter,
                                         .part = (enum pen_parameter_part)part,
                                         .first = 5,
                                         .count = 9};
        for (size_t i = 0; i < COUNT; i++)
            expected[i] = (float)(i + 1);
        ops->parameter_import(engine, parameter, piece.part, PEN_ORDER_ROWS,
                              expected);
        float *at = pen_mirror_show(&mirror, &piece);
        for (size_t i = 0; i < piece.count; i++) {
            assert_true(at[i] == expected[piece.first + i]);
            at[i] = expected[piece.first + i] = -(float)i;
        }
        pen_mirror_put(&mirror);
        piece = (struct pen_mirror_piece){.parameter = parameter,
                                          .part = piece.part,
                                          .first = 30,
                                          .count = 2};
        pen_mirror_cover(&mirror, &piece);
        at = pen_mirror_at(&mirror);
        at[0] = expected[30] = 100;
        at[1] = expected[31] = 200;
        pen_mirror_put(&mirror);
        ops->parameter_export(engine, parameter, piece.part, PEN_ORDER_ROWS,
                              found);
        assert_memory_equal(expected, found, sizeof found);
    }
    pen_mirror_release(&mirror);
    ops->parameter_free(engine, parameter);
}

static struct pen_parameter *make_roomless(struct pen_engine *engine, void *at)
{
    struct pen_parameter_shape shape = {.use = PEN_PARAMETER_DENSE,
                                        .rows = ROWS,
                                        .columns = COLUMNS,
                                        .moments = 2,
                                        .has_no_room = true};
    struct pen_parameter *parameter = NULL;
    assert_int_equal(PEN_OK, engine->ops->parameter_create(engine, &shape, NULL,
                                                           &parameter));
    assert_int_equal(PEN_OK,
                     engine->ops->gradient_place(engine, parameter, at, NULL));
    return parameter;
}

static void fill_gradient(struct pen_engine *engine,
                          struct pen_parameter *parameter, float first)
{
    float numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = first + (float)i;
    engine->ops->parameter_import(engine, parameter, PEN_PART_GRADIENT,
                                  PEN_ORDER_ROWS, numbers);
}

static void expect_gradient(struct pen_engine *engine,
                            struct pen_parameter *parameter, float first)
{
    float numbers[COUNT];
    engine->ops->parameter_export(engine, parameter, PEN_PART_GRADIENT,
                                  PEN_ORDER_ROWS, numbers);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(numbers[i] == first + (float)i);
}

/* Two gradients in one place take turns, a third has memory of its own. */
static void take_turns(struct pen_engine *engine)
{
    const struct pen_engine_ops *ops = engine->ops;
    size_t bytes = COUNT * sizeof(float);
    size_t before = ops->memory_bytes(engine);
    char *block = pen_engine_take(engine, PEN_PLACE_ENGINE, bytes);
    struct pen_parameter *one = make_roomless(engine, block);
    struct pen_parameter *other = make_roomless(engine, block);
    size_t without = ops->memory_bytes(engine);
    struct pen_parameter *own = make_roomless(engine, NULL);
    assert_int_equal(ops->memory_bytes(engine) - without,
                     (without - before) / 2 + bytes);
    fill_gradient(engine, own, 500);
    fill_gradient(engine, one, 100);
    expect_gradient(engine, one, 100);
    ops->gradient_clear(engine, other);
    fill_gradient(engine, other, 200);
    expect_gradient(engine, other, 200);
    expect_gradient(engine, one, 200);
    expect_gradient(engine, own, 500);
    ops->parameter_free(engine, one);
    ops->parameter_free(engine, other);
    ops->parameter_free(engine, own);
    assert_int_equal(before, ops->memory_bytes(engine));
    pen_engine_give(engine, PEN_PLACE_ENGINE, block, bytes);
}

static struct pen_parameter *make_valueless(struct pen_engine *engine)
{
    struct pen_parameter_shape shape = {.use = PEN_PARAMETER_DENSE,
                                        .rows = ROWS,
                                        .columns = COLUMNS,
                                        .has_no_value = true};
    struct pen_parameter *parameter = NULL;
    assert_int_equal(PEN_OK, engine->ops->parameter_create(engine, &shape, NULL,
                                                           &parameter));
    return parameter;
}

static void fill_value(struct pen_engine *engine,
                       struct pen_parameter *parameter, float first)
{
    float numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = first + (float)i;
    engine->ops->parameter_import(engine, parameter, PEN_PART_VALUE,
                                  PEN_ORDER_ROWS, numbers);
}

/* Ones times the weight: sums of its rows, in the engine's type. */
static void multiply(struct pen_engine *engine, struct pen_parameter *weight,
                     unsigned char out[ROWS * sizeof(float)])
{
    const uint16_t half_one = 0x3f80;
    const float one = 1;
    bool is_half = engine->dtype == PEN_PRECISION_BF16;
    size_t width = is_half ? sizeof half_one : sizeof one;
    const struct pen_linear linear = {.rows = 1, .weight = weight};
    char *staging = pen_engine_take(engine, PEN_PLACE_STAGING, COUNT * width);
    char *x = pen_engine_take(engine, PEN_PLACE_ENGINE, COLUMNS * width);
    char *y = pen_engine_take(engine, PEN_PLACE_ENGINE, ROWS * width);
    for (size_t i = 0; i < COLUMNS; i++)
        memcpy(staging + i * width,
               is_half ? (const void *)&half_one : (const void *)&one, width);
    engine->ops->copy(engine, staging, x, COLUMNS * width);
    assert_int_equal(PEN_OK,
                     engine->ops->linear_prepare(engine, &linear, NULL));
    engine->ops->linear_forward(engine, &linear, x, NULL, y);
    engine->ops->copy(engine, y, staging, ROWS * width);
    pen_engine_await(engine);
    memset(out, 0, ROWS * sizeof(float));
    memcpy(out, staging, ROWS * width);
    pen_engine_give(engine, PEN_PLACE_STAGING, staging, COUNT * width);
    pen_engine_give(engine, PEN_PLACE_ENGINE, x, COLUMNS * width);
    pen_engine_give(engine, PEN_PLACE_ENGINE, y, ROWS * width);
}

/* Two values in one place give products as one with memory of its own. */
static void replace_values(struct pen_engine *engine)
{
    const struct pen_engine_ops *ops = engine->ops;
    struct pen_parameter *all[] = {
        make_valueless(engine), make_valueless(engine), make_valueless(engine)};
    size_t bytes = ops->value_bytes(engine, all[0]);
    char *block = pen_engine_take(engine, PEN_PLACE_ENGINE, bytes);
    assert_true(bytes >= COUNT * sizeof(float));
    size_t without = ops->memory_bytes(engine);
    assert_int_equal(PEN_OK, ops->value_place(engine, all[0], block, NULL));
    assert_int_equal(PEN_OK, ops->value_place(engine, all[1], block, NULL));
    assert_int_equal(without, ops->memory_bytes(engine));
    assert_int_equal(PEN_OK, ops->value_place(engine, all[2], NULL, NULL));
    assert_true(ops->memory_bytes(engine) - without >= COUNT * sizeof(float));
    fill_value(engine, all[2], -11);
    unsigned char own[ROWS * sizeof(float)], shared[ROWS * sizeof(float)];
    multiply(engine, all[2], own);
    fill_value(engine, all[0], 500);
    fill_value(engine, all[1], -11);
    multiply(engine, all[1], shared);
    assert_memory_equal(own, shared, sizeof own);
    fill_value(engine, all[2], 500);
    multiply(engine, all[2], own);
    fill_value(engine, all[0], 500);
    multiply(engine, all[0], shared);
    assert_memory_equal(own, shared, sizeof own);
    for (int i = 0; i < 3; i++)
        ops->parameter_free(engine, all[i]);
    pen_engine_give(engine, PEN_PLACE_ENGINE, block, bytes);
}

static void values_take_turns(void **state)
{
    (void)state;
    for_all(replace_values);
}

static void gradients_take_turns(void **state)
{
    (void)state;
    for_all(take_turns);
}

static void pieces_are_read_and_written(void **state)
{
    (void)state;
    for_all(change_pieces);
}

/* The gradients of two steps are apart, whichever is shown. */
static void change_second(struct pen_engine *engine)
{
    const struct pen_engine_ops *ops = engine->ops;
    struct pen_parameter *parameter = make_parameter(engine);
    struct pen_mirror mirror;
    float found[COUNT];
    assert_int_equal(PEN_OK, ops->gradient_add_second(engine, parameter, NULL));
    assert_int_equal(PEN_OK, pen_mirror_init(&mirror, engine, COUNT));
    struct pen_mirror_piece piece = {.parameter = parameter,
                                     .part = PEN_PART_GRADIENT,
                                     .is_second = true,
                                     .count = COUNT};
    float *at = pen_mirror_show(&mirror, &piece);
    for (size_t i = 0; i < COUNT; i++)
        at[i] = 3;
    pen_mirror_put(&mirror);
    double *squares =
        pen_engine_take(engine, PEN_PLACE_STAGING, 2 * sizeof *squares);
    ops->gradient_sum_squares(engine, parameter, &squares[0]);
    ops->gradient_swap(engine, parameter);
    ops->gradient_sum_squares(engine, parameter, &squares[1]);
    ops->parameter_export(engine, parameter, PEN_PART_GRADIENT, PEN_ORDER_ROWS,
                          found);
    pen_engine_await(engine);
    assert_true(squares[0] == 0 && squares[1] == 9.0 * COUNT);
    assert_true(found[0] == 3 && found[COUNT - 1] == 3);
    pen_engine_give(engine, PEN_PLACE_STAGING, squares, 2 * sizeof *squares);
    pen_mirror_release(&mirror);
    ops->parameter_free(engine, parameter);
}

static void second_gradients_are_shown(void **state)
{
    (void)state;
    for_all(change_second);
}

/* ---- the distant engine ---- */

static void queue_runs_late(void **state)
{
    (void)state;
    struct pen_engine *engine = make_engine("distant", PEN_PRECISION_F32);
    int *from = pen_engine_take(engine, PEN_PLACE_STAGING, sizeof *from);
    int *to = pen_engine_take(engine, PEN_PLACE_STAGING, sizeof *to);
    *from = 5;
    engine->ops->copy(engine, from, to, sizeof *to);
    uint64_t mark = engine->ops->mark(engine);
    assert_int_equal(0, *to);
    *from = 6; /* too early: the copy takes this one */
    while (!pen_engine_is_reached(engine, mark))
        ;
    assert_int_equal(6, *to);
    pen_engine_give(engine, PEN_PLACE_STAGING, from, sizeof *from);
    pen_engine_give(engine, PEN_PLACE_STAGING, to, sizeof *to);
    pen_engine_free(engine);
}

static void host_cannot_read_or_write_its_memory(void **state)
{
    (void)state;
    struct pen_engine *engine = make_engine("distant", PEN_PRECISION_F32);
    volatile char *own = pen_engine_take(engine, PEN_PLACE_ENGINE, 100);
    for (int is_writing = 0; is_writing < 2; is_writing++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            if (is_writing)
                own[50] = 1;
            _exit(own[50]);
        }
        int status = 0;
        assert_true(waitpid(child, &status, 0) == child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    pen_engine_give(engine, PEN_PLACE_ENGINE, (void *)own, 100);
    pen_engine_free(engine);
}

static void foreign_addresses_are_faults(void **state)
{
    (void)state;
    struct pen_engine *engine = make_engine("distant", PEN_PRECISION_F32);
    char *to = pen_engine_take(engine, PEN_PLACE_STAGING, 8);
    const char from[8] = "host";
    assert_null(engine->ops->fault(engine));
    engine->ops->copy(engine, from, to, sizeof from);
    uint64_t mark = engine->ops->mark(engine);
    assert_false(engine->ops->is_reached(engine, mark));
    assert_non_null(engine->ops->fault(engine));
    pen_engine_give(engine, PEN_PLACE_STAGING, to, 8);
    pen_engine_free(engine);
}

static void operations_are_those_of_the_reference(void **state)
{
    (void)state;
    struct pen_engine *truth = make_engine("reference", PEN_PRECISION_F32);
    struct pen_engine *engine = make_engine("distant", PEN_PRECISION_F32);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct comparison comparison = {seed, 9, 0};
        for (size_t i = 0; i < num_trial_ops; i++)
            expect_near(&trial_ops[i], truth, engine, &comparison);
        for (size_t i = 0; i < num_image_trial_ops; i++)
            expect_near(&image_trial_ops[i], truth, engine, &comparison);
    }
    pen_engine_free(truth);
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_is_given_back),
        cmocka_unit_test(copies_arrive_in_their_order),
        cmocka_unit_test(pieces_are_read_and_written),
        cmocka_unit_test(second_gradients_are_shown),
        cmocka_unit_test(gradients_take_turns),
        cmocka_unit_test(values_take_turns),
        cmocka_unit_test(queue_runs_late),
        cmocka_unit_test(host_cannot_read_or_write_its_memory),
        cmocka_unit_test(foreign_addresses_are_faults),
        cmocka_unit_test(operations_are_those_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
