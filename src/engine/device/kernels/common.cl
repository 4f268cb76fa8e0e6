/*
 * What all kernels share. Only + - * / fma, roots and comparisons are used,
 * each rounded once, and sums have one order: the results have the same bits
 * on every device that rounds so. PEN__BF16 makes an element a bf16.
 */
#ifdef PEN__BF16
typedef ushort element;

INLINE float GET(element x)
{
    return FLOAT_OF((uint)x << 16);
}

INLINE element PUT(float x)
{
    uint bits = BITS_OF(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (element)((bits >> 16) | 0x40u);
    return (element)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
#else
typedef float element;
#define GET(x) (x)
#define PUT(x) (x)
#endif

/* Element i of a matrix that is one of floats or one of elements. */
INLINE float get_of(const MEMORY char *matrix, int is_master, long i)
{
    return is_master ? ((const MEMORY float *)matrix)[i]
                     : GET(((const MEMORY element *)matrix)[i]);
}

/*
 * x = n ln 2 + r with |r| <= ln 2 / 2; the polynomial is the one of Cephes
 * (Moshier), within 2 units in the last place. Below -60 it is zero.
 */
INLINE float exponential(float x)
{
    const float to_integer = 12582912.0f; /* 1.5 * 2^23: rounds when added */
    int is_zero = x < -60.0f;
    x = x > 88.0f ? 88.0f : x;
    x = is_zero ? -60.0f : x;
    float n = (x * 1.44269504088896341f + to_integer) - to_integer;
    float r = FMA(n, -0.693359375f, x);
    r = FMA(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = FMA(p, r, 1.3981999507e-3f);
    p = FMA(p, r, 8.3334519073e-3f);
    p = FMA(p, r, 4.1665795894e-2f);
    p = FMA(p, r, 1.6666665459e-1f);
    p = FMA(p, r, 5.0000001201e-1f);
    p = FMA(p * r, r, r) + 1.0f;
    if (!(n == n))
        return n;
    float power = FLOAT_OF((uint)((int)n + 127) << 23);
    return is_zero ? 0.0f : p * power;
}

/* Of a normal number above zero; Cephes, too. */
INLINE float logarithm(float x)
{
    if (!(x <= 3.4028234e38f))
        return x;
    uint bits = BITS_OF(x);
    float n = (float)((int)(bits >> 23) - 126);
    float m = FLOAT_OF((bits & 0x007fffffu) | 0x3f000000u);
    int is_low = m < 0.70710678118654752f;
    n = is_low ? n - 1.0f : n;
    m = is_low ? m + m - 1.0f : m - 1.0f;
    float square = m * m;
    float p = 7.0376836292e-2f;
    p = FMA(p, m, -1.1514610310e-1f);
    p = FMA(p, m, 1.1676998740e-1f);
    p = FMA(p, m, -1.2420140846e-1f);
    p = FMA(p, m, 1.4249322787e-1f);
    p = FMA(p, m, -1.6668057665e-1f);
    p = FMA(p, m, 2.0000714765e-1f);
    p = FMA(p, m, -2.4999993993e-1f);
    p = FMA(p, m, 3.3333331174e-1f);
    p = p * m * square;
    p = FMA(n, -2.12194440e-4f, p);
    p = FMA(-0.5f, square, p);
    return FMA(n, 0.693359375f, m + p);
}

INLINE float sigmoid(float x)
{
    x = x < -60.0f ? -60.0f : x;
    return 1.0f / (1.0f + exponential(-x));
}

/* One number per lane becomes one for all, in numbers[0]: a tree. */
#define MEET_IN_TREE(numbers, joined)                                          \
    for (int pairs = PEN__LANES / 2; pairs > 0; pairs /= 2) {                  \
        EACH_LANE                                                              \
        if (lane < pairs) {                                                    \
            const int other = lane + pairs;                                    \
            numbers[lane] = joined;                                            \
        }                                                                      \
        MEET                                                                   \
    }
#define SUM_OF_LANES(numbers)                                                  \
    MEET_IN_TREE(numbers, numbers[lane] + numbers[other])
#define LARGEST_OF_LANES(numbers)                                              \
    MEET_IN_TREE(numbers, numbers[other] > numbers[lane] ? numbers[other]      \
                                                         : numbers[lane])

/* The elements of a group of an element-wise kernel, from lane to lane. */
#define EACH_OF(i, count)                                                      \
    for (long i = GROUP * PEN__SHARE + lane;                                   \
         i < (count) && i < (GROUP + 1) * PEN__SHARE; i += PEN__LANES)
