/*
 * penstock schedule check: says what was proved, or all that is wrong, in the
 * words of the file: its operations, lines and columns.
 */
#include "cli/schedule/schedule.h"

#include "base/log.h"
#include "cli/program/answer.h"
#include "schedule/verify.h"

#include <string.h>

#define MOST_TOLD 20u /* mistakes; after that only their number */

/* A mistake in the file, with the byte where it is. */
struct mistake {
    size_t at;
    unsigned rule;
    uint32_t rank;
    size_t line;
    size_t column;
    struct pen_text op;     /* or empty */
    struct pen_text reason; /* without all of that */
    struct pen_text words;  /* with place and excerpt */
};

/* A file and what it became. */
struct subject {
    struct pen_schedule_file file;
    struct mistake mistakes[MOST_TOLD]; /* in the order of the file */
    uint64_t num_mistakes;
};

static const struct pen_schedule *schedule_of(const struct subject *subject)
{
    const struct pen_schedule_file *file = &subject->file;
    return file->lowered != NULL ? file->lowered : file->written;
}

static void release_mistake(struct mistake *mistake)
{
    pen_text_release(&mistake->op);
    pen_text_release(&mistake->reason);
    pen_text_release(&mistake->words);
}

static void release(struct subject *subject)
{
    for (size_t i = 0; i < MOST_TOLD; i++)
        release_mistake(&subject->mistakes[i]);
    pen_schedule_file_release(&subject->file);
}

