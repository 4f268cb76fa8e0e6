#!/usr/bin/env bash
# tokenize writes the same file whatever the threads, one document per file,
# line or JSON line, and refuses what it cannot do without leaving a file.
. "$(dirname "$0")/support.bash"

# Letters a to e, a space, and an end of document: ids can be read by eye.
cat >"$work/tokenizer.json" <<'END'
{"model": {"type": "BPE",
  "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "Ġ": 5, "ab": 6, "Ċ": 7},
  "merges": ["a b"]},
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
 "added_tokens": [{"id": 8, "content": "<|endoftext|>", "special": true}]}
END
tokenizer=(--tokenizer "$work/tokenizer.json")
ids() { od -An -v -tu2 -w2 "$1" | tr -d ' ' | paste -sd' '; }

printf 'ab c\n' >"$work/one"
printf 'd\n\ne ab\n' >"$work/two"
run 0 tokenize "$work/one" "$work/two" "${tokenizer[@]}" -o "$work/x"
out_empty
err_has "wrote $work/x_text_document: 11 tokens of 13 bytes in 2 documents"
same "a file is a document" "$(ids "$work/x_text_document.bin")" \
    "6 5 2 7 3 7 7 4 5 6 7"
same "lengths in the index" \
    "$(od -An -v -td4 -j34 -N8 "$work/x_text_document.idx" | tr -s ' ')" " 4 7"
run 0 tokenize "$work/two" "${tokenizer[@]}" -o "$work/x" --lines --append-eod
err_has "in 2 documents"
same "a line is a document" "$(ids "$work/x_text_document.bin")" "3 8 4 5 6 8"
printf '{"text": "ab\\nc", "id": 1}\n{"text": ""}\n{"text": "d"}' >"$work/j"
run 0 tokenize "$work/j" "${tokenizer[@]}" -o "$work/x" --json-key text \
    --append-eod
err_has "in 3 documents"
same "a JSON line is a document" "$(ids "$work/x_text_document.bin")" \
    "6 7 2 8 8 3 8"
run 0 tokenize "$work/one" "${tokenizer[@]}" -o "$work/n" --format nanogpt
same nanogpt "$(ids "$work/n.bin")" "6 5 2 7"
run 0 tokenize "$work/one" "${tokenizer[@]}" -o "$work/l" --format llmc
same llmc "$(od -An -v -td4 -N12 "$work/l.bin" | tr -s ' ')" " 20240520 1 4"
same "size of llmc" "$(stat -c %s "$work/l.bin")" 1032
run 1 tokenize /dev/null "${tokenizer[@]}" -o "$work/r"
err_has "/dev/null is not a regular file"
: >"$work/nothing"
run 0 tokenize "$work/nothing" "${tokenizer[@]}" -o "$work/x"
err_has "0 tokens of 0 bytes in 1 documents"

# Larger than a part, so that it is cut; threads must not show.
for _ in $(seq 40000); do
    printf 'ab cd abe  dab c d ab cab ba e\nde ab cab dab eab abab c\n'
done >"$work/long"
run 0 tokenize "$work/long" "${tokenizer[@]}" -o "$work/t1" --threads 1
run 0 tokenize "$work/long" "${tokenizer[@]}" -o "$work/t3" --threads 3
cmp -s "$work/t1_text_document.bin" "$work/t3_text_document.bin" ||
    fail "tokens depend on the threads"
cmp -s "$work/t1_text_document.idx" "$work/t3_text_document.idx" ||
    fail "the index depends on the threads"

# A line longer than a part goes on in the next one, whatever the threads.
tr '\n' ' ' <"$work/long" >"$work/wide"
printf '\r\nab\r\n\r\nc\r' >>"$work/wide"
run 0 tokenize "$work/wide" "${tokenizer[@]}" -o "$work/t1" --threads 1 --lines
err_has "in 3 documents"
run 0 tokenize "$work/wide" "${tokenizer[@]}" -o "$work/t3" --threads 3 --lines
cmp -s "$work/t1_text_document.bin" "$work/t3_text_document.bin" ||
    fail "tokens of a long line depend on the threads"

# A tokenizer of the characters of some texts, sorted by Unicode.
printf 'ba\n\xc3\xa9\xf0\x9f\x98\x80 "a\\' >"$work/chars.txt"
run 0 tokenize "$work/chars.txt" "$work/one" --train-chars -o "$work/chars"
out_empty
err_has "wrote $work/chars/tokenizer.json: 9 characters"
run 0 tokenize "$work/chars.txt" --tokenizer "$work/chars" -o "$work/x"
same "ids of characters" "$(ids "$work/x_text_document.bin")" \
    "5 4 0 7 8 1 2 4 3"
