# The page: index.html, one script, and the program as one WebAssembly file,
# in the folder page/ of the build; docs/web.md.
file(GLOB web_sources CONFIGURE_DEPENDS src/cli/web_main.c
     src/cli/program/*.c src/cli/lint/*.c src/cli/plan/*.c
     src/cli/schedule/*.c src/cli/sync/*.c src/cli/view/*.c)
list(FILTER web_sources EXCLUDE REGEX
     "/(become|parser_error|parser_once|plot)\\.c$")
add_executable(penstock ${web_sources} src/cli/without_argp/argp.c
               src/cli/without_processes/parser_error.c
               src/cli/without_processes/parser_once.c
               src/checkpoint/without_folders/kind.c)
target_include_directories(penstock PRIVATE src/cli/without_argp)
target_compile_definitions(penstock PRIVATE PEN_VERSION="${PROJECT_VERSION}")
target_link_libraries(penstock PRIVATE penstock_view)
set_target_properties(penstock PROPERTIES SUFFIX .wasm)
# Nested texts are read by functions that call themselves. Where memory ends,
# an array that doubles has not yet outgrown its 32 bits.
target_link_options(penstock PRIVATE -Wl,-z,stack-size=4194304
                    -Wl,--max-memory=2147483648 -Wl,--gc-sections
                    -Wl,--strip-all)

set(page ${CMAKE_CURRENT_BINARY_DIR}/page)
file(STRINGS web/scripts.txt scripts)
list(TRANSFORM scripts PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/web/)
add_custom_command(
    OUTPUT ${page}/penstock.js ${page}/penstock.wasm.js
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/web
            -DPAGE=${page} -DPROGRAM=$<TARGET_FILE:penstock>
            -DLIBRARIES=${PEN_LIBRARIES}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/page.cmake
    DEPENDS penstock ${scripts} web/scripts.txt web/index.html cmake/page.cmake
    VERBATIM)
# A release: penstock-VERSION-web.zip, by `cpack` in the build folder.
install(DIRECTORY ${page}/ DESTINATION web)
set(CPACK_GENERATOR ZIP)
set(CPACK_PACKAGE_FILE_NAME penstock-${PROJECT_VERSION}-web)
include(CPack)
add_custom_target(page ALL DEPENDS ${page}/penstock.js ${page}/penstock.wasm.js)
