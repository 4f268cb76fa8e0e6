#!/usr/bin/env node
// The program of the page as a command: `program.js PENSTOCK.wasm WORD...`, run by the page's own worker (web/wasi.js). Files that
// the words name are read before, what it wrote is put there afterwards; so tests of the command line can use it.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');
const {webcrypto} = require('crypto');

const source = fs.readFileSync(path.join(__dirname, '../../web/wasi.js'), 'utf8');
const answers = [];
const self = {postMessage: (message) => answers.push(message)};
const surroundings = {self, WebAssembly, TextEncoder, TextDecoder, crypto: webcrypto, performance, console};
vm.runInNewContext(`${source}\npenstockWorker();`, surroundings);

function readFiles(words) {
    const files = {};
    const add = (name) => {
        if (path.isAbsolute(name) || name.startsWith('..') || !fs.existsSync(name)) return;
        if (fs.statSync(name).isFile()) files[name] = new Uint8Array(fs.readFileSync(name));
        else for (const inner of fs.readdirSync(name)) add(path.join(name, inner));
    };
    for (const word of words) add(word.replace(/^--[^=]*=/, '').replace(/^@/, ''));
    return files;
}

const [, , wasm, ...words] = process.argv;
self.onmessage({data: {module: new WebAssembly.Module(fs.readFileSync(wasm))}});
self.onmessage({data: {id: 0, argv: words, files: readFiles(words)}});
const {answer, error} = answers[0];
if (error !== undefined) {
    process.stderr.write(`${error}\n`);
    process.exit(70);
}
for (const [name, bytes] of Object.entries(answer.files)) {
    fs.mkdirSync(path.dirname(name) || '.', {recursive: true});
    fs.writeFileSync(name, bytes);
}
fs.writeSync(1, answer.out);
fs.writeSync(2, answer.err);
process.exitCode = answer.code;
