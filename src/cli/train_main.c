/*
 * penstock-train: the commands that compute. Users type `penstock train`;
 * under mpirun this program may be named itself.
 */
#include "cli/program/program.h"

/* A command that is added here is named in main.c of penstock, too. */
static const struct pen__command *const commands[] = {
    &pen__train,          &pen__hold,    &pen__eval,   &pen__generate,
    &pen__cluster_detect, &pen__profile, &pen__doctor, NULL};

int main(int argc, char **argv)
{
    static const struct pen__program program = {"penstock-train", commands};
    return pen__program_main(&program, argc, argv);
}
