#include "ring/net/keys.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND "ed25519 "
#define ENDING ".pub"
#define MOST_BYTES 512u

bool pen__ring_split_address(const char *address, char host[PEN__ADDRESS_SIZE],
                             char port[6])
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || strlen(address) >= PEN__ADDRESS_SIZE)
        return false;
    const char *from = address;
    size_t length = (size_t)(colon - address);
    if (*from == '[') {
        if (length < 2 || from[length - 1] != ']')
            return false;
        from++;
        length -= 2;
    } else if (memchr(from, ':', length) != NULL) {
        return false;
    }
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits == 0 || digits > 5 || colon[1 + digits] != '\0' ||
        atoi(colon + 1) > UINT16_MAX)
        return false;
    memcpy(host, from, length);
    host[length] = '\0';
    memcpy(port, colon + 1, digits + 1);
    return true;
}

static int digit_of(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = letter == '\0' ? NULL : strchr(digits, letter);
    return found == NULL ? -1 : (int)(found - digits);
}

static bool read_key(const char *text, size_t length,
                     uint8_t key[PEN__KEY_BYTES])
{
    if (length < (size_t)2 * PEN__KEY_BYTES)
        return false;
    for (size_t i = 0; i < PEN__KEY_BYTES; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        key[i] = (uint8_t)(16 * high + low);
    }
    return true;
}

pen_status pen__ring_public_parse(void *out, const char *bytes, size_t length,
                                  struct pen_text *why)
{
    struct pen__ring_peer *peer = out;
    size_t used = strlen(KIND);
    char host[PEN__ADDRESS_SIZE];
    char port[6];
    *peer = (struct pen__ring_peer){.is_there = true};
    if (length > 0 && bytes[length - 1] == '\n')
        length--;
    bool is_key = length >= used && memcmp(bytes, KIND, used) == 0 &&
                  read_key(bytes + used, length - used, peer->key);
    used += (size_t)2 * PEN__KEY_BYTES;
    if (is_key && length > used && bytes[used] == ' ' &&
        length - used - 1 < PEN__ADDRESS_SIZE) {
        memcpy(peer->address, bytes + used + 1, length - used - 1);
        used = strlen(peer->address) == length - used - 1 &&
                       pen__ring_split_address(peer->address, host, port)
                   ? length
                   : used;
    }
    if (is_key && used == length)
        return PEN_OK;
    pen_why(why, "a public key is one line: ed25519, 64 digits of 0 to 9 and a "
                 "to f, and HOST:PORT where it listens");
    return PEN_INVALID;
}

void pen__ring_public_print(const struct pen__ring_peer *peer,
                            struct pen_text *out)
{
    pen_text_add_string(out, KIND);
    for (size_t i = 0; i < PEN__KEY_BYTES; i++)
        pen_text_add(out, "%02x", peer->key[i]);
    if (peer->address[0] != '\0')
        pen_text_add(out, " %s", peer->address);
}

/* ---- the folder */

/* Returns the node that a file of this name is for, or -1. */
static int node_of(const char *name, const char *prefix, uint32_t first,
                   uint32_t count)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return -1;
    size_t digits = strspn(name + length, "0123456789");
    const char *end = name + length + digits;
    if (digits == 0 || digits > 2 || (*end != '-' && *end != '.') ||
        (uint32_t)atoi(name + length) >= count)
        return -1;
    return (int)first + atoi(name + length);
}

static int place_of(const struct pen__ring_keys *keys, const char *name)
{
    int node = node_of(name, "island-", 0, PEN_RING_ISLANDS);
    if (node < 0)
        node = node_of(name, "coordinator-", PEN_RING_ISLANDS,
                       PEN_RING_COORDINATORS);
    if (node < 0 && strncmp(name, "operator-", 9) == 0)
        for (uint32_t i = 0; i < PEN__OPERATORS && node < 0; i++)
            if (!keys->peers[PEN_RING_NODES + i].is_there)
                node = (int)(PEN_RING_NODES + i);
    return node;
}

static pen_status add_file(struct pen__ring_keys *keys, const char *folder,
                           const char *name, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen__ring_peer peer;
    int place = place_of(keys, name);
    pen_text_add(&path, "%s/%s", folder, name);
    pen_status status = PEN_INVALID;
    if (place < 0)
        pen_why(why,
                "%s: files of keys are island-N.pub with N below %u, "
                "coordinator-N.pub with N below %u, or operator-NAME.pub, at "
                "most %u of these",
                pen_text_string(&path), PEN_RING_ISLANDS, PEN_RING_COORDINATORS,
                PEN__OPERATORS);
    else if (keys->peers[place].is_there)
        pen_why(why, "%s: there is another file for the same number",
                pen_text_string(&path));
    else
        status = pen_file_parse(pen_text_string(&path), MOST_BYTES,
                                pen__ring_public_parse, &peer, why);
    if (status == PEN_OK && pen__ring_keys_find(keys, peer.key) >= 0) {
        pen_why(why, "%s: another file has the same key",
                pen_text_string(&path));
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        keys->peers[place] = peer;
    pen_text_release(&path);
    return status;
}

pen_status pen__ring_keys_read(const char *folder, struct pen__ring_keys *out,
                               struct pen_text *why)
{
    memset(out, 0, sizeof *out);
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return pen_file_refuse("open", folder, why);
    pen_status status = PEN_OK;
    const struct dirent *entry;
    while (status == PEN_OK && (entry = readdir(listing)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length > strlen(ENDING) &&
            strcmp(entry->d_name + length - strlen(ENDING), ENDING) == 0)
            status = add_file(out, folder, entry->d_name, why);
    }
    closedir(listing);
    if (status == PEN_OK && pen__ring_keys_islands(out) == 0) {
        pen_why(why,
                "%s has no key of an island; penstock ring key makes one, to "
                "be put there as island-0.pub",
                folder);
        status = PEN_INVALID;
    }
    return status;
}

int pen__ring_keys_find(const struct pen__ring_keys *keys,
                        const uint8_t key[PEN__KEY_BYTES])
{
    for (size_t i = 0; i < sizeof keys->peers / sizeof *keys->peers; i++)
        if (keys->peers[i].is_there &&
            memcmp(keys->peers[i].key, key, PEN__KEY_BYTES) == 0)
            return (int)i;
    return -1;
}

uint32_t pen__ring_keys_islands(const struct pen__ring_keys *keys)
{
    uint32_t count = PEN_RING_ISLANDS;
    while (count > 0 && !keys->peers[count - 1].is_there)
        count--;
    return count;
}

void pen__ring_add_node(uint32_t node, struct pen_text *out)
{
    if (node < PEN_RING_ISLANDS)
        pen_text_add(out, "island %u", node);
    else if (node < PEN_RING_NODES)
        pen_text_add(out, "coordinator %u", node - PEN_RING_ISLANDS);
    else
        pen_text_add_string(out, "an operator");
}
