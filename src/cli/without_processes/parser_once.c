/*
 * Errors of a program that is never one of several ranks: it prints them
 * itself.
 */
#include "cli/program/parser_once.h"

void pen__once_begin(void)
{
}

void pen__once_end(void)
{
}
