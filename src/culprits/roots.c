#include "culprits/roots.h"

#include <math.h>
#include <stdlib.h>

pen_status pen__blame_init(struct pen__blame *blame,
                           const struct pen__case *matter)
{
    uint32_t lines = matter->measured->num_lines;
    *blame = (struct pen__blame){.num_lines = lines,
                                 .num_roots = PEN__ROOT_LINK * lines +
                                              pen__num_links(matter->measured)};
    blame->roots = calloc(blame->num_roots, sizeof *blame->roots);
    return blame->roots == NULL ? PEN_NOMEM : PEN_OK;
}

void pen__blame_clear(struct pen__blame *blame)
{
    for (uint32_t i = 0; i < blame->num_roots; i++)
        blame->roots[i] = (struct pen__root){0, 0};
}

void pen__blame_release(struct pen__blame *blame)
{
    free(blame->roots);
    *blame = (struct pen__blame){.roots = NULL};
}

enum pen__root_kind pen__root_kind_of(const struct pen__blame *blame,
                                      uint32_t root)
{
    uint32_t kind = root / blame->num_lines;
    return kind < PEN__ROOT_LINK ? (enum pen__root_kind)kind : PEN__ROOT_LINK;
}

uint32_t pen__root_index(const struct pen__blame *blame, uint32_t root)
{
    return root - pen__root_kind_of(blame, root) * blame->num_lines;
}

static void add(struct pen__blame *blame, enum pen__root_kind kind,
                uint32_t index, double sec, double excess_sec)
{
    struct pen__root *root = &blame->roots[kind * blame->num_lines + index];
    root->sec += sec;
    root->excess_sec += excess_sec;
}

double pen__expected_sec(const struct pen__case *matter, uint32_t line,
                         uint32_t position)
{
    if (matter->predicted == NULL)
        return NAN;
    uint32_t row = pen__row_of_line(matter->measured, line);
    const struct pen__span *span = &matter->predicted->spans[row][position];
    unsigned kind = matter->measured->schedule->rows[row].ops[position].kind;
    double sec = span->end_sec - span->ready_sec;
    return pen__is_work(kind) ? sec * matter->scale : sec;
}

/* Returns how long the wire alone takes. */
static double wire_sec(const struct pen__case *matter, uint32_t link)
{
    struct pen__link ends = pen__link_at(matter->measured, link);
    return ends.direction == PEN_DIRECTION_ACT
               ? matter->costs->latency_sec[ends.stage] +
                     matter->costs->transfer_sec[ends.stage]
               : matter->costs->latency_back_sec[ends.stage] +
                     matter->costs->transfer_back_sec[ends.stage];
}

double pen__expected_transit_sec(const struct pen__case *matter, uint32_t line,
                                 uint32_t position, uint32_t link)
{
    if (matter->predicted == NULL)
        return NAN;
    uint32_t row = pen__row_of_line(matter->measured, line);
    const struct pen__span *span = &matter->predicted->spans[row][position];
    struct pen__source source =
        pen__source_of(matter->sources, matter->predicted, row, position);
    double sec = wire_sec(matter, link);
    /* The message may have been predicted to queue for the link. */
    bool has_waited = span->ready_sec > span->begin_sec;
    return has_waited ? fmax(sec, span->ready_sec - source.at_sec) : sec;
}

static unsigned kind_at(const struct pen__case *matter, uint32_t line,
                        uint32_t position)
{
    uint32_t row = pen__row_of_line(matter->measured, line);
    return matter->measured->schedule->rows[row].ops[position].kind;
}

/*
 * Returns the root of the time that an op works; sends and the like count as
 * time between ops.
 */
static enum pen__root_kind root_of_work(unsigned kind)
{
    if (pen__is_work(kind))
        return PEN__ROOT_WORK;
    return kind == PEN_OP_SYNC_GRAD ? PEN__ROOT_SYNC : PEN__ROOT_BETWEEN;
}

/*
 * Returns the root of the time that an op waits without depending on another
 * rank.
 */
static enum pen__root_kind root_of_own_wait(unsigned kind)
{
    return kind == PEN_OP_SYNC_GRAD || kind == PEN_OP_STEP ? PEN__ROOT_SYNC
                                                           : PEN__ROOT_BETWEEN;
}

static uint32_t row_length(const struct pen__case *matter, uint32_t line)
{
    uint32_t row = pen__row_of_line(matter->measured, line);
    return matter->measured->schedule->rows[row].count;
}

/*
 * Returns the first op of the line that ends after this time, or the count of
 * its ops.
 */
