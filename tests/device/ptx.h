#ifndef PEN_TESTS_PTX_H
#define PEN_TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Executes PTX, the assembly of CUDA devices, on the host: the instructions
 * that clang makes of our kernels, and no others. A text with one that it does
 * not know is refused when it is read.
 *
 *   text -> ptx_read() -> kernels, one ptx_step per instruction
 *        -> ptx_run(): the lanes of a group together, each with a place of its
 *           own in the text; the lanes that are furthest behind go on first
 *
 * A run ends at the first fault: an access outside of memory that the caller
 * knows, one that is not aligned, two lanes that touch a place of local memory
 * between the same two barriers and one of them writes, or a barrier that only
 * some lanes reach. Registers and local memory begin with bits of no number.
 */
enum {
    PTX_LANES = 64,
    PTX_OPERANDS = 4,
    PTX_VECTOR = 4,
    PTX_PARAMETERS = 16,
    PTX_FAULT = 200
};

/* Rows of registers: 64 bits of each lane. */
typedef uint64_t ptx_row[PTX_LANES];

/* d = a instruction of a, b and c, for some lanes. */
typedef void ptx_compute(uint64_t *d, const uint64_t *a, const uint64_t *b,
                         const uint64_t *c, const unsigned char *lanes, int n);

enum ptx_kind {
    PTX_COMPUTE,
    PTX_LOAD,
    PTX_STORE,
    PTX_BRANCH,
    PTX_BARRIER,
    PTX_RETURN
};

enum ptx_space { PTX_GLOBAL, PTX_SHARED, PTX_PARAMETER };

struct ptx_step {
    enum ptx_kind kind;
    ptx_compute *compute;
    int guard; /* a row, or -1: every lane takes the step */
    bool is_guard_negated;
    int rows[PTX_OPERANDS]; /* compute: d, a, b, c */
    enum ptx_space space;
    int bytes; /* of a number in memory */
    bool is_signed;
    int count; /* of numbers */
    int numbers[PTX_VECTOR];
    int base; /* the row of the address, or -1: it is the offset */
    int64_t offset;
    size_t target;
};

/* A row that has the same number in every lane and in every group. */
struct ptx_constant {
    int row;
    uint64_t number;
};

struct ptx_parameter {
    char name[80];
    size_t at;
    size_t bytes;
};

struct ptx_kernel {
    char name[64];
    struct ptx_parameter parameters[PTX_PARAMETERS];
    int num_parameters;
    size_t parameter_bytes;
    size_t shared_bytes;
    struct ptx_step *steps;
    size_t num_steps;
    struct ptx_constant *constants;
    size_t num_constants;
    int num_rows;
    int lane_row;  /* %tid.x, or -1 */
    int group_row; /* %ctaid.x, or -1 */
};

struct ptx_module {
    struct ptx_kernel *kernels;
    size_t num_kernels;
};

/* NULL, with the reason in `fault`. */
struct ptx_module *ptx_read(const char *text, char fault[PTX_FAULT]);
void ptx_free(struct ptx_module *module);

/* NULL: there is none of this name. */
const struct ptx_kernel *ptx_find(const struct ptx_module *module,
                                  const char *name);

/* The instruction of this name, with its types; NULL: it is not known. */
ptx_compute *ptx_compute_of(const char *mnemonic);

/* Memory that kernels may touch. */
struct ptx_memory {
    /* The block that an address is in; false: there is none. */
    bool (*find)(const void *context, uint64_t address, uint64_t *begin,
                 uint64_t *end);
    const void *context;
};

/*
 * Groups of PTX_LANES lanes, one after the other; `parameters` are as the
 * kernel's lie in memory. False, with the reason, at the first fault.
 */
bool ptx_run(const struct ptx_kernel *kernel, uint32_t groups,
             const void *parameters, const struct ptx_memory *memory,
             char fault[PTX_FAULT]);

#endif
