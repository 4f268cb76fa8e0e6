# Writes the files of FOLDER that FILES names, one behind the other in that order,
# as the bytes of NAME into OUTPUT, a source in C; HEADER declares NAME.
set(bytes "")
foreach(file ${FILES})
    file(READ ${FOLDER}/${file} text HEX)
    string(APPEND bytes ${text})
endforeach()
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\n\
const char ${NAME}[] = {${bytes}0};\n")
