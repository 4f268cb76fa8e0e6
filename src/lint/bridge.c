#include "lint/bridge.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *field;
    const char *option;
} aliases[] = {
    {"virtual-pipeline-model-parallel-size",
     "num-virtual-stages-per-pipeline-rank"},
    {"num-moe-experts", "num-experts"},
    {"num-layers-in-first-pipeline-stage", "decoder-first-pipeline-num-layers"},
    {"num-layers-in-last-pipeline-stage", "decoder-last-pipeline-num-layers"},
    {"fp8", "fp8-format"},
    {"fp4", "fp4-format"},
    {"encoder-seq-length", "seq-length"}};

/* Tables whose entries are options; all others keep their path. */
static const char *field_of(const char *path)
{
    static const char *const tables[] = {
        "model.",          "train.",          "ddp.",
        "model_parallel.", "language_model.", "optimizer."};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        size_t length = strlen(tables[i]);
        if (strncmp(path, tables[i], length) == 0 &&
            strchr(path + length, '.') == NULL)
            return path + length;
    }
    return strchr(path, '.') == NULL ? path : NULL;
}

static char *make_key(const char *path)
{
    const char *field = field_of(path);
    char *key = strdup(field == NULL ? path : field);
    if (key == NULL || field == NULL)
        return key;
    for (char *at = key; *at != '\0'; at++)
        if (*at == '_')
            *at = '-';
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(key, aliases[i].field) == 0) {
            free(key);
            return strdup(aliases[i].option);
        }
    return key;
}

void pen__lint_bridge_keys(struct pen__lint_config *config)
{
    for (uint32_t i = 0; i < config->count; i++) {
        char *key = make_key(config->list[i].key);
        if (key == NULL) {
            config->has_failed = true;
            return;
        }
        free(config->list[i].key);
        config->list[i].key = key;
    }
}
