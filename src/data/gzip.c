#include "data/gzip.h"

#include <stdint.h>
#include <string.h>
#include <zlib.h>

#define BLOCK 65536u
#define GZIP_WINDOW (15 + 16) /* the largest, in gzip's header */

bool pen__gzip_is(const char *bytes, size_t length)
{
    return length >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

static pen_status refuse(const z_stream *stream, int code, struct pen_text *why)
{
    if (code == Z_MEM_ERROR) {
        pen_why(why, "no memory to decompress it");
        return PEN_NOMEM;
    }
    if (code == Z_BUF_ERROR || code == Z_OK)
        pen_why(why, "the gzip data ends too early");
    else
        pen_why(why, "the gzip data is damaged: %s",
                stream->msg != NULL ? stream->msg : "not gzip");
    return PEN_INVALID;
}

/* Unpacks one further block; *code is zlib's. */
static pen_status unpack_block(z_stream *stream, size_t limit, int *code,
                               struct pen_text *out, struct pen_text *why)
{
    char block[BLOCK];
    stream->next_out = (Bytef *)block;
    stream->avail_out = sizeof block;
    *code = inflate(stream, Z_NO_FLUSH);
    size_t length = sizeof block - stream->avail_out;
    if (length > limit - out->length) {
        pen_why(why, "it has more than %zu bytes after decompression", limit);
        return PEN_INVALID;
    }
    pen_text_add_bytes(out, block, length);
    if (out->has_failed)
        return refuse(stream, Z_MEM_ERROR, why);
    if (*code != Z_OK && *code != Z_STREAM_END)
        return refuse(stream, *code, why);
    return PEN_OK;
}

static pen_status unpack_all(z_stream *stream, size_t limit,
                             struct pen_text *out, struct pen_text *why)
{
    int code = Z_OK;
    pen_status status = PEN_OK;
    while (status == PEN_OK && (code != Z_STREAM_END || stream->avail_in > 0)) {
        if (code == Z_STREAM_END && inflateReset(stream) != Z_OK)
            return refuse(stream, Z_STREAM_ERROR, why);
        status = unpack_block(stream, limit, &code, out, why);
    }
    return status;
}

pen_status pen__gzip_unpack(const char *bytes, size_t length, size_t limit,
                            struct pen_text *out, struct pen_text *why)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)length};
    if (length > UINT32_MAX) {
        pen_why(why, "the gzip data has more than %u bytes", UINT32_MAX);
        return PEN_INVALID;
    }
    int code = inflateInit2(&stream, GZIP_WINDOW);
    if (code != Z_OK)
        return refuse(&stream, code, why);
    pen_status status = unpack_all(&stream, limit, out, why);
    inflateEnd(&stream);
    return status;
}
