# The kernels as PTX, by a clang that has a back end for it: 14 and later have. It
# needs no file of CUDA's. Without it the program has no kernels for CUDA, and
# `--engine cuda` says so.
#
# ${kernels}: the files of the text, with the prelude of OpenCL; ${folder}: theirs.
set(options -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc
    -nocudalib --cuda-path=/nonexistent -ffp-contract=off -O2)
set(PEN_HAS_CUDA OFF)
if(PEN_CUDA)
    find_program(PEN_CUDA_CLANG NAMES clang clang-19 clang-18 clang-17 clang-16
                 clang-15 clang-14)
endif()
if(PEN_CUDA AND PEN_CUDA_CLANG)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/nothing.cu "")
    execute_process(COMMAND ${PEN_CUDA_CLANG} ${options} -S -o /dev/null
                            ${CMAKE_CURRENT_BINARY_DIR}/nothing.cu
                    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
        set(PEN_HAS_CUDA ON)
    endif()
endif()
if(NOT PEN_HAS_CUDA)
    message(STATUS "no clang compiles PTX: there are no kernels for CUDA")
endif()
set(PEN_HAS_CUDA ${PEN_HAS_CUDA} CACHE INTERNAL "The kernels are there as PTX")

set(includes "")
foreach(kernel ${kernels})
    string(REPLACE prelude_opencl prelude_cuda kernel ${kernel})
    string(APPEND includes "#include \"${kernel}\"\n")
endforeach()
file(CONFIGURE OUTPUT kernels.cu CONTENT "${includes}" @ONLY)
foreach(dtype f32 bf16)
    set(ptx ${CMAKE_CURRENT_BINARY_DIR}/kernels_${dtype}.ptx)
    set(text ${CMAKE_CURRENT_BINARY_DIR}/cuda_${dtype}.c)
    if(PEN_HAS_CUDA)
        set(define "")
        if(dtype STREQUAL "bf16")
            set(define -DPEN__BF16)
        endif()
        add_custom_command(
            OUTPUT ${ptx}
            COMMAND ${PEN_CUDA_CLANG} ${options} ${define} -I${folder} -S
                    -o ${ptx} ${CMAKE_CURRENT_BINARY_DIR}/kernels.cu
            DEPENDS ${kernel_paths} ${folder}/prelude_cuda.cl
                    ${CMAKE_CURRENT_BINARY_DIR}/kernels.cu
            VERBATIM)
        set(files kernels_${dtype}.ptx)
    else()
        set(ptx "")
        set(files "")
    endif()
    add_custom_command(
        OUTPUT ${text}
        COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_BINARY_DIR}
                "-DFILES=${files}" -DOUTPUT=${text}
                -DNAME=pen__cuda_text_${dtype} -DHEADER=engine/device/cuda.h
                -P ${CMAKE_SOURCE_DIR}/cmake/kernels.cmake
        DEPENDS ${ptx} ${CMAKE_SOURCE_DIR}/cmake/kernels.cmake
        VERBATIM)
    list(APPEND sources ${text})
endforeach()
