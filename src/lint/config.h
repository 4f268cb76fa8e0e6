#ifndef PEN_LINT_CONFIG_H
#define PEN_LINT_CONFIG_H

#include "lint/lint.h"

/*
 * Settings of one training, with their places in the file. A key is the name
 * that rules look for, in whatever form the file has it: options of Megatron
 * without dashes ("num-layers"), also from YAML and overrides; for all other
 * programs the path ("parallelism.tensor_parallel_degree").
 */
struct pen__lint_setting {
    char *key;
    char *name;   /* as it is written: "--num-layers" */
    char *value;  /* "" for a flag; NULL: unknown */
    size_t begin; /* of the name */
    size_t end;
    size_t value_begin; /* of the value; both 0 where there is none */
    size_t value_end;
    bool is_list; /* value is its first entry */
};

struct pen__lint_config {
    enum pen_lint_dialect dialect;
    struct pen__lint_setting *list;
    uint32_t count;
    uint32_t capacity;
    size_t begin; /* where it starts in the file */
    size_t end;
    bool is_open;    /* there may be settings that were not read */
    bool is_foreign; /* a script that may have options of its own */
    uint64_t world;  /* ranks; 0: unknown */
    bool has_failed; /* memory ran out */
};

void pen__lint_config_release(struct pen__lint_config *config);

/* Copies all texts. */
void pen__lint_config_add(struct pen__lint_config *config,
                          const struct pen__lint_setting *setting);

/* Returns the last setting with this key, or NULL. */
const struct pen__lint_setting *
pen__lint_find(const struct pen__lint_config *config, const char *key);

/* Returns whether the setting exists, and is neither false nor null. */
bool pen__lint_is_on(const struct pen__lint_config *config, const char *key);

/* Returns whether the setting is surely missing, or false or null. */
bool pen__lint_is_off(const struct pen__lint_config *config, const char *key);

/* Returns whether the value is known and is this word. */
bool pen__lint_is(const struct pen__lint_config *config, const char *key,
                  const char *value);

/*
 * Returns a count of 1 or more; `missing` where the key is surely missing, 0
 * where it is unknown or another number.
 */
uint64_t pen__lint_count(const struct pen__lint_config *config, const char *key,
                         uint64_t missing);

/* Reads a text of digits; 0 where it is none, or too large. */
uint64_t pen__lint_number(const char *text);

/* Files a finding about the setting: its value, or its name. */
struct pen__lint_words {
    const struct pen__lint_setting *at; /* NULL: the whole training */
    enum pen_lint_rule_id rule;
    const char *fix; /* for the bytes of the value, or of the name */
    bool is_name;    /* the finding is about the name */
};

struct pen__lint_judge {
    const struct pen__lint_config *config;
    struct pen_lint_report *report;
    struct pen_text what;
    struct pen_text why;
    struct pen_text todo;
};

/* Says one part of a finding; pen__lint_file() takes all three. */
void pen__lint_what(struct pen__lint_judge *judge, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pen__lint_why(struct pen__lint_judge *judge, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pen__lint_todo(struct pen__lint_judge *judge, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pen__lint_file(struct pen__lint_judge *judge,
                    const struct pen__lint_words *words);
void pen__lint_judge_release(struct pen__lint_judge *judge);

/*
 * Returns the name of a key in messages: as it is written, or as it would be.
 */
const char *pen__lint_name(const struct pen__lint_config *config,
                           const char *key);

#endif
