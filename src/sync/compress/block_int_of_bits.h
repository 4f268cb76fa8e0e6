/* The coding of BITS bits in blocks whose size is the option BLOCK. */

static size_t block(const double *values)
{
    return (size_t)values[BLOCK];
}

static size_t length(size_t count)
{
    return pen_blocks_length(BITS, count);
}

static void encode(const float *given, float *error, size_t count, void *to)
{
    pen_blocks_encode(BITS, given, error, count, to);
}

static void decode(const void *from, size_t count, float factor, bool is_added,
                   float *values)
{
    pen_blocks_decode(BITS, from, count, factor, is_added, values);
}

static pen_status check(const double *values, struct pen_text *why)
{
    return pen_blocks_check(values[BLOCK], why);
}

static const struct pen_coding coding = {.check = check,
                                         .block = block,
                                         .length = length,
                                         .encode = encode,
                                         .decode = decode,
                                         .passes = PASSES};

PEN_TWO_SIDED_FUNCTIONS(coding)
