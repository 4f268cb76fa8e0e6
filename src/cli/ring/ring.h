#ifndef PEN_CLI_RING_H
#define PEN_CLI_RING_H

/* The record in a store of this name. Returns the exit code. */
int pen__ring_show(const char *store);

#endif
