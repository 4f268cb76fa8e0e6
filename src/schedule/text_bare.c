/*
 * Schedules as people write them down, without a header:
 *
 *   F0 F1 B0 B1          0F0 0F1 3F0 3F1 3B0 0B0 ...
 *   F0 B0 F1 B1          1F0 2F0 1F1 2F1 2B0 1B0 ...
 *
 * A line is a rank, in order; it may begin with "rank 1:". Micro-batches are
 * counted from 0 and are as many as the largest number says. An op without a
 * stage is of its rank's only one, placement linear. With stages, those are as
 * many as their largest number says, and the placement is the one in which all
 * of them are in their rows: linear, loop or v.
 */
#include "schedule/text_reader.h"

#include "base/bug.h"

#include <string.h>

/* No text has more, so numbers of any size are read before they are judged. */
static const struct pen_shape widest = {.num_stages = PEN_MAX_STAGES,
                                        .num_microbatches = UINT32_MAX - 1,
                                        .num_slices = UINT16_MAX + 1u};

/* A walk through the text, op by op; reader.rank is the row. */
struct walk {
    struct pen__reader reader;
    size_t op_start;   /* of the op read last */
    uint32_t num_rows; /* begun so far */
    bool is_in_row;    /* the line may have more ops */
    bool has_stages;   /* the first op has one; then all of them must */
    bool has_first;    /* that op was seen */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "F0", "12F0", "SYNC": what rows without a header begin with. */
static bool is_op_like(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length && is_digit(text[at]))
        at++;
    size_t letters = at;
    while (at < length && text[at] >= 'A' && text[at] <= 'Z')
        at++;
    return at > letters &&
           (at == length || !(text[at] >= 'a' && text[at] <= 'z'));
}

/* Moves like pen__reader_next_line(), but to the first line, too. */
static bool next_line(struct pen__reader *reader)
{
    bool has_line = pen__reader_next_line(reader);
    if (has_line &&
        (pen__reader_at_line_end(reader) || reader->text[reader->at] == '#'))
        has_line = pen__reader_next_line(reader);
    return has_line;
}

bool pen__text_is_bare(const char *text, size_t length)
{
    static const char magic[] = "# penstock-schedule";
    struct pen__reader reader = {.text = text, .length = length};
    if (length >= sizeof magic - 1 &&
        memcmp(text, magic, sizeof magic - 1) == 0)
        return false;
    if (!next_line(&reader))
        return false;
    return pen__reader_take_word(&reader, "rank") ||
           is_op_like(text + reader.at, reader.line_end - reader.at);
}

static void walk_init(struct walk *walk, const char *text, size_t length,
                      struct pen_text *why)
{
    *walk = (struct walk){
        .reader = {
            .text = text, .length = length, .rank = UINT32_MAX, .why = why}};
}

/* "rank 1:" before the ops of a line, if it is there. */
static pen_status take_rank(struct walk *walk)
{
    struct pen__reader *reader = &walk->reader;
    uint32_t written = 0;
    if (!pen__reader_take_word(reader, "rank"))
        return PEN_OK;
    pen__reader_skip_spaces(reader);
    pen_status status = pen__reader_take_number(
        reader, PEN_MAX_STAGES - 1, "expected the number of a rank", &written);
    if (status != PEN_OK)
        return status;
    if (written != reader->rank)
        return pen__reader_refuse(
            reader, reader->line_start,
            "ranks must be listed in order from 0, each once");
    if (reader->at == reader->line_end || reader->text[reader->at] != ':')
        return pen__reader_refuse(reader, reader->at,
                                  "expected ':' after the number of the rank");
    reader->at++;
    return PEN_OK;
}

/* Begins the row of the next line; *is_end when there is none. */
static pen_status begin_row(struct walk *walk, bool *is_end)
{
    struct pen__reader *reader = &walk->reader;
    *is_end = !next_line(reader);
    if (*is_end)
        return PEN_OK;
    reader->rank = walk->num_rows;
    if (walk->num_rows == PEN_MAX_STAGES)
        return pen__reader_refuse(reader, reader->line_start,
                                  "more ranks than a schedule can have");
    walk->num_rows++;
    walk->is_in_row = true;
    return take_rank(walk);
}

/* Checks that all ops have a stage, or none has. */
static pen_status check_style(struct walk *walk)
{
    struct pen__reader *reader = &walk->reader;
    bool has_stage = is_digit(reader->text[reader->at]);
    if (!walk->has_first)
        walk->has_stages = has_stage;
    walk->has_first = true;
    if (has_stage == walk->has_stages)
        return PEN_OK;
    return pen__reader_refuse(reader, reader->at,
                              walk->has_stages
                                  ? "the first operation has a stage, as 0F3, "
                                    "so all of them need one"
                                  : "the first operation has no stage, so none "
                                    "may have one, as F3");
}

static pen_status take_op(struct walk *walk, struct pen_op *op)
{
    struct pen__reader *reader = &walk->reader;
    pen_status status = check_style(walk);
    if (status == PEN_OK)
        status = pen__reader_take_op(
            reader, &widest, walk->has_stages ? PEN_NO_STAGE : reader->rank,
            op);
    return status;
}

/*
 * Reads the next op of the text; *is_end instead when there is none. Refuses
 * and skips wrong ops, as long as they are few.
 */