static bool is_same(const struct pen_op *a, const struct pen_op *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/*
 * Returns whether an added message belongs to an op, which makes or consumes
 * it.
 */
static bool is_message_of(const struct pen_op *message, const struct pen_op *op)
{
    return pen_op_is_compute(op->kind) &&
           pen_op_info(op->kind)->direction ==
               pen_op_info(message->kind)->direction &&
           op->stage == message->stage &&
           op->microbatch == message->microbatch && op->slice == message->slice;
}

/*
 * Returns the place in the file's row of an op of the schedule, or the row's
 * end.
 */
static uint32_t written_place(const struct subject *subject,
                              const struct pen_finding *at)
{
    if (subject->file.lowered == NULL)
        return at->position;
    const struct pen_row *own = &subject->file.written->rows[at->rank];
    const struct pen_row *row = &subject->file.lowered->rows[at->rank];
    if (at->position >= row->count)
        return own->count;
    const struct pen_op *op = &row->ops[at->position];
    uint32_t next = 0; /* of the file: ops keep their order */
    for (uint32_t i = 0; i < at->position && next < own->count; i++)
        next += is_same(&own->ops[next], &row->ops[i]);
    if (next < own->count && is_same(&own->ops[next], op))
        return next;
    uint32_t found = 0;
    while (found < own->count && !is_message_of(op, &own->ops[found]))
        found++;
    return found;
}

static void find_place(const struct pen_text *source, struct mistake *it)
{
    size_t start = 0;
    it->line = 1;
    for (size_t i = 0; i < it->at; i++) {
        if (source->bytes[i] == '\n') {
            it->line++;
            start = i + 1;
        }
    }
    it->column = it->at - start + 1;
    size_t length = strcspn(source->bytes + it->at, " \t\r\n,;)");
    pen_text_add_printable(&it->op, source->bytes + it->at, length);
}

/* "line 2, column 7: V2: rank 1, B0: " and what is wrong. */
static void write_mistake(const struct pen_text *source, struct mistake *it)
{
    pen_text_add(&it->words, "line %zu, column %zu: V%u: ", it->line,
                 it->column, it->rule);
    if (it->rule != 4) /* the words of a deadlock name the ranks */
        pen_text_add(&it->words, "rank %u, %s: ", it->rank,
                     it->op.length > 0 ? pen_text_string(&it->op)
                                       : "end of the row");
    pen_text_add_string(&it->words, pen_text_string(&it->reason));
    pen_text_add_excerpt(&it->words, source->bytes, source->length, it->at);
}

static void take_mistake(void *context, const struct pen_finding *finding,
                         const char *words)
{
    struct subject *subject = context;
    uint64_t place = subject->num_mistakes++;
    if (place >= MOST_TOLD)
        return;
    const struct pen_text *source = &subject->file.source;
    struct mistake it = {
        .at = pen_schedule_find_op(source->bytes, source->length, finding->rank,
                                   written_place(subject, finding)),
        .rule = finding->rule,
        .rank = finding->rank};
    find_place(source, &it);
    pen_text_add_string(&it.reason, words);
    write_mistake(source, &it);
    for (; place > 0 && subject->mistakes[place - 1].at > it.at; place--)
        subject->mistakes[place] = subject->mistakes[place - 1];
    subject->mistakes[place] = it;
}

static void refuse_all(const struct subject *subject, const char *path,
                       struct pen_text *why)
{
    unsigned long long count = subject->num_mistakes;
    pen_why(why, "%s: ", path);
    if (count > 1)
        pen_why(why, "%llu mistakes", count);
    for (uint64_t i = 0; i < count && i < MOST_TOLD; i++)
        pen_why(why, "%s%s", count > 1 ? "\n" : "",
                pen_text_string(&subject->mistakes[i].words));
    if (count > MOST_TOLD)
        pen_why(why, "\nand %llu more", count - MOST_TOLD);
}

static uint32_t window_of(const struct pen__schedule_args *args,
                          const struct pen_schedule *schedule)
{
    return args->send_window != 0 ? args->send_window
                                  : pen_schedule_window(schedule);
}

static void print_proof(const struct pen__schedule_args *args,
                        const struct pen_schedule *schedule,
                        const struct pen_timing *timing, struct pen_text *out)
{
    struct pen__summary summary = pen__summarise(timing);
    pen_text_add(out,
                 "correct: %s, %llu operations on %u ranks, no deadlock with "
                 "a send window of %u, peak %.6g A on rank %u",
                 schedule->name,
                 (unsigned long long)pen_schedule_count(schedule),
                 timing->num_ranks, window_of(args, schedule), summary.peak,
                 summary.fullest);
    if (args->memory_limit != 0)
        pen_text_add(out, " (limit %.6g A)", args->memory_limit);
    pen_text_add(out, ", %u weight version%s\n", summary.versions,
                 summary.versions == 1 ? "" : "s");
}

/* ---- JSON ---- */

static json_t *mistake_json(const struct mistake *it)
{
    json_t *object = json_pack(
        "{s:I, s:I, s:I, s:I, s:s}", "line", (json_int_t)it->line, "column",
        (json_int_t)it->column, "rule", (json_int_t)it->rule, "rank",
        (json_int_t)it->rank, "message", pen_text_string(&it->reason));
    if (it->op.length > 0)
        json_object_set_new(object, "op",
                            json_string(pen_text_string(&it->op)));
    return object;
}

/*
 * Describes a file that is not a schedule: it has one mistake, and breaks no
 * rule.
 */
static json_t *unread_json(const struct pen_text *why)
{
    const char *words = pen_text_string(why);
    size_t line;
    size_t column;
    bool has_place = pen__answer_find_place(words, &line, &column);
    const char *place = strstr(words, ", column ");
    const char *reason = has_place ? strstr(place, ": ") : NULL;
    if (reason != NULL)
        words = reason + 2;
    json_t *object =
        json_pack("{s:s%}", "message", words, strcspn(words, "\n"));
    if (has_place) {
        json_object_set_new(object, "line", json_integer((json_int_t)line));
        json_object_set_new(object, "column", json_integer((json_int_t)column));
    }
    return object;
}

static json_t *mistakes_json(const struct subject *subject,
                             const struct pen_text *why)
{
    uint64_t count = subject->num_mistakes;
    json_t *list = json_array();
    for (uint64_t i = 0; i < count && i < MOST_TOLD; i++)
        pen__json_append(&list, mistake_json(&subject->mistakes[i]));
    if (count == 0)
        pen__json_append(&list, unread_json(why));
    return json_pack("{s:b, s:I, s:o}", "correct", 0, "num_mistakes",
                     (json_int_t)(count > 0 ? count : 1), "mistakes", list);
}

static json_t *proof_json(const struct pen__schedule_args *args,
                          const struct subject *subject,
                          const struct pen_timing *timing)
{
    const struct pen_schedule *schedule = schedule_of(subject);
    struct pen__summary summary = pen__summarise(timing);
    return json_pack("{s:b, s:I, s:[], s:s, s:b, s:I, s:I, s:I, s:f, s:I, s:I}",
                     "correct", 1, "num_mistakes", (json_int_t)0, "mistakes",
                     "name", schedule->name, "completed",
                     subject->file.lowered != NULL, "operations",
                     (json_int_t)pen_schedule_count(schedule), "num_ranks",
                     (json_int_t)timing->num_ranks, "send_window",
                     (json_int_t)window_of(args, schedule), "peak_activations",
                     summary.peak, "fullest_rank", (json_int_t)summary.fullest,
                     "versions", (json_int_t)summary.versions);
}

/*
 * Prints the mistakes. A file that cannot be opened has none: that is an error.
 */
static int print(const struct pen__schedule_args *args,
                 const struct subject *subject, const struct pen_timing *timing,
                 pen_status status, const struct pen_text *why)
{
    struct pen_text proof = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    if (status != PEN_OK) {
        code = pen__refuse_as(status, why);
        if (pen__answer_is_json() && status == PEN_INVALID)
            pen__print_json("schedule-check", mistakes_json(subject, why));
    } else if (pen__answer_is_json()) {
        code = pen__print_json("schedule-check",
                               proof_json(args, subject, timing));
    } else {
        print_proof(args, schedule_of(subject), timing, &proof);
        code = pen__print(&proof);
    }
    pen_text_release(&proof);
    return code;
}

static pen_status verify(const struct pen__schedule_args *args,
                         struct subject *subject, struct pen_text *why)
{
    const struct pen_verify_options rules = {.send_window = args->send_window,
                                             .memory_limit = args->memory_limit,
                                             .costs = &args->costs};
    pen_status status = pen_schedule_verify_all(schedule_of(subject), &rules,
                                                take_mistake, subject, why);
    if (status == PEN_INVALID && subject->num_mistakes > 0)
        refuse_all(subject, args->words.words[0], why);
    return status;
}

int pen__schedule_check(const struct pen__schedule_args *args)
{
    const struct pen_time_options times = {.send_window = args->send_window};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct subject subject = {.num_mistakes = 0};
    struct pen_timing *timing = NULL;
    pen_status status =
        pen_schedule_open(args->words.words[0], &subject.file, &why);
    if (status == PEN_OK && subject.file.lowered != NULL)
        pen__report_lowered(args->words.words[0]);
    if (status == PEN_OK)
        status = verify(args, &subject, &why);
    if (status == PEN_OK)
        status = pen_schedule_time(schedule_of(&subject), &args->costs, &times,
                                   &timing, &why);
    int code = print(args, &subject, timing, status, &why);
    pen_timing_free(timing);
    release(&subject);
    pen_text_release(&why);
    return code;
}
