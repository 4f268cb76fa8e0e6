/*
 * Says its rank and the size of the world, or refuses as penstock does when
 * the launcher and the MPI library do not match.
 */
#include "watch/launch.h"

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct pen_launch launch = pen_launch_read_own();
    struct pen_text why = PEN_TEXT_EMPTY;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    int rank;
    int size;
    int code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(library, &length);
    if (pen_launch_check(&launch, (uint32_t)size, library, &why) == PEN_OK) {
        printf("rank %d of %d\n", rank, size);
    } else {
        code = 1;
        if (pen_launch_is_first(&launch))
            fprintf(stderr, "%s\n", pen_text_string(&why));
    }
    pen_text_release(&why);
    MPI_Finalize();
    return code;
}
