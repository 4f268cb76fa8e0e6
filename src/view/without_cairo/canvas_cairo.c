/* Refuses PNG and PDF, in builds without cairo. */
#include "view/picture.h"

pen_status pen__cairo_check(const char *path, struct pen_text *why)
{
    pen_why(why,
            "cannot draw %s: this penstock is built without cairo, which PNG "
            "and PDF need; use a name that ends in .svg, or install "
            "libcairo2-dev and build penstock again",
            path);
    return PEN_INVALID;
}

pen_status pen__cairo_print(const struct pen__picture *picture,
                            const char *path, struct pen_text *out,
                            struct pen_text *why)
{
    (void)picture;
    (void)out;
    return pen__cairo_check(path, why);
}
