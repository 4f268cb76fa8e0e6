/*
 * The bytes that a layer says pass through memory while it multiplies are
 * those that oneDNN really touches in buffers of its own; of several threads,
 * those that it may touch. To see them, each thread has a mapping here that
 * its large buffers lie in, each where the one before was, as malloc() does it:
 * in the end, what of it is resident was touched. Each product runs once before
 * it is watched: the library makes objects on first use that it keeps until the
 * process ends (AMX kernels among them), and these must not lie in a mapping
 * that is emptied.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): for mincore() */
#include "support/engine.h"

#include "base/random.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* What glibc calls its own ones. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);
/* NOLINTEND(bugprone-reserved-identifier) */

enum {
    PAGE = 4096,
    MOST_THREADS = 2,
    ROOM_BYTES = 1 << 26, /* of a thread */
    SHAPES = 60,
    SLACK_BYTES = 200000 /* of a thread: sums, paddings, rows on their way */
};

static char *rooms; /* one after the other */
static size_t used[MOST_THREADS];
static atomic_int num_blocks; /* in the rooms */
static atomic_int num_threads;
static _Thread_local int thread = -1;
static volatile bool is_watching;

/* The number of the room it lies in, or -1. */
static int room_of(const char *block)
{
    if (rooms == NULL || block < rooms ||
        block >= rooms + (size_t)MOST_THREADS * ROOM_BYTES)
        return -1;
    return (int)((block - rooms) / ROOM_BYTES);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (!is_watching || bytes < PAGE) {
        *out = __libc_memalign(alignment, bytes);
        return *out == NULL ? ENOMEM : 0;
    }
    if (thread < 0)
        thread = atomic_fetch_add(&num_threads, 1);
    size_t rounded = (bytes + PAGE - 1) / PAGE * PAGE;
    if (thread >= MOST_THREADS || rounded > ROOM_BYTES - used[thread])
        return ENOMEM;
    *out = rooms + (size_t)thread * ROOM_BYTES + used[thread];
    used[thread] += rounded;
    atomic_fetch_add(&num_blocks, 1);
    return 0;
}

/* The last one first, and by the thread that it belongs to. */
void free(void *block)
{
    int room = room_of(block);
    if (room < 0) {
        __libc_free(block);
        return;
    }
    used[room] = (size_t)((char *)block - rooms) - (size_t)room * ROOM_BYTES;
    atomic_fetch_sub(&num_blocks, 1);
}

static void empty_rooms(void)
{
    const size_t bytes = (size_t)MOST_THREADS * ROOM_BYTES;
    if (rooms == NULL)
        rooms = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(rooms != MAP_FAILED);
    assert_int_equal(madvise(rooms, bytes, MADV_NOHUGEPAGE), 0);
    assert_int_equal(madvise(rooms, bytes, MADV_DONTNEED), 0);
}

static size_t touched(void)
{
    static unsigned char resident[MOST_THREADS * ROOM_BYTES / PAGE];
    size_t count = 0;
    assert_int_equal(
        mincore(rooms, (size_t)MOST_THREADS * ROOM_BYTES, resident), 0);
    for (size_t i = 0; i < sizeof resident; i++)
        count += resident[i] & 1;
    return count * PAGE;
}

struct shape {
    enum pen_precision precision;
    int threads;
    size_t rows;
    size_t inputs;
    size_t outputs;
};

static size_t one_of(struct pen_random *random, const size_t *from,
                     size_t count)
{
    return from[pen_random_next(random) % count];
}

static struct shape random_shape(struct pen_random *random)
{
    static const size_t rows[] = {64,  100, 128, 189,  256,  270,
                                  500, 512, 600, 1024, 1026, 2048};
    static const size_t widths[] = {64,   128,  256,  320,  384,  448,
                                    512,  688,  768,  900,  1024, 1152,
                                    1536, 2048, 2500, 4000, 7321};
    const size_t count = sizeof widths / sizeof *widths;
    return (struct shape){pen_random_next(random) % 2 == 0 ? PEN_PRECISION_F32
                                                           : PEN_PRECISION_BF16,
                          1 + (int)(pen_random_next(random) % 2),
                          one_of(random, rows, sizeof rows / sizeof *rows),
                          one_of(random, widths, count - 3),
                          one_of(random, widths, count)};
}

static void run_passes(struct pen_engine *engine,
                       const struct pen_linear *linear, float *x, float *y)
{
    engine->ops->linear_forward(engine, linear, x, NULL, y);
    engine->ops->linear_backward_weight(engine, linear, x, y);
    engine->ops->linear_backward_input(engine, linear, y, x);
}

/* What the three passes of one layer touch. */
static size_t watch(struct pen_engine *engine, const struct pen_linear *linear,
                    const struct shape *shape)
{
    float *x = calloc(shape->rows * shape->inputs, sizeof *x);
    float *y = calloc(shape->rows * shape->outputs, sizeof *y);
    assert_true(x != NULL && y != NULL);
    run_passes(engine, linear, x, y);
    empty_rooms();
    is_watching = true;
    run_passes(engine, linear, x, y);
    is_watching = false;
    /* A block that stays would be lost when the rooms are emptied again. */
    assert_int_equal(atomic_load(&num_blocks), 0);
    free(y);
    free(x);
    return touched();
}

static void compare(const struct shape *shape)
{
    const struct pen_parameter_shape weight = {.use = PEN_PARAMETER_DENSE,
                                               .rows = shape->outputs,
                                               .columns = shape->inputs};
    struct pen_linear linear = {.rows = shape->rows};
    struct pen_engine *engine = NULL;
    assert_int_equal(pen_engine_onednn_create(shape->precision, shape->threads,
                                              NULL, &engine),
                     PEN_OK);
    assert_int_equal(
        engine->ops->parameter_create(engine, &weight, NULL, &linear.weight),
        PEN_OK);
    assert_int_equal(engine->ops->linear_prepare(engine, &linear, NULL),
                     PEN_OK);
    size_t told = engine->ops->passing_bytes(engine);
    size_t found = watch(engine, &linear, shape);
    size_t slack = (size_t)shape->threads * SLACK_BYTES + found / 50;
    /* Of two, one may do it all. */
    bool is_too_much = shape->threads == 1 && told > found + slack;
    if (found > told + slack || is_too_much)
        fail_msg("%s, %zu rows, %zu inputs, %zu outputs, %d threads: %zu "
                 "bytes told, %zu touched",
                 shape->precision == PEN_PRECISION_F32 ? "f32" : "bf16",
                 shape->rows, shape->inputs, shape->outputs, shape->threads,
                 told, found);
    engine->ops->parameter_free(engine, linear.weight);
    pen_engine_free(engine);
}

static void products_touch_what_is_told(void **state)
{
    (void)state;
    struct pen_engine *engine = NULL;
    if (pen_engine_onednn_create(PEN_PRECISION_F32, 1, NULL, &engine) != PEN_OK)
        skip();
    pen_engine_free(engine);
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx512dq"))
        skip(); /* the sizes are those for AVX-512 */
#else
    skip();
#endif
    struct pen_random random = {.state = 11};
    for (int i = 0; i < SHAPES; i++) {
        struct shape shape = random_shape(&random);
        compare(&shape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_touch_what_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
