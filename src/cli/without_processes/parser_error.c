/*
 * Without a second stderr nothing can be put in its place: errors of the
 * command line are printed, and not told as JSON.
 */
#include "cli/program/parser_error.h"

void pen__parser_error_begin(void)
{
}

void pen__parser_error_end(void)
{
}
