/*
 * Good safetensors files are read as they are, bad ones refused by the name
 * that the reference implementation gives the error, and what is written comes
 * back bit for bit.
 */
#include "support/support.h"

#include "base/file.h"
#include "core/safetensors.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLES PEN_SOURCE_DIR "/../shared/data/safetensors/"

static char folder[] = "/tmp/penstock-safetensors-XXXXXX";
static char path[100];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int has_samples(void)
{
    struct stat about;
    if (stat(SAMPLES, &about) == 0)
        return 1;
    if (getenv("PEN_REQUIRE_SHARED") != NULL)
        fail_msg("%s is missing", SAMPLES);
    print_message("%s is missing\n", SAMPLES);
    return 0;
}

/* "ok", or the word in the brackets at the end of the refusal. */
static void verdict_of(const char *file, char verdict[100])
{
    struct pen_safetensors *opened = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_safetensors_open(file, &opened, &why);
    if (status == PEN_OK) {
        strcpy(verdict, "ok");
        pen_safetensors_close(opened);
    } else {
        assert_int_equal(PEN_INVALID, status);
        assert_null(opened);
        const char *bracket = strrchr(pen_text_string(&why), '(');
        if (bracket == NULL || sscanf(bracket, "(%99[A-Za-z])", verdict) != 1)
            fail_msg("no rule in: %s", pen_text_string(&why));
    }
    pen_text_release(&why);
}

static void samples_get_the_expected_verdict(void **state)
{
    (void)state;
    if (!has_samples())
        skip();
    FILE *list = fopen(SAMPLES "expected.tsv", "r");
    assert_non_null(list);
    char line[1000];
    int num_samples = 0;
    assert_non_null(fgets(line, sizeof line, list));
    while (fgets(line, sizeof line, list) != NULL) {
        char name[500];
        char expected[100];
        char found[100];
        char sample[1000];
        assert_int_equal(2, sscanf(line, "%499s %99s", name, expected));
        snprintf(sample, sizeof sample, SAMPLES "%s", name);
        verdict_of(sample, found);
        if (strcmp(expected, found) != 0)
            fail_msg("%s: expected %s, found %s", name, expected, found);
        num_samples++;
    }
    fclose(list);
    assert_int_equal(22, num_samples);
}

/* Some tensor of a file of SAMPLES "real/", as other readers list it. */
struct real_tensor {
    const char *file;
    const char *name;
    enum pen_dtype dtype;
    uint64_t shape[3];
    size_t in_file; /* tensors beside it, and itself */
};

