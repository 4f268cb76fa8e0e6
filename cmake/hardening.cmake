# What keeps foreign code out of the programs, and mistakes from being abused;
# docs/decisions/0018-hardening.md. tests/elf/run reads the programs.
option(PEN_HARDEN "Programs check calls and stacks and lie anywhere in memory" ON)
include(CheckCCompilerFlag)
include(CheckLinkerFlag)

# Folders of libraries. A build folder's program otherwise gets its RUNPATH with
# a separator behind it, for `cmake --install` to write over, and an empty
# element is the folder the user stands in. So it is linked as it is installed:
# with the folders of libraries that are not the system's, and no others.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Debian names MPI's library through a folder of links; where the file itself
# lies in a folder of the system, no program has to name any.
if(TARGET MPI::MPI_C)
    get_target_property(libraries MPI::MPI_C INTERFACE_LINK_LIBRARIES)
    set(real_libraries)
    foreach(library ${libraries})
        if(IS_ABSOLUTE ${library})
            get_filename_component(library ${library} REALPATH)
        endif()
        list(APPEND real_libraries ${library})
    endforeach()
    set_target_properties(MPI::MPI_C PROPERTIES
                          INTERFACE_LINK_LIBRARIES "${real_libraries}")
endif()

# Flags that the compiler knows, each tried by itself.
function(pen_add_flags)
    foreach(flag ${ARGN})
        string(MAKE_C_IDENTIFIER "PEN_COMPILER_HAS${flag}" known)
        check_c_compiler_flag("-Werror ${flag}" ${known})
        if(${known})
            add_compile_options(${flag})
        endif()
    endforeach()
endfunction()

function(pen_add_link_flags)
    foreach(flag ${ARGN})
        string(MAKE_C_IDENTIFIER "PEN_LINKER_HAS${flag}" known)
        check_linker_flag(C ${flag} ${known})
        if(${known})
            add_link_options(${flag})
        endif()
    endforeach()
endfunction()

# The same bits whatever the compiler's own mind; loops of the engine that may
# join a product and a sum say so themselves.
pen_add_flags(-ffp-contract=off -fno-fast-math)
add_compile_options(-Wformat=2 -Werror=format-security -Wvla -Walloca)

# Sanitizers check more, and cannot see behind calls that check themselves.
set(PEN_HARDENED OFF)
if(NOT PEN_HARDEN OR PEN_SANITIZE)
    return()
endif()
set(is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
set(is_loaded $<IN_LIST:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY$<SEMICOLON>MODULE_LIBRARY>)
check_c_compiler_flag("-Werror -fPIE" PEN_COMPILER_HAS_PIE)
check_linker_flag(C -pie PEN_LINKER_HAS_PIE)
if(PEN_COMPILER_HAS_PIE AND PEN_LINKER_HAS_PIE)
    # Libraries that tests load into a program have -fPIC of their own.
    add_compile_options($<$<NOT:${is_loaded}>:-fPIE>)
    add_link_options($<${is_program}:-pie>)
endif()
pen_add_flags(-fstack-protector-strong -fstack-clash-protection
              -fcf-protection=full -ftrivial-auto-var-init=zero
              -fstrict-flex-arrays=3)
pen_add_link_flags(-Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--as-needed)

# Checked calls need an optimiser.
set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
check_c_compiler_flag("-Werror -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3"
                      PEN_COMPILER_HAS_FORTIFY)
if(PEN_COMPILER_HAS_FORTIFY)
    add_compile_options($<${optimised}:-U_FORTIFY_SOURCE>
                        $<${optimised}:-D_FORTIFY_SOURCE=3>)
    if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
        set(PEN_HARDENED ON)
    endif()
endif()
