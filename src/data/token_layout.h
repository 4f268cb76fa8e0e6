#ifndef PEN_DATA_TOKEN_LAYOUT_H
#define PEN_DATA_TOKEN_LAYOUT_H

/* Constants of the files of tokens that reader and writer share. */

#define PEN__IDX_MAGIC "MMIDIDX\0" /* and the NUL of the string: 9 bytes */
#define PEN__IDX_MAGIC_BYTES 9u
#define PEN__IDX_HEADER 34u

#define PEN__LLMC_HEADER 1024u
#define PEN__LLMC_GPT2_MAGIC 20240520u
#define PEN__LLMC_GPT2_VERSION 1u
#define PEN__LLMC_LLAMA3_MAGIC 20240801u
#define PEN__LLMC_LLAMA3_VERSION 7u

#endif
