/* Whatever is accepted as a cluster is right, and prints as the same one. */
#include "base/bug.h"
#include "core/cluster.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct pen_cluster *cluster)
{
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    struct pen_cluster *again = NULL;
    pen_cluster_print(cluster, &first);
    PEN_BUG_UNLESS(pen_cluster_parse(first.bytes, first.length, &again, NULL) ==
                   PEN_OK);
    pen_cluster_print(again, &second);
    PEN_BUG_UNLESS(strcmp(first.bytes, second.bytes) == 0);
    PEN_BUG_UNLESS(pen_cluster_num_devices(cluster) ==
                   pen_cluster_num_devices(again));
    pen_cluster_free(again);
    pen_text_release(&first);
    pen_text_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_cluster *cluster = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cluster_parse((const char *)data, size, &cluster, &why) == PEN_OK) {
        PEN_BUG_UNLESS(pen_cluster_check(cluster, NULL) == PEN_OK);
        check_again(cluster);
        pen_cluster_free(cluster);
    } else {
        PEN_BUG_UNLESS(cluster == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
