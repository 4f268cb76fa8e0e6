/*
 * PowerSGD sends, for every matrix M_i = g_i + e_i (n x m), a factor of `rank`
 * columns on each side, found by one step of power iteration from the previous
 * factors,
 *
 *   P = mean M_i Q      its columns are made orthonormal (Gram-Schmidt)
 *   Q = mean M_i^T P    kept for the next step
 *   delivered: P Q^T    e_i <- M_i - P Q^T
 *
 * Both factors are linear in M_i: the same as compressing the mean. Vectors,
 * and matrices whose factors would not be smaller, are sent whole with the
 * first factors. Where the mean of the M_i has no more than that rank it is
 * delivered exactly.
 *
 * A column p becomes p / (|p| + 1e-8), and is made orthogonal twice: a column
 * that depends on the others leaves only rounding errors, and only the second
 * pass removes these. The columns of Q are treated alike before they are used:
 * P then spans the same space, but its columns are further apart and lose less
 * to rounding. A column of Q that is zero would stay so, and is drawn anew.
 */
#include "base/clones.h"
#include "base/random.h"
#include "sync/compressor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK };

static const struct pen_sync_option options[] = {
    [RANK] = {"rank", 2, 1, 1024, true, "columns of the factors of a matrix"},
};

/*
 * The time of a mean on each rank, in passes over it: those that move memory,
 * and the products. Measured: bench/compress.
 */
static const double passes = 0.85;
static const double passes_per_rank = 0.15;

enum { LANES = 16 };

struct matrix {
    size_t first; /* in the vector */
    size_t rows;
    size_t columns;
    size_t rank;  /* 0: it goes whole */
    float *left;  /* P, or all of it: rank rows of `rows` */
    float *right; /* Q: rank rows of `columns` */
    uint64_t key;
};

struct power_sgd {
    struct pen_compression setting;
    struct matrix *matrices;
    float *error;
    float *left; /* of all */
    float *right;
    float *factors; /* a row of P */
    size_t *firsts; /* of a tensor in `right`, then the total */
    size_t num_left;
    size_t num_right;
};

/* Returns the rank of a matrix's factors; 0: it is sent whole. */
static size_t rank_of(double wanted, size_t rows, size_t columns)
{
    size_t least = rows < columns ? rows : columns;
    size_t rank = wanted < (double)least ? (size_t)wanted : least;
    return rank * (rows + columns) < rows * columns ? rank : 0;
}

static size_t left_length(size_t rank, size_t rows, size_t columns)
{
    return (rank > 0 ? rank : columns) * rows;
}

static void cost(const struct pen_sync_case *of, struct pen_mean_cost *out)
{
    double left = 0, right = 0, products = 0;
    for (size_t i = 0; i < of->num_shapes; i++) {
        size_t rows = of->shapes[i][0], columns = of->shapes[i][1];
        size_t rank = rank_of(of->options[RANK], rows, columns);
        left += (double)left_length(rank, rows, columns);
        right += (double)(rank * columns);
        products += (double)rank * (double)rows * (double)columns;
    }
    double all = passes * of->num_weights + passes_per_rank * products;
    out->bytes = pen_collective_sum_bytes(of->num_replicas, left) +
                 pen_collective_sum_bytes(of->num_replicas, right);
    out->legs = of->num_replicas > 1 ? 4 : 0;
    out->extra =
        (of->num_weights + left + right + fmax(left, right)) * sizeof(float);
    out->encode_sec = all * sizeof(float) / of->core_bytes_per_sec;
}

static void lengths(const struct pen_compression *setting, size_t *left,
                    size_t *right)
{
    *left = *right = 0;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        size_t rank =
            rank_of(setting->options.at[RANK], tensor->rows, tensor->columns);
        *left += left_length(rank, tensor->rows, tensor->columns);
        *right += rank * tensor->columns;
    }
}

static void sizes(const struct pen_compression *setting, size_t *sum,
                  size_t *gathered)
{
    size_t left, right;
    lengths(setting, &left, &right);
    *sum = left > right ? left : right;
    *gathered = 0;
}

/* ---- making ---- */

static void release(void *state)
{
    struct power_sgd *it = state;
    free(it->matrices);
    free(it->error);
    free(it->left);
    free(it->right);
    free(it->factors);
    free(it->firsts);
    free(it);
}

