#ifndef PEN_DATA_IMAGE_FILE_H
#define PEN_DATA_IMAGE_FILE_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Images with labels, in the files of MNIST or of CIFAR-10; docs/formats.md has
 * the bytes. A data set is a directory with two parts, "train" and "t10k":
 *
 *   MNIST     train-images-idx3-ubyte   train-labels-idx1-ubyte
 *             t10k-images-idx3-ubyte    t10k-labels-idx1-ubyte
 *   CIFAR-10  data_batch_1.bin and, as far as they are there, up to _5.bin
 *             test_batch.bin
 *
 * each plain or, with .gz after its name, packed by gzip. A directory with
 * CIFAR-10's first file of a part is CIFAR-10.
 */

/* A part of a data set, whole in memory. */
struct pen_image_set {
    uint32_t num_images; /* at least one */
    uint32_t channels;
    uint32_t height;
    uint32_t width;
    /* (num_images, channels, height, width), inside image_file */
    const uint8_t *pixels;
    const uint8_t *labels; /* (num_images), inside label_file */
    struct pen_text image_file;
    struct pen_text label_file;
};

/*
 * Loads a set of images. On success release with pen_image_set_release(). On
 * failure *out is untouched and why has the path and the reason.
 */
pen_status pen_image_set_load(struct pen_image_set *out, const char *directory,
                              const char *part, struct pen_text *why);
void pen_image_set_release(struct pen_image_set *set);

/*
 * Checks the bytes of a file, unpacking them in place if gzip packed them.
 * The path is for messages. On success sets what belongs to the file; *file
 * remains the caller's.
 */
pen_status pen_image_file_parse(struct pen_text *file, const char *path,
                                struct pen_image_set *out,
                                struct pen_text *why);
pen_status pen_label_file_parse(struct pen_text *file, const char *path,
                                const uint8_t **labels, uint32_t *num_labels,
                                struct pen_text *why);

/*
 * Parses a file of CIFAR-10, whose images follow those that the set has
 * already. Pixels and labels are copied to the files of the set.
 */
pen_status pen_cifar_file_parse(struct pen_text *file, const char *path,
                                struct pen_image_set *set,
                                struct pen_text *why);

#endif
