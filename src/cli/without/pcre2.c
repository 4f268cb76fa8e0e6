/*
 * Commands that read texts or images, where PCRE2 was not there at build time:
 * they say what is missing. Built in place of cli/files/tokenize.c and
 * cli/reproduce/.
 */
#include "cli/program/cli.h"

#include "base/log.h"
#include "cli/program/answer.h"

#ifdef PEN_WHEEL
#define HINT                                                                   \
    "the Python package does not have it: install the Debian package "         \
    "penstock, or build it from the sources"
#else
#define HINT                                                                   \
    "install libpcre2-dev (Debian, Ubuntu) or pcre2-devel and build again"
#endif

static int refuse(int argc, char **argv)
{
    (void)argc;
    pen__answer_set_code("not-installed");
    pen_log(PEN_LOG_ERROR,
            "this penstock was built without PCRE2, which %s needs\n  " HINT,
            argv[0]);
    return PEN__EXIT_NO;
}

const struct pen__command pen__tokenize = {
    .name = "tokenize",
    .summary = "turns text into files of tokens (not in this build)",
    .run = refuse,
    .help = refuse,
};

const struct pen__command pen__reproduce = {
    .name = "reproduce",
    .summary = "runs the experiment of a paper (not in this build)",
    .run = refuse,
    .help = refuse,
};
