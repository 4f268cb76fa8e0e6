/*
 * Calls of a job, one row per rank; waiting for the last rank is the darkest.
 *
 *      4 of 4 ranks, calls 1 to 8                        waited
 *      fault: rank 2 skipped #8 of group 0, ...
 *                                     #8
 *      rank 0    ####|  ##|   #|  |   ////////////       20 ms
 *      rank 1      ##|  ##|   #|  |   ////////////       18 ms
 *      rank 2        |    |    |  |   [X]                 1 ms
 *               |----|----|----|----|  time (ms)
 */
#include "view/calls_draw.h"

#include "view/calls_window.h"
#include "view/cells.h"
#include "view/ink.h"
#include "view/picture.h"
#include "view/rank_rows.h"

#include <math.h>
#include <string.h>

#define MARGIN 14.0
#define LEFT 54.0
#define RIGHT 52.0
#define PLOT_WIDTH 860.0
#define TITLE_HEIGHT 18.0
#define LINE_HEIGHT 14.0
#define NUMBER_HEIGHT 14.0
#define AXIS_HEIGHT 40.0
#define LEGEND_HEIGHT 16.0
#define SENTENCE_SIZE 10.0
#define LEAST_WIDTH 1.4 /* of a call whose end is not recorded */

static const struct pen__colour waiting = {0.76, 0.18, 0.24};
static const struct pen__colour collective = {0.36, 0.55, 0.78};
static const struct pen__colour message = {0.35, 0.62, 0.40};
static const struct pen__colour pending = {0.93, 0.76, 0.45};
static const struct pen__colour fault_colour = {0.62, 0.05, 0.10};

struct drawing {
    const struct pen_calls_picture *given;
    const struct pen_calls *calls;
    const struct pen_call_fault *fault; /* or NULL */
    struct pen__calls_window window;
    struct pen__unit unit;
    struct pen__box plot;
    double pitch;
    double cell_height;
    bool has_messages;
};

/* ---- places */

static double x_at(const struct drawing *drawing, int64_t at_ns)
{
    double sec = 1e-9 * (double)(at_ns - drawing->window.begin_ns);
    double share = sec / drawing->window.sec;
    return drawing->plot.x + fmin(fmax(share, 0), 1) * drawing->plot.width;
}

static double y_at(const struct drawing *drawing, uint32_t rank)
{
    return drawing->plot.y + rank * drawing->pitch;
}

static void add_box(struct pen__canvas *canvas, const struct drawing *drawing,
                    uint32_t rank, int64_t from_ns, int64_t to_ns)
{
    double x = x_at(drawing, from_ns);
    const struct pen__box box = {x, y_at(drawing, rank),
                                 fmax(x_at(drawing, to_ns) - x, LEAST_WIDTH),
                                 drawing->cell_height};
    pen__add_box(canvas, &box);
}

static int64_t begin_of(const struct pen_call_rank *rank,
                        const struct pen_call *call)
{
    return call->begin_ns + rank->shift_ns;
}

static bool is_seen(const struct drawing *drawing, int64_t begin_ns,
                    int64_t end_ns)
{
    return end_ns >= drawing->window.begin_ns &&
           begin_ns <= drawing->window.end_ns;
}

/* ---- meetings */

/*
 * Returns whether a rank is marked: without a fault, the rank that the others
 * waited for.
 */
static bool is_marked(const struct drawing *drawing, uint32_t rank)
{
    const struct pen_call_fault *fault = drawing->fault;
    uint32_t late = drawing->given->waits->late_line;
    if (fault == NULL)
        return late != PEN_CALL_NOBODY &&
               drawing->calls->ranks[late].rank == rank;
    for (uint32_t i = 0; i < fault->num_ranks; i++) {
        if (fault->ranks[i] == rank)
            return true;
    }
    return false;
}

/* The parts of a call: until the last rank came, and after that. */
enum part { PART_WAITING, PART_BODY, PART_PENDING };

