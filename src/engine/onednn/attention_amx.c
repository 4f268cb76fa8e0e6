/*
 * A tile holds 16 rows of 64 bytes. The processor multiplies a tile of 16 rows
 * by 32 bf16 with one of 16 pairs of rows by 16 columns,
 *
 *   b[0][0] b[1][0]  b[0][1] b[1][1] ... b[0][15] b[1][15]
 *   b[2][0] b[3][0]  ...
 *
 * and adds to 16 by 16 floats. Left factors are read where they lie; right
 * factors are laid out as such tiles, one after the other, first ("pairs").
 *
 *   S  = Q K^T      right: K, whose rows already are pairs, turned
 *   O  = P V        right: V in pairs
 *   dP = dO V^T     right: V turned
 *   dQ = dS K       right: K in pairs
 *   dV^T += dO^T P  right: P in pairs, as the slopes are computed
 *   dK^T += Q^T dS  right: dS in pairs, likewise
 *
 * Keys are counted in whole tiles; those beyond the end are zero.
 */
#include "engine/onednn/attention_amx.h"

#include "engine/bf16.h"
#include "engine/onednn/carve.h"
#include "engine/onednn/exponential.h"

#include <immintrin.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Sizes of a tile, where TILE is in words of 4 bytes; and of a square of four
 * tiles.
 */
enum { ROWS = 16, INNER = 32, TILE = 256, SQUARE = 32 };
enum { PAIRS = PEN__QUERIES / 2, QUERY_TILES = PEN__QUERIES / INNER };

/* Linux gives the tiles' 8 KB to those that ask; once is enough, and cheap. */
static bool is_permitted(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

bool pen__amx_is_usable(void)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    unsigned amx = (unsigned)dnnl_cpu_isa_avx512_core_amx;
    return (isa & amx) == amx && is_permitted();
}

bool pen__amx_is_for(const struct pen_attention *shape)
{
    return shape->head_size % INNER == 0;
}

static size_t rounded(size_t count)
{
    return (count + INNER - 1) / INNER * INNER;
}

/* Rows of a power of two apart would share a set of the cache. */
static size_t padded(size_t count)
{
    return rounded(count) + ROWS;
}

/* Arrays of words of 16 bits, and of 32 bits. */
struct room {
    uint16_t *q;    /* (QUERIES, D), as are the next two */
    uint16_t *dout; /* what a sequence ends too early for is zero */
    uint16_t *p;    /* (QUERIES, T): probabilities, or slopes of the scores */
    uint16_t *turned_q;    /* (D, QUERIES) */
    uint16_t *turned_dout; /* (D, QUERIES) */
    uint32_t *turned_k;    /* tiles [T / 16][D / 32] */
    uint32_t *turned_v;
    uint32_t *pairs_k; /* tiles [T / 32][D / 16] */
    uint32_t *pairs_v;
    uint32_t *pairs_p; /* tiles [T / 16][QUERIES / 32] */
    uint32_t *pairs_ds;
    float *s;    /* (QUERIES, T): scores, probabilities */
    float *dp;   /* (QUERIES, T) */
    float *rows; /* (QUERIES, D): a product on its way out */
    float *dk;   /* (D, T) */
    float *dv;   /* (D, T) */
};

/* Lays out a room; with a NULL base it only returns the size. */
static size_t room_init(struct room *room, const struct pen_attention *shape,
                        char *base)
{
    size_t used = 0;
    size_t rows = PEN__QUERIES * shape->head_size;
    size_t scores = PEN__QUERIES * padded(pen_attention_keys(shape));
    size_t head = shape->head_size * padded(pen_attention_keys(shape));
    uint16_t **halves[] = {&room->q, &room->dout, &room->turned_q,
                           &room->turned_dout};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        *halves[i] = pen__carve(base, &used, rows * sizeof **halves[i]);
    room->p = pen__carve(base, &used, scores * sizeof *room->p);
    uint32_t **packed[] = {&room->turned_k, &room->turned_v, &room->pairs_k,
                           &room->pairs_v};
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++)
        *packed[i] = pen__carve(base, &used, head / 2 * sizeof **packed[i]);
    room->pairs_p = pen__carve(base, &used, scores / 2 * sizeof *room->pairs_p);
    room->pairs_ds =
        pen__carve(base, &used, scores / 2 * sizeof *room->pairs_ds);
    room->s = pen__carve(base, &used, scores * sizeof *room->s);
    room->dp = pen__carve(base, &used, scores * sizeof *room->dp);
    room->rows = pen__carve(base, &used, rows * sizeof *room->rows);
    room->dk = pen__carve(base, &used, head * sizeof *room->dk);
    room->dv = pen__carve(base, &used, head * sizeof *room->dv);
    return used;
}

