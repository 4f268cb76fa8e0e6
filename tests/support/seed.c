#include "support/seed.h"

#include "support/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is_long_run(void)
{
    const char *value = getenv("PEN_LONG");
    return value != NULL && *value != '\0';
}

static size_t read_list(const char *sweep, uint64_t seeds[MOST_SEEDS])
{
    FILE *file = fopen(PEN_SOURCE_DIR "/tests/support/seeds.txt", "r");
    char line[256], name[128];
    size_t count = 0;
    uint64_t seed;
    if (file == NULL)
        fail_msg("tests/support/seeds.txt cannot be read");
    while (count + 1 < MOST_SEEDS && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%127s %" SCNu64, name, &seed) == 2 &&
            strcmp(name, sweep) == 0)
            seeds[count++] = seed;
    }
    fclose(file);
    return count;
}

size_t seeds_of(const char *sweep, uint64_t seeds[MOST_SEEDS])
{
    const char *value = getenv("PEN_SEED");
    size_t count = read_list(sweep, seeds);
    seeds[count++] = value != NULL ? strtoull(value, NULL, 10) : 1;
    for (size_t i = 0; i < count; i++)
        print_message("%s: seed %" PRIu64 "\n", sweep, seeds[i]);
    return count;
}
