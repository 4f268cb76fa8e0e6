/*
 * PyTorch's compute-only schedule file, for example 1F1B on two ranks:
 *
 *   0F0,0F1,,0B0,0B1
 *   ,1F0,1B0,1F1,1B1
 *
 * The file has no header, so the reader walks through it three times: it
 * counts ranks, stages and micro-batches, looks on which ranks the stages sit,
 * and then builds the schedule. torch_csv_print.c is the other direction.
 */
#include "schedule/torch_csv.h"

#include "base/bug.h"

#include <string.h>

bool pen_torch_csv_is_path(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".csv") == 0;
}

/* Reads op by op; an overlapped pair is two ops. */
struct reader {
    const char *text;
    size_t length;
    size_t at; /* next byte */
    size_t row_start;
    size_t op_start; /* of the op read last */
    uint32_t row;    /* from 0, the rank */
    uint32_t column; /* from 0 */
    uint32_t pairs;  /* overlapped pairs of this row so far */
    bool is_in_pair; /* the second op of a pair comes next */
    bool has_op;     /* in this row */
    struct pen_text *why;
};

static void reader_init(struct reader *reader, const char *text, size_t length,
                        struct pen_text *why)
{
    *reader = (struct reader){.text = text, .length = length, .why = why};
}

/* Refuses; rows and columns are counted from 1, as a spreadsheet shows them. */
static pen_status refuse(const struct reader *reader, size_t at,
                         const char *what)
{
    if (reader->why == NULL)
        return PEN_INVALID;
    pen_text_add(reader->why, "row %u, column %u: %s", reader->row + 1,
                 reader->column + 1, what);
    pen_text_add_excerpt(reader->why, reader->text, reader->length, at);
    return PEN_INVALID;
}

/* Returns the byte to be read next; a newline follows the last one. */
static char next_byte(const struct reader *reader)
{
    return reader->at < reader->length ? reader->text[reader->at] : '\n';
}

static void skip_spaces(struct reader *reader)
{
    while (reader->at < reader->length &&
           (next_byte(reader) == ' ' || next_byte(reader) == '\t'))
        reader->at++;
}

