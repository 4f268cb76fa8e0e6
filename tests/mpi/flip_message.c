/*
 * Loaded before the MPI library (LD_PRELOAD): flips one bit of one message.
 * FLIP_RANK is the sender, FLIP_KIND the kind of tag (runtime/transport.h),
 * FLIP_NUMBER which of its messages of that kind, from 1.
 */
#include "runtime/transport.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int number_of(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? -1 : atoi(text);
}

int MPI_Isend(const void *bytes, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request *request)
{
    enum { CHECK_BYTES = 16, SENT_BIT = 77 };
    static int num_seen; /* only the main thread sends */
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != number_of("FLIP_RANK") || count <= CHECK_BYTES ||
        tag % PEN_TAG_KINDS != number_of("FLIP_KIND") ||
        ++num_seen != number_of("FLIP_NUMBER"))
        return PMPI_Isend(bytes, count, type, to, tag, comm, request);
    unsigned char *flipped = malloc((size_t)count); /* lives until the end */
    if (flipped == NULL)
        abort();
    memcpy(flipped, bytes, (size_t)count);
    flipped[SENT_BIT / 8] ^= 1u << SENT_BIT % 8;
    return PMPI_Isend(flipped, count, type, to, tag, comm, request);
}