static void expect_tensor(const struct real_tensor *expected)
{
    char sample[1000];
    struct pen_safetensors *file = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    snprintf(sample, sizeof sample, SAMPLES "real/%s", expected->file);
    if (pen_safetensors_open(sample, &file, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(expected->in_file, file->num_tensors);
    const struct pen_safetensor *tensor =
        pen_safetensors_find(file, expected->name);
    assert_non_null(tensor);
    assert_int_equal(expected->dtype, tensor->dtype);
    assert_int_equal(3, tensor->num_dims);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(expected->shape[i], tensor->shape[i]);
    pen_safetensors_close(file);
    pen_text_release(&why);
}

static void real_files_have_their_tensors(void **state)
{
    (void)state;
    static const struct real_tensor tensors[] = {
        {"jfk-codes.safetensors", "codes", PEN_DTYPE_I64, {1, 2, 828}, 1},
        {"voices.safetensors", "tokens", PEN_DTYPE_I64, {1, 982, 33}, 2},
        {"voices.safetensors", "mask", PEN_DTYPE_U8, {1, 982, 33}, 2},
    };
    if (!has_samples())
        skip();
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        expect_tensor(&tensors[i]);
}

/* Bytes of a file: the length, the header, `data` bytes of zeros. */
static size_t build(const char *header, size_t data, unsigned char *out)
{
    size_t length = strlen(header);
    memset(out, 0, 8 + length + data);
    out[0] = (unsigned char)(length & 0xff);
    out[1] = (unsigned char)(length >> 8);
    memcpy(out + 8, header, length);
    return 8 + length + data;
}

static void refusals_say_which_tensor_and_rule(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *reason;
    } cases[] = {
        {"[]", 0,
         "the header must be one JSON object (InvalidHeaderDeserialization)"},
        {"{\"a\":1}", 0,
         "tensor \"a\": dtype must be a type of safetensors "
         "(InvalidHeaderDeserialization)"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
         "tensor \"a\": dtype must be a type of safetensors "
         "(InvalidHeaderDeserialization)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
         "tensor \"a\": shape must be a list of integers from 0 "
         "(InvalidHeaderDeserialization)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}",
         4,
         "tensor \"a\": shape must be a list of integers from 0 "
         "(InvalidHeaderDeserialization)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2,4]}}",
         4,
         "tensor \"a\": data_offsets must be two integers from 0 "
         "(InvalidHeaderDeserialization)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
         "tensor \"a\": begins at 4 but ends earlier, at 0 "
         "(InvalidOffset)"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3,
         "tensor \"b\": begins at 1 of the data, but the tensor before "
         "it ends at 2 (InvalidOffset)"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
         "tensor \"a\": begins at 1 of the data, but the tensor before "
         "it ends at 0 (InvalidOffset)"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
         "tensor \"a\": 3 numbers of F4 are not a whole number of bytes "
         "(MisalignedSlice)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
         "tensor \"a\": dtype and shape make 8 bytes, data_offsets 4 "
         "(TensorInvalidInfo)"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2,
         "the tensors take 1 bytes, but after the header there are 2 "
         "(MetadataIncompleteBuffer)"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         1,
         "offset 64: duplicate object key near '\"a\"' "
         "(InvalidHeaderDeserialization)"},
        {"{\"__metadata__\":{\"x\":1}}", 0,
         "__metadata__ must be an object of strings "
         "(InvalidHeaderDeserialization)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[1000];
        struct pen_safetensors *file = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        size_t length = build(cases[i].header, cases[i].data, bytes);
        assert_int_equal(PEN_INVALID,
                         pen_safetensors_parse(bytes, length, &file, &why));
        assert_null(file);
        assert_string_equal(cases[i].reason, pen_text_string(&why));
        pen_text_release(&why);
    }
}

static void a_very_deep_header_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    unsigned char *bytes = malloc(8 + DEPTH);
    assert_non_null(bytes);
    memset(bytes, '[', 8 + DEPTH);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)DEPTH >> (8 * i));
    struct pen_safetensors *file = NULL;
    assert_int_equal(PEN_INVALID,
                     pen_safetensors_parse(bytes, 8 + DEPTH, &file, NULL));
    free(bytes);
}

static void missing_files_and_folders_are_refused(void **state)
{
    (void)state;
    struct pen_safetensors *file = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_IO, pen_safetensors_open("/nowhere", &file, &why));
    assert_string_equal("cannot open /nowhere: No such file or directory",
                        pen_text_string(&why));
    pen_text_clear(&why);
    assert_int_equal(PEN_INVALID, pen_safetensors_open("/tmp", &file, &why));
    assert_string_equal(
        "/tmp is not a regular file but a directory; name a file",
        pen_text_string(&why));
    pen_text_release(&why);
}

