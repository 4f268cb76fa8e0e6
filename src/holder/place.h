#ifndef PEN_HOLDER_PLACE_H
#define PEN_HOLDER_PLACE_H

#include "base/status.h"
#include "base/text.h"
#include "holder/names.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Where the holder of a node is. A supervisor gives the path of its own one to
 * the ranks, and the name of its node. On other nodes the path has a suffix
 * that is made of their names, so that nodes may share the folder.
 */

/*
 * The settings that a supervisor passes on; without pointers, so that they may
 * be sent.
 */
struct pen_holder_settings {
    uint64_t epoch; /* of the launch; 0: there is no supervisor */
    char path[256];
    char node[256]; /* "": the path is that of every node */
};

/*
 * Reads the environment. Refuses an epoch other than a number from 1, and
 * values that are too long.
 */
pen_status pen_holder_settings_read(struct pen_holder_settings *out,
                                    struct pen_text *why);

/*
 * Adds the name of this node: its host name and the number of its last start.
 */
void pen_holder_node_name(struct pen_text *out);

struct pen_holder_place {
    bool is_distant; /* this node is not the supervisor's */
    uint64_t node;   /* a number below 2^48 that is made of the node's name */
    struct pen_text path;
};

/* Finds the holder of this node. Release in any case. */
pen_status pen_holder_place_find(const struct pen_holder_settings *settings,
                                 struct pen_holder_place *out);
void pen_holder_place_release(struct pen_holder_place *place);

#endif
