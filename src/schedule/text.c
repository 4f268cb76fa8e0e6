/*
 * The text form of a schedule: a header, then one line per rank.
 *
 *   # penstock-schedule 1
 *   name 1f1b
 *   ranks 2 stages 2 microbatches 2 slices 1 copies 1 placement linear
 *   rank 0: 0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1 0SYNC 0STEP
 *   rank 1: 1RA0 1F0 1B0 1SG0 1RA1 1F1 1B1 1SG1 1SYNC 1STEP
 *
 * A line `rules window 4 versions 2 period 8 stale joint optimistic` comes
 * before the first rank when one of these differs from its default; with
 * `joint` it is version 2, with `optimistic` version 3, with the placement
 * `replicated 3,1` version 4, which older programs refuse. Reading forgives
 * blank lines, comments and doubled spaces; writing uses none. Rows without a
 * header are read too, text_bare.c.
 */
#include "base/bug.h"
#include "base/file.h"
#include "schedule/text_reader.h"
#include "schedule/torch_csv.h"

#include <string.h>

#define NEWEST_VERSION 5

/* Puts a number, with a mark before it, ending at `end`; returns its begin. */
static char *put_marked(char *end, char mark, uint32_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    if (mark != '\0')
        *--end = mark;
    return end;
}

/*
 * Prints from its end, as numbers come: half of a schedule's text is made here.
 */
void pen_op_print(const struct pen_op *op, struct pen_text *out)
{
    char bytes[64];
    char *end = bytes + sizeof bytes;
    char *at = end;
    if (op->group != 0)
        at = put_marked(at, '~', op->group);
    if (op->version != PEN_OP_CURRENT)
        at = put_marked(at, '@', op->version);
    if (op->slice != 0)
        at = put_marked(at, '.', op->slice);
    if (pen_op_has_microbatch(op->kind))
        at = put_marked(at, '\0', op->microbatch);
    const char *kind = pen_op_info(op->kind)->text;
    for (size_t i = strlen(kind); i > 0; i--)
        *--at = kind[i - 1];
    at = put_marked(at, '\0', op->stage);
    pen_text_add_bytes(out, at, (size_t)(end - at));
}

static void print_rules(const struct pen_schedule *schedule,
                        struct pen_text *out)
{
    const struct pen_rules *rules = &schedule->rules;
    bool is_local = schedule->shape.is_local;
    if (rules->send_window == 0 && rules->versions == 0 && rules->period == 0 &&
        !rules->is_stale && !rules->is_joint && !rules->is_optimistic &&
        !is_local)
        return;
    pen_text_add_string(out, "rules");
    if (rules->send_window != 0)
        pen_text_add(out, " window %u", rules->send_window);
    if (rules->versions != 0)
        pen_text_add(out, " versions %u", rules->versions);
    if (rules->period != 0)
        pen_text_add(out, " period %u", rules->period);
    if (rules->is_stale)
        pen_text_add_string(out, " stale");
    if (rules->is_joint)
        pen_text_add_string(out, " joint");
    if (rules->is_optimistic)
        pen_text_add_string(out, " optimistic");
    if (is_local)
        pen_text_add_string(out, " local");
    pen_text_add_string(out, "\n");
}

void pen_schedule_print(const struct pen_schedule *schedule,
                        struct pen_text *out)
{
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_rules *rules = &schedule->rules;
    bool is_replicated = shape->placement == PEN_PLACEMENT_REPLICATED;
    pen_text_add(out, "# penstock-schedule %d\nname %s\n",
                 shape->is_local        ? 5
                 : is_replicated        ? 4
                 : rules->is_optimistic ? 3
                 : rules->is_joint      ? 2
                                        : 1,
                 schedule->name);
    pen_text_add(out,
                 "ranks %u stages %u microbatches %u slices %u copies %u "
                 "placement %s",
                 shape->num_ranks, shape->num_stages, shape->num_microbatches,
                 shape->num_slices, shape->num_copies,
                 pen_placement_text(shape->placement));
    for (uint32_t i = 0; is_replicated && i < pen_shape_parts(shape); i++)
        pen_text_add(out, "%s%u", i == 0 ? " " : ",",
                     pen_shape_members(shape, i));
    pen_text_add_string(out, "\n");
    print_rules(schedule, out);
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        pen_text_add(out, "rank %u:", rank);
        for (uint32_t i = 0; i < row->count; i++) {
            pen_text_add_string(out, " ");
            pen_op_print(&row->ops[i], out);
        }
        pen_text_add_string(out, "\n");
    }
}

