/*
 * Not a test: says how far two PNGs are apart, for tests/cli/pictures.sh.
 *
 *   compare_pictures A.png B.png [SHIFT]
 *
 * Prints the share of squares of 6 pixels, of those that are not white in
 * either, whose mean colours differ: edges are smoothed in other ways by other
 * programs. SHIFT moves the second by so many pixels, to the right and down.
 */
#include <cairo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define SIDE 6
#define MOST_APART 40.0 /* of 255, in the mean of a square */

struct image {
    cairo_surface_t *surface;
    const unsigned char *bytes;
    int width;
    int height;
    int stride;
};

static struct image read_image(const char *path)
{
    cairo_surface_t *surface = cairo_image_surface_create_from_png(path);
    if (cairo_surface_status(surface) != CAIRO_STATUS_SUCCESS) {
        fprintf(stderr, "compare_pictures: cannot read %s\n", path);
        exit(1);
    }
    return (struct image){surface, cairo_image_surface_get_data(surface),
                          cairo_image_surface_get_width(surface),
                          cairo_image_surface_get_height(surface),
                          cairo_image_surface_get_stride(surface)};
}

/* Of one of the colours in the square whose corner is here. */
static double mean_of(const struct image *image, int x, int y, int colour)
{
    double sum = 0;
    for (int row = y; row < y + SIDE; row++) {
        const unsigned char *at = image->bytes + (ptrdiff_t)row * image->stride;
        for (int column = x; column < x + SIDE; column++)
            sum += at[4 * column + colour];
    }
    return sum / (SIDE * SIDE);
}

/* Paper reaches to the last pixel. */
static bool has_white_edges(const struct image *image)
{
    bool is_white = true;
    for (int y = 0; y < image->height; y++) {
        const unsigned char *at = image->bytes + (ptrdiff_t)y * image->stride;
        bool is_edge = y == 0 || y == image->height - 1;
        for (int x = 0; x < image->width; x += is_edge ? 1 : image->width - 1)
            is_white = is_white && at[4 * x] == 255 && at[4 * x + 1] == 255 &&
                       at[4 * x + 2] == 255;
    }
    return is_white;
}

/* The share of the squares with ink; b is moved right and down. */
static double share_apart(const struct image *a, const struct image *b,
                          int shift)
{
    int width = a->width < b->width ? a->width : b->width;
    int height = a->height < b->height ? a->height : b->height;
    long inked = 0;
    long apart = 0;
    for (int y = shift; y + SIDE < height; y += SIDE) {
        for (int x = shift; x + SIDE < width; x += SIDE) {
            bool has_ink = false;
            bool is_apart = false;
            for (int colour = 0; colour < 3; colour++) {
                double one = mean_of(a, x, y, colour);
                double other = mean_of(b, x - shift, y - shift, colour);
                has_ink = has_ink || one < 250 || other < 250;
                is_apart = is_apart || one - other > MOST_APART ||
                           other - one > MOST_APART;
            }
            inked += has_ink;
            apart += is_apart;
        }
    }
    return inked == 0 ? 1 : (double)apart / (double)inked;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct image a = read_image(argv[1]);
    struct image b = read_image(argv[2]);
    if (abs(a.width - b.width) > 1 || abs(a.height - b.height) > 1)
        printf("%d x %d and %d x %d pixels\n", a.width, a.height, b.width,
               b.height);
    else if (!has_white_edges(&b))
        printf("%s has no white edges\n", argv[2]);
    else
        printf("%.5f\n", share_apart(&a, &b, argc > 3 ? atoi(argv[3]) : 0));
    cairo_surface_destroy(a.surface);
    cairo_surface_destroy(b.surface);
    return 0;
}
