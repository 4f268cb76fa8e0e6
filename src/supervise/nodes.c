#include "supervise/nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 512, EXCERPT = 40 };

/* ---- reading ---- */

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r';
}

static bool is_digit(char letter)
{
    return letter >= '0' && letter <= '9';
}

static bool is_of_name(char letter)
{
    return (letter >= 'a' && letter <= 'z') ||
           (letter >= 'A' && letter <= 'Z') || is_digit(letter) ||
           letter == '.' || letter == '-' || letter == '_';
}

struct span {
    const char *begin;
    const char *end;
};

static struct span trim(struct span line)
{
    while (line.begin < line.end && is_blank(*line.begin))
        line.begin++;
    while (line.begin < line.end && is_blank(line.end[-1]))
        line.end--;
    return line;
}

/*
 * Reads a number that fills the rest of the line; false when it is malformed or
 * too large.
 */
static bool read_slots(struct span line, uint32_t *out)
{
    uint32_t number = 0;
    if (line.begin == line.end)
        return false;
    for (; line.begin < line.end; line.begin++) {
        if (!is_digit(*line.begin))
            return false;
        number = 10 * number + (uint32_t)(*line.begin - '0');
        if (number > PEN_SLOTS_MOST)
            return false;
    }
    *out = number;
    return true;
}

/* Reads a line. Returns NULL, or what is wrong with it. */
static const char *read_line(struct span line, struct pen_node *out)
{
    const char *at = line.begin;
    if (line.end - line.begin > LONGEST_LINE)
        return "it is longer than 512 bytes";
    while (at < line.end && is_of_name(*at))
        at++;
    size_t length = (size_t)(at - line.begin);
    if (length == 0 || *line.begin == '-')
        return "it does not begin with the name of a host";
    if (length >= PEN_NODE_NAME_SIZE)
        return "its name is longer than 255 bytes";
    if (at == line.end || (*at != ':' && !is_blank(*at)))
        return "after the name comes a blank or ':', and a number of slots";
    if (!read_slots(trim((struct span){at + 1, line.end}), &out->num_slots))
        return "its slots are not a number from 0 to 1048576";
    memcpy(out->name, line.begin, length);
    out->name[length] = '\0';
    return NULL;
}

static pen_status refuse(struct span line, size_t number, const char *reason,
                         struct pen_text *why)
{
    struct pen_text excerpt = PEN_TEXT_EMPTY;
    size_t length = (size_t)(line.end - line.begin);
    pen_text_add_printable(&excerpt, line.begin,
                           length < EXCERPT ? length : EXCERPT);
    pen_why(why, "line %zu, \"%s\": %s", number, pen_text_string(&excerpt),
            reason);
    pen_text_release(&excerpt);
    return PEN_INVALID;
}

static pen_status add_line(struct pen_nodes *nodes, struct span line,
                           size_t number, struct pen_text *why)
{
    line = trim(line);
    if (line.begin == line.end || *line.begin == '#')
        return PEN_OK;
    if (nodes->count == PEN_NODES_MOST)
        return refuse(line, number, "there are more than 4096 nodes", why);
    struct pen_node *node = &nodes->items[nodes->count];
    const char *reason = read_line(line, node);
    if (reason == NULL &&
        pen_nodes_slots(nodes) + node->num_slots > PEN_SLOTS_MOST)
        reason = "there are more than 1048576 slots";
    if (reason != NULL)
        return refuse(line, number, reason, why);
    nodes->count++;
    return PEN_OK;
}

static int compare_names(const void *a, const void *b)
{
    const struct pen_node *const *first = a, *const *second = b;
    return strcmp((*first)->name, (*second)->name);
}

static pen_status check_once(const struct pen_nodes *nodes,
                             struct pen_text *why)
{
    const struct pen_node **sorted =
        malloc((nodes->count + 1) * sizeof *sorted);
    pen_status status = sorted == NULL ? PEN_NOMEM : PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < nodes->count; i++)
        sorted[i] = &nodes->items[i];
    if (status == PEN_OK)
        qsort(sorted, nodes->count, sizeof *sorted, compare_names);
    for (size_t i = 1; status == PEN_OK && i < nodes->count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            pen_why(why, "the host %s is listed twice", sorted[i]->name);
            status = PEN_INVALID;
        }
    free(sorted);
    return status;
}

pen_status pen_nodes_parse(const char *text, size_t length,
                           struct pen_nodes *out, struct pen_text *why)
{
    const char *end = text + length;
    struct pen_nodes nodes = {malloc(PEN_NODES_MOST * sizeof *nodes.items), 0};
    pen_status status = nodes.items == NULL ? PEN_NOMEM : PEN_OK;
    for (size_t number = 1; status == PEN_OK && text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (stop == NULL)
            stop = end;
        status = add_line(&nodes, (struct span){text, stop}, number, why);
        text = stop + 1;
    }
    if (status == PEN_OK)
        status = check_once(&nodes, why);
    if (status == PEN_OK)
        *out = nodes;
    else
        pen_nodes_release(&nodes);
    return status;
}

void pen_nodes_release(struct pen_nodes *nodes)
{
    free(nodes->items);
    *nodes = (struct pen_nodes){NULL, 0};
}

/* ---- asking ---- */

uint32_t pen_nodes_slots(const struct pen_nodes *nodes)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < nodes->count; i++)
        sum += nodes->items[i].num_slots;
    return sum;
}

pen_status pen_nodes_take(const struct pen_nodes *nodes, uint32_t num_slots,
                          struct pen_nodes *out)
{
    struct pen_nodes taken = {malloc((nodes->count + 1) * sizeof *taken.items),
                              0};
    if (taken.items == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < nodes->count && num_slots > 0; i++) {
        struct pen_node node = nodes->items[i];
        if (node.num_slots > num_slots)
            node.num_slots = num_slots;
        num_slots -= node.num_slots;
        if (node.num_slots > 0)
            taken.items[taken.count++] = node;
    }
    *out = taken;
    return PEN_OK;
}

/* Lists keep their order from one answer to the next: begins at a hint. */
static const struct pen_node *find(const struct pen_nodes *nodes,
                                   const char *name, size_t hint)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct pen_node *node = &nodes->items[(hint + i) % nodes->count];
        if (strcmp(node->name, name) == 0)
            return node;
    }
    return NULL;
}

const struct pen_node *pen_nodes_missing(const struct pen_nodes *nodes,
                                         const struct pen_nodes *used)
{
    size_t hint = 0;
    for (size_t i = 0; i < used->count; i++) {
        const struct pen_node *node = find(nodes, used->items[i].name, hint);
        if (node == NULL || node->num_slots < used->items[i].num_slots)
            return &used->items[i];
        hint = (size_t)(node - nodes->items) + 1;
    }
    return NULL;
}

void pen_nodes_print(const struct pen_nodes *nodes, struct pen_text *out)
{
    const char *comma = "";
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->items[i].num_slots == 0)
            continue;
        pen_text_add(out, "%s%s:%" PRIu32, comma, nodes->items[i].name,
                     nodes->items[i].num_slots);
        comma = ",";
    }
}
