//! Interpreters with their packages: Python, Node and npm.

use super::Work;

const PYTHON_TESTS: &str = r#"
import multiprocessing, unittest
from multiprocessing import shared_memory

def square(number):
    return number * number

class Parallel(unittest.TestCase):
    def test_pools(self):
        for how in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(how).Pool(2) as pool:
                self.assertEqual(pool.map(square, range(4)), [0, 1, 4, 9])

    def test_queue_and_memory(self):
        queue = multiprocessing.Queue()
        child = multiprocessing.Process(target=queue.put, args=(7,))
        child.start()
        self.assertEqual(queue.get(timeout=60), 7)
        child.join()
        memory = shared_memory.SharedMemory(create=True, size=1 << 20)
        memory.close()
        memory.unlink()
"#;

#[test]
fn python_tests_use_many_processes() {
    let work = Work::new();
    work.write("test_parallel.py", PYTHON_TESTS);
    assert_eq!(work.inside("python3 -m unittest 2>&1 | tail -n1"), "OK\n");
}

#[test]
fn python_tests_use_many_processes_of_an_ordinary_user() {
    let work = Work::of_ordinary_user();
    work.write("test_parallel.py", PYTHON_TESTS);
    assert_eq!(work.inside("python3 -m unittest 2>&1 | tail -n1"), "OK\n");
}

/// Makes a package by hand, because what makes packages is not there without a network.
const WHEEL: &str = r#"
import zipfile
with zipfile.ZipFile("greeter-1.0-py3-none-any.whl", "w") as wheel:
    about = "greeter-1.0.dist-info/"
    wheel.writestr("greeter.py", "def greet(): return 'hello'\n")
    wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n")
    wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(about + "RECORD", "greeter.py,,\n")
"#;

#[test]
fn a_python_environment_is_made_and_filled() {
    let work = Work::new();
    work.write("wheel.py", WHEEL);
    let said = work.inside(
        "python3 wheel.py
         python3 -m venv venv
         venv/bin/pip install --quiet --disable-pip-version-check --no-index ./*.whl
         venv/bin/python -c 'import greeter, sys; print(greeter.greet(), sys.prefix)'",
    );
    assert_eq!(said, "hello [HOST]/project/venv\n");
    assert_eq!(
        work.outside("venv/bin/python -c 'import greeter; print(greeter.greet())'"),
        "hello\n"
    );
}

#[test]
fn a_node_package_is_installed_with_its_script() {
    let work = Work::new();
    let script = r#"node -e \"require('fs').writeFileSync('made', 'by its script')\""#;
    let about = r#""version": "1.0.0", "main": "index.js""#;
    work.write(
        "greeter/package.json",
        &format!(
            r#"{{ "name": "greeter", {about}, "scripts": {{ "postinstall": "{script}" }} }}"#
        ),
    );
    work.write(
        "greeter/index.js",
        "module.exports = require('fs').readFileSync(__dirname + '/made', 'utf8');\n",
    );
    work.write("package.json", &format!(r#"{{ "name": "project", {about} }}"#));
    work.write("index.js", "console.log(require('greeter'));\n");
    let flags = "--offline --no-audit --no-fund --silent";
    let said = work.inside(&format!(
        "npm pack --silent ./greeter
         npm install {flags} ./greeter-1.0.0.tgz
         node index.js",
    ));
    assert_eq!(said, "greeter-1.0.0.tgz\nby its script\n");
    assert_eq!(work.outside("node index.js"), "by its script\n");
}

#[test]
fn node_works_with_files_threads_children_and_its_own_loopback() {
    let work = Work::new();
    work.write("thread.js", "require('worker_threads').parentPort.postMessage('thread');\n");
    work.write(
        "index.js",
        "const { once } = require('events');
         const { execFileSync } = require('child_process');
         const { Worker } = require('worker_threads');
         const http = require('http');
         (async () => {
             require('fs').writeFileSync('file', 'text');
             console.log(execFileSync('cat', ['file'], { encoding: 'utf8' }));
             console.log((await once(new Worker('./thread.js'), 'message'))[0]);
             const server = http.createServer((_, answer) => answer.end('answer')).listen(0, '127.0.0.1');
             await once(server, 'listening');
             const answer = await fetch(`http://127.0.0.1:${server.address().port}`);
             console.log(await answer.text());
             process.exit(3);
         })();\n",
    );
    let ran = work.run(&["--", "node", "index.js"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "text\nthread\nanswer\n"), "{ran:?}");
    assert_eq!(work.outside("cat file"), "text");
}
