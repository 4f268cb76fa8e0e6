#include "support/models.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void need_folder(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0)
        return;
    if (getenv("PEN_REQUIRE_SHARED") != NULL)
        fail_msg("%s is missing", path);
    print_message("%s is missing\n", path);
    skip();
}

struct pen_model *load_model(const char *source)
{
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_model_load(source, &model, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return model;
}

struct pen_model *parse_model(const char *text)
{
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_model_parse(text, strlen(text), &model, &why) != PEN_OK)
        fail_msg("%s\n%s", pen_text_string(&why), text);
    pen_text_release(&why);
    return model;
}

void expect_model_refusal(const char *text, const char *reason)
{
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_model_parse(text, strlen(text), &model, &why));
    assert_null(model);
    assert_string_equal(reason, pen_text_string(&why));
    pen_text_release(&why);
}

static void print_shape(const char *source, struct pen_text *out)
{
    struct pen_model *model = load_model(source);
    model->dtype = PEN_DTYPE_F32;
    pen_model_print(model, out);
    pen_model_free(model);
}

void expect_same_shape(const char *source, const char *other)
{
    struct pen_text found = PEN_TEXT_EMPTY;
    struct pen_text expected = PEN_TEXT_EMPTY;
    print_shape(source, &expected);
    print_shape(other, &found);
    assert_string_equal(pen_text_string(&expected), pen_text_string(&found));
    pen_text_release(&expected);
    pen_text_release(&found);
}