static pen_status read_name(struct pen__reader *reader, char *name)
{
    if (!pen__reader_next_line(reader))
        return pen__reader_refuse(reader, reader->line_end,
                                  "expected 'name ...'");
    pen_status status = pen__reader_expect_word(reader, "name");
    if (status != PEN_OK)
        return status;
    pen__reader_skip_spaces(reader);
    size_t start = reader->at;
    while (reader->at < reader->line_end &&
           !pen__reader_is_space(reader->text[reader->at]))
        reader->at++;
    size_t length = reader->at - start;
    if (!pen_schedule_name_is_valid(reader->text + start, length))
        return pen__reader_refuse(
            reader, start,
            "a name has 1 to 63 letters, digits, '.', '_' or '-'");
    memcpy(name, reader->text + start, length);
    name[length] = '\0';
    return pen__reader_expect_line_end(reader);
}

/* Counts of ranks with commas between them. */
static pen_status read_replicas(struct pen__reader *reader,
                                struct pen_shape *shape)
{
    struct pen_shape wanted = *shape;
    struct pen_text reason = PEN_TEXT_EMPTY;
    uint32_t replicas[PEN_MAX_REPLICATED];
    uint32_t count = 0;
    pen__reader_skip_spaces(reader);
    size_t start = reader->at;
    while (reader->at < reader->line_end &&
           !pen__reader_is_space(reader->text[reader->at]))
        reader->at++;
    pen_status status = pen_replicas_parse(
        reader->text + start, reader->at - start, replicas, &count, &reason);
    if (status == PEN_OK)
        status = pen_shape_replicate(&wanted, replicas, count, &reason);
    if (status == PEN_OK)
        memcpy(shape->first_ranks, wanted.first_ranks,
               sizeof shape->first_ranks);
    else
        status = pen__reader_refuse(reader, start, pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

static pen_status read_shape(struct pen__reader *reader,
                             struct pen_shape *shape)
{
    const uint32_t most = UINT32_MAX - 1;
    if (!pen__reader_next_line(reader))
        return pen__reader_refuse(reader, reader->line_end,
                                  "expected 'ranks ...'");
    pen_status status = pen__reader_take_field(reader, "ranks", PEN_MAX_STAGES,
                                               &shape->num_ranks);
    if (status == PEN_OK)
        status = pen__reader_take_field(reader, "stages", PEN_MAX_STAGES,
                                        &shape->num_stages);
    if (status == PEN_OK)
        status = pen__reader_take_field(reader, "microbatches", most,
                                        &shape->num_microbatches);
    if (status == PEN_OK)
        status = pen__reader_take_field(reader, "slices", UINT16_MAX + 1u,
                                        &shape->num_slices);
    if (status == PEN_OK)
        status = pen__reader_take_field(reader, "copies", PEN_MAX_STAGES,
                                        &shape->num_copies);
    if (status == PEN_OK)
        status = pen__reader_expect_word(reader, "placement");
    if (status != PEN_OK)
        return status;
    pen__reader_skip_spaces(reader);
    size_t start = reader->at;
    while (reader->at < reader->line_end &&
           !pen__reader_is_space(reader->text[reader->at]))
        reader->at++;
    if (!pen_placement_parse(reader->text + start, reader->at - start,
                             &shape->placement) ||
        (shape->placement == PEN_PLACEMENT_REPLICATED && reader->version < 4))
        return pen__reader_refuse(
            reader, start,
            reader->version < 4
                ? "a placement is linear, loop, v, wave, bidirectional, "
                  "bidirectional-v or cyclic"
                : "a placement is linear, loop, v, wave, bidirectional, "
                  "bidirectional-v, cyclic or replicated N,N,...");
    if (shape->placement == PEN_PLACEMENT_REPLICATED)
        status = read_replicas(reader, shape);
    if (status != PEN_OK)
        return status;
    return pen__reader_expect_line_end(reader);
}

/* Reads the optional line of rules; the reader is after its first word. */
static pen_status read_rules(struct pen__reader *reader,
                             struct pen_schedule *schedule)
{
    struct pen_rules *rules = &schedule->rules;
    const struct {
        const char *word;
        uint32_t *value;
    } fields[] = {{"window", &rules->send_window},
                  {"versions", &rules->versions},
                  {"period", &rules->period}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!pen__reader_take_word(reader, fields[i].word))
            continue;
        pen__reader_skip_spaces(reader);
        size_t start = reader->at;
        pen_status status = pen__reader_take_number(
            reader, UINT32_MAX - 1, "expected a number of at least 1",
            fields[i].value);
        if (status != PEN_OK)
            return status;
        if (*fields[i].value == 0)
            return pen__reader_refuse(reader, start,
                                      "expected a number of at least 1");
    }
    rules->is_stale = pen__reader_take_word(reader, "stale");
    rules->is_joint =
        reader->version > 1 && pen__reader_take_word(reader, "joint");
    rules->is_optimistic =
        reader->version > 2 && pen__reader_take_word(reader, "optimistic");
    schedule->shape.is_local =
        reader->version > 4 && pen__reader_take_word(reader, "local");
    if (pen__reader_at_line_end(reader))
        return PEN_OK;
    return pen__reader_refuse(
        reader, reader->at,
        reader->version > 4 ? "rules are 'window N', 'versions N', 'period N', "
                              "'stale', 'joint', 'optimistic' and 'local', "
                              "in this order"
        : reader->version > 2
            ? "rules are 'window N', 'versions N', 'period N', "
              "'stale', 'joint' and 'optimistic', in this order"
        : reader->version > 1
            ? "rules are 'window N', 'versions N', 'period N', "
              "'stale' and 'joint', in this order"
            : "rules are 'window N', 'versions N', 'period N' and "
              "'stale', in this order");
}

static pen_status read_row(struct pen__reader *reader, uint32_t rank,
                           struct pen_schedule *schedule)
{
    uint32_t written = 0;
    pen_status status =
        pen__reader_take_field(reader, "rank", PEN_MAX_STAGES - 1, &written);
    if (status != PEN_OK)
        return status;
    if (written != rank)
        return pen__reader_refuse(
            reader, reader->line_start,
            "ranks must be listed in order from 0, each once");
    reader->rank = rank;
    if (reader->at == reader->line_end || reader->text[reader->at] != ':')
        return pen__reader_refuse(reader, reader->at,
                                  "expected ':' after the number of the rank");
    reader->at++;
    while (!pen__reader_at_line_end(reader)) {
        struct pen_op op;
        status =
            pen__reader_take_op(reader, &schedule->shape, PEN_NO_STAGE, &op);
        if (status != PEN_OK && !pen__reader_skip_op(reader))
            return status;
        if (status != PEN_OK)
            continue;
        status = pen_schedule_add(schedule, rank, op);
        if (status != PEN_OK) {
            pen_why(reader->why, "out of memory at line %u", reader->line);
            return status;
        }
    }
    reader->rank = UINT32_MAX;
    return PEN_OK;
}

static pen_status read_rows(struct pen__reader *reader,
                            struct pen_schedule *schedule)
{
    bool has_line = pen__reader_next_line(reader);
    if (has_line && pen__reader_take_word(reader, "rules")) {
        pen_status status = read_rules(reader, schedule);
        if (status != PEN_OK)
            return status;
        has_line = pen__reader_next_line(reader);
    }
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        if (!has_line && reader->num_refused > 0)
            return PEN_INVALID;
        if (!has_line)
            return pen__reader_refuse(reader, reader->line_end,
                                      "the text ends before the last rank");
        pen_status status = read_row(reader, rank, schedule);
        if (status != PEN_OK)
            return status;
        has_line = pen__reader_next_line(reader);
    }
    if (has_line)
        return pen__reader_refuse(reader, reader->line_start,
                                  "unexpected text after the last rank");
    return reader->num_refused == 0 ? PEN_OK : PEN_INVALID;
}