size_t pen__amx_bytes(const struct pen_attention *shape)
{
    struct room room;
    return room_init(&room, shape, NULL);
}

/* Configures all eight tiles at their full size. */
static void tiles_begin(void)
{
    struct {
        uint8_t palette;
        uint8_t start_row;
        uint8_t reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (size_t tile = 0; tile < 8; tile++) {
        config.bytes[tile] = 64;
        config.rows[tile] = ROWS;
    }
    _tile_loadconfig(&config);
}

/*
 * c (+)= a b. Sizes are multiples of 32; strides count bytes in a, tiles in b
 * and floats in c.
 */
struct product {
    size_t rows;
    size_t columns;
    size_t inner;
    const uint16_t *a;
    size_t a_stride;
    const uint32_t *b;
    size_t b_of_column; /* from one tile to that with the next 16 columns */
    size_t b_of_inner;  /* from one tile to that with the next 32 rows */
    float *c;
    size_t c_stride;
    bool is_added;
};

/* Multiplies two by two tiles, so that each one that is read serves twice. */
static void square(const struct product *of, size_t row, size_t column)
{
    size_t c_bytes = of->c_stride * sizeof *of->c;
    float *c = of->c + row * of->c_stride + column;
    float *below = c + ROWS * of->c_stride;
    const char *a = (const char *)of->a + row * of->a_stride;
    const uint32_t *b = of->b + column / ROWS * of->b_of_column * TILE;
    if (of->is_added) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + ROWS, c_bytes);
        _tile_loadd(2, below, c_bytes);
        _tile_loadd(3, below + ROWS, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t inner = 0; inner < of->inner; inner += INNER) {
        _tile_loadd(4, a, of->a_stride);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + of->b_of_column * TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + ROWS * of->a_stride, of->a_stride);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += INNER * sizeof *of->a;
        b += of->b_of_inner * TILE;
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + ROWS, c_bytes);
    _tile_stored(2, below, c_bytes);
    _tile_stored(3, below + ROWS, c_bytes);
}

static void multiply(const struct product *of)
{
    for (size_t column = 0; column < of->columns; column += SQUARE)
        for (size_t row = 0; row < of->rows; row += SQUARE)
            square(of, row, column);
}

