/* From the ending of a file name to a canvas. */
#include "view/picture.h"

#include "base/file.h"

#include <string.h>

bool pen__ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path);
    size_t tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

bool pen__picture_has_form(const char *path)
{
    return pen__ends_in(path, ".svg") || pen__ends_in(path, ".png") ||
           pen__ends_in(path, ".pdf");
}

pen_status pen__picture_check(const char *path, struct pen_text *why)
{
    if (!pen__picture_has_form(path)) {
        pen_why(why,
                "cannot draw %s: its name should end in .svg, .png or .pdf",
                path);
        return PEN_INVALID;
    }
    return pen__ends_in(path, ".svg") ? PEN_OK : pen__cairo_check(path, why);
}

pen_status pen__picture_print(const struct pen__picture *picture,
                              const char *path, struct pen_text *out,
                              struct pen_text *why)
{
    pen_status status = pen__picture_check(path, why);
    if (status != PEN_OK)
        return status;
    if (!pen__ends_in(path, ".svg"))
        return pen__cairo_print(picture, path, out, why);
    pen__svg_print(picture, out);
    if (!out->has_failed)
        return PEN_OK;
    pen_why(why, "out of memory for a drawing");
    return PEN_NOMEM;
}

pen_status pen__picture_write(const struct pen__picture *picture,
                              const char *path, struct pen_text *why)
{
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_status status = pen__picture_print(picture, path, &bytes, why);
    if (status == PEN_OK)
        status = pen_file_write(path, bytes.bytes, bytes.length, why);
    pen_text_release(&bytes);
    return status;
}
