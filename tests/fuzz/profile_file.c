/* Whatever is accepted as a profile is right, and prints as the same one. */
#include "base/bug.h"
#include "core/profile.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct pen_profile *profile)
{
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    struct pen_profile *again = NULL;
    pen_profile_print(profile, &first);
    PEN_BUG_UNLESS(pen_profile_parse(first.bytes, first.length, &again, NULL) ==
                   PEN_OK);
    pen_profile_print(again, &second);
    PEN_BUG_UNLESS(strcmp(first.bytes, second.bytes) == 0);
    pen_profile_free(again);
    pen_text_release(&first);
    pen_text_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_profile *profile = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_profile_parse((const char *)data, size, &profile, &why) == PEN_OK) {
        PEN_BUG_UNLESS(pen_profile_check(profile, NULL) == PEN_OK);
        check_again(profile);
        pen_profile_free(profile);
    } else {
        PEN_BUG_UNLESS(profile == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
