#ifndef PEN_CLI_FIELDS_H
#define PEN_CLI_FIELDS_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Options as a table: for each its name, its help, and where its value goes in
 * the struct of the command. train has seventy of them.
 */
enum pen__field_kind {
    PEN__FIELD_FLAG,  /* bool */
    PEN__FIELD_JSON,  /* a flag that cli/program/answer.h has read; no place */
    PEN__FIELD_TEXT,  /* const char * */
    PEN__FIELD_COUNT, /* uint64_t; 2k is 2000, 4Mi 4 * 1024 * 1024 */
    PEN__FIELD_SMALL, /* uint32_t; the same */
    PEN__FIELD_SIZE,  /* uint64_t; the same, but 8k is 8192 */
    PEN__FIELD_REAL,  /* double */
    PEN__FIELD_WORD,  /* unsigned: its place in `words` */
    PEN__FIELD_LIST   /* struct pen__list */
};

struct pen__field {
    const char *name;
    const char *value; /* what the help calls it; NULL for a flag */
    const char *help;
    enum pen__field_kind kind;
    size_t offset;
    double least; /* of a number, as below */
    double most;
    const char *const *words; /* the last is NULL */
};

/* An option that takes all words after it, up to the next option. */
struct pen__list {
    const char **words; /* of the command line */
    size_t count;
    bool is_open;
};

/* Adds a word, which must stay in place. ENOMEM is the only failure. */
error_t pen__list_add(struct pen__list *list, const char *word);
void pen__list_release(struct pen__list *list);

enum { PEN__FIELDS_MAX = 160 };

/* Fills the options that argp takes, and their end; -o is --output. */
void pen__fields_list(const struct pen__field *fields, size_t count,
                      struct argp_option out[PEN__FIELDS_MAX + 1]);

/* Leaves these, the last NULL, out of --help; they are still accepted. */
void pen__fields_hide(const char *const *names, struct argp_option *options);

/* Leaves all but these out of --help likewise. */
void pen__fields_show(const char *const *names, struct argp_option *options);

/*
 * Takes an option or a word of the command line into the struct that is
 * state->input; the line must be parsed with ARGP_IN_ORDER. A wrong value ends
 * the program with the usage.
 */
error_t pen__fields_parse(const struct pen__field *fields, size_t count,
                          int key, char *text, struct argp_state *state);

/* Returns the place of the field with a name; `count` where there is none. */
size_t pen__fields_find(const struct pen__field *fields, size_t count,
                        const char *name);

/* Return the key that argp uses for a field, and the field of a key. */
int pen__fields_key(size_t index);
size_t pen__fields_index(int key);

/*
 * Returns the values of a filled struct by the names of the options, for a log:
 * texts that are NULL and reals that are NaN are left out. NULL when memory
 * runs out; drop it with json_decref().
 */
json_t *pen__fields_print(const struct pen__field *fields, size_t count,
                          const void *args);

#endif
