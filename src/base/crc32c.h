#ifndef PEN_BASE_CRC32C_H
#define PEN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the cyclic redundancy check of Castagnoli (iSCSI, RFC 3720). */
uint32_t pen_crc32c(const void *bytes, size_t length);

/*
 * Returns the remainder of bytes that follow others, whose remainder is
 * `before`; 0: they follow none.
 */
uint32_t pen_crc32c_more(uint32_t before, const void *bytes, size_t length);

/*
 * Does the same, and copies the bytes past the caches: for memory that is not
 * read again soon. They may not overlap.
 */
uint32_t pen_crc32c_copy(uint32_t before, void *to, const void *from,
                         size_t length);

/* Returns the same check, without the processor's instruction for it. */
uint32_t pen_crc32c_portable(const void *bytes, size_t length);

#endif