static bool is_fault_meeting(const struct drawing *drawing,
                             const struct pen_meeting *meeting)
{
    return drawing->fault != NULL && drawing->fault->meeting == meeting;
}

static void add_meeting(struct pen__canvas *canvas,
                        const struct drawing *drawing,
                        const struct pen_meeting *meeting, enum part part)
{
    const struct pen_meetings *meetings = drawing->given->meetings;
    bool is_fault = is_fault_meeting(drawing, meeting);
    uint32_t line;
    int64_t last_ns = 0;
    bool has_last = pen_meeting_last(meetings, meeting, &line, &last_ns);
    for (uint32_t i = 0; i < meeting->count; i++) {
        const struct pen_call_rank *rank =
            pen_meeting_rank(meetings, meeting, i);
        const struct pen_call *call = pen_meeting_call(meetings, meeting, i);
        int64_t begin = begin_of(rank, call);
        int64_t ready = has_last && !is_fault ? last_ns : begin;
        int64_t end = call->end_ns == 0 ? ready : call->end_ns + rank->shift_ns;
        if (!is_seen(drawing, begin, is_fault ? INT64_MAX : end))
            continue;
        if (part == PART_WAITING && ready > begin)
            add_box(canvas, drawing, rank->rank, begin, ready);
        else if (part == PART_BODY && !is_fault)
            add_box(canvas, drawing, rank->rank, ready, end);
        else if (part == PART_PENDING && is_fault)
            add_box(canvas, drawing, rank->rank, begin, drawing->window.end_ns);
    }
}

static void draw_meetings(struct pen__canvas *canvas,
                          const struct drawing *drawing, enum part part,
                          struct pen__colour colour)
{
    const struct pen_meetings *meetings = drawing->given->meetings;
    for (size_t i = 0; i < meetings->count; i++)
        add_meeting(canvas, drawing, &meetings->list[i], part);
    pen__use_colour(canvas, colour);
    pen__fill(canvas);
}

/* ---- messages */

static void add_message(struct pen__canvas *canvas,
                        const struct drawing *drawing,
                        const struct pen_call *call,
                        const struct pen_call *other, uint32_t number,
                        enum part part)
{
    const struct pen_call_rank *rank = pen_calls_find(drawing->calls, number);
    if (call == NULL || rank == NULL)
        return;
    int64_t begin = begin_of(rank, call);
    int64_t ready = begin;
    const struct pen_call_rank *peer =
        pen_calls_find(drawing->calls, call->peer);
    bool is_fault = drawing->fault != NULL && drawing->fault->right == call;
    if (call->op == PEN_CALL_RECV && other != NULL && peer != NULL &&
        begin_of(peer, other) > begin)
        ready = begin_of(peer, other);
    int64_t end = call->end_ns == 0 ? ready : call->end_ns + rank->shift_ns;
    if (!is_seen(drawing, begin, is_fault ? INT64_MAX : end))
        return;
    if (part == PART_WAITING && ready > begin)
        add_box(canvas, drawing, number, begin, ready);
    else if (part == PART_BODY && !is_fault)
        add_box(canvas, drawing, number, ready, end);
    else if (part == PART_PENDING && is_fault)
        add_box(canvas, drawing, number, begin, drawing->window.end_ns);
}

static void draw_messages(struct pen__canvas *canvas,
                          const struct drawing *drawing, enum part part,
                          struct pen__colour colour)
{
    const struct pen_meetings *meetings = drawing->given->meetings;
    for (size_t i = 0; i < meetings->num_messages; i++) {
        const struct pen_message *at = &meetings->messages[i];
        add_message(canvas, drawing, at->send, at->recv, at->from, part);
        add_message(canvas, drawing, at->recv, at->send, at->to, part);
    }
    pen__use_colour(canvas, colour);
    pen__fill(canvas);
}

/* ---- the fault */

