/* Reads PTX as clang writes it: one statement per line. */
#include "ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BANKS = 16, MOST_ARRAYS = 8, NAME = 80, LINE = 256 };

/* %r0 to %r<count - 1> of `.reg .b32 %r<count>`. */
struct bank {
    char prefix[8];
    int first;
    int count;
};

struct label {
    char name[NAME];
    size_t at;
};

struct reader {
    char *fault;
    struct ptx_kernel *kernel; /* NULL: between kernels */
    bool is_in_body;
    struct bank banks[MOST_BANKS];
    int num_banks;
    struct ptx_parameter arrays[MOST_ARRAYS]; /* of local memory */
    int num_arrays;
    struct label *labels;
    size_t num_labels;
    struct label *jumps; /* steps, and where they want to go */
    size_t num_jumps;
};

static bool refuse(struct reader *self, const char *reason, const char *what)
{
    if (self->fault[0] == '\0')
        snprintf(self->fault, PTX_FAULT, "%.60s: %s: %.90s",
                 self->kernel != NULL ? self->kernel->name : "PTX", reason,
                 what);
    return false;
}

/* One more of an array whose size is a power of two when it is full. */
static void *grown(void *array, size_t count, size_t bytes)
{
    if (count > 0 && (count & (count - 1)) != 0)
        return array;
    void *more = realloc(array, (count > 0 ? 2 * count : 1) * bytes);
    if (more == NULL)
        abort();
    memset((char *)more + count * bytes, 0, (count > 0 ? count : 1) * bytes);
    return more;
}

#define GROW(array, count) ((array) = grown(array, count, sizeof *(array)))

