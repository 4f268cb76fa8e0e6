/*
 * penstock tokenize, where PCRE2 was not there at build time: says what is
 * missing. Built in place of cli/tokenize.c.
 */
#include "cli/cli.h"

#include "base/log.h"

static int refuse(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    pen_log(PEN_LOG_ERROR,
            "this penstock was built without PCRE2, which tokenize needs\n"
            "  install libpcre2-dev (Debian, Ubuntu) or pcre2-devel and build "
            "again");
    return PEN__EXIT_NO;
}

const struct pen__command pen__tokenize = {
    .name = "tokenize",
    .summary = "turns text into files of tokens (not in this build)",
    .run = refuse,
    .help = refuse,
};