/* Returns when the rank made the wrong call, or was missed. */
static int64_t fault_begin(const struct drawing *drawing, uint32_t rank)
{
    const struct pen_call_fault *fault = drawing->fault;
    const struct pen_call_rank *found = pen_calls_find(drawing->calls, rank);
    const struct pen_call *call =
        fault->meeting == NULL || found == NULL
            ? NULL
            : pen_meeting_find(drawing->given->meetings, fault->meeting, rank);
    return call == NULL ? drawing->window.fault_ns : begin_of(found, call);
}

static void draw_cross(struct pen__canvas *canvas,
                       const struct drawing *drawing, uint32_t rank)
{
    double x = x_at(drawing, fault_begin(drawing, rank));
    double y = y_at(drawing, rank);
    double size = fmax(drawing->cell_height, 6);
    double top = y + drawing->cell_height / 2 - size / 2;
    const struct pen__box box = {x, top, size, size};
    pen__add_box(canvas, &box);
    pen__use_grey(canvas, 1);
    pen__fill(canvas);
    pen__add_box(canvas, &box);
    pen__add_line(canvas, x, top, x + size, top + size);
    pen__add_line(canvas, x, top + size, x + size, top);
    pen__use_colour(canvas, fault_colour);
    pen__stroke(canvas, fmin(1.6, size / 4));
}

/* Draws a line through all rows, with the number of the call on top. */
static void draw_fault(struct pen__canvas *canvas,
                       const struct drawing *drawing)
{
    const struct pen_call_fault *fault = drawing->fault;
    struct pen_text text = PEN_TEXT_EMPTY;
    if (fault == NULL)
        return;
    double x = x_at(drawing, drawing->window.fault_ns);
    pen__add_line(canvas, x, drawing->plot.y - 4, x,
                  drawing->plot.y + drawing->plot.height);
    pen__use_colour(canvas, fault_colour);
    pen__stroke(canvas, 0.6);
    for (uint32_t i = 0; i < fault->num_ranks; i++)
        draw_cross(canvas, drawing, fault->ranks[i]);
    if (fault->meeting != NULL)
        pen_text_add(&text, "#%llu %s",
                     (unsigned long long)fault->meeting->number,
                     pen_call_op_info(fault->right->op)->words);
    else if (fault->message != NULL)
        pen_text_add(&text, "message %u from rank %u to rank %u",
                     fault->message->number, fault->message->from,
                     fault->message->to);
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, true);
    pen__use_colour(canvas, fault_colour);
    bool is_right = x > drawing->plot.x + drawing->plot.width / 2;
    pen__write(canvas, x + (is_right ? -4 : 4), drawing->plot.y - 5,
               is_right ? PEN__RIGHT : PEN__LEFT, pen_text_string(&text));
    pen_text_release(&text);
}

/* ---- texts */

static void write_row(struct pen__canvas *canvas, const struct drawing *drawing,
                      uint32_t row)
{
    uint32_t rank = row;
    const struct pen_call_rank *found = pen_calls_find(drawing->calls, rank);
    bool is_bold = is_marked(drawing, rank);
    uint32_t every;
    double size = pen__rows_type_size(drawing->pitch, &every);
    double y = y_at(drawing, rank) + drawing->cell_height / 2 + size * 0.36;
    double right = drawing->plot.x + drawing->plot.width;
    struct pen_text text = PEN_TEXT_EMPTY;
    if (row % every != 0 && !is_bold)
        return;
    pen_text_add(&text, "rank %u", rank);
    pen__use_font(canvas, size, is_bold);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    if (is_bold)
        pen__use_colour(canvas, fault_colour);
    pen__write(canvas, drawing->plot.x - 5, y, PEN__RIGHT,
               pen_text_string(&text));
    pen_text_clear(&text);
    pen__use_font(canvas, size, false);
    pen__use_grey(canvas, PEN__QUIET_GREY);
    if (found == NULL)
        pen_text_add(&text, "no record");
    else
        pen_text_add(&text, "%.3g",
                     drawing->given->waits->ranks[found - drawing->calls->ranks]
                             .waited_sec *
                         drawing->unit.per_sec);
    pen__write(canvas, right + RIGHT - 2, y, PEN__RIGHT,
               pen_text_string(&text));
    pen_text_release(&text);
}

