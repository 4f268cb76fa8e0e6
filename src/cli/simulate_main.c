/*
 * penstock-simulate: the command that runs on simulated ranks, a program of its
 * own for it alone needs SimGrid. Users type `penstock simulate`.
 */
#include "cli/program/program.h"

/* A command that is added here is named in main.c of penstock, too. */
static const struct pen__command *const commands[] = {&pen__simulate, NULL};

int main(int argc, char **argv)
{
    static const struct pen__program program = {"penstock-simulate", commands};
    return pen__program_main(&program, argc, argv);
}
