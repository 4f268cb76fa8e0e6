#ifndef PEN_CLI_PARSER_ONCE_H
#define PEN_CLI_PARSER_ONCE_H

/*
 * All ranks of a job read the same command line, so all find the same mistake
 * in it. One of them prints it.
 *
 * Between begin and end, output of a rank is kept. Where the program ends in
 * between, the ranks of this node whose output is the same find each other, and
 * the first of them prints it. A mistake of some ranks only is printed by each
 * of them, with its number. Without a launcher, both functions do nothing.
 */
void pen__once_begin(void);

/* Drops what was kept, unless this is the first rank. */
void pen__once_end(void);

#endif
