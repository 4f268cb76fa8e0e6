#ifndef PEN_DATA_NFC_TABLE_H
#define PEN_DATA_NFC_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* The parts of the Unicode database that NFC needs; each list is ordered. */

/*
 * Characters [first, last] have this canonical combining class. Class 0 is
 * listed for those that NFC may replace or join to the one before.
 */
struct pen__nfc_class_run {
    uint32_t first;
    uint32_t last;
    uint8_t value;
};

/* A character and its canonical decomposition; the second may be 0. */
struct pen__nfc_split {
    uint32_t whole;
    uint32_t first;
    uint32_t second;
};

/* Two characters and the one that they compose. */
struct pen__nfc_join {
    uint32_t first;
    uint32_t second;
    uint32_t whole;
};

extern const struct pen__nfc_class_run pen__nfc_class_runs[];
extern const size_t pen__nfc_num_class_runs;
extern const struct pen__nfc_split pen__nfc_splits[];
extern const size_t pen__nfc_num_splits;
extern const struct pen__nfc_join pen__nfc_joins[];
extern const size_t pen__nfc_num_joins;

#endif
