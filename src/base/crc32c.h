#ifndef PEN_BASE_CRC32C_H
#define PEN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The cyclic redundancy check of Castagnoli (iSCSI, RFC 3720). */
uint32_t pen_crc32c(const void *bytes, size_t length);

/* The same without the processor's instruction for it. */
uint32_t pen_crc32c_portable(const void *bytes, size_t length);

#endif
