# The messages of TensorBoard's event files, where protobuf-c and its compiler
# are there; otherwise the runtime says that they are not.
pkg_check_modules(PROTOBUF_C IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c)
set(PEN_HAS_TENSORBOARD OFF)
if(NOT PROTOBUF_C_FOUND OR NOT PROTOC_C)
    message(STATUS "protobuf-c is not there: --tensorboard-dir will say so")
    list(FILTER PEN_RUNTIME_SOURCES EXCLUDE REGEX "/tensorboard\\.c$")
    list(APPEND PEN_RUNTIME_SOURCES
         src/runtime/without_tensorboard/tensorboard.c)
    return()
endif()
set(PEN_HAS_TENSORBOARD ON)

set(source ${CMAKE_SOURCE_DIR}/src)
set(generated ${CMAKE_BINARY_DIR}/generated)
set(messages ${generated}/runtime/tensorboard.pb-c)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
    OUTPUT ${messages}.c ${messages}.h
    COMMAND ${PROTOC_C} --proto_path=${source} --c_out=${generated}
            ${source}/runtime/tensorboard.proto
    DEPENDS ${source}/runtime/tensorboard.proto)
add_library(tensorboard_events STATIC ${messages}.c ${messages}.h)
target_compile_options(tensorboard_events PRIVATE -w)
target_include_directories(tensorboard_events SYSTEM PUBLIC ${generated})
target_link_libraries(tensorboard_events PUBLIC PkgConfig::PROTOBUF_C)