static struct pen_safetensors_writer *
create(const struct pen_tensor_spec *specs, size_t count)
{
    struct pen_safetensors_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_safetensors_create(path, specs, count, &writer, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return writer;
}

/* Wide types first, then names; the header is padded to a multiple of 8. */
static void a_file_is_laid_out_as_the_reference_does(void **state)
{
    (void)state;
    static const uint64_t two_three[] = {2, 3};
    const struct pen_tensor_spec specs[] = {{"b", PEN_DTYPE_U8, 1, two_three},
                                            {"c", PEN_DTYPE_F32, 0, NULL},
                                            {"a", PEN_DTYPE_U8, 2, two_three}};
    struct pen_safetensors_writer *writer = create(specs, 3);
    assert_int_equal(PEN_OK, pen_safetensors_put(writer, 0, "bB", 2, NULL));
    assert_int_equal(PEN_OK, pen_safetensors_put(writer, 2, "123", 3, NULL));
    assert_int_equal(PEN_OK, pen_safetensors_put(writer, 2, "456", 3, NULL));
    assert_int_equal(PEN_OK, pen_safetensors_put(writer, 1, "FFFF", 4, NULL));
    assert_int_equal(-1, access(path, F_OK));
    assert_int_equal(PEN_OK, pen_safetensors_finish(writer, NULL, NULL));
    const char expected[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"c\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[4,10]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[10,12]}}"
        "       FFFF123456bB";
    struct pen_text found = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_file_read(path, 10000, &found, NULL));
    assert_int_equal(8 + sizeof expected - 1, found.length);
    assert_string_equal(expected, found.bytes + 8);
    assert_int_equal(0, (sizeof expected - 1 - 12) % 8);
    assert_int_equal(sizeof expected - 1 - 12, (unsigned char)found.bytes[0]);
    pen_text_release(&found);
}

/* Puts two tensors; the facts must be those of the file, or have no hash. */
static void expect_facts(const size_t order[2], bool has_hash)
{
    static const uint64_t two[] = {2};
    const struct pen_tensor_spec specs[] = {{"b", PEN_DTYPE_U8, 1, two},
                                            {"a", PEN_DTYPE_U8, 1, two}};
    struct pen_text bytes = PEN_TEXT_EMPTY;
    struct pen_file_facts facts;
    char hash[PEN_HASH_SIZE];
    struct pen_safetensors_writer *writer = create(specs, 2);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(PEN_OK, pen_safetensors_put(writer, order[i / 2],
                                                     &"wxyz"[i], 1, NULL));
    assert_int_equal(PEN_OK, pen_safetensors_finish(writer, &facts, NULL));
    assert_int_equal(PEN_OK, pen_file_read(path, 10000, &bytes, NULL));
    assert_int_equal(PEN_OK,
                     pen_hash_bytes(bytes.bytes, bytes.length, hash, NULL));
    assert_int_equal(bytes.length, facts.num_bytes);
    assert_string_equal(has_hash ? hash : "", facts.hash);
    pen_text_release(&bytes);
}

static void a_file_is_hashed_while_written_in_its_order(void **state)
{
    (void)state;
    expect_facts((const size_t[]){1, 0}, true);
    expect_facts((const size_t[]){0, 1}, false);
}

enum { NUM_RANDOM = 200 };

struct random_tensor {
    char name[20];
    uint64_t shape[4];
    unsigned char *bytes;
    uint64_t num_bytes;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void make_random(struct random_tensor *tensor,
                        struct pen_tensor_spec *spec, size_t index,
                        uint64_t *random)
{
    snprintf(tensor->name, sizeof tensor->name, "t\"\\\n\xc3\xa9%zu", index);
    spec->name = tensor->name;
    spec->dtype = (enum pen_dtype)(next_random(random) % PEN_DTYPES);
    spec->num_dims = (uint32_t)(next_random(random) % 5);
    spec->shape = tensor->shape;
    for (uint32_t i = 0; i < spec->num_dims; i++)
        tensor->shape[i] = next_random(random) % 7;
    if (pen_tensor_spec_bytes(spec, &tensor->num_bytes, NULL) != PEN_OK) {
        spec->dtype = PEN_DTYPE_BF16;
        assert_int_equal(PEN_OK,
                         pen_tensor_spec_bytes(spec, &tensor->num_bytes, NULL));
    }
    tensor->bytes = malloc(tensor->num_bytes + 1);
    assert_non_null(tensor->bytes);
    for (uint64_t i = 0; i < tensor->num_bytes; i++)
        tensor->bytes[i] = (unsigned char)next_random(random);
}

static void what_is_written_comes_back_bit_for_bit(void **state)
{
    (void)state;
    struct random_tensor tensors[NUM_RANDOM];
    struct pen_tensor_spec specs[NUM_RANDOM];
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < NUM_RANDOM; i++)
        make_random(&tensors[i], &specs[i], i, &random);
    struct pen_safetensors_writer *writer = create(specs, NUM_RANDOM);
    for (size_t i = NUM_RANDOM; i-- > 0;)
        assert_int_equal(PEN_OK,
                         pen_safetensors_put(writer, i, tensors[i].bytes,
                                             tensors[i].num_bytes, NULL));
    assert_int_equal(PEN_OK, pen_safetensors_finish(writer, NULL, NULL));
    struct pen_safetensors *file = NULL;
    assert_int_equal(PEN_OK, pen_safetensors_open(path, &file, NULL));
    assert_int_equal(NUM_RANDOM, file->num_tensors);
    assert_string_equal("pt", pen_safetensors_metadata(file, "format"));
    assert_null(pen_safetensors_metadata(file, "x"));
    for (size_t i = 0; i < NUM_RANDOM; i++) {
        const struct pen_safetensor *found =
            pen_safetensors_find(file, tensors[i].name);
        assert_non_null(found);
        assert_int_equal(specs[i].dtype, found->dtype);
        assert_int_equal(specs[i].num_dims, found->num_dims);
        for (uint32_t d = 0; d < found->num_dims; d++)
            assert_int_equal(specs[i].shape[d], found->shape[d]);
        assert_int_equal(tensors[i].num_bytes, found->num_bytes);
        assert_memory_equal(tensors[i].bytes, found->bytes, found->num_bytes);
        free(tensors[i].bytes);
    }
    assert_null(pen_safetensors_find(file, "t"));
    pen_safetensors_close(file);
}

static void nothing_is_left_of_an_abandoned_file(void **state)
{
    (void)state;
    unlink(path);
    struct pen_safetensors_writer *writer = create(NULL, 0);
    pen_safetensors_abandon(writer);
    char part[110];
    snprintf(part, sizeof part, "%s.part", path);
    assert_int_equal(-1, access(path, F_OK));
    assert_int_equal(-1, access(part, F_OK));
}

static void expect_no_writer(const struct pen_tensor_spec *specs, size_t count,
                             const char *reason)
{
    struct pen_safetensors_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_safetensors_create(path, specs, count, &writer, &why));
    assert_string_equal(reason, pen_text_string(&why));
    pen_text_release(&why);
}

