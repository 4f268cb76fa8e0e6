/* Runs kernels that were read (ptx.h), a group at a time. */
#include "ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 4, SEVERAL = PTX_LANES };

enum state { RUNS, WAITS, LEFT };

/* Who touched a word of local memory last, and in which stretch. */
struct touch {
    uint64_t written_in;
    uint64_t read_in;
    unsigned char writer;
    unsigned char reader; /* or SEVERAL */
};

struct machine {
    const struct ptx_kernel *kernel;
    const struct ptx_memory *memory;
    const char *parameters;
    char *fault;
    ptx_row *rows;
    char *shared;
    struct touch *touches;
    uint64_t stretch;    /* number of the time between two barriers */
    uint64_t begin, end; /* the block that was touched last */
    uint32_t group;
    size_t at[PTX_LANES]; /* the next step of each lane */
    enum state states[PTX_LANES];
};

/* Lanes that take a step together. */
struct squad {
    unsigned char lanes[PTX_LANES];
    int n;
};

static bool fail(struct machine *self, const char *what, int lane)
{
    snprintf(self->fault, PTX_FAULT, "%s: lane %d of group %u %s",
             self->kernel->name, lane, self->group, what);
    return false;
}

/* ---- memory ---- */

static char *global_at(struct machine *self, uint64_t address, size_t bytes,
                       int lane)
{
    if (address < self->begin || address > self->end ||
        self->end - address < bytes) {
        if (!self->memory->find(self->memory->context, address, &self->begin,
                                &self->end) ||
            self->end - address < bytes) {
            self->begin = self->end = 0;
            fail(self, "touches memory outside of every block", lane);
            return NULL;
        }
    }
    return (char *)(uintptr_t)address;
}

static bool touch_word(struct machine *self, size_t word, int lane,
                       bool is_write)
{
    struct touch *it = &self->touches[word];
    bool was_written = it->written_in == self->stretch && it->writer != lane;
    bool was_read = it->read_in == self->stretch && it->reader != lane;
    if (was_written || (is_write && was_read))
        return fail(self,
                    "touches local memory that another lane touched since the "
                    "last barrier",
                    lane);
    if (is_write) {
        it->written_in = self->stretch;
        it->writer = (unsigned char)lane;
        return true;
    }
    it->reader = it->read_in == self->stretch && it->reader != lane
                     ? SEVERAL
                     : (unsigned char)lane;
    it->read_in = self->stretch;
    return true;
}

static char *shared_at(struct machine *self, uint64_t address, size_t bytes,
                       int lane, bool is_write)
{
    if (address > self->kernel->shared_bytes ||
        self->kernel->shared_bytes - address < bytes) {
        fail(self, "touches local memory outside of every array", lane);
        return NULL;
    }
    for (size_t word = address / WORD; word <= (address + bytes - 1) / WORD;
         word++)
        if (!touch_word(self, word, lane, is_write))
            return NULL;
    return self->shared + address;
}

/* NULL: a fault. */
static char *place_of(struct machine *self, const struct ptx_step *step,
                      int number, int lane)
{
    size_t bytes = (size_t)step->bytes;
    uint64_t address = (uint64_t)step->offset + bytes * (uint64_t)number;
    if (step->base >= 0)
        address += self->rows[step->base][lane];
    if (address % (bytes * (uint64_t)step->count) != bytes * (uint64_t)number) {
        fail(self, "touches an address that is not aligned", lane);
        return NULL;
    }
    if (step->space == PTX_GLOBAL)
        return global_at(self, address, bytes, lane);
    if (step->space == PTX_SHARED)
        return shared_at(self, address, bytes, lane, step->kind == PTX_STORE);
    if (address > self->kernel->parameter_bytes ||
        self->kernel->parameter_bytes - address < bytes) {
        fail(self, "reads behind the parameters", lane);
        return NULL;
    }
    return (char *)(uintptr_t)(self->parameters + address);
}

static uint64_t extended(uint64_t bits, int bytes)
{
    int rest = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(bits << rest) >> rest);
}

static bool access_memory(struct machine *self, const struct ptx_step *step,
                          const struct squad *squad)
{
    for (int i = 0; i < squad->n; i++)
        for (int k = 0; k < step->count; k++) {
            int lane = squad->lanes[i];
            uint64_t *number = &self->rows[step->numbers[k]][lane];
            char *place = place_of(self, step, k, lane);
            if (place == NULL)
                return false;
            if (step->kind == PTX_STORE) {
                memcpy(place, number, (size_t)step->bytes);
                continue;
            }
            uint64_t bits = 0;
            memcpy(&bits, place, (size_t)step->bytes);
            *number = step->is_signed ? extended(bits, step->bytes) : bits;
        }
    return true;
}

/* ---- steps ---- */

/* Whether the guard lets a lane take the step. */
static bool is_let(const struct machine *self, const struct ptx_step *step,
                   int lane)
{
    return step->guard < 0 ||
           (self->rows[step->guard][lane] != 0) != step->is_guard_negated;
}

static bool take_step(struct machine *self, const struct ptx_step *step,
                      const struct squad *squad)
{
    struct squad let;
    if (step->guard >= 0) {
        let.n = 0;
        for (int i = 0; i < squad->n; i++)
            if (is_let(self, step, squad->lanes[i]))
                let.lanes[let.n++] = squad->lanes[i];
        squad = &let;
    }
    if (step->kind != PTX_COMPUTE)
        return access_memory(self, step, squad);
    step->compute(self->rows[step->rows[0]], self->rows[step->rows[1]],
                  self->rows[step->rows[2]], self->rows[step->rows[3]],
                  squad->lanes, squad->n);
    return true;
}

