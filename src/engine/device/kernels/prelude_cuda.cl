/*
 * Kernels as CUDA, compiled by clang without a header of CUDA's. UNROLL keeps
 * what a lane owns in registers, where indices have to be constants.
 */
typedef unsigned int uint;
typedef unsigned short ushort;
#define KERNEL(name, sizes)                                                    \
    extern "C" __attribute__((global))                                         \
    __attribute__((launch_bounds(PEN__LANES))) void                            \
    name(char *at0, char *at1, char *at2, char *at3, char *at4, char *at5,     \
         char *at6, char *at7, const struct pen__##sizes##_sizes n)
#define IN(type, name, i) const type *name = (const type *)at##i
#define OUT(type, name, i) type *name = (type *)at##i
#define MEMORY
#define GROUP ((long)__nvvm_read_ptx_sreg_ctaid_x())
#define LOCAL(type, name, count)                                               \
    static __attribute__((shared)) type name[count]
#define LOCAL_MEMORY
#define OWN(type, name) type name
#define OWN_ARRAY(type, name, count) type name[count]
#define MY(name) name
#define EACH_LANE                                                              \
    {                                                                          \
        const int lane = __nvvm_read_ptx_sreg_tid_x();
#define DONE }
#define MEET                                                                   \
    }                                                                          \
    __nvvm_bar_sync(0);
#define INLINE static __attribute__((device)) inline
#define UNROLL _Pragma("unroll")
#define FMA(a, b, c) __nvvm_fma_rn_f(a, b, c)
#define ROOT(x) __nvvm_sqrt_rn_f(x)
#define BITS_OF(x) __builtin_bit_cast(uint, x)
#define FLOAT_OF(x) __builtin_bit_cast(float, x)
