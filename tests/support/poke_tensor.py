# poke_tensor.py FILE TENSOR ELEMENT VALUE: writes a float into a safetensors
# file; ELEMENT may be "all" or FIRST-LAST.
import json, struct, sys
path, name, element, value = sys.argv[1:]
with open(path, "r+b") as f:
    length = struct.unpack("<Q", f.read(8))[0]
    tensor = json.loads(f.read(length))[name]
    assert tensor["dtype"] == "F32"
    begin, end = tensor["data_offsets"]
    count = (end - begin) // 4
    first, _, last = element.partition("-")
    which = range(count) if element == "all" else range(int(first), int(last or first) + 1)
    for i in which:
        f.seek(8 + length + begin + 4 * i)
        f.write(struct.pack("<f", float(value)))
