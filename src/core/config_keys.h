#ifndef PEN_CORE_CONFIG_KEYS_H
#define PEN_CORE_CONFIG_KEYS_H

#include "base/json.h"

/*
 * Keys as Hugging Face writes them: most may be absent or null, and
 * then mean a default. Outputs are left alone when nothing was given.
 */

/*
 * Reads a file, or the config.json of a directory; *path is then the file that
 * was read. Release both in either case.
 */
pen_status pen__config_read(const char *source, struct pen_text *path,
                            struct pen_text *text, struct pen_text *why);

/* Returns whether the key exists and is not null. */
bool pen__config_has(const struct pen_json *json, const char *key);

pen_status pen__config_flag(const struct pen_json *json, const char *key,
                            bool *out, struct pen_text *why);

/* Refuses a flag that has another value than the one we compute with. */
pen_status pen__config_demand(const struct pen_json *json, const char *key,
                              bool demanded, struct pen_text *why);

pen_status pen__config_number(const struct pen_json *json, const char *key,
                              double least, double most, double *out,
                              struct pen_text *why);

/* A count from 1 to most, with a value for absent and one for null. */
struct pen__config_count {
    const char *key;
    uint32_t absent;
    uint32_t null;
    uint32_t most;
};

pen_status pen__config_count(const struct pen_json *json,
                             const struct pen__config_count *count,
                             uint32_t *out, struct pen_text *why);

/* A string out of a list, and what it stands for. */
struct pen__config_word {
    const char *text;
    int value;
};

pen_status pen__config_word(const struct pen_json *json, const char *key,
                            const struct pen__config_word *words, size_t count,
                            int *out, struct pen_text *why);

/* Add keys after the first one of an object. */
void pen__config_add_word(struct pen_text *out, const char *key,
                          const char *word);
void pen__config_add_count(struct pen_text *out, const char *key,
                           uint32_t count);
void pen__config_add_flag(struct pen_text *out, const char *key, bool flag);

/*
 * Adds a real number as short as it can be read back; always a float to Python.
 */
void pen__config_add_real(struct pen_text *out, const char *key, double value);

#endif