pen_status pen_schedule_parse(const char *text, size_t length,
                              struct pen_schedule **out, struct pen_text *why)
{
    static const char magic[] = "# penstock-schedule ";
    struct pen__reader reader = {
        .text = text, .length = length, .rank = UINT32_MAX, .why = why};
    size_t at = sizeof magic - 1;
    pen__reader_next_line(&reader);
    if (pen__text_is_bare(text, length))
        return pen__text_parse_bare(text, length, out, why);
    if (reader.line_end <= at || memcmp(text, magic, at) != 0 ||
        text[at] < '1' || text[at] > '0' + NEWEST_VERSION)
        return pen__reader_refuse(
            &reader, 0,
            "a schedule must begin with '# penstock-schedule 1', 2, 3, 4 "
            "or 5, or have operations only, a line per rank, as F0 F1 B0 B1");
    reader.version = (uint32_t)(text[at] - '0');
    reader.at = at + 1;
    pen_status status = pen__reader_expect_line_end(&reader);
    char name[PEN_SCHEDULE_NAME_MAX + 1];
    struct pen_shape shape = {.num_ranks = 0};
    if (status == PEN_OK)
        status = read_name(&reader, name);
    if (status == PEN_OK)
        status = read_shape(&reader, &shape);
    if (status != PEN_OK)
        return status;
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    status = pen_schedule_create(name, &shape, &schedule, &reason);
    if (status != PEN_OK) {
        pen__reader_refuse(&reader, reader.line_start,
                           pen_text_string(&reason));
        pen_text_release(&reason);
        return status;
    }
    status = read_rows(&reader, schedule);
    if (status == PEN_OK)
        status = pen_schedule_mark_recomputed(schedule);
    if (status != PEN_OK) {
        pen_schedule_free(schedule);
        return status;
    }
    *out = schedule;
    return PEN_OK;
}

