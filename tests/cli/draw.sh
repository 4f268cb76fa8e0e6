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
err_has "expected NAME|FILE..."

# Published schedules by their names, one under the other on one axis, as if
# they had been made and drawn.
sizes=(--stages 4 --microbatches 12)
run 0 schedule draw 1f1b zb-v dualpipev "${sizes[@]}"
err_empty
same order "$(grep -oE '^(1f1b|zb-v|dualpipev)\b' "$work/out" | tr '\n' ' ')" \
    "1f1b zb-v dualpipev "
same rows "$(grep -c 'rank 3' "$work/out")" 3
for name in 1f1b zb-v dualpipev; do
    make_file "$name" "$name" "${sizes[@]}"
    run 0 schedule draw "$work/$name"
    cp "$work/out" "$work/by-file"
    run 0 schedule draw "$name" "${sizes[@]}"
    cmp -s "$work/out" "$work/by-file" || fail "$name is drawn otherwise"
done
run 0 schedule draw interleaved --chunks 3 "${sizes[@]}"
run 0 schedule draw 1f1b "$work/b" "${sizes[@]}" -o "$work/picture.svg"
run 2 schedule draw 1f1b zb-v --stages 4
err_has "1f1b is a published schedule, which needs --stages P and --microbatches M"
run 2 schedule draw "$work/a" --stages 4
err_has "$work/a is a file, which has its own sizes"
run 2 schedule draw 1f2b "${sizes[@]}"
err_has "there is no schedule '1f2b'; did you mean 1f1b"
run 1 schedule draw 1f1b interleaved --stages 4 --microbatches 6
err_has "interleaved: interleaved needs p to divide m"
run 1 schedule draw gpipe --memory-limit 3 "${sizes[@]}"
err_has "gpipe: V5"

# A file that is called like a schedule, as in earlier releases.
cp "$work/b" "$work/1f1b"
about "draw of a file called 1f1b"
(cd "$work" && "$PENSTOCK" schedule draw 1f1b >out 2>err) || fail "refused"
out_has "zb-h1"
(cd "$work" && "$PENSTOCK" schedule draw 1f1b "${sizes[@]}" >out 2>err) ||
    fail "refused"
out_has "1f1b"
out_lacks "zb-h1"
finish