static void a_writer_refuses_what_no_reader_takes(void **state)
{
    (void)state;
    static const uint64_t huge[] = {1ull << 40, 1ull << 40};
    const struct pen_tensor_spec twice[] = {{"a", PEN_DTYPE_U8, 0, NULL},
                                            {"b", PEN_DTYPE_U8, 0, NULL},
                                            {"a", PEN_DTYPE_F32, 0, NULL}};
    const struct pen_tensor_spec latin = {"\xe9", PEN_DTYPE_U8, 0, NULL};
    const struct pen_tensor_spec taken = {"__metadata__", PEN_DTYPE_U8, 0,
                                          NULL};
    const struct pen_tensor_spec large = {"a", PEN_DTYPE_U8, 2, huge};
    expect_no_writer(twice, 3, "cannot write a tensor called a twice");
    expect_no_writer(&latin, 1,
                     "cannot write a tensor whose name is not UTF-8");
    expect_no_writer(&taken, 1, "cannot write a tensor called __metadata__");
    expect_no_writer(&large, 1,
                     "tensor \"a\": the shape has more numbers than 64 bits "
                     "can count (ValidationOverflow)");
}

/* A limit on the size of files stands for a disk that is full. */
static void a_full_disk_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    static const uint64_t large[] = {1 << 20};
    const struct pen_tensor_spec spec = {"a", PEN_DTYPE_U8, 1, large};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct rlimit before;
    unlink(path);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &before));
    struct rlimit small = {4096, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    struct pen_safetensors_writer *writer = create(&spec, 1);
    unsigned char *bytes = calloc(1, 1 << 20);
    assert_non_null(bytes);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &small));
    pen_status status = pen_safetensors_put(writer, 0, bytes, 1 << 20, &why);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &before));
    free(bytes);
    assert_int_equal(PEN_IO, status);
    assert_non_null(strstr(pen_text_string(&why), ": File too large"));
    pen_safetensors_abandon(writer);
    assert_int_equal(-1, access(path, F_OK));
    pen_text_release(&why);
}

static void a_file_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    struct pen_safetensors_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_IO, pen_safetensors_create("/nowhere/file", NULL, 0,
                                                    &writer, &why));
    assert_string_equal("cannot write /nowhere/file: No such file or directory",
                        pen_text_string(&why));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_get_the_expected_verdict),
        cmocka_unit_test(real_files_have_their_tensors),
        cmocka_unit_test(refusals_say_which_tensor_and_rule),
        cmocka_unit_test(a_very_deep_header_is_refused),
        cmocka_unit_test(missing_files_and_folders_are_refused),
        cmocka_unit_test(a_file_is_laid_out_as_the_reference_does),
        cmocka_unit_test(a_file_is_hashed_while_written_in_its_order),
        cmocka_unit_test(what_is_written_comes_back_bit_for_bit),
        cmocka_unit_test(nothing_is_left_of_an_abandoned_file),
        cmocka_unit_test(a_writer_refuses_what_no_reader_takes),
        cmocka_unit_test(a_full_disk_is_told_and_leaves_nothing),
        cmocka_unit_test(a_file_that_cannot_be_made_is_named)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
