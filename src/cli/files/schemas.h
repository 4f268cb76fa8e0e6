#ifndef PEN_CLI_SCHEMAS_H
#define PEN_CLI_SCHEMAS_H

/*
 * The files of src/cli/schemas, as cmake/schemas.cmake compiles them in, by
 * name; the last has no name. "defs" has the definitions that several share.
 */
struct pen__schema_text {
    const char *name;
    const char *text;
};

extern const struct pen__schema_text pen__schemas[];

#endif
