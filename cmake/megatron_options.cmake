# Writes the tables of Megatron's options in FOLDER as rows into OUTPUT, a
# source in C. The options of 2026 have names alone.
file(READ ${FOLDER}/megatron_options.tsv rows)
string(REGEX REPLACE "#[^\n]*\n" "" rows "${rows}")
string(REGEX REPLACE
       "--([^\t\n]+)\t([^\t\n]+)\t([^\t\n]+)\t([^\t\n]+)\t([^\t\n]+)\n"
       "    {\"\\1\", \"\\3\", \"\\4\", \"\\5\"},\n" rows "${rows}")
file(READ ${FOLDER}/megatron_2026_options.txt newer)
string(REGEX REPLACE "#[^\n]*\n" "" newer "${newer}")
string(REGEX REPLACE "(--)?([^\n]+)\n" "    {\"\\2\", \"\", \"\", \"-\"},\n"
       newer "${newer}")
file(WRITE ${OUTPUT} "#include \"lint/megatron_options.h\"\n\n\
const struct pen__lint_option pen__lint_options[] = {\n${rows}${newer}\
    {0, 0, 0, 0}};\n")
