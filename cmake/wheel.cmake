# The program inside the Python wheel, beside the module that calls it, and the
# licences of what is linked into it; pyproject.toml, docs/python.md.
target_compile_definitions(penstock PRIVATE PEN_WHEEL)
# The linker of the wheel has nothing that tells which processor this is.
target_compile_definitions(penstock_library PRIVATE PEN_WITHOUT_CPU_MODEL)
target_link_options(penstock PRIVATE -s)
install(TARGETS penstock DESTINATION ${SKBUILD_PLATLIB_DIR}/penstock/bin)
# Licences: of sources that were compiled here, and of the files that
# PEN_LICENCES names, as NAME=FILE.
set(PEN_LICENCES "" CACHE STRING "Further licences for the wheel: NAME=FILE;...")
set(licences ${PEN_LICENCES})
if(PEN_LIBRARIES)
    list(APPEND licences jansson=${PEN_LIBRARIES}/jansson/LICENSE
         libyaml=${PEN_LIBRARIES}/libyaml/License)
endif()
foreach(licence ${licences})
    string(REGEX MATCH "^([^=]+)=(.+)$" found ${licence})
    install(FILES ${CMAKE_MATCH_2} RENAME ${CMAKE_MATCH_1}.txt
            DESTINATION ${SKBUILD_METADATA_DIR}/licenses/linked)
endforeach()
