#ifndef PEN_HOLDER_NAMES_H
#define PEN_HOLDER_NAMES_H

/*
 * How ranks find their holder: variables of the environment that a supervisor
 * sets for the launcher which it starts.
 */
#define PEN_HOLDER_VARIABLE "PENSTOCK_HOLDER" /* path of the socket */
/* the node of that socket; others have one of their own: place.h */
#define PEN_HOLDER_NODE_VARIABLE "PENSTOCK_HOLDER_NODE"
#define PEN_EPOCH_VARIABLE "PENSTOCK_EPOCH" /* a number; 1: first launch */

#endif
