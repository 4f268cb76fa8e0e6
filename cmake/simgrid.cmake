# What simulates: the runtime once more, compiled against SimGrid's MPI, and
# src/sim. SimGrid's headers have no C interface for zones: zones.cc is C++.
include(CheckLanguage)
find_path(SIMGRID_INCLUDE_DIR simgrid/engine.h)
find_path(SMPI_INCLUDE_DIR mpi.h PATH_SUFFIXES smpi
          PATHS ${SIMGRID_INCLUDE_DIR}/smpi NO_DEFAULT_PATH)
find_library(SIMGRID_LIBRARY simgrid)
set(PEN_HAS_SIMULATE OFF)
if(SIMGRID_INCLUDE_DIR AND SMPI_INCLUDE_DIR AND SIMGRID_LIBRARY)
    check_language(CXX)
    set(PEN_HAS_SIMULATE ON)
endif()
if(NOT PEN_HAS_SIMULATE OR NOT CMAKE_CXX_COMPILER)
    set(PEN_HAS_SIMULATE OFF)
    message(STATUS "penstock-simulate is not built: it needs SimGrid and a "
                   "C++ compiler")
    return()
endif()
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)

add_library(simgrid SHARED IMPORTED)
set_target_properties(simgrid PROPERTIES
    IMPORTED_LOCATION ${SIMGRID_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${SMPI_INCLUDE_DIR};${SIMGRID_INCLUDE_DIR}")

# Clocks and sleeps of the runtime are simulated ones, its memory is not. What
# looks at this machine, reads samples or outlives the ranks is left out.
set(PEN_SIMULATED_SOURCES ${PEN_RUNTIME_SOURCES})
list(FILTER PEN_SIMULATED_SOURCES EXCLUDE REGEX
     "/(batches_[a-z]+|commits|commit_copy|kept|kernel|machine|peak|tensorboard|threads|topology)\\.c$")
add_library(penstock_runtime_simulated STATIC ${PEN_SIMULATED_SOURCES})
target_compile_definitions(penstock_runtime_simulated PRIVATE
                           SMPI_NO_OVERRIDE_MALLOC)
target_compile_options(penstock_runtime_simulated PRIVATE -fopenmp-simd
                       -include ${SMPI_INCLUDE_DIR}/smpi_helpers.h)
target_include_directories(penstock_runtime_simulated BEFORE PUBLIC
                           ${SMPI_INCLUDE_DIR})
target_link_libraries(penstock_runtime_simulated PUBLIC penstock_engine
                      penstock_watch penstock_network simgrid)

file(GLOB PEN_SIM_SOURCES CONFIGURE_DEPENDS src/sim/*.c src/sim/*.cc)
add_library(penstock_sim STATIC ${PEN_SIM_SOURCES})
target_link_libraries(penstock_sim PUBLIC penstock_runtime_simulated)
# Ranks have small stacks, for there are many; but sanitizers know no stacks
# that are not of a thread.
set(contexts stack-size:128)
if(PEN_SANITIZE)
    set(contexts factory:thread)
endif()
target_compile_definitions(penstock_sim PUBLIC
                           PEN_SIM_CONTEXTS="--cfg=contexts/${contexts}")