static bool take(struct reader *reader, const char *word)
{
    size_t length = strlen(word);
    if (reader->length - reader->at < length ||
        memcmp(reader->text + reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static pen_status take_number(struct reader *reader, uint32_t limit,
                              const char *what, uint32_t *out)
{
    size_t start = reader->at;
    uint64_t number = 0;
    while (next_byte(reader) >= '0' && next_byte(reader) <= '9') {
        number = number * 10 + (uint64_t)(next_byte(reader) - '0');
        reader->at++;
        if (number > limit)
            return refuse(reader, start, what);
    }
    size_t digits = reader->at - start;
    if (digits == 0 || (digits > 1 && reader->text[start] == '0'))
        return refuse(reader, start, what);
    *out = (uint32_t)number;
    return PEN_OK;
}

static pen_status take_kind(struct reader *reader, enum pen_op_kind *out)
{
    static const enum pen_op_kind kinds[] = {PEN_OP_FORWARD, PEN_OP_BACKWARD,
                                             PEN_OP_BACKWARD_INPUT,
                                             PEN_OP_BACKWARD_WEIGHT};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (take(reader, pen_op_info(kinds[i])->text)) {
            *out = kinds[i];
            return PEN_OK;
        }
    }
    return refuse(reader, reader->at,
                  "expected F, B, I or W: a compute-only file has no "
                  "communication");
}

static pen_status take_op(struct reader *reader, struct pen_op *op)
{
    enum pen_op_kind kind = PEN_OP_FORWARD;
    uint32_t stage = 0;
    uint32_t microbatch = 0;
    reader->op_start = reader->at;
    pen_status status =
        take_number(reader, PEN_MAX_STAGES - 1,
                    "expected a cell such as 0F3: stage, F, B, I or W, "
                    "micro-batch",
                    &stage);
    if (status == PEN_OK)
        status = take_kind(reader, &kind);
    if (status == PEN_OK)
        status =
            take_number(reader, UINT32_MAX - 2,
                        "expected the number of a micro-batch", &microbatch);
    if (status == PEN_OK)
        *op = pen_op_make(kind, stage, microbatch);
    reader->has_op = true;
    return status;
}

/*
 * Returns the group of the pair being read: it only has to differ from its
 * neighbours'.
 */
static uint16_t group_of_pair(const struct reader *reader)
{
    return (uint16_t)(reader->pairs % UINT16_MAX + 1);
}

static pen_status take_first_of_pair(struct reader *reader, struct pen_op *op)
{
    pen_status status = take_op(reader, op);
    if (status != PEN_OK)
        return status;
    if (op->kind != PEN_OP_FORWARD)
        return refuse(reader, reader->op_start,
                      "the first op of an overlapped pair must be an F");
    if (!take(reader, ";"))
        return refuse(reader, reader->at,
                      "expected ';' and a B, as in (0F3;7B1)OVERLAP_F_B");
    op->group = group_of_pair(reader);
    reader->is_in_pair = true;
    return PEN_OK;
}

static pen_status take_second_of_pair(struct reader *reader, struct pen_op *op)
{
    pen_status status = take_op(reader, op);
    if (status != PEN_OK)
        return status;
    if (op->kind != PEN_OP_BACKWARD)
        return refuse(reader, reader->op_start,
                      "the second op of an overlapped pair must be a B");
    if (!take(reader, ")OVERLAP_F_B"))
        return refuse(reader, reader->at,
                      "expected ')OVERLAP_F_B' after the two ops");
    op->group = group_of_pair(reader);
    reader->pairs++;
    reader->is_in_pair = false;
    return PEN_OK;
}

static pen_status take_cell(struct reader *reader, struct pen_op *op)
{
    pen_status status;
    if (reader->is_in_pair)
        status = take_second_of_pair(reader, op);
    else if (take(reader, "("))
        return take_first_of_pair(reader, op);
    else
        status = take_op(reader, op);
    if (status != PEN_OK)
        return status;
    skip_spaces(reader);
    char behind = next_byte(reader);
    if (behind != ',' && behind != '\r' && behind != '\n')
        return refuse(reader, reader->at, "expected ',' after a cell");
    return PEN_OK;
}

static pen_status end_row(struct reader *reader)
{
    if (!reader->has_op)
        return refuse(reader, reader->row_start,
                      "a row is a rank and needs at least one op");
    reader->has_op = false;
    reader->row++;
    reader->column = 0;
    reader->pairs = 0;
    return PEN_OK;
}

/* Reads the next op of the file; *is_end instead when there is none. */
static pen_status next_op(struct reader *reader, struct pen_op *op,
                          bool *is_end)
{
    *is_end = false;
    while (!reader->is_in_pair) {
        skip_spaces(reader);
        if (reader->at == reader->length) {
            *is_end = true;
            return reader->at == reader->row_start ? PEN_OK : end_row(reader);
        }
        if (take(reader, ",")) {
            reader->column++;
        } else if (take(reader, "\n") || take(reader, "\r\n")) {
            pen_status status = end_row(reader);
            if (status != PEN_OK)
                return status;
            reader->row_start = reader->at;
        } else {
            break;
        }
    }
    return take_cell(reader, op);
}

/* Measures the file in a first walk. */
static pen_status measure(struct reader *reader, struct pen_shape *shape)
{
    *shape = (struct pen_shape){.num_copies = 1, .num_slices = 1};
    for (;;) {
        struct pen_op op;
        bool is_end;
        pen_status status = next_op(reader, &op, &is_end);
        if (status != PEN_OK)
            return status;
        if (is_end)
            break;
        if (op.stage >= shape->num_stages)
            shape->num_stages = op.stage + 1u;
        if (op.microbatch >= shape->num_microbatches)
            shape->num_microbatches = op.microbatch + 1;
    }
    shape->num_ranks = reader->row;
    if (shape->num_ranks == 0)
        return refuse(reader, 0, "the file has no ops");
    if (shape->num_stages % shape->num_ranks == 0)
        return PEN_OK;
    pen_why(reader->why,
            "%u stages cannot be divided evenly among %u rows; each row is "
            "a rank and must have the same number of stages",
            shape->num_stages, shape->num_ranks);
    return PEN_INVALID;
}

static pen_status refuse_placement(const struct reader *reader,
                                   const struct pen_shape *shape,
                                   const struct pen_op *op)
{
    struct pen_text what = PEN_TEXT_EMPTY;
    pen_text_add(&what,
                 "stage %u of %u is not on this row of %u in a loop (row %u) "
                 "nor in a V",
                 op->stage, shape->num_stages, shape->num_ranks,
                 op->stage % shape->num_ranks + 1);
    pen_status status =
        refuse(reader, reader->op_start, pen_text_string(&what));
    pen_text_release(&what);
    return status;
}

/*
 * Finds the placement in a second walk: a loop (linear when it does not wrap)
 * or a V.
 */
static pen_status find_placement(struct reader *reader, struct pen_shape *shape)
{
    uint32_t p = shape->num_ranks;
    struct pen_shape loop = *shape;
    struct pen_shape v = *shape;
    loop.placement =
        shape->num_stages == p ? PEN_PLACEMENT_LINEAR : PEN_PLACEMENT_LOOP;
    v.placement = PEN_PLACEMENT_V;
    bool is_loop = true;
    bool is_v = shape->num_stages / p == 2;
    for (;;) {
        struct pen_op op;
        bool is_end;
        pen_status status = next_op(reader, &op, &is_end);
        PEN_BUG_UNLESS(status == PEN_OK);
        if (is_end)
            break;
        is_loop = is_loop && pen_shape_rank_of(&loop, op.stage) == reader->row;
        is_v = is_v && pen_shape_rank_of(&v, op.stage) == reader->row;
        if (!is_loop && !is_v)
            return refuse_placement(reader, shape, &op);
    }
    *shape = is_loop ? loop : v;
    return PEN_OK;
}

/* Adds the ops in a third walk. */
static pen_status add_ops(struct reader *reader, struct pen_schedule *schedule)
{
    for (;;) {
        struct pen_op op;
        bool is_end;
        pen_status status = next_op(reader, &op, &is_end);
        PEN_BUG_UNLESS(status == PEN_OK);
        if (is_end)
            return PEN_OK;
        status = pen_schedule_add(schedule, reader->row, op);
        if (status != PEN_OK) {
            pen_why(reader->why, "out of memory at row %u", reader->row + 1);
            return status;
        }
    }
}

pen_status pen_torch_csv_parse(const char *text, size_t length,
                               struct pen_schedule **out, struct pen_text *why)
{
    struct reader reader;
    struct pen_shape shape;
    reader_init(&reader, text, length, why);
    pen_status status = measure(&reader, &shape);
    if (status != PEN_OK)
        return status;
    reader_init(&reader, text, length, why);
    status = find_placement(&reader, &shape);
    if (status != PEN_OK)
        return status;
    struct pen_schedule *schedule = NULL;
    status = pen_schedule_create("imported", &shape, &schedule, why);
    if (status != PEN_OK)
        return status;
    reader_init(&reader, text, length, why);
    status = add_ops(&reader, schedule);
    if (status != PEN_OK) {
        pen_schedule_free(schedule);
        return status;
    }
    *out = schedule;
    return PEN_OK;
}
