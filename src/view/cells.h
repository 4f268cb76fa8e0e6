#ifndef PEN_VIEW_CELLS_H
#define PEN_VIEW_CELLS_H

#include "view/timeline.h"

/*
 * The contents of a picture of one schedule, before any decision about pixels
 * or characters: the cells of every rank, and its figures. Sends and receives
 * are not shown: they look like waiting.
 */

/* One op. The ops of an overlap group share its time, each in its own lane. */
struct pen__cell {
    double start_sec;
    double end_sec;    /* = start_sec: a mark */
    uint32_t position; /* of the op in its row */
    uint16_t chunk;
    uint8_t kind; /* enum pen_op_kind */
    uint8_t lane; /* of lanes, from the top */
    uint8_t lanes;
    bool is_up; /* of the second copy of a bidirectional pipeline */
    bool is_critical;
};

struct pen__cell_row {
    struct pen__cell *cells; /* in the order of the ops */
    uint32_t count;
};

struct pen__sheet {
    const struct pen_picture_item *item; /* borrowed */
    struct pen__cell_row *rows;          /* one per rank */
    double end_sec;
    double mean_sec;              /* of the cells that take time */
    double short_sec;             /* of the shortest of them */
    double peak;                  /* of the rank that holds most, in A */
    bool has_cells[PEN_OP_KINDS]; /* kinds that take time here */
    bool has_marks[PEN_OP_KINDS]; /* kinds that take none */
    bool has_lanes;
};

/*
 * Makes the sheet of an item. On failure (no memory) there is nothing to
 * release.
 */
pen_status pen__sheet_init(struct pen__sheet *sheet,
                           const struct pen_picture_item *item);
void pen__sheet_release(struct pen__sheet *sheet);

/* Makes a sheet per item; NULL when there is no memory. */
struct pen__sheet *pen__sheets_create(const struct pen_picture_item *items,
                                      size_t count);
void pen__sheets_free(struct pen__sheet *sheets, size_t count);

static inline bool pen__cell_takes_time(const struct pen__cell *cell)
{
    return cell->end_sec > cell->start_sec;
}

/* "3", with slices "3.1", with its letter "F3.1"; "" without a micro-batch. */
#define PEN__LABEL_SIZE 32
void pen__cell_label(const struct pen__sheet *sheet, uint32_t rank,
                     const struct pen__cell *cell, bool with_letter,
                     char label[PEN__LABEL_SIZE]);

/*
 * Adds the label of the item, fit for pictures, JSON and terminals: valid UTF-8
 * without control characters, whatever the user named the file.
 */
void pen__add_item_label(const struct pen_picture_item *item,
                         struct pen_text *out);
void pen__add_clean(const char *string, struct pen_text *out);

/*
 * Returns whether the schedule has a second copy of the model, that runs
 * upwards.
 */
bool pen__has_second_copy(const struct pen_shape *shape);

void pen__add_shape(const struct pen_shape *shape, struct pen_text *out);

/* s, ms or us, whichever suits the longest of the sheets. */
struct pen__unit {
    const char *name;
    double per_sec;
};
struct pen__unit pen__unit_of(double longest_sec);
struct pen__unit pen__unit_for(const struct pen__sheet *sheets, size_t count);
double pen__longest_sec(const struct pen__sheet *sheets, size_t count);

/*
 * Returns 1, 2 or 5 times a power of ten, of which about `most` fit in the
 * range.
 */
double pen__nice_step(double range, double most);

#endif
