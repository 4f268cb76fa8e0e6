// The program in a worker: one WebAssembly file that asks its surroundings for clock, random numbers and files by WASI's names
// (preview 1). Files live in memory and for one command only, so no command can see what another one did.
//
// All of it is inside one function without outer names: a page that was opened from disk may not load a worker's script, so the
// text of this function becomes the worker (runner.js).
'use strict';

function penstockWorker() {
    const OK = 0, BADF = 8, EXIST = 20, INVAL = 28, ISDIR = 31, NOENT = 44, NOTDIR = 54;
    const TYPE_DEVICE = 2, TYPE_FOLDER = 3, TYPE_FILE = 4;
    const CREATE = 1, FOLDER_ONLY = 2, EXCLUSIVE = 4, TRUNCATE = 8; // flags of path_open
    const APPEND = 1;
    const ROOT = 3; // the one folder that the program is given

    class Exit extends Error {
        constructor(code) { super('exit'); this.code = code; }
    }

    // A file that grows: bytes up to `length` of a buffer that doubles.
    class MemoryFile {
        constructor(bytes) { this.bytes = bytes || new Uint8Array(0); this.length = this.bytes.length; }

        write(at, bytes) {
            const end = at + bytes.length;
            this.reserve(end);
            this.bytes.set(bytes, at);
            this.length = Math.max(this.length, end);
        }

        reserve(size) {
            if (size <= this.bytes.length) return;
            const larger = new Uint8Array(Math.max(size, 2 * this.bytes.length, 4096));
            larger.set(this.bytes.subarray(0, this.length));
            this.bytes = larger;
        }

        resize(size) {
            this.reserve(size);
            if (size < this.length) this.bytes.fill(0, size, this.length);
            this.length = size;
        }

        contents() { return this.bytes.slice(0, this.length); }
    }

    // "./a/../b" is "b"; null when it leads out of the folder.
    function tidy(path) {
        const parts = [];
        for (const part of path.split('/')) {
            if (part === '..') {
                if (parts.pop() === undefined) return null;
            } else if (part !== '' && part !== '.') {
                parts.push(part);
            }
        }
        return parts.join('/');
    }

    class Process {
        constructor(argv, files) {
            this.argv = ['penstock', ...argv].map((word) => new TextEncoder().encode(word + '\0'));
            this.files = new Map(); // path to MemoryFile
            this.folders = new Set(['']);
            for (const [path, contents] of Object.entries(files)) this.put(tidy(path), contents);
            this.open = new Map([0, 1, 2].map((fd) => [fd, {file: new MemoryFile(), at: 0, isDevice: true}]));
            this.open.set(ROOT, {folder: ''});
            this.memory = null;
        }

        put(path, contents) {
            const bytes = typeof contents === 'string' ? new TextEncoder().encode(contents) : contents;
            this.files.set(path, new MemoryFile(bytes.slice()));
            for (let cut = path.lastIndexOf('/'); cut > 0; cut = path.lastIndexOf('/', cut - 1)) this.folders.add(path.slice(0, cut));
        }

        run(module) {
            const imports = {wasi_snapshot_preview1: this.calls()};
            const instance = new WebAssembly.Instance(module, imports);
            this.memory = instance.exports.memory;
            try {
                instance.exports._start();
                return 0;
            } catch (error) {
                if (error instanceof Exit) return error.code;
                throw error;
            }
        }

        text(fd) { return new TextDecoder().decode(this.open.get(fd).file.contents()); }

        view() { return new DataView(this.memory.buffer); }
        bytes(at, length) { return new Uint8Array(this.memory.buffer, at, length); }
        string(at, length) { return new TextDecoder().decode(this.bytes(at, length)); }

        // The path that a folder and a name beside it mean.
        resolve(fd, at, length) {
            const entry = this.open.get(fd);
            if (!entry || entry.folder === undefined) return null;
            return tidy(entry.folder + '/' + this.string(at, length));
        }

        parentOf(path) { return path.slice(0, Math.max(path.lastIndexOf('/'), 0)); }

        // Slices of memory that an array of (address, length) names.
        slices(at, count) {
            const view = this.view();
            return Array.from({length: count}, (_, i) => this.bytes(view.getUint32(at + 8 * i, true), view.getUint32(at + 8 * i + 4, true)));
        }

        putStrings(strings, pointers, at) {
            const view = this.view();
            strings.forEach((bytes, i) => {
                view.setUint32(pointers + 4 * i, at, true);
                this.bytes(at, bytes.length).set(bytes);
                at += bytes.length;
            });
            return OK;
        }

        putStat(at, type, size) {
            const view = this.view();
            this.bytes(at, 64).fill(0);
            view.setUint8(at + 16, type);
            view.setBigUint64(at + 24, 1n, true);
            view.setBigUint64(at + 32, BigInt(size), true);
            return OK;
        }

        statPath(path, at) {
            if (this.files.has(path)) return this.putStat(at, TYPE_FILE, this.files.get(path).length);
            return this.folders.has(path) ? this.putStat(at, TYPE_FOLDER, 0) : NOENT;
        }

        openPath(path, flags, fdFlags, out) {
            let entry;
            if (this.folders.has(path)) {
                if (flags & CREATE) return ISDIR;
                entry = {folder: path};
            } else {
                if (flags & FOLDER_ONLY) return this.files.has(path) ? NOTDIR : NOENT;
                if ((flags & EXCLUSIVE) && this.files.has(path)) return EXIST;
                if (!this.files.has(path)) {
                    if (!(flags & CREATE) || !this.folders.has(this.parentOf(path))) return NOENT;
                    this.files.set(path, new MemoryFile());
                }
                const file = this.files.get(path);
                if (flags & TRUNCATE) file.resize(0);
                entry = {file, at: 0, isAppending: (fdFlags & APPEND) !== 0};
            }
            let fd = ROOT + 1;
            while (this.open.has(fd)) fd++;
            this.open.set(fd, entry);
            this.view().setUint32(out, fd, true);
            return OK;
        }

        read(fd, at, count, from, out) {
            const entry = this.open.get(fd);
            if (!entry || !entry.file) return entry ? ISDIR : BADF;
            let place = from === null ? entry.at : from, total = 0;
            for (const slice of this.slices(at, count)) {
                const part = entry.file.bytes.subarray(place, Math.min(place + slice.length, entry.file.length));
                slice.set(part);
                place += part.length;
                total += part.length;
            }
            if (from === null) entry.at = place;
            this.view().setUint32(out, total, true);
            return OK;
        }

        write(fd, at, count, from, out) {
            const entry = this.open.get(fd);
            if (!entry || !entry.file) return BADF;
            if (entry.isAppending && from === null) entry.at = entry.file.length;
            let place = from === null ? entry.at : from, total = 0;
            for (const slice of this.slices(at, count)) {
                entry.file.write(place, slice);
                place += slice.length;
                total += slice.length;
            }
            if (from === null) entry.at = place;
            this.view().setUint32(out, total, true);
            return OK;
        }

        seek(fd, offset, whence, out) {
            const entry = this.open.get(fd);
            if (!entry || !entry.file) return BADF;
            if (entry.isDevice) return 70; // a stream has no place
            const base = [0, entry.at, entry.file.length][whence];
            const place = base + Number(offset);
            if (base === undefined || place < 0) return INVAL;
            entry.at = place;
            this.view().setBigUint64(out, BigInt(place), true);
            return OK;
        }

        rename(from, to) {
            const file = this.files.get(from);
            if (!file || !this.folders.has(this.parentOf(to))) return NOENT;
            this.files.delete(from);
            this.files.set(to, file);
            return OK;
        }

        namesIn(folder) {
            const names = new Map();
            for (const path of this.files.keys()) if (this.parentOf(path) === folder) names.set(path.slice(folder ? folder.length + 1 : 0), TYPE_FILE);
            for (const path of this.folders) if (path !== '' && this.parentOf(path) === folder) names.set(path.slice(folder ? folder.length + 1 : 0), TYPE_FOLDER);
            return [...names].sort();
        }

        listFolder(fd, at, size, cookie, out) {
            const entry = this.open.get(fd);
            if (!entry || entry.folder === undefined) return NOTDIR;
            let used = 0, next = Number(cookie);
            for (const [name, type] of this.namesIn(entry.folder).slice(next)) {
                const bytes = new TextEncoder().encode(name), record = new Uint8Array(24 + bytes.length), view = new DataView(record.buffer);
                view.setBigUint64(0, BigInt(++next), true);
                view.setUint32(16, bytes.length, true);
                view.setUint8(20, type);
                record.set(bytes, 24);
                const part = record.subarray(0, size - used);
                this.bytes(at + used, part.length).set(part);
                used += part.length;
                if (used === size) break;
            }
            this.view().setUint32(out, used, true);
            return OK;
        }

        makeFolder(path) {
            if (this.files.has(path) || this.folders.has(path)) return EXIST;
            if (!this.folders.has(this.parentOf(path))) return NOENT;
            this.folders.add(path);
            return OK;
        }

        fdstat(fd, out) {
            const entry = this.open.get(fd);
            if (!entry) return BADF;
            this.bytes(out, 24).fill(0);
            this.view().setUint8(out, entry.isDevice ? TYPE_DEVICE : entry.file ? TYPE_FILE : TYPE_FOLDER);
            this.view().setBigUint64(out + 8, (1n << 30n) - 1n, true);
            this.view().setBigUint64(out + 16, (1n << 30n) - 1n, true);
            return OK;
        }

        // What the program may call. A path that leads nowhere is one that is not there.
        calls() {
            const withPath = (act) => (fd, at, length, ...rest) => {
                const path = this.resolve(fd, at, length);
                return path === null ? NOENT : act(path, ...rest);
            };
            const nothing = () => OK;
            return {
                args_sizes_get: (count, size) => {
                    this.view().setUint32(count, this.argv.length, true);
                    this.view().setUint32(size, this.argv.reduce((sum, word) => sum + word.length, 0), true);
                    return OK;
                },
                args_get: (pointers, at) => this.putStrings(this.argv, pointers, at),
                environ_sizes_get: (count, size) => {
                    this.view().setUint32(count, 0, true);
                    this.view().setUint32(size, 0, true);
                    return OK;
                },
                environ_get: nothing,
                clock_res_get: (clock, out) => (this.view().setBigUint64(out, 1000n, true), OK),
                clock_time_get: (clock, precision, out) => {
                    const ms = clock === 0 ? Date.now() : performance.now();
                    this.view().setBigUint64(out, BigInt(Math.round(ms * 1e6)), true);
                    return OK;
                },
                random_get: (at, length) => (crypto.getRandomValues(this.bytes(at, length)), OK),
                sched_yield: nothing,
                poll_oneoff: () => INVAL,
                proc_exit: (code) => { throw new Exit(code); },
                fd_prestat_get: (fd, out) => {
                    if (fd !== ROOT) return BADF;
                    this.view().setUint32(out, 0, true);
                    this.view().setUint32(out + 4, 1, true);
                    return OK;
                },
                fd_prestat_dir_name: (fd, at) => (this.bytes(at, 1).set([47]), OK),
                fd_fdstat_get: (fd, out) => this.fdstat(fd, out),
                fd_fdstat_set_flags: nothing,
                fd_close: (fd) => (this.open.delete(fd) ? OK : BADF),
                fd_sync: nothing,
                fd_datasync: nothing,
                fd_advise: nothing,
                fd_allocate: nothing,
                fd_read: (fd, at, count, out) => this.read(fd, at, count, null, out),
                fd_pread: (fd, at, count, from, out) => this.read(fd, at, count, Number(from), out),
                fd_write: (fd, at, count, out) => this.write(fd, at, count, null, out),
                fd_pwrite: (fd, at, count, from, out) => this.write(fd, at, count, Number(from), out),
                fd_seek: (fd, offset, whence, out) => this.seek(fd, offset, whence, out),
                fd_tell: (fd, out) => this.seek(fd, 0n, 1, out),
                fd_filestat_get: (fd, out) => {
                    const entry = this.open.get(fd);
                    if (!entry) return BADF;
                    if (!entry.file) return this.putStat(out, TYPE_FOLDER, 0);
                    return this.putStat(out, entry.isDevice ? TYPE_DEVICE : TYPE_FILE, entry.file.length);
                },
                fd_filestat_set_size: (fd, size) => {
                    const entry = this.open.get(fd);
                    if (!entry || !entry.file) return BADF;
                    entry.file.resize(Number(size));
                    return OK;
                },
                fd_filestat_set_times: nothing,
                fd_readdir: (fd, at, size, cookie, out) => this.listFolder(fd, at, size, cookie, out),
                path_open: (fd, lookup, at, length, flags, rights, inheriting, fdFlags, out) =>
                    withPath((path) => this.openPath(path, flags, fdFlags, out))(fd, at, length),
                path_filestat_get: (fd, lookup, at, length, out) => withPath((path) => this.statPath(path, out))(fd, at, length),
                path_create_directory: withPath((path) => this.makeFolder(path)),
                path_unlink_file: withPath((path) => (this.files.delete(path) ? OK : NOENT)),
                path_remove_directory: withPath((path) => (this.folders.delete(path) ? OK : NOENT)),
                path_readlink: () => INVAL,
                path_rename: (fd, at, length, toFd, toAt, toLength) => {
                    const to = this.resolve(toFd, toAt, toLength);
                    return to === null ? NOENT : withPath((path) => this.rename(path, to))(fd, at, length);
                },
                path_link: (fd, lookup, at, length, toFd, toAt, toLength) => {
                    const to = this.resolve(toFd, toAt, toLength);
                    if (to === null || this.files.has(to)) return to === null ? NOENT : EXIST;
                    return withPath((path) => (this.files.has(path) ? (this.files.set(to, this.files.get(path)), OK) : NOENT))(fd, at, length);
                },
            };
        }
    }

    // One command: its words and files to what it printed, wrote and ended with.
    function run(module, argv, files) {
        const process = new Process(argv, files), given = new Set(Object.keys(files).map(tidy));
        const code = process.run(module), written = {};
        for (const [path, file] of process.files) if (!given.has(path)) written[path] = file.contents();
        return {code, out: process.text(1), err: process.text(2), files: written, memory: process.memory.buffer.byteLength};
    }

    let module = null;
    self.onmessage = ({data}) => {
        if (data.module) {
            module = data.module;
            return;
        }
        try {
            self.postMessage({id: data.id, answer: run(module, data.argv, data.files)});
        } catch (error) {
            self.postMessage({id: data.id, error: String(error)});
        }
    };
}
