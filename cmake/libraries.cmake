# jansson and libyaml: the system's, or built from the sources which
# tools/fetch-libraries has put into a folder. The source distribution of Python
# has such a folder.
set(PEN_LIBRARIES "" CACHE PATH "Sources of jansson and libyaml; the system's libraries when empty")
if(PEN_WHEEL AND PEN_LIBRARIES STREQUAL ""
   AND IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/libraries)
    set(PEN_LIBRARIES ${CMAKE_CURRENT_SOURCE_DIR}/libraries)
endif()
if(PEN_LIBRARIES STREQUAL "")
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
    pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
    return()
endif()
foreach(library jansson libyaml)
    if(NOT EXISTS ${PEN_LIBRARIES}/${library}/CMakeLists.txt)
        message(FATAL_ERROR "${PEN_LIBRARIES} has no sources of ${library}: "
                "run tools/fetch-libraries ${PEN_LIBRARIES} first")
    endif()
endforeach()
set(JANSSON_EXAMPLES OFF)
set(JANSSON_BUILD_DOCS OFF)
set(JANSSON_WITHOUT_TESTS ON)
set(JANSSON_INSTALL OFF)
set(BUILD_SHARED_LIBS OFF)
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW) # these are options of theirs
set(CMAKE_POLICY_VERSION_MINIMUM 3.5) # they name an older one, which CMake 4 refuses
set(CMAKE_WARN_DEPRECATED OFF CACHE BOOL "" FORCE)
function(pen_add_libraries)
    set(BUILD_TESTING OFF)
    add_subdirectory(${PEN_LIBRARIES}/jansson jansson EXCLUDE_FROM_ALL)
    add_subdirectory(${PEN_LIBRARIES}/libyaml libyaml EXCLUDE_FROM_ALL)
endfunction()
pen_add_libraries()
target_include_directories(jansson SYSTEM INTERFACE
                           ${CMAKE_CURRENT_BINARY_DIR}/jansson/include)
add_library(PkgConfig::JANSSON ALIAS jansson)
add_library(PkgConfig::YAML ALIAS yaml)
