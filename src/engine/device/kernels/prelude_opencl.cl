/* Kernels as OpenCL C 1.2: a lane is a work-item. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#define KERNEL(name, sizes)                                                    \
    __kernel __attribute__((reqd_work_group_size(PEN__LANES, 1, 1))) void      \
    name(__global char *at0, __global char *at1, __global char *at2,           \
         __global char *at3, __global char *at4, __global char *at5,           \
         __global char *at6, __global char *at7,                               \
         const struct pen__##sizes##_sizes n)
#define IN(type, name, i)                                                      \
    const __global type *name = (const __global type *)at##i
#define OUT(type, name, i) __global type *name = (__global type *)at##i
#define MEMORY __global
#define GROUP ((long)get_group_id(0))
#define LOCAL(type, name, count) __local type name[count]
#define LOCAL_MEMORY __local
#define OWN(type, name) type name
#define OWN_ARRAY(type, name, count) type name[count]
#define MY(name) name
#define EACH_LANE                                                              \
    {                                                                          \
        const int lane = (int)get_local_id(0);
#define DONE }
#define MEET                                                                   \
    }                                                                          \
    barrier(CLK_LOCAL_MEM_FENCE);
#define INLINE inline
#define UNROLL
#define FMA(a, b, c) fma(a, b, c)
#define ROOT(x) sqrt(x)
#define BITS_OF(x) as_uint(x)
#define FLOAT_OF(x) as_float(x)