static pen_status parse_csv(void *out, const char *bytes, size_t length,
                            struct pen_text *why)
{
    return pen_torch_csv_parse(bytes, length, out, why);
}

static pen_status parse_text(void *out, const char *bytes, size_t length,
                             struct pen_text *why)
{
    return pen_schedule_parse(bytes, length, out, why);
}

pen_status pen_schedule_load(const char *path, struct pen_schedule **out,
                             struct pen_text *why)
{
    return pen_file_parse(path, PEN_SCHEDULE_MOST_BYTES,
                          pen_torch_csv_is_path(path) ? parse_csv : parse_text,
                          out, why);
}

pen_status pen_schedule_save(const struct pen_schedule *schedule,
                             const char *path, struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (pen_torch_csv_is_path(path))
        status = pen_torch_csv_print(schedule, &text, why);
    else
        pen_schedule_print(schedule, &text);
    if (status == PEN_OK)
        status = pen_file_write_text(path, &text, why);
    pen_text_release(&text);
    return status;
}

/* Cells of the row from `from` to `to`; the cell at `mark` in brackets. */
static size_t print_cells(const struct pen_row *row, uint32_t from, uint32_t to,
                          uint32_t mark, struct pen_text *out)
{
    size_t column = 0;
    size_t start = out->length;
    pen_text_add_string(out, from > 0 ? " ..." : "");
    for (uint32_t i = from; i < to; i++) {
        bool is_marked = i == mark;
        pen_text_add_string(out, is_marked ? " [" : " ");
        if (is_marked)
            column = out->length - start;
        pen_op_print(&row->ops[i], out);
        pen_text_add_string(out, is_marked ? "]" : "");
    }
    pen_text_add_string(out, to < row->count ? " ...\n" : "\n");
    return column;
}

void pen_schedule_print_around(const struct pen_schedule *schedule,
                               uint32_t rank, uint32_t position,
                               struct pen_text *out)
{
    const uint32_t near_ops = 6;
    const uint32_t near_ranks = 2;
    uint32_t p = schedule->shape.num_ranks;
    uint32_t first = rank > near_ranks ? rank - near_ranks : 0;
    uint32_t last = rank + near_ranks < p ? rank + near_ranks : p - 1;
    for (uint32_t r = first; r <= last; r++) {
        const struct pen_row *row = &schedule->rows[r];
        uint32_t from = position > near_ops ? position - near_ops : 0;
        if (from > row->count)
            from = row->count;
        uint32_t to = position + near_ops + 1;
        if (to > row->count)
            to = row->count;
        size_t start = out->length;
        pen_text_add(out, "  rank %u:", r);
        size_t head = out->length - start;
        uint32_t mark = r == rank ? position : UINT32_MAX;
        size_t column = print_cells(row, from, to, mark, out);
        if (r == rank && position < row->count) {
            pen_text_add_repeat(out, ' ', head + column);
            pen_text_add_string(out, "^\n");
        }
    }
}
