/* The instructions that compute, by their whole names. */
#include "ptx.h"

#include <math.h>
#include <string.h>

static float f32_of(uint64_t bits)
{
    float x;
    uint32_t low = (uint32_t)bits;
    memcpy(&x, &low, sizeof x);
    return x;
}

static double f64_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t of_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#define TYPE_u16 uint16_t
#define TYPE_s32 int32_t
#define TYPE_u32 uint32_t
#define TYPE_s64 int64_t
#define TYPE_u64 uint64_t
#define TYPE_f32 float
#define TYPE_f64 double
#define TYPE_pred bool

/* Numbers of a type from the bits of a register, and back. */
#define GET_u16(bits) ((uint16_t)(bits))
#define GET_s32(bits) ((int32_t)(bits))
#define GET_u32(bits) ((uint32_t)(bits))
#define GET_s64(bits) ((int64_t)(bits))
#define GET_u64(bits) (bits)
#define GET_f32(bits) f32_of(bits)
#define GET_f64(bits) f64_of(bits)
#define GET_pred(bits) ((bits) != 0)
#define PUT_u16(x) ((uint16_t)(x))
#define PUT_s32(x) ((uint32_t)(x))
#define PUT_u32(x) ((uint32_t)(x))
#define PUT_s64(x) ((uint64_t)(x))
#define PUT_u64(x) ((uint64_t)(x))
#define PUT_f32(x) of_f32(x)
#define PUT_f64(x) of_f64(x)
#define PUT_pred(x) ((uint64_t)((x) ? 1 : 0))

static uint32_t shifted_left_u32(uint32_t x, uint32_t by)
{
    return by < 32 ? x << by : 0;
}

static uint64_t shifted_left_u64(uint64_t x, uint32_t by)
{
    return by < 64 ? x << by : 0;
}

static uint32_t shifted_right_u32(uint32_t x, uint32_t by)
{
    return by < 32 ? x >> by : 0;
}

static uint64_t shifted_right_u64(uint64_t x, uint32_t by)
{
    return by < 64 ? x >> by : 0;
}

/* gcc and clang shift the sign in. */
static int32_t shifted_right_s32(int32_t x, uint32_t by)
{
    return x >> (by < 32 ? by : 31);
}

static int64_t shifted_right_s64(int64_t x, uint32_t by)
{
    return x >> (by < 64 ? by : 63);
}

/* A device divides by zero without a fault; the quotient is no number of use.
 */
static int64_t quotient_s64(int64_t x, int64_t y)
{
    if (y == -1)
        return (int64_t)(0 - (uint64_t)x);
    return y == 0 ? -1 : x / y;
}

static int64_t remainder_s64(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}

static uint32_t field_u32(uint32_t x, uint32_t at, uint32_t bits)
{
    at &= 255;
    bits &= 255;
    uint32_t low = shifted_right_u32(x, at);
    return bits < 32 ? low & ((1u << bits) - 1) : low;
}

/* Towards zero; ends of the range where x is beyond it, zero for no number. */
static int32_t integer_s32(float x)
{
    if (x != x)
        return 0;
    if (x >= 2147483648.0f)
        return INT32_MAX;
    return x < -2147483648.0f ? INT32_MIN : (int32_t)x;
}

/* Minus zero is below zero. */
static float larger_f32(float x, float y)
{
    if (x == y)
        return signbit(x) ? y : x;
    return x > y ? x : y;
}

static float smaller_f32(float x, float y)
{
    if (x == y)
        return signbit(x) ? x : y;
    return x < y ? x : y;
}

static float larger_or_nan(float x, float y)
{
    return x != x || y != y ? NAN : larger_f32(x, y);
}

static float smaller_or_nan(float x, float y)
{
    return x != x || y != y ? NAN : smaller_f32(x, y);
}

