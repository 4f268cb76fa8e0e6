#!/usr/bin/env bash
# draw writes the form that the name asks for; without a name, a grid.
. "$(dirname "$0")/support.bash"

make_file a 1f1b --stages 4 --microbatches 8
make_file b zb-h1 --stages 4 --microbatches 8
run 0 schedule draw "$work/a"
err_empty
out_has "rank 0"
out_has "1f1b"
out_lacks "$(printf '\033')"
run 0 schedule draw "$work/a" "$work/b"
out_has "1f1b ($work/a)"
out_has "zb-h1 ($work/b)"
for form in svg png pdf json; do
    run 0 schedule draw "$work/a" "$work/b" -o "$work/picture.$form"
    out_empty
    err_has "wrote $work/picture.$form"
    [ -s "$work/picture.$form" ] || fail "the picture is empty"
done
same svg "$(head -c 5 "$work/picture.svg")" "<?xml"
same pdf "$(head -c 5 "$work/picture.pdf")" "%PDF-"
same png "$(head -c 4 "$work/picture.png" | tail -c 3)" "PNG"
cp "$work/picture.json" "$work/out"
same perfetto "$(json 'len(d["traceEvents"]) > 100')" True
run 1 schedule draw "$work/a" -o "$work/picture.doc"
err_has ".svg, .png, .pdf or .json"
[ ! -e "$work/picture.doc" ] || fail "a refused picture was written"
run 1 schedule draw "$work/a" "$work/none"
err_has "cannot open $work/none"
run 2 schedule draw
err_has "expected FILE..."
finish
