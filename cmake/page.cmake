# Puts the page together: SOURCE has its parts, PROGRAM is the WebAssembly
# file, PAGE is the folder that becomes the page.
file(MAKE_DIRECTORY ${PAGE})
file(STRINGS ${SOURCE}/scripts.txt scripts)
set(all "")
foreach(script ${scripts})
    file(READ ${SOURCE}/${script} text)
    string(APPEND all "${text}\n")
endforeach()
file(WRITE ${PAGE}/penstock.js "${all}")
file(COPY ${SOURCE}/index.html ${SOURCE}/page.css ${SOURCE}/../LICENSE
     DESTINATION ${PAGE})
# Licences of the libraries inside, as their sources and packages have them.
set(licences "")
foreach(licence ${LIBRARIES}/jansson/LICENSE ${LIBRARIES}/libyaml/License
        /usr/share/doc/wasi-libc/copyright)
    file(READ ${licence} text)
    string(APPEND licences "--- ${licence}\n\n${text}\n")
endforeach()
string(REPLACE "${LIBRARIES}/" "" licences "${licences}")
string(REPLACE "/usr/share/doc/" "" licences "${licences}")
file(WRITE ${PAGE}/LICENSES.txt "${licences}")
file(COPY_FILE ${PROGRAM} ${PAGE}/penstock.wasm)
# The program once more as a script, which a page from disk may load.
execute_process(COMMAND gzip -9nc ${PROGRAM} COMMAND base64 -w0
                OUTPUT_VARIABLE bytes COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${PAGE}/penstock.wasm.js "window.penstockBytes='${bytes}';\n")
