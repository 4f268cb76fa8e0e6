# Debian packages, one per component, by `cpack` in the build folder. Of those
# that compute and those that simulate only what was built is packed.
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_CONTACT "Penstock developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENTS_ALL penstock dev)
set(same_version "penstock (= ${PROJECT_VERSION})")

# The package NAME of COMPONENT, of the archive's SECTION, with its licence.
function(pen_add_package component name section summary text)
    string(TOUPPER ${component} key)
    set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
    install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE RENAME copyright
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
            COMPONENT ${component})
endfunction()

# What others made of the program TARGET, as SPDX, beside its licence. Made from
# the program itself when that is installed: its libraries are what the linker
# left, and a developer who links it again does not wait for it.
function(pen_add_sbom component name target)
    find_program(PEN_READELF readelf)
    if(NOT PEN_READELF OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
        return()
    endif()
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/sbom)
    install(CODE "file(MAKE_DIRECTORY \"${folder}\")
execute_process(COMMAND \"${CMAKE_CURRENT_SOURCE_DIR}/tools/sbom\" ${name}
                ${PROJECT_VERSION} \"$<TARGET_FILE:${target}>\"
                OUTPUT_FILE \"${folder}/${name}.spdx.json\"
                COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
    install(FILES ${folder}/${name}.spdx.json RENAME sbom.spdx.json
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
            COMPONENT ${component})
endfunction()

pen_add_package(penstock penstock science "${PROJECT_DESCRIPTION}"
"Plans how to split a model over devices, predicts time and memory, generates,
proves, times and draws pipeline schedules, and exports to the programs that
train. Needs neither MPI nor a GPU.")
pen_add_sbom(penstock penstock penstock)
set(CPACK_DEBIAN_PENSTOCK_PACKAGE_RECOMMENDS "penstock-simulate, penstock-train")

pen_add_package(dev penstock-dev libdevel "Library and headers of Penstock"
"What plans and what makes, proves and times schedules, as a static library.")
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libjansson-dev, ${PEN_CRYPTO_PACKAGE} libyaml-dev")

if(PEN_HAS_TRAIN)
    list(APPEND CPACK_COMPONENTS_ALL train)
    pen_add_package(train penstock-train science
"Trains neural networks on processors, for Penstock"
"The commands train, hold, eval, generate, profile and doctor: models from text or
images to checkpoint, on the cores of one machine or on many under mpirun.")
    pen_add_sbom(train penstock-train penstock-train)
    set(CPACK_DEBIAN_TRAIN_PACKAGE_DEPENDS "${same_version}")
    set(CPACK_DEBIAN_TRAIN_PACKAGE_RECOMMENDS openmpi-bin)
endif()

if(PEN_HAS_SIMULATE)
    list(APPEND CPACK_COMPONENTS_ALL simulate)
    pen_add_package(simulate penstock-simulate science
"Simulates the training of a plan, for Penstock"
"The command simulate: the trainer itself, with its messages, on up to tens of
thousands of ranks that SimGrid simulates.")
    pen_add_sbom(simulate penstock-simulate penstock-simulate)
    set(CPACK_DEBIAN_SIMULATE_PACKAGE_DEPENDS "${same_version}")
endif()

include(CPack)
