#ifndef PEN_CLI_FIELD_ROWS_H
#define PEN_CLI_FIELD_ROWS_H

/*
 * Rows of a long table of options. For one file only, which says where its
 * values are: #define AT(member) offsetof(struct ..., member)
 */
#include "cli/program/fields.h"

#define FIELD(name, value, member, kind, least, most, words, help)             \
    {                                                                          \
        name, value, help, PEN__FIELD_##kind, AT(member), least, most, words   \
    }
#define FLAG(name, member, help)                                               \
    FIELD(name, NULL, member, FLAG, 0, 0, NULL, help)
#define TEXT(name, value, member, help)                                        \
    FIELD(name, value, member, TEXT, 0, 0, NULL, help)
#define LIST(name, value, member, help)                                        \
    FIELD(name, value, member, LIST, 0, 0, NULL, help)
#define COUNT(name, member, least, most, help)                                 \
    FIELD(name, "N", member, COUNT, least, most, NULL, help)
#define SIZE(name, member, least, most, help)                                  \
    FIELD(name, "N", member, SIZE, least, most, NULL, help)
#define REAL(name, member, least, most, help)                                  \
    FIELD(name, "X", member, REAL, least, most, NULL, help)
#define WORD(name, member, words, help)                                        \
    FIELD(name, "NAME", member, WORD, 0, 0, words, help)

/* The option --json; cli/program/answer.h knows whether it was given. */
#define JSON(help)                                                             \
    {                                                                          \
        "json", NULL, help, PEN__FIELD_JSON, 0, 0, 0, NULL                     \
    }

#endif
