#include "base/nearest.h"

#include <stdbool.h>
#include <string.h>

#define LONGEST_NAME 31u

/* Letters to insert, drop or change to turn one name into the other. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t length = strlen(b);
    size_t row[LONGEST_NAME + 1];
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t least = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = change < least + 1 ? change : least + 1;
        }
    }
    return row[length];
}

struct pen_nearest pen_nearest_to(const char *word)
{
    /* Further away than this is another word, not a slip. */
    return (struct pen_nearest){.word = word, .distance = 2 + strlen(word) / 4};
}

void pen_nearest_offer(struct pen_nearest *nearest, const char *name)
{
    if (strlen(name) > LONGEST_NAME)
        return;
    size_t distance = edit_distance(nearest->word, name);
    bool is_part = strlen(nearest->word) > 1 &&
                   strncmp(name, nearest->word, strlen(nearest->word)) == 0;
    if (is_part)
        distance = 1;
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->best = name;
    }
}