static void lay_out(struct power_sgd *it)
{
    const struct pen_compression *setting = &it->setting;
    float *left = it->left, *right = it->right;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        size_t rank =
            rank_of(setting->options.at[RANK], tensor->rows, tensor->columns);
        it->matrices[i] =
            (struct matrix){.first = tensor->first - setting->base,
                            .rows = tensor->rows,
                            .columns = tensor->columns,
                            .rank = rank,
                            .left = left,
                            .right = right,
                            .key = tensor->key};
        left += left_length(rank, tensor->rows, tensor->columns);
        right += rank * tensor->columns;
        it->firsts[i + 1] = (size_t)(right - it->right);
    }
}

static pen_status create(const struct pen_compression *setting, void **out,
                         struct pen_text *why)
{
    (void)why;
    struct power_sgd *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->setting = *setting;
    lengths(setting, &it->num_left, &it->num_right);
    it->matrices = calloc(setting->num_tensors + 1, sizeof *it->matrices);
    it->error = calloc(setting->count + 1, sizeof *it->error);
    it->left = calloc(it->num_left + 1, sizeof *it->left);
    it->right = calloc(it->num_right + 1, sizeof *it->right);
    it->factors = calloc((size_t)setting->options.at[RANK], sizeof(float));
    it->firsts = calloc(setting->num_tensors + 1, sizeof *it->firsts);
    if (it->matrices == NULL || it->error == NULL || it->left == NULL ||
        it->right == NULL || it->factors == NULL || it->firsts == NULL) {
        release(it);
        return PEN_NOMEM;
    }
    lay_out(it);
    *out = it;
    return PEN_OK;
}

static size_t bytes(const void *state)
{
    const struct power_sgd *it = state;
    return (it->setting.count + it->num_left + it->num_right) * sizeof(float);
}

/* ---- products, in an order of their own on every machine ---- */