static pen_status next_op(struct walk *walk, struct pen_op *op, bool *is_end)
{
    *is_end = false;
    for (;;) {
        if (walk->is_in_row && pen__reader_at_line_end(&walk->reader))
            walk->is_in_row = false;
        if (!walk->is_in_row) {
            pen_status status = begin_row(walk, is_end);
            if (status != PEN_OK || *is_end)
                return status;
            continue;
        }
        walk->op_start = walk->reader.at;
        pen_status status = take_op(walk, op);
        if (status == PEN_OK || !pen__reader_skip_op(&walk->reader))
            return status;
    }
}

/* Measures the text in a first walk. */
static pen_status measure(struct walk *walk, struct pen_shape *shape)
{
    bool has_zero = false;
    uint64_t num_ops = 0;
    *shape = (struct pen_shape){.num_copies = 1, .num_slices = 1};
    for (;;) {
        struct pen_op op;
        bool is_end;
        pen_status status = next_op(walk, &op, &is_end);
        if (status != PEN_OK)
            return status;
        if (is_end)
            break;
        num_ops++;
        if (op.stage >= shape->num_stages)
            shape->num_stages = op.stage + 1u;
        if (op.slice >= shape->num_slices)
            shape->num_slices = op.slice + 1u;
        if (!pen_op_has_microbatch(op.kind))
            continue;
        has_zero = has_zero || op.microbatch == 0;
        if (op.microbatch >= shape->num_microbatches)
            shape->num_microbatches = op.microbatch + 1;
    }
    shape->num_ranks = walk->num_rows;
    if (!walk->has_stages)
        shape->num_stages = shape->num_ranks;
    if (walk->reader.num_refused > 0)
        return PEN_INVALID;
    if (!has_zero) {
        pen_why(walk->reader.why,
                "no operation is of micro-batch 0; micro-batches are counted "
                "from 0, as in F0 F1 B0 B1");
        return PEN_INVALID;
    }
    if (shape->num_microbatches > num_ops) {
        pen_why(walk->reader.why,
                "a micro-batch has the number %u, but there are only %llu "
                "operations; micro-batches are counted from 0",
                shape->num_microbatches - 1, (unsigned long long)num_ops);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status refuse_placement(struct walk *walk,
                                   const struct pen_shape *shape,
                                   const struct pen_op *op)
{
    struct pen_text what = PEN_TEXT_EMPTY;
    uint32_t p = shape->num_ranks;
    if (shape->num_stages % p != 0)
        pen_text_add(&what, "%u stages cannot be divided evenly among %u lines",
                     shape->num_stages, p);
    else if (shape->num_stages == p)
        pen_text_add(&what, "stage %u belongs to rank %u", op->stage,
                     op->stage);
    else
        pen_text_add(&what,
                     "stage %u of %u is on rank %u in a loop%s; a header with "
                     "a placement allows other ones",
                     op->stage, shape->num_stages, op->stage % p,
                     shape->num_stages == 2 * p ? ", and elsewhere in a V"
                                                : "");
    pen_status status = pen__reader_refuse(&walk->reader, walk->op_start,
                                           pen_text_string(&what));
    pen_text_release(&what);
    return status;
}

/*
 * Finds the placement in a second walk: a loop (linear when it does not wrap)
 * or a V.
 */
static pen_status find_placement(struct walk *walk, struct pen_shape *shape)
{
    uint32_t p = shape->num_ranks;
    struct pen_shape loop = *shape;
    struct pen_shape v = *shape;
    loop.placement =
        shape->num_stages == p ? PEN_PLACEMENT_LINEAR : PEN_PLACEMENT_LOOP;
    v.placement = PEN_PLACEMENT_V;
    bool is_loop = shape->num_stages % p == 0;
    bool is_v = shape->num_stages == 2 * p;
    for (;;) {
        struct pen_op op;
        bool is_end;
        pen_status status = next_op(walk, &op, &is_end);
        PEN_BUG_UNLESS(status == PEN_OK);
        if (is_end)
            break;
        uint32_t rank = walk->reader.rank;
        is_loop = is_loop && pen_shape_rank_of(&loop, op.stage) == rank;
        is_v = is_v && pen_shape_rank_of(&v, op.stage) == rank;
        if (!is_loop && !is_v)
            return refuse_placement(walk, shape, &op);
    }
    *shape = is_loop ? loop : v;
    return PEN_OK;
}

/* Adds the ops in a third walk. */
static pen_status add_ops(struct walk *walk, struct pen_schedule *schedule)
{
    for (;;) {
        struct pen_op op;
        bool is_end;
        pen_status status = next_op(walk, &op, &is_end);
        PEN_BUG_UNLESS(status == PEN_OK);
        if (is_end)
            return PEN_OK;
        status = pen_schedule_add(schedule, walk->reader.rank, op);
        if (status != PEN_OK) {
            pen_why(walk->reader.why, "out of memory at line %u",
                    walk->reader.line);
            return status;
        }
    }
}

pen_status pen__text_parse_bare(const char *text, size_t length,
                                struct pen_schedule **out, struct pen_text *why)
{
    struct walk walk;
    struct pen_shape shape;
    struct pen_schedule *schedule = NULL;
    walk_init(&walk, text, length, why);
    pen_status status = measure(&walk, &shape);
    if (status == PEN_OK) {
        walk_init(&walk, text, length, why);
        status = find_placement(&walk, &shape);
    }
    if (status == PEN_OK)
        status = pen_schedule_create("own", &shape, &schedule, why);
    if (status != PEN_OK)
        return status;
    walk_init(&walk, text, length, why);
    status = add_ops(&walk, schedule);
    if (status == PEN_OK)
        status = pen_schedule_mark_recomputed(schedule);
    if (status != PEN_OK) {
        pen_schedule_free(schedule);
        return status;
    }
    *out = schedule;
    return PEN_OK;
}
