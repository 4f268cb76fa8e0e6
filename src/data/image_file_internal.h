#ifndef PEN_DATA_IMAGE_FILE_INTERNAL_H
#define PEN_DATA_IMAGE_FILE_INTERNAL_H

#include "data/image_file.h"

#include <stdbool.h>

/* The most bytes of a file, unpacked. */
#define PEN__IMAGE_FILE_MAX ((size_t)1 << 31)

/* Unpacks the bytes in place if gzip packed them. */
pen_status pen__image_file_unpack(struct pen_text *file, struct pen_text *why);

/*
 * Loads the part if the directory has CIFAR-10's first file of it, which
 * *is_cifar says.
 */
pen_status pen__cifar_load(struct pen_image_set *out, const char *directory,
                           const char *part, bool *is_cifar,
                           struct pen_text *why);

#endif