PEN_CLONES static float dot(const float *a, const float *b, size_t count)
{
    float lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lanes[j] += a[i + j] * b[i + j];
    for (size_t j = 0; i + j < count; j++)
        lanes[j] += a[i + j] * b[i + j];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

/* to += factor * from. */
PEN_CLONES static void add_multiple(float *restrict to,
                                    const float *restrict from, float factor,
                                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += factor * from[i];
}

/* The same with four rows, one after the other, in one pass. */
PEN_CLONES static void add_four(float *restrict to, const float *restrict from,
                                size_t stride, const float *factors,
                                size_t count)
{
    const float *second = from + stride, *third = second + stride;
    const float *fourth = third + stride;
    float a = factors[0], b = factors[1], c = factors[2], d = factors[3];
    for (size_t i = 0; i < count; i++)
        to[i] = (((to[i] + a * from[i]) + b * second[i]) + c * third[i]) +
                d * fourth[i];
}

/* to += factors[j] * row j, for `num` rows of `count`, in their order. */
static void add_rows(float *to, const float *rows, const float *factors,
                     size_t num, size_t count)
{
    size_t j = 0;
    for (; j + 4 <= num; j += 4)
        add_four(to, rows + j * count, count, factors + j, count);
    for (; j < num; j++)
        add_multiple(to, rows + j * count, factors[j], count);
}

/* M = e + g; P = M Q. */
static void multiply_left(const struct matrix *matrix, const float *given,
                          float *error)
{
    for (size_t i = 0; i < matrix->rows; i++) {
        float *row = error + i * matrix->columns;
        pen_add_floats(row, given + i * matrix->columns, matrix->columns);
        for (size_t k = 0; k < matrix->rank; k++)
            matrix->left[k * matrix->rows + i] =
                dot(row, matrix->right + k * matrix->columns, matrix->columns);
    }
}

/* Q = M^T P, a few rows of M at a time, which stay in the cache. */
static void multiply_right(const struct matrix *matrix, const float *error)
{
    size_t columns = matrix->columns;
    memset(matrix->right, 0, matrix->rank * columns * sizeof *matrix->right);
    for (size_t i = 0; i < matrix->rows; i += 4)
        for (size_t k = 0; k < matrix->rank; k++)
            add_rows(matrix->right + k * columns, error + i * columns,
                     matrix->left + k * matrix->rows + i,
                     matrix->rows - i < 4 ? matrix->rows - i : 4, columns);
}

/* out = P Q^T; e = M - out. `factors` has room for a row of P. */
static void deliver(const struct matrix *matrix, float *factors, float *error,
                    float *out)
{
    size_t columns = matrix->columns;
    for (size_t i = 0; i < matrix->rows; i++) {
        float *row = out + i * columns;
        for (size_t k = 0; k < matrix->rank; k++)
            factors[k] = matrix->left[k * matrix->rows + i];
        memset(row, 0, columns * sizeof *row);
        add_rows(row, matrix->right, factors, matrix->rank, columns);
        add_multiple(error + i * columns, row, -1, columns);
    }
}

/* ---- columns ---- */

static double product(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void orthonormalise(float *columns, size_t rank, size_t length)
{
    for (size_t k = 0; k < rank; k++) {
        float *column = columns + k * length;
        for (int time = 0; time < 2; time++)
            for (size_t j = 0; j < k; j++) {
                const float *other = columns + j * length;
                add_multiple(column, other,
                             -(float)product(column, other, length), length);
            }
        double norm = sqrt(product(column, column, length));
        float inverse = (float)(1 / (norm + 1e-8));
        for (size_t i = 0; i < length; i++)
            column[i] *= inverse;
    }
}

/* Columns of Q that are zero, as all are at first. */
static void draw_zeros(const struct power_sgd *it, const struct matrix *matrix,
                       uint64_t step)
{
    struct pen_random random = {it->setting.seed};
    random.state ^= pen_random_next(&(struct pen_random){step});
    random.state ^= pen_random_next(&(struct pen_random){~matrix->key});
    for (size_t k = 0; k < matrix->rank; k++) {
        float *column = matrix->right + k * matrix->columns;
        if (product(column, column, matrix->columns) > 0)
            continue;
        for (size_t i = 0; i < matrix->columns; i++)
            column[i] = (float)(2 * pen_random_unit(&random) - 1);
    }
}

/* ---- rounds ---- */

static size_t count_of(const struct matrix *matrix)
{
    return matrix->rows * matrix->columns;
}

static void encode_left(struct power_sgd *it, const struct matrix *matrix,
                        uint64_t step, const float *given)
{
    if (matrix->rank == 0) {
        memcpy(matrix->left, given, count_of(matrix) * sizeof *given);
        return;
    }
    draw_zeros(it, matrix, step);
    orthonormalise(matrix->right, matrix->rank, matrix->columns);
    multiply_left(matrix, given, it->error + matrix->first);
}

static void encode(void *state, uint32_t round, uint64_t step, float *vector,
                   struct pen_round *out)
{
    struct power_sgd *it = state;
    for (size_t i = 0; i < it->setting.num_tensors; i++) {
        const struct matrix *matrix = &it->matrices[i];
        if (round == 0)
            encode_left(it, matrix, step, vector + matrix->first);
        else if (matrix->rank > 0)
            multiply_right(matrix, it->error + matrix->first);
    }
    *out =
        (struct pen_round){.kind = PEN_ROUND_SUM,
                           .floats = round == 0 ? it->left : it->right,
                           .count = round == 0 ? it->num_left : it->num_right};
}

static void divide(float *values, size_t count, uint32_t by)
{
    float share = 1.0f / (float)by;
    for (size_t i = 0; i < count; i++)
        values[i] *= share;
}

static void decode(void *state, uint32_t round, uint64_t step,
                   const struct pen_collective *received, float *vector)
{
    struct power_sgd *it = state;
    (void)step;
    (void)received;
    if (round == 0)
        divide(it->left, it->num_left, it->setting.peers->size);
    else
        divide(it->right, it->num_right, it->setting.peers->size);
    for (size_t i = 0; i < it->setting.num_tensors; i++) {
        const struct matrix *matrix = &it->matrices[i];
        if (round == 0)
            orthonormalise(matrix->left, matrix->rank, matrix->rows);
        else if (matrix->rank > 0)
            deliver(matrix, it->factors, it->error + matrix->first,
                    vector + matrix->first);
        else
            memcpy(vector + matrix->first, matrix->left,
                   count_of(matrix) * sizeof *vector);
    }
}

static void states(void *state, struct pen_sync_states *out)
{
    struct power_sgd *it = state;
    pen_sync_compression_state(&it->setting, "error", it->error, out);
    pen_sync_states_add(
        out, &(struct pen_sync_state){.name = "factor",
                                      .kind = PEN_STATE_PER_TENSOR,
                                      .is_common = true,
                                      .first_tensor = it->setting.first_tensor,
                                      .num_tensors = it->setting.num_tensors,
                                      .floats = it->right,
                                      .firsts = it->firsts,
                                      .count = it->num_right});
}

const struct pen_compressor pen_compressor_power_sgd = {
    .name = "powersgd",
    .title = "two thin factors of each matrix",
    .paper = "Vogels, Karimireddy and Jaggi, PowerSGD: Practical Low-Rank "
             "Gradient Compression for Distributed Optimization, 2019, "
             "arXiv:1905.13727",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .num_rounds = 2,
    .cost = cost,
    .sizes = sizes,
    .create = create,
    .free = release,
    .bytes = bytes,
    .encode = encode,
    .decode = decode,
    .states = states,
};
