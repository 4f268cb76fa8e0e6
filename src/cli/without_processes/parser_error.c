/*
 * Errors of the command line where there is no second stderr: they are printed,
 * and not reported as JSON.
 */
#include "cli/program/parser_error.h"

void pen__parser_error_begin(void)
{
}

void pen__parser_error_end(void)
{
}
