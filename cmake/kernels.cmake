# Writes the text of the kernels, as a device's compiler gets it, as bytes into
# OUTPUT, a source in C: the files of FOLDER that FILES names, in that order.
set(bytes "")
foreach(file ${FILES})
    file(READ ${FOLDER}/${file} text HEX)
    string(APPEND bytes ${text})
endforeach()
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"engine/device/opencl.h\"\n\n\
const char pen__opencl_text[] = {${bytes}0};\n")