static size_t bytes_of_type(const char *type)
{
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {{"b8", 1},  {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2},
                 {"s16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4},
                 {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    return 0;
}

/* ---- declarations ---- */

/* `.align A .TYPE NAME[COUNT]` or `.TYPE NAME`: where it is in a space. */
static bool declare(struct reader *self, const char *text, size_t *end,
                    struct ptx_parameter *out)
{
    size_t align = 1, count = 1;
    char type[8] = "", name[NAME] = "";
    if (sscanf(text, " .align %zu .%7[a-z0-9] %79[^[, ][%zu]", &align, type,
               name, &count) < 3 &&
        sscanf(text, " .%7[a-z0-9] %79[^[, ]", type, name) != 2)
        return refuse(self, "a declaration", text);
    size_t bytes = bytes_of_type(type);
    if (bytes == 0 || align == 0)
        return refuse(self, "a type", text);
    align = align > bytes ? align : bytes;
    out->at = (*end + align - 1) / align * align;
    out->bytes = bytes * count;
    *end = out->at + out->bytes;
    memcpy(out->name, name, sizeof out->name);
    return true;
}

static bool declare_registers(struct reader *self, const char *text)
{
    struct bank *bank = &self->banks[self->num_banks];
    if (self->num_banks == MOST_BANKS ||
        sscanf(text, ".reg .%*s %%%7[a-z]<%d>", bank->prefix, &bank->count) !=
            2)
        return refuse(self, "registers", text);
    bank->first = self->kernel->num_rows;
    self->kernel->num_rows += bank->count;
    self->num_banks++;
    return true;
}

static bool begin_kernel(struct reader *self, struct ptx_module *module,
                         const char *text)
{
    GROW(module->kernels, module->num_kernels);
    self->kernel = &module->kernels[module->num_kernels++];
    *self->kernel = (struct ptx_kernel){.lane_row = -1, .group_row = -1};
    self->num_banks = self->num_arrays = 0;
    self->num_labels = self->num_jumps = 0;
    return sscanf(text, ".visible .entry %63[^(]", self->kernel->name) == 1 ||
           refuse(self, "a kernel", text);
}

static bool declare_parameter(struct reader *self, const char *text)
{
    struct ptx_kernel *kernel = self->kernel;
    if (kernel->num_parameters == PTX_PARAMETERS)
        return refuse(self, "too many parameters", text);
    return declare(self, text, &kernel->parameter_bytes,
                   &kernel->parameters[kernel->num_parameters++]);
}

/* ---- operands ---- */

static int constant(struct reader *self, uint64_t number)
{
    struct ptx_kernel *kernel = self->kernel;
    GROW(kernel->constants, kernel->num_constants);
    kernel->constants[kernel->num_constants++] =
        (struct ptx_constant){kernel->num_rows, number};
    return kernel->num_rows++;
}

static int special(struct reader *self, int *row)
{
    if (*row < 0)
        *row = self->kernel->num_rows++;
    return *row;
}

/* -1: there is no register of this name. */
static int register_of(struct reader *self, const char *name)
{
    char prefix[8];
    int number;
    if (strcmp(name, "%tid.x") == 0)
        return special(self, &self->kernel->lane_row);
    if (strcmp(name, "%ctaid.x") == 0)
        return special(self, &self->kernel->group_row);
    if (sscanf(name, "%%%7[a-z]%d", prefix, &number) == 2)
        for (int i = 0; i < self->num_banks; i++)
            if (strcmp(self->banks[i].prefix, prefix) == 0 &&
                number < self->banks[i].count)
                return self->banks[i].first + number;
    return -1;
}

/* The place of a parameter or an array in its space; -1: neither. */
static int64_t place_of(const struct reader *self, const char *name)
{
    for (int i = 0; i < self->kernel->num_parameters; i++)
        if (strcmp(self->kernel->parameters[i].name, name) == 0)
            return (int64_t)self->kernel->parameters[i].at;
    for (int i = 0; i < self->num_arrays; i++)
        if (strcmp(self->arrays[i].name, name) == 0)
            return (int64_t)self->arrays[i].at;
    return -1;
}

static bool read_operand(struct reader *self, const char *text, int *row)
{
    char *end = NULL;
    if (text[0] == '%') {
        *row = register_of(self, text);
        return *row >= 0 || refuse(self, "a register", text);
    }
    uint64_t number = strncmp(text, "0f", 2) == 0 || strncmp(text, "0d", 2) == 0
                          ? strtoull(text + 2, &end, 16)
                          : (uint64_t)strtoll(text, &end, 0);
    if (*end != '\0' || end == text) {
        int64_t place = place_of(self, text);
        if (place < 0)
            return refuse(self, "an operand", text);
        number = (uint64_t)place;
    }
    *row = constant(self, number);
    return true;
}

/* [%rd1+4], [name+8] or [name] */
static bool read_address(struct reader *self, const char *text,
                         struct ptx_step *step)
{
    char name[NAME];
    long offset = 0;
    if (sscanf(text, "[%79[^]+]+%ld]", name, &offset) < 1)
        return refuse(self, "an address", text);
    step->offset = offset;
    step->base = -1;
    if (name[0] == '%')
        return read_operand(self, name, &step->base);
    int64_t place = place_of(self, name);
    step->offset += place;
    return place >= 0 || refuse(self, "an address", text);
}

/* %f1, or {%f1, %f2} */
static bool read_numbers(struct reader *self, char *text, struct ptx_step *step)
{
    char *rest = NULL;
    int count = 0;
    for (char *name = strtok_r(text, "{}, ", &rest); name != NULL;
         name = strtok_r(NULL, "{}, ", &rest)) {
        if (count == PTX_VECTOR)
            return refuse(self, "a vector", name);
        if (!read_operand(self, name, &step->numbers[count++]))
            return false;
    }
    return count == step->count || refuse(self, "a vector", text);
}

/* ---- instructions ---- */

/* ld.global.v2.f32 and the like: space, count and type of numbers. */
static bool read_access(struct reader *self, const char *mnemonic,
                        struct ptx_step *step)
{
    char space[12] = "", middle[8] = "", type[8] = "";
    int parts = sscanf(mnemonic, "%*[a-z].%11[a-z].%7[a-z0-9].%7[a-z0-9]",
                       space, middle, type);
    const char *of = parts == 3 ? type : middle;
    step->count = parts == 3 && middle[0] == 'v' ? middle[1] - '0' : 1;
    step->bytes = (int)bytes_of_type(of);
    step->is_signed = of[0] == 's';
    bool is_global = strcmp(space, "global") == 0;
    bool is_shared = strcmp(space, "shared") == 0;
    step->space =
        is_global ? PTX_GLOBAL : (is_shared ? PTX_SHARED : PTX_PARAMETER);
    if ((!is_global && !is_shared && strcmp(space, "param") != 0) ||
        step->bytes == 0 || step->count < 1 || step->count > PTX_VECTOR)
        return refuse(self, "an instruction", mnemonic);
    return true;
}

static bool read_memory(struct reader *self, const char *mnemonic, char *text,
                        struct ptx_step *step)
{
    char *address = strchr(text, '[');
    if (address == NULL || !read_access(self, mnemonic, step))
        return refuse(self, "an access", text);
    step->kind = mnemonic[0] == 'l' ? PTX_LOAD : PTX_STORE;
    char *numbers = text;
    if (step->kind == PTX_LOAD) {
        address[-1] = '\0';
    } else {
        numbers = strchr(address, ']');
        if (numbers == NULL)
            return refuse(self, "an access", text);
        *numbers++ = '\0';
        char closed[NAME + 20];
        snprintf(closed, sizeof closed, "%.97s]", address);
        return read_numbers(self, numbers, step) &&
               read_address(self, closed, step);
    }
    return read_numbers(self, numbers, step) &&
           read_address(self, address, step);
}

static bool read_compute(struct reader *self, const char *mnemonic, char *text,
                         struct ptx_step *step)
{
    char *rest = NULL;
    int count = 0;
    step->compute = ptx_compute_of(mnemonic);
    if (step->compute == NULL)
        return refuse(self, "an unknown instruction", mnemonic);
    for (char *name = strtok_r(text, ", ", &rest); name != NULL;
         name = strtok_r(NULL, ", ", &rest)) {
        if (count == PTX_OPERANDS)
            return refuse(self, "too many operands", mnemonic);
        if (!read_operand(self, name, &step->rows[count++]))
            return false;
    }
    if (count < 2)
        return refuse(self, "too few operands", mnemonic);
    for (; count < PTX_OPERANDS; count++) /* which are not looked at */
        step->rows[count] = step->rows[1];
    return true;
}

static bool read_guard(struct reader *self, char **text, struct ptx_step *step)
{
    step->guard = -1;
    if (**text != '@')
        return true;
    char *end = strchr(*text, ' ');
    if (end == NULL)
        return refuse(self, "a guard", *text);
    *end = '\0';
    step->is_guard_negated = (*text)[1] == '!';
    char *name = *text + (step->is_guard_negated ? 2 : 1);
    *text = end + 1;
    return read_operand(self, name, &step->guard);
}

static bool read_step(struct reader *self, char *text)
{
    struct ptx_kernel *kernel = self->kernel;
    GROW(kernel->steps, kernel->num_steps);
    size_t at = kernel->num_steps++;
    struct ptx_step *step = &kernel->steps[at];
    char mnemonic[40] = "";
    int length = 0;
    if (!read_guard(self, &text, step) ||
        sscanf(text, "%39[a-zA-Z0-9._] %n", mnemonic, &length) != 1)
        return refuse(self, "an instruction", text);
    char *operands = text + length;
    if (strcmp(mnemonic, "bra") == 0 || strcmp(mnemonic, "bra.uni") == 0) {
        step->kind = PTX_BRANCH;
        GROW(self->jumps, self->num_jumps);
        struct label *jump = &self->jumps[self->num_jumps++];
        snprintf(jump->name, sizeof jump->name, "%.79s", operands);
        jump->at = at;
        return true;
    }
    if (strcmp(mnemonic, "bar.sync") == 0 || strcmp(mnemonic, "ret") == 0) {
        step->kind = mnemonic[0] == 'b' ? PTX_BARRIER : PTX_RETURN;
        return step->guard < 0 || refuse(self, "a guard", mnemonic);
    }
    if (strncmp(mnemonic, "ld.", 3) == 0 || strncmp(mnemonic, "st.", 3) == 0)
        return read_memory(self, mnemonic, operands, step);
    return read_compute(self, mnemonic, operands, step);
}

/* Newer clangs: { .reg .b16 tmp; mov.b32 {tmp, %rs1}, %r1; } */
static bool is_high_half(const char *line, char out[LINE])
{
    char to[12] = "", from[12] = "";
    if (sscanf(line, "{ .reg .b16 tmp; mov.b32 {tmp, %11[^}]}, %11[^;]", to,
               from) != 2)
        return false;
    snprintf(out, LINE, "mov.high.b32 %s, %s", to, from);
    return true;
}

static bool end_kernel(struct reader *self)
{
    for (size_t i = 0; i < self->num_jumps; i++) {
        const struct label *jump = &self->jumps[i];
        size_t k = 0;
        while (k < self->num_labels &&
               strcmp(self->labels[k].name, jump->name) != 0)
            k++;
        if (k == self->num_labels)
            return refuse(self, "a label", jump->name);
        self->kernel->steps[jump->at].target = self->labels[k].at;
    }
    self->is_in_body = false;
    self->kernel = NULL;
    return true;
}

/* ---- lines ---- */

static bool read_body(struct reader *self, char *line)
{
    size_t length = strlen(line);
    if (strcmp(line, "}") == 0)
        return end_kernel(self);
    char half[LINE];
    if (is_high_half(line, half))
        return read_step(self, half);
    if (line[length - 1] == ':') {
        GROW(self->labels, self->num_labels);
        struct label *label = &self->labels[self->num_labels++];
        snprintf(label->name, sizeof label->name, "%.*s", (int)length - 1,
                 line);
        label->at = self->kernel->num_steps;
        return true;
    }
    if (line[length - 1] != ';')
        return refuse(self, "a line", line);
    line[length - 1] = '\0';
    if (strncmp(line, ".pragma", 7) == 0)
        return true;
    if (strncmp(line, ".reg", 4) == 0)
        return declare_registers(self, line);
    if (strncmp(line, ".shared", 7) == 0 && self->num_arrays < MOST_ARRAYS)
        return declare(self, line + 7, &self->kernel->shared_bytes,
                       &self->arrays[self->num_arrays++]);
    return read_step(self, line);
}

static bool read_line(struct reader *self, struct ptx_module *module,
                      char *line)
{
    if (strncmp(line, ".visible .entry", 15) == 0)
        return begin_kernel(self, module, line);
    if (self->kernel == NULL)
        return true;
    if (self->is_in_body)
        return read_body(self, line);
    if (strncmp(line, ".param", 6) == 0)
        return declare_parameter(self, line + 6);
    if (strcmp(line, "{") == 0)
        self->is_in_body = true;
    return true; /* versions, limits of lanes and the like */
}

/* Tabs and several blanks become one; no comment, no blank at an end. */
static size_t clean(const char *from, size_t length, char *out)
{
    size_t put = 0;
    for (size_t i = 0; i < length && put + 1 < LINE; i++) {
        if (from[i] == '/' && from[i + 1] == '/')
            break;
        bool is_blank = from[i] == ' ' || from[i] == '\t' || from[i] == '\r';
        if (!is_blank)
            out[put++] = from[i];
        else if (put > 0 && out[put - 1] != ' ')
            out[put++] = ' ';
    }
    while (put > 0 && out[put - 1] == ' ')
        put--;
    out[put] = '\0';
    return put;
}

struct ptx_module *ptx_read(const char *text, char fault[PTX_FAULT])
{
    struct reader self = {.fault = fault};
    struct ptx_module *module = calloc(1, sizeof *module);
    char line[LINE];
    if (module == NULL)
        abort();
    fault[0] = '\0';
    for (const char *at = text; *at != '\0' && fault[0] == '\0';) {
        size_t length = strcspn(at, "\n");
        if (clean(at, length, line) > 0)
            read_line(&self, module, line);
        at += length + (at[length] == '\n' ? 1 : 0);
    }
    free(self.labels);
    free(self.jumps);
    if (fault[0] == '\0')
        return module;
    ptx_free(module);
    return NULL;
}

void ptx_free(struct ptx_module *module)
{
    if (module == NULL)
        return;
    for (size_t i = 0; i < module->num_kernels; i++) {
        free(module->kernels[i].steps);
        free(module->kernels[i].constants);
    }
    free(module->kernels);
    free(module);
}

const struct ptx_kernel *ptx_find(const struct ptx_module *module,
                                  const char *name)
{
    for (size_t i = 0; i < module->num_kernels; i++)
        if (strcmp(module->kernels[i].name, name) == 0)
            return &module->kernels[i];
    return NULL;
}
