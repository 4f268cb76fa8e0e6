/*
 * Whatever is accepted as a manifest keeps its bounds, names only files beside
 * it, and prints as a manifest that says the same.
 */
#include "checkpoint/manifest.h"
#include "base/bug.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_files(const struct pen_manifest *manifest)
{
    PEN_BUG_UNLESS(manifest->num_files <= PEN_MANIFEST_MAX_FILES);
    for (size_t i = 0; i < manifest->num_files; i++) {
        const struct pen_manifest_file *file = &manifest->files[i];
        PEN_BUG_UNLESS(strchr(file->name, '/') == NULL);
        PEN_BUG_UNLESS(file->name[0] != '.' && file->name[0] != '\0');
        PEN_BUG_UNLESS(strcmp(file->name, PEN_MANIFEST_NAME) != 0);
        PEN_BUG_UNLESS(file->num_bytes <= UINT64_C(1) << 47);
        PEN_BUG_UNLESS(pen_hash_is_valid(file->hash));
        PEN_BUG_UNLESS(i == 0 || strcmp(file[-1].name, file->name) < 0);
        PEN_BUG_UNLESS(pen_manifest_find_file(manifest, file->name) == file);
    }
}

static void check_sync(const struct pen_manifest *manifest)
{
    struct pen_manifest_sync sync;
    if (!pen_manifest_get_sync(manifest, &sync))
        return;
    PEN_BUG_UNLESS(sync.method != NULL && sync.method[0] != '\0');
    PEN_BUG_UNLESS(sync.interval > 0 && sync.num_replicas > 0);
    PEN_BUG_UNLESS(sync.num_replicas <= PEN_MANIFEST_MAX_REPLICAS);
}

static void check_again(struct pen_manifest *manifest)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_manifest again;
    PEN_BUG_UNLESS(pen_manifest_print(manifest, &text, NULL) == PEN_OK);
    PEN_BUG_UNLESS(pen_manifest_parse(text.bytes, text.length, &again, NULL) ==
                   PEN_OK);
    PEN_BUG_UNLESS(pen_run_id_is_valid(manifest->run));
    PEN_BUG_UNLESS(strcmp(again.run, manifest->run) == 0);
    PEN_BUG_UNLESS(again.step == manifest->step);
    PEN_BUG_UNLESS(again.sample == manifest->sample);
    PEN_BUG_UNLESS(again.dtype == manifest->dtype);
    PEN_BUG_UNLESS(again.num_moments == manifest->num_moments);
    PEN_BUG_UNLESS(again.num_replicas == manifest->num_replicas);
    PEN_BUG_UNLESS(strcmp(again.optimizer, manifest->optimizer) == 0);
    PEN_BUG_UNLESS(strcmp(again.previous, manifest->previous) == 0);
    PEN_BUG_UNLESS(strcmp(again.hash, manifest->hash) == 0);
    PEN_BUG_UNLESS(again.num_files == manifest->num_files);
    PEN_BUG_UNLESS(pen_manifest_compare_settings(manifest, &again, NULL) ==
                   PEN_OK);
    PEN_BUG_UNLESS(pen_manifest_compare_sync(manifest, &again, NULL) == PEN_OK);
    pen_manifest_release(&again);
    pen_text_release(&text);
}

static void parse(const char *text, size_t length)
{
    struct pen_manifest manifest;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_manifest_parse(text, length, &manifest, &why) == PEN_OK) {
        PEN_BUG_UNLESS(manifest.num_moments <= PEN_MANIFEST_MAX_MOMENTS);
        check_files(&manifest);
        check_sync(&manifest);
        check_again(&manifest);
        pen_manifest_release(&manifest);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
}

/* As it is, and with a seal: no mutation would ever hit the right one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_text sealed = PEN_TEXT_EMPTY;
    parse((const char *)data, size);
    pen_text_add_bytes(&sealed, (const char *)data, size);
    PEN_BUG_UNLESS(pen_manifest_seal(&sealed, NULL) == PEN_OK);
    parse(sealed.bytes, sealed.length);
    pen_text_release(&sealed);
    return 0;
}