/*
 * The running lanes that are furthest behind; *stop is where the next ones
 * stand. False: no lane runs.
 */
static bool choose(const struct machine *self, struct squad *out, size_t *stop)
{
    size_t first = SIZE_MAX;
    *stop = SIZE_MAX;
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (self->states[lane] == RUNS && self->at[lane] < first)
            first = self->at[lane];
    out->n = 0;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (self->states[lane] != RUNS)
            continue;
        if (self->at[lane] == first)
            out->lanes[out->n++] = (unsigned char)lane;
        else if (self->at[lane] < *stop)
            *stop = self->at[lane];
    }
    return out->n > 0;
}

static void put_all(struct machine *self, const struct squad *squad, size_t at,
                    enum state state)
{
    for (int i = 0; i < squad->n; i++) {
        self->at[squad->lanes[i]] = at;
        self->states[squad->lanes[i]] = state;
    }
}

/* True when all lanes of the squad stay together, at *at. */
static bool branch(struct machine *self, const struct ptx_step *step,
                   const struct squad *squad, size_t *at)
{
    int jumps = 0;
    for (int i = 0; i < squad->n; i++) {
        int lane = squad->lanes[i];
        bool does_jump = is_let(self, step, lane);
        self->at[lane] = does_jump ? step->target : *at + 1;
        jumps += does_jump;
    }
    *at = self->at[squad->lanes[0]];
    return jumps == 0 || jumps == squad->n;
}

/* Runs a squad until it splits, waits, leaves or comes to other lanes. */
static bool advance(struct machine *self, const struct squad *squad,
                    size_t stop)
{
    size_t at = self->at[squad->lanes[0]];
    while (at < stop) {
        if (at >= self->kernel->num_steps)
            return fail(self, "runs behind the end", squad->lanes[0]);
        const struct ptx_step *step = &self->kernel->steps[at];
        switch (step->kind) {
        case PTX_BRANCH:
            if (!branch(self, step, squad, &at))
                return true;
            break;
        case PTX_BARRIER:
            put_all(self, squad, at + 1, WAITS);
            return true;
        case PTX_RETURN:
            put_all(self, squad, at, LEFT);
            return true;
        case PTX_COMPUTE:
        case PTX_LOAD:
        case PTX_STORE:
            if (!take_step(self, step, squad))
                return false;
            at++;
            break;
        }
    }
    put_all(self, squad, at, RUNS);
    return true;
}

/* No lane runs: all left, or all wait at one barrier. */
static bool meet(struct machine *self, bool *is_done)
{
    *is_done = self->states[0] == LEFT;
    for (int lane = 1; lane < PTX_LANES; lane++)
        if (self->states[lane] != self->states[0] ||
            (!*is_done && self->at[lane] != self->at[0]))
            return fail(self, "does not come to the barrier of lane 0", lane);
    self->stretch++;
    for (int lane = 0; lane < PTX_LANES && !*is_done; lane++)
        self->states[lane] = RUNS;
    return true;
}

static bool run_group(struct machine *self, uint32_t group)
{
    struct squad squad;
    size_t stop;
    bool is_done = false;
    self->group = group;
    self->stretch++;
    memset(self->shared, 0xff, self->kernel->shared_bytes);
    for (int lane = 0; lane < PTX_LANES; lane++) {
        self->at[lane] = 0;
        self->states[lane] = RUNS;
        if (self->kernel->group_row >= 0)
            self->rows[self->kernel->group_row][lane] = group;
    }
    while (!is_done)
        if (choose(self, &squad, &stop)) {
            if (!advance(self, &squad, stop))
                return false;
        } else if (!meet(self, &is_done)) {
            return false;
        }
    return true;
}

static void fill_rows(struct machine *self)
{
    const struct ptx_kernel *kernel = self->kernel;
    memset(self->rows, 0xff, (size_t)kernel->num_rows * sizeof *self->rows);
    for (uint64_t lane = 0; lane < PTX_LANES; lane++) {
        if (kernel->lane_row >= 0)
            self->rows[kernel->lane_row][lane] = lane;
        for (size_t i = 0; i < kernel->num_constants; i++)
            self->rows[kernel->constants[i].row][lane] =
                kernel->constants[i].number;
    }
}

bool ptx_run(const struct ptx_kernel *kernel, uint32_t groups,
             const void *parameters, const struct ptx_memory *memory,
             char fault[PTX_FAULT])
{
    struct machine *self = calloc(1, sizeof *self);
    if (self == NULL)
        abort();
    *self = (struct machine){
        .kernel = kernel, .memory = memory, .parameters = parameters};
    self->fault = fault;
    self->rows = calloc((size_t)kernel->num_rows + 1, sizeof *self->rows);
    self->shared = malloc(kernel->shared_bytes + 1);
    self->touches =
        calloc(kernel->shared_bytes / WORD + 1, sizeof *self->touches);
    if (self->rows == NULL || self->shared == NULL || self->touches == NULL)
        abort();
    fill_rows(self);
    bool is_good = true;
    for (uint32_t group = 0; is_good && group < groups; group++)
        is_good = run_group(self, group);
    free(self->rows);
    free(self->shared);
    free(self->touches);
    free(self);
    return is_good;
}
