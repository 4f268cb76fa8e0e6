#ifndef PEN_DATA_TOKEN_LAYOUT_H
#define PEN_DATA_TOKEN_LAYOUT_H

#include "data/token_file.h"

/* The layout of token files, shared by reader and writer. */

#define PEN__IDX_MAGIC "MMIDIDX\0" /* and the NUL of the string: 9 bytes */
#define PEN__IDX_MAGIC_BYTES 9u
#define PEN__IDX_HEADER 34u

#define PEN__LLMC_HEADER 1024u
#define PEN__LLMC_GPT2_MAGIC 20240520u
#define PEN__LLMC_GPT2_VERSION 1u
#define PEN__LLMC_LLAMA3_MAGIC 20240801u
#define PEN__LLMC_LLAMA3_VERSION 7u

/* Reads and checks file->idx against file->bin, both of which are mapped. */
pen_status pen__token_index_check(struct pen_token_file *file, const char *path,
                                  struct pen_text *why);

#endif
