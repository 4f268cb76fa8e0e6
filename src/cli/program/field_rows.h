#ifndef PEN_CLI_FIELD_ROWS_H
#define PEN_CLI_FIELD_ROWS_H

/*
 * Rows of a long table of options. For one file only, which says where its
 * values are: #define AT(member) offsetof(struct ..., member)
 */
#include "cli/program/fields.h"

#define FLAG(name, member, help)                                               \
    {                                                                          \
        name, NULL, help, PEN__FIELD_FLAG, AT(member), 0, 0, NULL              \
    }
#define TEXT(name, value, member, help)                                        \
    {                                                                          \
        name, value, help, PEN__FIELD_TEXT, AT(member), 0, 0, NULL             \
    }
#define LIST(name, value, member, help)                                        \
    {                                                                          \
        name, value, help, PEN__FIELD_LIST, AT(member), 0, 0, NULL             \
    }
#define COUNT(name, member, least, most, help)                                 \
    {                                                                          \
        name, "N", help, PEN__FIELD_COUNT, AT(member), least, most, NULL       \
    }
#define SIZE(name, member, least, most, help)                                  \
    {                                                                          \
        name, "N", help, PEN__FIELD_SIZE, AT(member), least, most, NULL        \
    }
#define REAL(name, member, least, most, help)                                  \
    {                                                                          \
        name, "X", help, PEN__FIELD_REAL, AT(member), least, most, NULL        \
    }
#define WORD(name, member, words, help)                                        \
    {                                                                          \
        name, "NAME", help, PEN__FIELD_WORD, AT(member), 0, 0, words           \
    }

#endif
