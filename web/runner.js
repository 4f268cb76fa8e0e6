// From a question to an answer: starts workers that carry out the program (wasi.js), one command at a time each.
'use strict';

const PenstockRunner = (() => {
    // From a server, the file beside this page; from disk, where a page may not read files, the same bytes out of a script.
    async function fetchModule() {
        if (location.protocol !== 'file:') return WebAssembly.compileStreaming(fetch('penstock.wasm'));
        await new Promise((resolve, reject) => {
            const script = document.createElement('script');
            script.src = 'penstock.wasm.js';
            script.onload = resolve;
            script.onerror = () => reject(new Error('penstock.wasm.js is missing beside this page'));
            document.head.append(script);
        });
        const bytes = Uint8Array.from(atob(window.penstockBytes), (letter) => letter.charCodeAt(0));
        delete window.penstockBytes;
        const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
        return WebAssembly.compile(await new Response(unpacked).arrayBuffer());
    }

    let compiled = null;
    let script = null;

    function startWorker(module) {
        if (script === null) script = URL.createObjectURL(new Blob([`'use strict';(${penstockWorker})()`], {type: 'text/javascript'}));
        const worker = new Worker(script);
        worker.postMessage({module});
        return worker;
    }

    return class Runner {
        constructor() {
            this.worker = null;
            this.waiting = new Map(); // id to the two ends of a promise
            this.next = 0;
        }

        // Resolves to {code, out, err, files, memory}; files are those that the command wrote, as bytes.
        async run(argv, files = {}) {
            if (compiled === null) compiled = fetchModule();
            const module = await compiled;
            if (this.worker === null) {
                this.worker = startWorker(module);
                this.worker.onmessage = ({data}) => this.settle(data);
                this.worker.onerror = (event) => this.stop(new Error(event.message || 'the worker broke'));
            }
            const id = this.next++;
            return new Promise((resolve, reject) => {
                this.waiting.set(id, {resolve, reject});
                this.worker.postMessage({id, argv, files});
            });
        }

        settle({id, answer, error}) {
            const promise = this.waiting.get(id);
            this.waiting.delete(id);
            if (!promise) return;
            if (error === undefined) promise.resolve(answer);
            else promise.reject(new Error(error));
        }

        // Drops all that runs or waits; what waited is rejected with an AbortError.
        cancel() {
            if (this.waiting.size > 0) this.stop(new DOMException('a newer question came', 'AbortError'));
        }

        stop(reason) {
            if (this.worker !== null) this.worker.terminate();
            this.worker = null;
            for (const {reject} of this.waiting.values()) reject(reason);
            this.waiting.clear();
        }
    };
})();