static uint32_t first_op_ending_after(const struct pen__case *matter,
                                      uint32_t line, double at_sec)
{
    const struct pen__span *spans = matter->measured->spans[line];
    uint32_t low = 0;
    uint32_t high = row_length(matter, line);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (spans[middle].end_sec > at_sec)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct stretch {
    double from_sec;
    double to_sec;
};

static double overlap(const struct stretch *stretch, double from_sec,
                      double to_sec)
{
    return fmax(0, fmin(stretch->to_sec, to_sec) -
                       fmax(stretch->from_sec, from_sec));
}

static void blame_line(struct pen__blame *blame, const struct pen__case *matter,
                       uint32_t line, struct stretch stretch, uint32_t depth);

/* Blames the part of the stretch in which this op waited. */
static void blame_waiting(struct pen__blame *blame,
                          const struct pen__case *matter, uint32_t line,
                          uint32_t position, struct stretch stretch,
                          uint32_t depth)
{
    struct pen__source source =
        pen__source_of(matter->sources, matter->measured, line, position);
    double sec = overlap(&stretch, source.at_sec, INFINITY);
    switch (source.kind) {
    case PEN__SOURCE_NONE:
        add(blame, root_of_own_wait(kind_at(matter, line, position)), line,
            stretch.to_sec - stretch.from_sec, 0);
        return;
    case PEN__SOURCE_WINDOW:
        blame_line(blame, matter, source.line, stretch, depth + 1);
        return;
    case PEN__SOURCE_GROUP:
        add(blame, PEN__ROOT_SYNC, source.line, sec, 0);
        break;
    case PEN__SOURCE_MESSAGE:
        add(blame, PEN__ROOT_LINK, source.link, sec, 0);
        break;
    }
    stretch.to_sec = fmin(stretch.to_sec, source.at_sec);
    if (stretch.to_sec > stretch.from_sec)
        blame_line(blame, matter, source.line, stretch, depth + 1);
}

/*
 * Adds the line's work and waits in the stretch to the roots. No rank waits for
 * itself in a run that ended, but clocks may seem to show it: then the search
 * stops.
 */
static void blame_line(struct pen__blame *blame, const struct pen__case *matter,
                       uint32_t line, struct stretch stretch, uint32_t depth)
{
    const struct pen__span *spans = matter->measured->spans[line];
    uint32_t count = row_length(matter, line);
    double known_sec = 0;
    if (depth > matter->measured->num_lines)
        return;
    for (uint32_t i = first_op_ending_after(matter, line, stretch.from_sec);
         i < count && spans[i].begin_sec < stretch.to_sec; i++) {
        struct stretch wait = {fmax(stretch.from_sec, spans[i].begin_sec),
                               fmin(stretch.to_sec, spans[i].ready_sec)};
        double work_sec =
            overlap(&stretch, spans[i].ready_sec, spans[i].end_sec);
        add(blame, root_of_work(kind_at(matter, line, i)), line, work_sec, 0);
        known_sec += work_sec;
        if (wait.to_sec <= wait.from_sec)
            continue;
        blame_waiting(blame, matter, line, i, wait, depth);
        known_sec += wait.to_sec - wait.from_sec;
    }
    double rest_sec = stretch.to_sec - stretch.from_sec - known_sec;
    if (rest_sec > 0)
        add(blame, PEN__ROOT_BETWEEN, line, rest_sec, 0);
}

void pen__blame_wait(struct pen__blame *blame, const struct pen__case *matter,
                     uint32_t line, uint32_t position)
{
    const struct pen__span *span = &matter->measured->spans[line][position];
    struct stretch stretch = {span->begin_sec, span->ready_sec};
    if (stretch.to_sec > stretch.from_sec)
        blame_waiting(blame, matter, line, position, stretch, 0);
}

/* The place where the chain continues: at the op before it on the line. */
struct place {
    uint32_t line;
    uint32_t end;  /* position + 1 of the op */
    double at_sec; /* time from the end of that op counts as between ops */
};

uint32_t pen__last_line(const struct pen__course *course)
{
    uint32_t last = 0;
    double last_sec = -1;
    for (uint32_t line = 0; line < course->num_lines; line++) {
        uint32_t count =
            course->schedule->rows[pen__row_of_line(course, line)].count;
        double end_sec =
            count == 0 ? 0 : course->spans[line][count - 1].end_sec;
        if (end_sec <= last_sec)
            continue;
        last = line;
        last_sec = end_sec;
    }
    return last;
}

static void add_work(struct pen__blame *blame, const struct pen__case *matter,
                     uint32_t line, uint32_t position)
{
    const struct pen__span *span = &matter->measured->spans[line][position];
    double sec = span->end_sec - span->ready_sec;
    double expected_sec = pen__expected_sec(matter, line, position);
    add(blame, root_of_work(kind_at(matter, line, position)), line, sec,
        isnan(expected_sec) ? 0 : sec - expected_sec);
}

/*
 * Returns the seconds that a synchronisation should take if an op waits for it.
 */
static double expected_sync_sec(const struct pen__case *matter, uint32_t line,
                                uint32_t position)
{
    unsigned kind = kind_at(matter, line, position);
    if (matter->predicted == NULL || root_of_own_wait(kind) != PEN__ROOT_SYNC)
        return 0;
    uint32_t row = pen__row_of_line(matter->measured, line);
    const struct pen__span *span = &matter->predicted->spans[row][position];
    return span->ready_sec - span->begin_sec;
}

/*
 * Blames the message that the op waited for. If the message was due only after
 * the op began, its sender decided and the chain continues there. Otherwise the
 * op would have started at once, and its wait is the message's lateness,
 * however long ago it was sent.
 */
static struct place blame_message(struct pen__blame *blame,
                                  const struct pen__case *matter,
                                  struct place own,
                                  const struct pen__source *source)
{
    const struct pen__span *span = &matter->measured->spans[own.line][own.end];
    double transit_sec =
        pen__expected_transit_sec(matter, own.line, own.end, source->link);
    bool is_known = !isnan(transit_sec);
    double due_sec = source->at_sec + (is_known ? transit_sec : 0);
    double from_sec = fmax(source->at_sec, span->begin_sec);
    double late_sec = span->ready_sec - fmax(due_sec, span->begin_sec);
    add(blame, PEN__ROOT_LINK, source->link,
        fmax(0, span->ready_sec - from_sec), is_known ? late_sec : 0);
    if (due_sec < span->begin_sec)
        return own;
    return (struct place){source->line, source->position + 1, source->at_sec};
}

/*
 * Blames the event that let this op start, and returns where the chain
 * continues.
 */
static struct place blame_cause(struct pen__blame *blame,
                                const struct pen__case *matter, uint32_t line,
                                uint32_t position)
{
    const struct pen__span *span = &matter->measured->spans[line][position];
    struct place own = {line, position, span->begin_sec};
    double sec = span->ready_sec - span->begin_sec;
    if (!(sec > 0))
        return own;
    double sync_sec = expected_sync_sec(matter, line, position);
    struct pen__source source =
        pen__source_of(matter->sources, matter->measured, line, position);
    switch (source.kind) {
    case PEN__SOURCE_MESSAGE:
        return blame_message(blame, matter, own, &source);
    case PEN__SOURCE_GROUP:
        sec = fmax(0, span->ready_sec - source.at_sec);
        add(blame, PEN__ROOT_SYNC, source.line, sec, sec - sync_sec);
        return (struct place){source.line, source.position, source.at_sec};
    case PEN__SOURCE_WINDOW:
        return (struct place){
            source.line,
            first_op_ending_after(matter, source.line, span->ready_sec),
            span->ready_sec};
    default:
        add(blame, root_of_own_wait(kind_at(matter, line, position)), line, sec,
            sec - sync_sec);
        return own;
    }
}

pen_status pen__chain_init(struct pen__chain *chain,
                           const struct pen__course *course)
{
    struct pen_mesh mesh = pen__course_mesh(course);
    uint64_t count =
        pen_schedule_count(course->schedule) * pen_mesh_num_replicas(&mesh);
    *chain = (struct pen__chain){.capacity = count};
    chain->ops = malloc((size_t)(count + 1) * sizeof *chain->ops);
    return chain->ops == NULL ? PEN_NOMEM : PEN_OK;
}

static void turn_round(struct pen__chain *chain)
{
    for (uint64_t i = 0; i < chain->count / 2; i++) {
        struct pen__chain_op *other = &chain->ops[chain->count - 1 - i];
        struct pen__chain_op op = chain->ops[i];
        chain->ops[i] = *other;
        *other = op;
    }
}

void pen__blame_chain(struct pen__blame *blame, const struct pen__case *matter,
                      uint32_t line, struct pen__chain *chain)
{
    const struct pen__course *course = matter->measured;
    struct place place = {line, row_length(matter, line), 0};
    chain->count = 0;
    /*
     * Clocks that disagree may lead in a circle, which ends when the room is
     * used up.
     */
    while (place.end > 0 && chain->count < chain->capacity) {
        uint32_t position = place.end - 1;
        const struct pen__span *span = &course->spans[place.line][position];
        double gap_sec = fmax(0, place.at_sec - span->end_sec);
        add(blame, PEN__ROOT_BETWEEN, place.line, gap_sec, gap_sec);
        add_work(blame, matter, place.line, position);
        chain->ops[chain->count++] =
            (struct pen__chain_op){place.line, position};
        place = blame_cause(blame, matter, place.line, position);
    }
    turn_round(chain);
}