/*
 * Writes a sentence in lines of this width; NULL: only counts them. Returns
 * the number of lines.
 */
static uint32_t write_sentence(struct pen__canvas *canvas, double x, double y,
                               bool is_written, const char *sentence)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    uint32_t lines = 0;
    while (*sentence != '\0') {
        size_t length = 0;
        do {
            size_t word = strcspn(sentence + length + (length > 0), " ");
            size_t longer = length + (length > 0) + word;
            pen_text_clear(&line);
            pen_text_add_bytes(&line, sentence, longer);
            if (length > 0 &&
                pen__text_width(canvas, pen_text_string(&line)) > PLOT_WIDTH)
                break;
            length = longer;
        } while (sentence[length] != '\0');
        pen_text_clear(&line);
        pen_text_add_bytes(&line, sentence, length);
        if (is_written)
            pen__write(canvas, x, y + lines * LINE_HEIGHT, PEN__LEFT,
                       pen_text_string(&line));
        lines++;
        sentence += length;
        sentence += strspn(sentence, " ");
    }
    pen_text_release(&line);
    return lines;
}

static uint32_t count_lines(const struct pen_calls_picture *given)
{
    struct pen__canvas measure = {.kind = NULL};
    uint32_t lines = 0;
    for (size_t i = 0; i < given->num_sentences; i++) {
        pen__use_font(&measure, SENTENCE_SIZE, i == 0);
        lines += write_sentence(&measure, 0, 0, false, given->sentences[i]);
    }
    return lines;
}

static void add_title(const struct drawing *drawing, struct pen_text *out)
{
    pen_text_add(out, "%u of %u ranks, %zu collectives, %zu messages",
                 drawing->calls->num_ranks, drawing->calls->world,
                 drawing->given->meetings->count,
                 drawing->given->meetings->num_messages);
    if (drawing->window.is_cut)
        pen_text_add(out, "; shown: the last %.3g %s before the %s",
                     drawing->window.sec * drawing->unit.per_sec,
                     drawing->unit.name,
                     drawing->fault != NULL ? "fault" : "longest waiting");
}

static void write_head(struct pen__canvas *canvas,
                       const struct drawing *drawing)
{
    const struct pen_calls_picture *given = drawing->given;
    double x = drawing->plot.x;
    double y = MARGIN + 10;
    struct pen_text text = PEN_TEXT_EMPTY;
    add_title(drawing, &text);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen__write_within(canvas, x, y, PLOT_WIDTH, 11, true,
                      pen_text_string(&text));
    y += TITLE_HEIGHT;
    for (size_t i = 0; i < given->num_sentences; i++) {
        pen__use_font(canvas, SENTENCE_SIZE, i == 0);
        pen__use_grey(canvas, PEN__TEXT_GREY);
        if (i == 0 && drawing->fault != NULL)
            pen__use_colour(canvas, fault_colour);
        y += LINE_HEIGHT *
             write_sentence(canvas, x, y, true, given->sentences[i]);
    }
    pen_text_clear(&text);
    pen_text_add(&text, "waited %s", drawing->unit.name);
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    pen__use_grey(canvas, PEN__QUIET_GREY);
    pen__write(canvas, x + PLOT_WIDTH + RIGHT - 2, drawing->plot.y - 5,
               PEN__RIGHT, pen_text_string(&text));
    pen_text_release(&text);
}

