/* From the ending of a file name to a drawing, or to a trace. */
#include "view/timeline.h"

#include "base/bug.h"
#include "base/file.h"
#include "view/page.h"
#include "view/picture.h"

#define MOST_OPS 1000000u

static void draw_page(struct pen__canvas *canvas, const void *context)
{
    pen__page_draw(canvas, context);
}

static pen_status draw_items(const struct pen_picture_item *items, size_t count,
                             bool is_by_row, const char *path,
                             struct pen_text *out, struct pen_text *why)
{
    uint64_t ops = 0;
    for (size_t i = 0; i < count; i++)
        ops += pen_schedule_count(items[i].schedule);
    if (ops > MOST_OPS) {
        pen_why(why,
                "a drawing of %llu ops would be unreadable; the limit is %u: "
                "draw fewer micro-batches or ranks, or write a .json for "
                "Perfetto",
                (unsigned long long)ops, MOST_OPS);
        return PEN_INVALID;
    }
    struct pen__sheet *sheets = pen__sheets_create(items, count);
    if (sheets == NULL) {
        pen_why(why, "out of memory for a drawing of %llu ops",
                (unsigned long long)ops);
        return PEN_NOMEM;
    }
    struct pen__page page;
    pen__page_init(&page, sheets, count, is_by_row);
    struct pen_text name = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < count; i++) {
        pen_text_add_string(&name, i == 0 ? "timeline: " : ", ");
        pen__add_item_label(&items[i], &name);
    }
    const struct pen__picture picture = {page.width, page.height, draw_page,
                                         &page, pen_text_string(&name)};
    pen_status status = pen__picture_print(&picture, path, out, why);
    pen_text_release(&name);
    pen__sheets_free(sheets, count);
    return status;
}

/* Refuses names of files that can neither be drawn nor written for Perfetto. */
static pen_status check_name(const char *path, struct pen_text *why)
{
    if (pen__ends_in(path, ".json"))
        return PEN_OK;
    if (pen__picture_has_form(path))
        return pen__picture_check(path, why);
    pen_why(why,
            "cannot draw %s: its name should end in .svg, .png, .pdf or .json "
            "(Perfetto)",
            path);
    return PEN_INVALID;
}

bool pen_timeline_is_picture(const char *path)
{
    return pen__picture_has_form(path);
}

pen_status pen_timeline_draw(const struct pen_picture_item *items, size_t count,
                             const char *path, struct pen_text *why)
{
    PEN_BUG_UNLESS(count > 0);
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_status status = check_name(path, why);
    if (status != PEN_OK)
        return status;
    if (!pen__ends_in(path, ".json"))
        status = draw_items(items, count, false, path, &bytes, why);
    else if ((status = pen_perfetto_print(items, count, &bytes)) != PEN_OK)
        pen_why(why, "out of memory for %s", path);
    if (status == PEN_OK)
        status = pen_file_write(path, bytes.bytes, bytes.length, why);
    pen_text_release(&bytes);
    return status;
}

pen_status pen_timeline_draw_rows(const struct pen_picture_item *items,
                                  size_t count, const char *path,
                                  struct pen_text *why)
{
    PEN_BUG_UNLESS(count > 0 && !pen__ends_in(path, ".json"));
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_status status = check_name(path, why);
    if (status == PEN_OK)
        status = draw_items(items, count, true, path, &bytes, why);
    if (status == PEN_OK)
        status = pen_file_write(path, bytes.bytes, bytes.length, why);
    pen_text_release(&bytes);
    return status;
}

pen_status pen_timeline_print_svg(const struct pen_picture_item *items,
                                  size_t count, struct pen_text *out,
                                  struct pen_text *why)
{
    PEN_BUG_UNLESS(count > 0);
    return draw_items(items, count, false, "inline.svg", out, why);
}

pen_status pen_timeline_print_rows_svg(const struct pen_picture_item *items,
                                       size_t count, struct pen_text *out,
                                       struct pen_text *why)
{
    PEN_BUG_UNLESS(count > 0);
    return draw_items(items, count, true, "inline.svg", out, why);
}
