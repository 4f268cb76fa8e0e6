# penstock-train with every function of places.def called through ranks.c, so
# that one of them can fail on one rank. For tests alone: what users get is
# linked without it.
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR
   NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    return()
endif()
set(places ${CMAKE_CURRENT_LIST_DIR}/places.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${places})
file(STRINGS ${places} lines REGEX "^PLACE\\(")
set(calls "CALL(pen_checkpointer_begin, -1)\n")
set(wrapped pen_checkpointer_begin)
foreach(line ${lines})
    string(REGEX MATCH "^PLACE\\(([a-z0-9_]+), (-?[0-9]+)" unused "${line}")
    if(NOT CMAKE_MATCH_1 IN_LIST wrapped)
        list(APPEND wrapped ${CMAKE_MATCH_1})
        string(APPEND calls "CALL(${CMAKE_MATCH_1}, ${CMAKE_MATCH_2})\n")
    endif()
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/rank_calls.h
     CONTENT "${calls}" @ONLY)
list(APPEND wrapped malloc calloc realloc pwrite fsync rename mkdir open)
list(TRANSFORM wrapped PREPEND "LINKER:--wrap=")

add_executable(penstock-train-faults ${PEN_TRAIN_SOURCES}
               ${CMAKE_CURRENT_LIST_DIR}/ranks.c)
target_include_directories(penstock-train-faults PRIVATE
                           ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(penstock-train-faults PRIVATE penstock_cli
                      penstock_profiler penstock_ring penstock_runtime)
target_link_options(penstock-train-faults PRIVATE ${wrapped})

add_test(NAME mpi/rank_faults COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_ranks
         ${CMAKE_BINARY_DIR})
set_tests_properties(mpi/rank_faults PROPERTIES LABELS mpi
    SKIP_RETURN_CODE 77 RESOURCE_LOCK clock COST 20 TIMEOUT 3000)
