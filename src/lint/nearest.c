#include "lint/nearest.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LETTERS 96u
#define LEAST_START 6u /* letters of a name that was cut */

/* Letters that only one of the two has: never more than their edits. */
static size_t least_edits(const char *a, const char *b)
{
    int counts[256] = {0};
    size_t more[2] = {0, 0};
    for (; *a != '\0'; a++)
        counts[(unsigned char)*a]++;
    for (const char *at = b; *at != '\0'; at++)
        more[0] += counts[(unsigned char)*at]-- <= 0;
    for (int i = 0; i < 256; i++)
        more[1] += counts[i] > 0 ? (size_t)counts[i] : 0;
    return more[0] > more[1] ? more[0] : more[1];
}

/* Letters to insert, drop, change or swap; at most `most`, or more than it. */
static size_t edits(const char *a, const char *b, size_t most)
{
    size_t n = strlen(a);
    size_t m = strlen(b);
    size_t rows[3][MOST_LETTERS + 1];
    if (n > MOST_LETTERS || m > MOST_LETTERS ||
        (n > m ? n - m : m - n) > most || least_edits(a, b) > most)
        return most + 1;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t least = above[j - 1] + (a[i - 1] != b[j - 1]);
            least = above[j] + 1 < least ? above[j] + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            bool is_swap =
                i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_swap && before[j - 2] + 1 < least)
                least = before[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[n % 3][m];
}

struct pen__lint_nearest pen__lint_nearest_to(const char *word)
{
    size_t length = strlen(word);
    size_t most = length < 5 ? 1 : length < 10 ? 2 : length < 24 ? 3 : 4;
    return (struct pen__lint_nearest){.word = word, .distance = most + 1};
}

void pen__lint_nearest_offer(struct pen__lint_nearest *nearest,
                             const char *name)
{
    if (nearest->best != NULL && strcmp(nearest->best, name) == 0)
        return;
    size_t length = strlen(nearest->word);
    bool is_start =
        length >= LEAST_START && strncmp(name, nearest->word, length) == 0;
    size_t distance =
        is_start ? 1 : edits(nearest->word, name, nearest->distance);
    if (distance == nearest->distance && nearest->best != NULL)
        nearest->is_tied = true;
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->best = name;
        nearest->is_tied = false;
    }
}

const char *pen__lint_nearest_best(const struct pen__lint_nearest *nearest)
{
    return nearest->is_tied ? NULL : nearest->best;
}

size_t pen__lint_edits(const char *a, const char *b)
{
    return edits(a, b, MOST_LETTERS);
}
