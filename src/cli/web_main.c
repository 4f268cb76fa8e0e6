/*
 * The program as a page in a browser runs it: the commands that read a question
 * and answer it. Commands that need many files, processes or a machine are in
 * the other programs.
 */
#include "cli/program/program.h"

static const struct pen__command *const commands[] = {
    &pen__plan,   &pen__predict, &pen__schedule,
    &pen__models, &pen__cluster, &pen__partition,
    &pen__export, &pen__lint,    &pen__view,
    &pen__sync,   NULL};

int main(int argc, char **argv)
{
    static const struct pen__program program = {"penstock", commands};
    return pen__program_main(&program, argc, argv);
}