static void draw_legend(struct pen__canvas *canvas,
                        const struct drawing *drawing)
{
    double x = drawing->plot.x;
    double y = drawing->plot.y + drawing->plot.height + AXIS_HEIGHT;
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    x = pen__rows_sample(canvas, x, y, waiting, "waits for the last rank");
    x = pen__rows_sample(canvas, x, y, collective, "collective");
    if (drawing->has_messages)
        x = pen__rows_sample(canvas, x, y, message, "send or receive");
    if (drawing->fault != NULL) {
        x = pen__rows_sample(canvas, x, y, pending, "in the call of the fault");
        pen__use_colour(canvas, fault_colour);
        pen__write(canvas, x, y + 7.8, PEN__LEFT, "crossed box: at fault");
    }
}

static void draw(struct pen__canvas *canvas, const void *context)
{
    const struct drawing *drawing = context;
    write_head(canvas, drawing);
    for (uint32_t rank = 0; rank < drawing->calls->world; rank++) {
        double y = y_at(drawing, rank) + drawing->cell_height / 2;
        pen__add_line(canvas, drawing->plot.x, y, drawing->plot.x + PLOT_WIDTH,
                      y);
    }
    pen__use_grey(canvas, 0.88);
    pen__stroke(canvas, 0.4);
    draw_meetings(canvas, drawing, PART_PENDING, pending);
    draw_messages(canvas, drawing, PART_PENDING, pending);
    draw_meetings(canvas, drawing, PART_WAITING, waiting);
    draw_messages(canvas, drawing, PART_WAITING, waiting);
    draw_meetings(canvas, drawing, PART_BODY, collective);
    draw_messages(canvas, drawing, PART_BODY, message);
    draw_fault(canvas, drawing);
    for (uint32_t rank = 0; rank < drawing->calls->world; rank++)
        write_row(canvas, drawing, rank);
    pen__rows_axis(canvas, &drawing->plot, drawing->window.sec, &drawing->unit);
    draw_legend(canvas, drawing);
}

static pen_status check(const struct pen_calls_picture *picture,
                        const char *path, struct pen_text *why)
{
    uint32_t world = picture->meetings->calls->world;
    if (world > PEN__ROWS_MOST) {
        pen_why(why,
                "a drawing of %u ranks would be unreadable; the limit is %u",
                world, PEN__ROWS_MOST);
        return PEN_INVALID;
    }
    return pen__picture_check(path, why);
}

pen_status pen_calls_draw(const struct pen_calls_picture *picture,
                          const char *path, struct pen_text *why)
{
    pen_status status = check(picture, path, why);
    if (status != PEN_OK)
        return status;
    const struct pen_calls *calls = picture->meetings->calls;
    struct drawing drawing = {
        .given = picture,
        .calls = calls,
        .fault = picture->faults->count > 0 ? &picture->faults->list[0] : NULL,
        .pitch = pen__rows_pitch(calls->world),
        .has_messages = picture->meetings->num_messages > 0};
    double top = MARGIN + TITLE_HEIGHT + 4 + NUMBER_HEIGHT +
                 LINE_HEIGHT * count_lines(picture);
    pen__calls_window_find(picture->meetings, drawing.fault, &drawing.window);
    drawing.unit = pen__unit_of(drawing.window.sec);
    drawing.cell_height = drawing.pitch * 0.8;
    drawing.plot = (struct pen__box){MARGIN + LEFT, top, PLOT_WIDTH,
                                     calls->world * drawing.pitch};
    struct pen_text name = PEN_TEXT_EMPTY;
    add_title(&drawing, &name);
    for (size_t i = 0; i < picture->num_sentences; i++)
        pen_text_add(&name, ". %s", picture->sentences[i]);
    const struct pen__picture page = {
        .width = 2 * MARGIN + LEFT + PLOT_WIDTH + RIGHT,
        .height =
            top + drawing.plot.height + AXIS_HEIGHT + LEGEND_HEIGHT + MARGIN,
        .draw = draw,
        .context = &drawing,
        .name = pen_text_string(&name)};
    status = pen__picture_write(&page, path, why);
    pen_text_release(&name);
    return status;
}
