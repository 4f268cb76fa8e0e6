/*
 * Whatever is accepted as the record of a share keeps its bounds, names only
 * files beside it, and prints as a record that says the same.
 */
#include "checkpoint/record.h"
#include "base/bug.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_file(const struct pen_record_file *file)
{
    PEN_BUG_UNLESS((unsigned)file->kind < PEN_RECORD_KINDS);
    const char *word = pen_record_kind_name(file->kind);
    PEN_BUG_UNLESS(strncmp(file->name, word, strlen(word)) == 0);
    PEN_BUG_UNLESS(strchr(file->name, '/') == NULL);
    PEN_BUG_UNLESS(file->facts.num_bytes <= UINT64_C(1) << 47);
    PEN_BUG_UNLESS(file->tensor_bytes <= file->facts.num_bytes);
    PEN_BUG_UNLESS(pen_hash_is_valid(file->facts.hash));
    PEN_BUG_UNLESS(file->num_tensors > 0);
    PEN_BUG_UNLESS(file->num_extras <= file->num_tensors);
    PEN_BUG_UNLESS(file->num_extras == 0 || file->kind == PEN_RECORD_SYNC);
    for (size_t i = 0; i < file->num_tensors; i++)
        PEN_BUG_UNLESS(file->tensors[i][0] != '\0');
}

static void check_again(const struct pen_record *record)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text twice = PEN_TEXT_EMPTY;
    struct pen_record again;
    PEN_BUG_UNLESS(pen_record_print(record, &text, NULL) == PEN_OK);
    PEN_BUG_UNLESS(pen_record_parse(text.bytes, text.length, &again, NULL) ==
                   PEN_OK);
    PEN_BUG_UNLESS(again.step == record->step && again.share == record->share);
    PEN_BUG_UNLESS(pen_record_print(&again, &twice, NULL) == PEN_OK);
    PEN_BUG_UNLESS(strcmp(text.bytes, twice.bytes) == 0);
    pen_record_release(&again);
    pen_text_release(&text);
    pen_text_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_record record;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_record_parse((const char *)data, size, &record, &why) == PEN_OK) {
        PEN_BUG_UNLESS(record.num_files <= PEN_RECORD_MAX_FILES);
        PEN_BUG_UNLESS(record.share <= PEN_RECORD_MAX_SHARE);
        for (size_t i = 0; i < record.num_files; i++)
            check_file(&record.files[i]);
        check_again(&record);
        pen_record_release(&record);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
