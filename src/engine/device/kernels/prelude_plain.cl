/*
 * Kernels as plain C: each stretch between two barriers is a loop over the
 * lanes, and what a lane owns across stretches is an array. The file that
 * includes this one has included math.h, stdbool.h and string.h, and declares
 * `is_descending`: then the loops run from the last lane to the first, which
 * changes nothing unless a barrier is missing.
 */
typedef unsigned int uint;
typedef unsigned short ushort;
#define KERNEL(name, sizes)                                                    \
    static void run_##name(char *const *at,                                    \
                           const struct pen__##sizes##_sizes n, long group);   \
    static void name(char *const *at, const void *n, long group)               \
    {                                                                          \
        run_##name(at, *(const struct pen__##sizes##_sizes *)n, group);        \
    }                                                                          \
    static void run_##name(char *const *at,                                    \
                           const struct pen__##sizes##_sizes n, long group)
#define IN(type, name, i) const type *name = (const type *)at[i]
#define OUT(type, name, i) type *name = (type *)at[i]
#define MEMORY
#define GROUP group
#define LOCAL(type, name, count) type name[count]
#define LOCAL_MEMORY
#define OWN(type, name) type name[PEN__LANES]
#define OWN_ARRAY(type, name, count) type name[PEN__LANES][count]
#define MY(name) name[lane]
#define EACH_LANE                                                              \
    for (int turn_ = 0; turn_ < PEN__LANES; turn_++) {                         \
        const int lane = is_descending ? PEN__LANES - 1 - turn_ : turn_;
#define DONE }
#define MEET }
#define INLINE static inline
#define UNROLL
#define FMA(a, b, c) fmaf(a, b, c)
#define ROOT(x) sqrtf(x)

INLINE uint BITS_OF(float x)
{
    uint bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float FLOAT_OF(uint bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
