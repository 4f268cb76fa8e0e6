#include "support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char folder[] = "/tmp/penstock-test-XXXXXX";

int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

int remove_folder(void **state)
{
    (void)state;
    char command[sizeof folder + 10];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