/* Turns 16 by 16 words, a row in a vector each: by one, two, four, eight. */
static inline void turn_words(__m512i rows[ROWS])
{
    __m512i t[ROWS];
    for (size_t i = 0; i < ROWS; i += 2) {
        t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    for (size_t i = 0; i < ROWS; i += 4) {
        rows[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        rows[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        rows[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        rows[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (size_t i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
    }
    for (size_t i = 0; i < 8; i++) {
        rows[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        rows[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

/* The head of a key. */
static const uint16_t *line_of(const struct pen_attention *shape,
                               const uint16_t *from, size_t key)
{
    return from + pen_attention_key_row(shape, key) * shape->kv_stride;
}

/* Rows as right factors of a product over their columns. */
static void turn(const struct pen_attention *shape, const uint16_t *from,
                 uint32_t *to)
{
    size_t keys = pen_attention_keys(shape);
    for (size_t key = 0; key < rounded(keys); key += ROWS) {
        const uint16_t *lines[ROWS];
        for (size_t i = 0; i < ROWS; i++)
            lines[i] = key + i < keys ? line_of(shape, from, key + i) : NULL;
        for (size_t at = 0; at < shape->head_size; at += INNER, to += TILE) {
            __m512i rows[ROWS];
            for (size_t i = 0; i < ROWS; i++)
                rows[i] = lines[i] != NULL ? _mm512_loadu_si512(lines[i] + at)
                                           : _mm512_setzero_si512();
            turn_words(rows);
            for (size_t i = 0; i < ROWS; i++)
                _mm512_store_si512(to + i * ROWS, rows[i]);
        }
    }
}

/* 16 columns of two rows, side by side. */
static inline __m512i side_by_side(const uint16_t *first,
                                   const uint16_t *second)
{
    __m512i low = _mm512_cvtepu16_epi32(
        _mm256_loadu_si256((const __m256i *)(const void *)first));
    __m512i high = _mm512_cvtepu16_epi32(
        _mm256_loadu_si256((const __m256i *)(const void *)second));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Rows as right factors of a product over the rows. */
static void pair(const struct pen_attention *shape, const uint16_t *from,
                 uint32_t *to)
{
    static const uint16_t none[ROWS];
    size_t keys = pen_attention_keys(shape);
    for (size_t key = 0; key < rounded(keys); key += INNER) {
        const uint16_t *lines[INNER];
        for (size_t i = 0; i < INNER; i++)
            lines[i] = key + i < keys ? line_of(shape, from, key + i) : NULL;
        for (size_t at = 0; at < shape->head_size; at += ROWS)
            for (size_t i = 0; i < INNER; i += 2, to += ROWS) {
                const uint16_t *first = lines[i];
                const uint16_t *second = lines[i + 1];
                first = first != NULL ? first + at : none;
                second = second != NULL ? second + at : none;
                _mm512_store_si512(to, side_by_side(first, second));
            }
    }
}

/* Rows of a block, dense, and zeros where the sequence has ended. */
static void gather(const struct pen__scores *block, size_t size, size_t stride,
                   const uint16_t *from, uint16_t *to)
{
    for (size_t query = 0; query < block->queries; query++)
        memcpy(to + query * size, from + query * stride, size * sizeof *to);
    memset(to + block->queries * size, 0,
           (PEN__QUERIES - block->queries) * size * sizeof *to);
}

/* A block as a left factor of a product over the queries. */
static void turn_block(size_t size, const uint16_t *from, uint16_t *to)
{
    for (size_t query = 0; query < PEN__QUERIES; query += INNER)
        for (size_t at = 0; at < size; at += ROWS) {
            __m512i rows[ROWS];
            for (size_t i = 0; i < ROWS; i++) {
                const uint16_t *row = from + (query + 2 * i) * size + at;
                rows[i] = side_by_side(row, row + size);
            }
            turn_words(rows);
            for (size_t i = 0; i < ROWS; i++)
                _mm512_store_si512(to + (at + i) * PEN__QUERIES + query,
                                   rows[i]);
        }
}

/* Columns of a matrix of floats as rows of bf16, or added to these. */
static void scatter_turned(const struct pen_attention *shape, const float *from,
                           bool adds, uint16_t *to)
{
    size_t keys = pen_attention_keys(shape);
    size_t stride = padded(keys);
    for (size_t first = 0; first < keys; first += ROWS)
        for (size_t at = 0; at < shape->head_size; at += ROWS) {
            __m512i rows[ROWS];
            float turned[ROWS][ROWS];
            for (size_t i = 0; i < ROWS; i++)
                rows[i] = _mm512_load_si512(from + (at + i) * stride + first);
            turn_words(rows);
            for (size_t i = 0; i < ROWS; i++)
                _mm512_storeu_si512(turned[i], rows[i]);
            for (size_t i = 0; i < ROWS && first + i < keys; i++) {
                size_t row = pen_attention_key_row(shape, first + i);
                uint16_t *out = to + row * shape->kv_stride + at;
                if (adds)
                    for (size_t lane = 0; lane < ROWS; lane++)
                        turned[i][lane] += pen_bf16_to_float(out[lane]);
#pragma omp simd
                for (size_t lane = 0; lane < ROWS; lane++)
                    out[lane] = pen_bf16_from_float(turned[i][lane]);
            }
        }
}

/* As pen__block(), in whole tiles of keys. */
static struct pen__scores tiled_block(const struct pen_attention *shape,
                                      size_t number)
{
    struct pen__scores block = pen__block(shape, number);
    size_t end = block.begin + block.keys;
    block.begin = block.begin / INNER * INNER;
    block.keys = rounded(end) - block.begin;
    block.stride = padded(pen_attention_keys(shape));
    return block;
}

/* c = a K^T, or V. */
static void across_keys(const struct pen__scores *block, size_t size,
                        const uint16_t *a, const uint32_t *turned, float *c)
{
    multiply(&(struct product){.rows = PEN__QUERIES,
                               .columns = block->keys,
                               .inner = size,
                               .a = a,
                               .a_stride = size * sizeof *a,
                               .b = turned +
                                    block->begin / ROWS * (size / INNER) * TILE,
                               .b_of_column = size / INNER,
                               .b_of_inner = 1,
                               .c = c,
                               .c_stride = block->stride});
}

/* c = a V, or K. */
static void along_keys(const struct pen__scores *block, size_t size,
                       const uint16_t *a, const uint32_t *pairs, float *c)
{
    multiply(&(struct product){.rows = PEN__QUERIES,
                               .columns = size,
                               .inner = block->keys,
                               .a = a,
                               .a_stride = block->stride * sizeof *a,
                               .b = pairs +
                                    block->begin / INNER * (size / ROWS) * TILE,
                               .b_of_column = 1,
                               .b_of_inner = size / ROWS,
                               .c = c,
                               .c_stride = size});
}

/* c += a^T b over the queries. */
static void across_queries(const struct pen__scores *block, size_t size,
                           const uint16_t *turned, const uint32_t *pairs,
                           float *c)
{
    multiply(&(struct product){.rows = size,
                               .columns = block->keys,
                               .inner = PEN__QUERIES,
                               .a = turned,
                               .a_stride = PEN__QUERIES * sizeof *turned,
                               .b = pairs,
                               .b_of_column = QUERY_TILES,
                               .b_of_inner = 1,
                               .c = c + block->begin,
                               .c_stride = block->stride,
                               .is_added = true});
}

static void head_forward(const struct pen__amx_task *task, size_t head,
                         struct room *room, uint16_t *out)
{
    const struct pen_attention *shape = task->shape;
    size_t size = shape->head_size;
    size_t out_stride = shape->heads * size;
    float *lse = task->lse + head * shape->sequence;
    for (size_t i = 0; i * PEN__QUERIES < shape->sequence; i++) {
        struct pen__scores block = tiled_block(shape, i);
        size_t first = block.first_row;
        gather(&block, size, shape->q_stride,
               task->q + first * shape->q_stride + head * size, room->q);
        across_keys(&block, size, room->q, room->turned_k, room->s);
        task->rows->softmax(&block, room->s, room->p, lse + first);
        along_keys(&block, size, room->p, room->pairs_v, room->rows);
        task->rows->scatter(block.queries, size, out_stride, room->rows,
                            out + first * out_stride + head * size);
    }
}

void pen__amx_forward(const struct pen__amx_task *task, uint16_t *out)
{
    const struct pen_attention *shape = task->shape;
    size_t group = shape->heads / shape->kv_heads;
    size_t at = task->kv_head * shape->head_size;
    struct room room;
    room_init(&room, shape, task->room);
    tiles_begin();
    turn(shape, task->k + at, room.turned_k);
    pair(shape, task->v + at, room.pairs_v);
    for (size_t i = 0; i < group; i++)
        head_forward(task, task->kv_head * group + i, &room, out);
    _tile_release();
}

/* Probabilities of a query take the place of its scores; zero when unseen. */
static float weigh(const struct pen__scores *block, size_t query, float level,
                   float *score, const float *slope)
{
    struct pen__visible row = pen__visible(block, query);
    float scale = block->scale;
    float middle = 0;
    pen__blind(&row, score);
#pragma omp simd reduction(+ : middle)
    for (size_t i = row.low; i < row.end; i++) {
        score[i] = pen__exp(scale * score[i] - level);
        middle += score[i] * slope[i];
    }
    memset(score, 0, row.low * sizeof *score);
    memset(score + row.end, 0, (block->keys - row.end) * sizeof *score);
    return middle;
}

static inline uint32_t two(float first, float second)
{
    return pen_bf16_from_float(first) | (uint32_t)pen_bf16_from_float(second)
                                            << 16;
}

/* Two rows that follow each other, probabilities and slopes in pairs. */
static void slope_pair(const struct pen__scores *block, size_t query,
                       const float *lse, struct room *room)
{
    size_t at = query * block->stride;
    float *s[] = {room->s + at, room->s + at + block->stride};
    const float *dp[] = {room->dp + at, room->dp + at + block->stride};
    uint16_t *ds[] = {room->p + at, room->p + at + block->stride};
    float middle[2] = {0};
    float scale = block->scale;
    for (size_t i = 0; i < 2; i++)
        if (query + i < block->queries)
            middle[i] = weigh(block, query + i, lse[query + i], s[i], dp[i]);
        else
            memset(s[i], 0, block->keys * sizeof *s[i]);
    for (size_t first = 0; first < block->keys; first += ROWS) {
        size_t pair_at = (first / ROWS * PAIRS + query / 2) * ROWS;
#pragma omp simd
        for (size_t lane = 0; lane < ROWS; lane++) {
            size_t key = first + lane;
            float slope = scale * s[0][key] * (dp[0][key] - middle[0]);
            float other = scale * s[1][key] * (dp[1][key] - middle[1]);
            room->pairs_p[pair_at + lane] = two(s[0][key], s[1][key]);
            room->pairs_ds[pair_at + lane] = two(slope, other);
            ds[0][key] = pen_bf16_from_float(slope);
            ds[1][key] = pen_bf16_from_float(other);
        }
    }
}

static void head_backward(const struct pen__amx_task *task, size_t head,
                          const uint16_t *dout, struct room *room, uint16_t *dq)
{
    const struct pen_attention *shape = task->shape;
    size_t size = shape->head_size;
    size_t out_stride = shape->heads * size;
    const float *lse = task->lse + head * shape->sequence;
    for (size_t i = 0; i * PEN__QUERIES < shape->sequence; i++) {
        struct pen__scores block = tiled_block(shape, i);
        size_t first = block.first_row;
        size_t q_at = first * shape->q_stride + head * size;
        gather(&block, size, shape->q_stride, task->q + q_at, room->q);
        gather(&block, size, out_stride,
               dout + first * out_stride + head * size, room->dout);
        turn_block(size, room->q, room->turned_q);
        turn_block(size, room->dout, room->turned_dout);
        across_keys(&block, size, room->q, room->turned_k, room->s);
        across_keys(&block, size, room->dout, room->turned_v, room->dp);
        for (size_t query = 0; query < PEN__QUERIES; query += 2)
            slope_pair(&block, query, lse + first, room);
        across_queries(&block, size, room->turned_dout, room->pairs_p,
                       room->dv);
        across_queries(&block, size, room->turned_q, room->pairs_ds, room->dk);
        along_keys(&block, size, room->p, room->pairs_k, room->rows);
        task->rows->scatter(block.queries, size, shape->q_stride, room->rows,
                            dq + q_at);
    }
}

void pen__amx_backward(const struct pen__amx_task *task, const uint16_t *dout,
                       uint16_t *dq, uint16_t *dk, uint16_t *dv)
{
    const struct pen_attention *shape = task->shape;
    size_t group = shape->heads / shape->kv_heads;
    size_t at = task->kv_head * shape->head_size;
    size_t head = shape->head_size * padded(pen_attention_keys(shape));
    struct room room;
    room_init(&room, shape, task->room);
    tiles_begin();
    turn(shape, task->k + at, room.turned_k);
    turn(shape, task->v + at, room.turned_v);
    pair(shape, task->k + at, room.pairs_k);
    memset(room.dk, 0, head * sizeof *room.dk);
    memset(room.dv, 0, head * sizeof *room.dv);
    for (size_t i = 0; i < group; i++)
        head_backward(task, task->kv_head * group + i, dout, &room, dq);
    _tile_release();
    scatter_turned(shape, room.dk, task->adds, dk + at);
    scatter_turned(shape, room.dv, task->adds, dv + at);
}
