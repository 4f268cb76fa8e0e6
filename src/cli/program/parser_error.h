#ifndef PEN_CLI_PARSER_ERROR_H
#define PEN_CLI_PARSER_ERROR_H

/*
 * With --json, stdout also gets the error of a wrong command line. The parser
 * prints its errors and ends the program; between begin and end this file keeps
 * them, and prints them on both streams when the program ends. Without --json,
 * both functions do nothing.
 */
void pen__parser_error_begin(void);
void pen__parser_error_end(void);

#endif
