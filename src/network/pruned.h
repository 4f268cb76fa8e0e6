#ifndef PEN_NETWORK_PRUNED_H
#define PEN_NETWORK_PRUNED_H

#include "network/chain.h"

/*
 * Matrices of blocks whose pruned elements stay zero, and of which everything
 * but the weights that products read is kept for the other elements alone
 * (SAMO, 2302.05045). See pruned.c.
 */
struct pen__pruned {
    struct pen_parameter *dense;  /* that products read and write; owned */
    struct pen_parameter *packed; /* that the list has; not owned */
    size_t rows;                  /* of the dense one */
    size_t columns;
    size_t kept;     /* elements of the packed one */
    uint32_t *index; /* of each, row after row; ascending; owned */
};

/* Whether a parameter that is about to be added is pruned. */
bool pen__is_pruned(const struct pen_network *network,
                    enum pen_parameter_use use,
                    const struct pen_network_parameter *added);

/*
 * Makes both parameters. `added` becomes that of the list, and *dense is what
 * layers use.
 */
pen_status pen__pruned_create(struct pen_network *network,
                              const struct pen_parameter_shape *shape,
                              struct pen_network_parameter *added,
                              struct pen_parameter **dense,
                              struct pen_text *why);
void pen__pruned_free(struct pen_network *network);

/* Memory for dense gradients, which layers use in turns. */
pen_status pen__pruned_seal(struct pen_network *network, struct pen_text *why);

/* Bytes of indices and of that memory. */
size_t pen__pruned_bytes(const struct pen_network *network);

/* Around everything that adds to the gradients of a layer: dense gradients have
 * the packed numbers in between. */
void pen__pruned_open(const struct pen_network *network, uint32_t layer);
void pen__pruned_close(const struct pen_network *network, uint32_t layer);

#endif
