/*
 * penstock supervise in the program of the Python wheel, which starts no ranks:
 * it says what is missing. Built in place of cli/supervise/.
 */
#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"

static int refuse(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    pen__answer_set_code("not-installed");
    pen_log(PEN_LOG_ERROR,
            "the Python package does not have supervise: install the Debian "
            "packages penstock and penstock-train, or build it from the "
            "sources");
    return PEN__EXIT_NO;
}

const struct pen__command pen__supervise = {
    .name = "supervise",
    .summary = "restarts a training that is interrupted (not in this build)",
    .run = refuse,
    .help = refuse,
};