run 0 tokenize "$work/two" --tokenizer "$work/chars" -o "$work/x"
same "d and e are not there" "$(ids "$work/x_text_document.bin")" \
    "0 0 1 4 5 0"

# What is refused leaves nothing behind.
printf 'ab\xff' >"$work/bad"
run 1 tokenize "$work/one" "$work/bad" "${tokenizer[@]}" -o "$work/r"
err_has "$work/bad, offset 2: not UTF-8"
printf '{"text": "a"}\n{"txt": "b"}\n' >"$work/badj"
run 1 tokenize "$work/badj" "${tokenizer[@]}" -o "$work/r" --json-key text
err_has "$work/badj, offset 14: there is no text under the key \"text\""
run 1 tokenize "$work/missing" "${tokenizer[@]}" -o "$work/r"
err_has "cannot open $work/missing"
run 1 tokenize "$work" "${tokenizer[@]}" -o "$work/r"
err_has "$work is not a regular file"
run 1 tokenize "$work/one" "${tokenizer[@]}" -o "$work/no/folder"
err_has "cannot write $work/no/folder_text_document.bin"
run 1 tokenize "$work/one" --tokenizer "$work/none" -o "$work/r"
err_has "cannot open $work/none"
mkdir "$work/empty"
run 1 tokenize "$work/one" --tokenizer "$work/empty" -o "$work/r"
err_has "has no tokenizer; expected tokenizer.json"
run 1 tokenize "$work/one" --tokenizer "$work/one" -o "$work/r"
err_has "neither tokenizer.json nor a SentencePiece model: offset 1"
run 1 tokenize "$work/bad" --train-chars -o "$work/r_dir"
err_has "$work/bad, offset 2: not UTF-8"
printf 'a\0b' >"$work/nul"
run 1 tokenize "$work/nul" --train-chars -o "$work/r_dir"
err_has "$work/nul, offset 1: the text contains a NUL"
{
    printf '{"text": "'
    head -c 17000000 /dev/zero | tr '\0' a
    printf '"}\n'
} >"$work/wide"
run 1 tokenize "$work/badj" "$work/wide" "${tokenizer[@]}" -o "$work/r" \
    --json-key text
err_has "$work/badj, offset 14: there is no text under the key"
run 1 tokenize "$work/wide" "${tokenizer[@]}" -o "$work/r" --json-key text
err_has "$work/wide, offset 0: a JSON line of more than 16 MB; split the document"
sed 's/"pre_tokenizer".*/"pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[\\\\s\\\\S]+"}},/' \
    "$work/tokenizer.json" >"$work/uncut.json"
head -c 20000000 "$work/wide" >"$work/uncut"
cat "$work/wide" >>"$work/uncut"
run 1 tokenize "$work/uncut" --tokenizer "$work/uncut.json" -o "$work/r"
err_has "no safe place to cut this text within 16 MB; split it into shorter documents"
run 1 tokenize "$work/nothing" --train-chars -o "$work/r_dir"
err_has "$work/nothing is empty: a tokenizer needs at least one character"
run 1 tokenize "$work/nothing" "$work/nothing" --train-chars -o "$work/r_dir"
err_has "$work/nothing and all others are empty: a tokenizer needs"
mkfifo "$work/pipe"
run 1 tokenize "$work/pipe" --train-chars -o "$work/r_dir"
err_has "$work/pipe is not a regular file but a named pipe; name a file"
run 1 tokenize "$work/one" --tokenizer "$work/pipe" -o "$work/r"
err_has "$work/pipe is not a regular file but a named pipe; name a file"
run 1 tokenize "$work/one" --train-chars -o "$work/no/folder"
err_has "cannot make the folder $work/no/folder"
about "refused runs"
same "files left" "$(find "$work" -name 'r*.part' -o -name 'r_*')" ""

run 2 tokenize
err_has "expected TEXT..."
run 2 tokenize "$work/one" -o "$work/r"
err_has "--tokenizer is required"
run 2 tokenize "$work/one" "${tokenizer[@]}"
err_has "-o PREFIX is required"
run 2 tokenize "$work/one" "${tokenizer[@]}" -o "$work/r" --format gpt
err_has "--format must be megatron, llmc or nanogpt"
run 2 tokenize "$work/one" "${tokenizer[@]}" -o "$work/r" --threads 0
err_has "--threads must be a whole number"
run 2 tokenize "$work/one" "${tokenizer[@]}" -o "$work/r" --lines --json-key t
err_has "exclude each other"
run 2 tokenize "$work/one" --train-chars
err_has "-o DIRECTORY is required"
run 2 tokenize "$work/one" --train-chars "${tokenizer[@]}" -o "$work/r"
err_has "exclude each other"
run 0 help tokenize
out_has "Usage: penstock tokenize"
run 0 tokenize --help
out_has "--append-eod"
finish