/* name, instruction, types of d, a, b and c, and d of them as x, y and z */
#define INTEGERS(X, type, wrap)                                                \
    X(add_##type, "add." #type, wrap, wrap, wrap, u16, x + y)                  \
    X(sub_##type, "sub." #type, wrap, wrap, wrap, u16, x - y)                  \
    X(mul_##type, "mul.lo." #type, wrap, wrap, wrap, u16, x *y)                \
    X(mad_##type, "mad.lo." #type, wrap, wrap, wrap, wrap, x *y + z)           \
    X(min_##type, "min." #type, type, type, type, u16, x < y ? x : y)          \
    X(max_##type, "max." #type, type, type, type, u16, x > y ? x : y)          \
    COMPARISONS(X, type)                                                       \
    X(setp_eq_##type, "setp.eq." #type, pred, type, type, u16, x == y)         \
    X(setp_ne_##type, "setp.ne." #type, pred, type, type, u16, x != y)         \
    X(selp_##type, "selp." #type, type, type, type, pred, z ? x : y)           \
    X(shr_##type, "shr." #type, type, type, u32, u16,                          \
      shifted_right_##type(x, y))                                              \
    X(mov_##type, "mov." #type, type, type, u16, u16, x)

#define COMPARISONS(X, type)                                                   \
    X(setp_lt_##type, "setp.lt." #type, pred, type, type, u16, x < y)          \
    X(setp_le_##type, "setp.le." #type, pred, type, type, u16, x <= y)         \
    X(setp_gt_##type, "setp.gt." #type, pred, type, type, u16, x > y)          \
    X(setp_ge_##type, "setp.ge." #type, pred, type, type, u16, x >= y)

#define BITS(X, suffix, type)                                                  \
    X(and_##suffix, "and." #suffix, type, type, type, u16, x &y)               \
    X(or_##suffix, "or." #suffix, type, type, type, u16, x | y)                \
    X(xor_##suffix, "xor." #suffix, type, type, type, u16, x ^ y)              \
    X(selp_##suffix, "selp." #suffix, type, type, type, pred, z ? x : y)       \
    X(setp_eq_##suffix, "setp.eq." #suffix, pred, type, type, u16, x == y)     \
    X(setp_ne_##suffix, "setp.ne." #suffix, pred, type, type, u16, x != y)     \
    X(mov_##suffix, "mov." #suffix, type, type, u16, u16, x)

#define FLOATS(X, type, fused, root)                                           \
    X(add_##type, "add.rn." #type, type, type, type, u16, x + y)               \
    X(sub_##type, "sub.rn." #type, type, type, type, u16, x - y)               \
    X(mul_##type, "mul.rn." #type, type, type, type, u16, x *y)                \
    X(div_##type, "div.rn." #type, type, type, type, u16, x / y)               \
    X(rcp_##type, "rcp.rn." #type, type, type, u16, u16, 1 / x)                \
    X(sqrt_##type, "sqrt.rn." #type, type, type, u16, u16, root(x))            \
    X(fma_##type, "fma.rn." #type, type, type, type, type, fused(x, y, z))     \
    X(neg_##type, "neg." #type, type, type, u16, u16, -x)                      \
    X(mov_##type, "mov." #type, type, type, u16, u16, x)                       \
    X(selp_##type, "selp." #type, type, type, type, pred, z ? x : y)           \
    COMPARISONS(X, type)                                                       \
    X(setp_eq_##type, "setp.eq." #type, pred, type, type, u16, x == y)         \
    X(setp_ne_##type, "setp.ne." #type, pred, type, type, u16, x<y || x> y)    \
    X(setp_ltu_##type, "setp.ltu." #type, pred, type, type, u16, !(x >= y))    \
    X(setp_leu_##type, "setp.leu." #type, pred, type, type, u16, !(x > y))     \
    X(setp_gtu_##type, "setp.gtu." #type, pred, type, type, u16, !(x <= y))    \
    X(setp_geu_##type, "setp.geu." #type, pred, type, type, u16, !(x < y))     \
    X(setp_neu_##type, "setp.neu." #type, pred, type, type, u16, x != y)       \
    X(setp_num_##type, "setp.num." #type, pred, type, type, u16,               \
      x == x && y == y)                                                        \
    X(setp_nan_##type, "setp.nan." #type, pred, type, type, u16,               \
      x != x || y != y)

#define ALL(X)                                                                 \
    INTEGERS(X, s32, u32)                                                      \
    INTEGERS(X, u32, u32)                                                      \
    INTEGERS(X, s64, u64)                                                      \
    INTEGERS(X, u64, u64)                                                      \
    X(mov_u16, "mov.u16", u16, u16, u16, u16, x)                               \
    X(neg_s64, "neg.s64", s64, u64, u16, u16, (int64_t)(0 - x))                \
    BITS(X, b16, u16)                                                          \
    BITS(X, b32, u32)                                                          \
    BITS(X, b64, u64)                                                          \
    X(and_pred, "and.pred", pred, pred, pred, u16, x &&y)                      \
    X(or_pred, "or.pred", pred, pred, pred, u16, x || y)                       \
    X(xor_pred, "xor.pred", pred, pred, pred, u16, x != y)                     \
    X(not_pred, "not.pred", pred, pred, u16, u16, !x)                          \
    X(mov_pred, "mov.pred", pred, pred, u16, u16, x)                           \
    FLOATS(X, f32, fmaf, sqrtf)                                                \
    FLOATS(X, f64, fma, sqrt)                                                  \
    X(max_f32, "max.NaN.f32", f32, f32, f32, u16, larger_or_nan(x, y))         \
    X(min_f32, "min.NaN.f32", f32, f32, f32, u16, smaller_or_nan(x, y))        \
    X(shl_b32, "shl.b32", u32, u32, u32, u16, shifted_left_u32(x, y))          \
    X(shl_b64, "shl.b64", u64, u64, u32, u16, shifted_left_u64(x, y))          \
    X(wide_s32, "mul.wide.s32", s64, s32, s32, u16, (int64_t)x *y)             \
    X(wide_u32, "mul.wide.u32", u64, u32, u32, u16, (uint64_t)x *y)            \
    X(div_u32, "div.u32", u32, u32, u32, u16, y == 0 ? UINT32_MAX : x / y)     \
    X(rem_u32, "rem.u32", u32, u32, u32, u16, y == 0 ? 0 : x % y)              \
    X(div_s64, "div.s64", s64, s64, s64, u16, quotient_s64(x, y))              \
    X(rem_s64, "rem.s64", s64, s64, s64, u16, remainder_s64(x, y))             \
    X(bfe_u32, "bfe.u32", u32, u32, u32, u32, field_u32(x, y, z))              \
    X(s64_of_s32, "cvt.s64.s32", s64, s32, u16, u16, x)                        \
    X(u64_of_u32, "cvt.u64.u32", u64, u32, u16, u16, x)                        \
    X(u32_of_u64, "cvt.u32.u64", u32, u64, u16, u16, (uint32_t)x)              \
    X(u32_of_u16, "cvt.u32.u16", u32, u16, u16, u16, x)                        \
    X(u16_of_high, "mov.high.b32", u16, u32, u16, u16, (uint16_t)(x >> 16))    \
    X(u16_of_u32, "cvt.u16.u32", u16, u32, u16, u16, (uint16_t)x)              \
    X(s32_of_f32, "cvt.rzi.s32.f32", s32, f32, u16, u16, integer_s32(x))       \
    X(f32_of_s32, "cvt.rn.f32.s32", f32, s32, u16, u16, (float)x)              \
    X(f32_of_s64, "cvt.rn.f32.s64", f32, s64, u16, u16, (float)x)              \
    X(f32_of_f64, "cvt.rn.f32.f64", f32, f64, u16, u16, (float)x)              \
    X(f64_of_f32_, "cvt.f64.f32", f64, f32, u16, u16, x)                       \
    X(global, "cvta.to.global.u64", u64, u64, u16, u16, x)

/* A group whose lanes stand together has them all, in their order. */
#define COMPUTE(name, mnemonic, D, A, B, C, result)                            \
    static void compute_##name(uint64_t *d, const uint64_t *a,                 \
                               const uint64_t *b, const uint64_t *c,           \
                               const unsigned char *lanes, int n)              \
    {                                                                          \
        for (int i = 0; i < n; i++) {                                          \
            int lane = n == PTX_LANES ? i : lanes[i];                          \
            const TYPE_##A x = GET_##A(a[lane]);                               \
            const TYPE_##B y = GET_##B(b[lane]);                               \
            const TYPE_##C z = GET_##C(c[lane]);                               \
            (void)x, (void)y, (void)z;                                         \
            d[lane] = PUT_##D(result);                                         \
        }                                                                      \
    }
ALL(COMPUTE)

static const struct {
    const char *mnemonic;
    ptx_compute *compute;
} known[] = {
#define KNOWN(name, mnemonic, D, A, B, C, result) {mnemonic, compute_##name},
    ALL(KNOWN)};

ptx_compute *ptx_compute_of(const char *mnemonic)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].mnemonic, mnemonic) == 0)
            return known[i].compute;
    return NULL;
}
