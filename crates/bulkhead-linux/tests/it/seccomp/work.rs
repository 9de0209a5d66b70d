//! What ordinary programs do, done under the filter.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use bulkhead_linux::seccomp::{Profile, filter};

/// Runs a shell script in an empty directory under the filter, and returns what it printed.
fn run(profile: Profile, script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    run_in(directory.path(), profile, script)
}

fn run_in(directory: &Path, profile: Profile, script: &str) -> String {
    let filter = filter(profile);
    #[expect(clippy::disallowed_methods, reason = "the filter is tried without a sandbox")]
    let mut command = Command::new("/bin/sh");
    command.args(["-euc", script]).current_dir(directory);
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            rustix::thread::set_no_new_privs(true)?;
            filter.install()
        })
    };
    let output = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}: {}\n{out}{err}", output.status);
    out.trim().to_owned()
}

#[test]
fn the_shell_works() {
    let out = run(Profile::Standard, "echo ok; ls / | head -1; (sleep 0.01 & wait); mkfifo f");
    assert!(out.starts_with("ok\n"), "{out}");
    assert_eq!(run(Profile::Standard, "bash -c 'cat <(echo a) | tr a b'"), "b");
}

#[test]
fn the_filter_is_inherited() {
    let out = run(Profile::Standard, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status");
    assert_eq!(out, "NoNewPrivs:\t1\nSeccomp:\t2");
    run(Profile::Standard, "! unshare --user true");
}

#[test]
fn git_works() {
    let script = "
        export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a
        export GIT_COMMITTER_EMAIL=a@b
        git init -q repository; cd repository
        echo one > file; git add file; git commit -qm first
        git worktree add -q ../tree; git -C ../tree status --short; git gc -q
        cd ..; git clone -q repository copy; git -C copy log --format=%s";
    assert_eq!(run(Profile::Standard, script), "first");
}

#[test]
fn gcc_and_make_work() {
    let script = "
        printf '#include <stdio.h>\nint main(void){puts(\"made\");}\n' > main.c
        printf 'main: main.o\n\tgcc -pipe -o $@ $^\n' > Makefile
        make -s -j2 CC=gcc && ./main";
    assert_eq!(run(Profile::Standard, script), "made");
}

#[test]
fn python_works() {
    let program = "
import asyncio, multiprocessing, socket, subprocess, threading

def square(value):
    return value * value

async def echo():
    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    server = await asyncio.start_server(answer, '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b'echo\\n')
    return (await reader.readline()).decode().strip()

if __name__ == '__main__':
    for method in ('fork', 'spawn', 'forkserver'):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(sum(pool.map(square, range(10))))
    print(asyncio.run(echo()))
    print(subprocess.run(['uname'], capture_output=True, text=True).stdout.strip())
    threading.Thread(target=print, args=('thread',)).start()
";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("program.py"), program.replace("\\\\", "\\")).unwrap();
    let out = run_in(directory.path(), Profile::Standard, "python3 program.py");
    assert_eq!(out, "285\n285\n285\necho\nLinux\nthread");
    let venv = "python3 -m venv venv --without-pip; venv/bin/python -c 'print(1)'";
    assert_eq!(run(Profile::Standard, venv), "1");
}

#[test]
fn node_works() {
    let program = "
        const { Worker } = require('worker_threads');
        const { execFileSync } = require('child_process');
        const fs = require('fs');
        fs.watch('.').close();
        fs.promises.writeFile('file', 'x').then(() => {
            console.log(execFileSync('cat', ['file']).toString());
            new Worker('console.log(\"worker\")', { eval: true });
        });";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("program.js"), program).unwrap();
    let out = run_in(directory.path(), Profile::Standard, "node program.js");
    assert_eq!(out, "x\nworker");
}

#[test]
fn java_works() {
    let program = "
        class Main {
            public static void main(String[] args) throws Exception {
                var thread = new Thread(() -> System.out.println(\"thread\"));
                thread.start();
                thread.join();
                System.out.println(new ProcessBuilder(\"true\").start().waitFor());
            }
        }";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("Main.java"), program).unwrap();
    let out = run_in(directory.path(), Profile::Standard, "java Main.java");
    assert_eq!(out, "thread\n0");
}

#[test]
fn cargo_works() {
    let script = "
        export CARGO_NET_OFFLINE=true CARGO_TARGET_DIR=$PWD/target
        cargo init -q --vcs none --name hello . && cargo run -q && cargo test -q >/dev/null";
    assert_eq!(run(Profile::Standard, script), "Hello, world!");
}

#[test]
fn tracers_need_the_debug_profile() {
    run(Profile::Standard, "! strace -o trace true");
    let strace =
        "strace -f -o trace sh -c '/bin/true; exit 0'; grep -q 'execve(\"/bin/true' trace";
    run(Profile::Debug, strace);
    let gdb = "gdb -nx -batch -ex 'break main' -ex run -ex 'print 6*7' -ex kill ./main 2>&1";
    let script = format!(
        "echo 'int main(void){{return 0;}}' > main.c; gcc -g -o main main.c; {gdb} | grep '42'"
    );
    assert_eq!(run(Profile::Debug, &script), "$1 = 42");
}
