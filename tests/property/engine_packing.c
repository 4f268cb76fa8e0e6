/*
 * The bytes that a layer says pass through memory while it multiplies are
 * those that oneDNN really touches in buffers of its own; of several threads,
 * those that it may touch. To see them, each large buffer that somebody
 * allocates here is a mapping: what of it is resident is asked before it is
 * given back.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): for mincore() */
#include "support/engine.h"

#include "base/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

/* What glibc calls its own ones. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);
/* NOLINTEND(bugprone-reserved-identifier) */

enum {
    PAGE = 4096,
    MOST_BUFFERS = 16,
    MOST_PAGES = 16384,
    SHAPES = 150,
    SLACK_BYTES = 200000 /* of a thread: sums, paddings, rows on their way */
};

struct buffer {
    char *block;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static struct buffer buffers[MOST_BUFFERS];
static size_t most_touched; /* bytes in all buffers at one time */
static volatile bool is_watching;

static struct buffer *find(const char *block)
{
    for (int i = 0; i < MOST_BUFFERS; i++)
        if (buffers[i].block == block)
            return &buffers[i];
    return NULL;
}

static size_t touched(const struct buffer *buffer)
{
    static unsigned char resident[MOST_PAGES];
    size_t pages = (buffer->bytes + PAGE - 1) / PAGE;
    size_t count = 0;
    if (buffer->block == NULL || pages > MOST_PAGES ||
        mincore(buffer->block, buffer->bytes, resident) != 0)
        return 0;
    for (size_t i = 0; i < pages; i++)
        count += resident[i] & 1;
    return count * PAGE;
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    struct buffer *free_one = NULL;
    pthread_mutex_lock(&lock);
    if (is_watching && bytes >= PAGE)
        free_one = find(NULL);
    if (free_one != NULL) {
        *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *free_one = (struct buffer){*out, bytes};
    } else {
        *out = __libc_memalign(alignment, bytes);
    }
    pthread_mutex_unlock(&lock);
    return *out == NULL || *out == MAP_FAILED ? ENOMEM : 0;
}

void free(void *block)
{
    if (block == NULL)
        return;
    pthread_mutex_lock(&lock);
    struct buffer *buffer = find(block);
    if (buffer != NULL) {
        size_t sum = 0;
        for (int i = 0; i < MOST_BUFFERS; i++)
            sum += touched(&buffers[i]);
        most_touched = sum > most_touched ? sum : most_touched;
        munmap(buffer->block, buffer->bytes);
        *buffer = (struct buffer){NULL, 0};
    }
    pthread_mutex_unlock(&lock);
    if (buffer == NULL)
        __libc_free(block);
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

/* What the three passes of one layer touch. */
static size_t watch(struct pen_engine *engine, const struct pen_linear *linear,
                    const struct shape *shape)
{
    float *x = calloc(shape->rows * shape->inputs, sizeof *x);
    float *y = calloc(shape->rows * shape->outputs, sizeof *y);
    assert_true(x != NULL && y != NULL);
    most_touched = 0;
    is_watching = true;
    engine->ops->linear_forward(engine, linear, x, NULL, y);
    engine->ops->linear_backward_weight(engine, linear, x, y);
    engine->ops->linear_backward_input(engine, linear, y, x);
    is_watching = false;
    free(y);
    free(x);
    return most_touched;
}

static void compare(const struct shape *shape)
{
    const struct pen_parameter_shape weight = {
        PEN_PARAMETER_DENSE, shape->outputs, shape->inputs, 0, false};
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
    /* Threads may be done with theirs before others begin. */
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
