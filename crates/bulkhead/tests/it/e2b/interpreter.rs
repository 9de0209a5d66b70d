//! E2B's code interpreter: contexts, what they show, and a Python that cannot be trusted.

use std::path::Path;

use super::{Server, installed, script};
use crate::host::Host;

#[test]
fn the_code_interpreter_for_python_works_as_it_is() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("code.py").to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn the_asynchronous_code_interpreter_runs_many_pieces_at_once() {
    let server = Server::start();
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("code_async.py").to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn the_code_interpreter_for_javascript_works_as_it_is() {
    let server = Server::start();
    let copy = installed("javascript").join("code.mjs");
    std::fs::copy(script("code.mjs"), &copy).unwrap();
    let said = server.client(Path::new("/usr/bin/node"), &[copy.to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn names_in_contexts_outlive_the_server() {
    let mut server = Server::start();
    let python = installed("python/bin/python");
    let make = "from e2b_code_interpreter import Sandbox; r = Sandbox.create(timeout=60); \
                c = r.create_code_context(cwd='/tmp'); r.run_code('x = 41'); \
                r.run_code('y = 1', context=c); print(r.sandbox_id, c.id)";
    let told = server.client(&python, &["-c", make]);
    let (id, context) = told.trim().split_once(' ').unwrap();
    server.restart();
    let look = format!(
        "from e2b_code_interpreter import Sandbox; r = Sandbox.connect('{id}'); \
         c = [it for it in r.list_code_contexts() if it.id == '{context}'][0]; \
         print(c.cwd, r.run_code('x + 1').text, r.run_code('y + 1', context=c).text); r.kill()"
    );
    assert_eq!(server.client(&python, &["-c", &look]), "/tmp 42 2\n");
}

#[test]
fn tables_figures_and_pictures_are_shown() {
    let science = installed("science");
    let science = science.canonicalize().unwrap();
    let share = format!("{0}:{0}:ro", science.display());
    let path = format!("PATH={}/bin:/usr/local/bin:/usr/bin:/bin", science.display());
    let server =
        Server::start_with(&["--listen", "127.0.0.1:0", "--mount", &share, "--env", &path]);
    let python = installed("python/bin/python");
    let said = server.client(&python, &[script("science.py").to_str().unwrap()]);
    assert_eq!(said, "all well\n");
    assert_eq!(server.rooms(), "");
}

#[test]
fn a_room_whose_python_lies_and_shouts_is_refused_in_words() {
    for liar in [
        "exit 1",
        "while :; do echo nonsense; done",
        "yes | tr -d '\\n'",
        "echo '{\"slot\":0,\"hello\":{\"languages\":7}}'; exit",
    ] {
        let host = Host::new();
        let script = host.write("liar/python3", &format!("#!/bin/sh\n{liar}\n"));
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, everybody).unwrap();
        let dir = script.parent().unwrap().to_str().unwrap().to_owned();
        let share = format!("{dir}:/liar:ro");
        let path = "PATH=/liar:/usr/bin:/bin";
        let flags = ["--listen", "127.0.0.1:0", "--mount", &share, "--env", path];
        let server = Server::start_on(host, &flags, |_| ());
        let python = installed("python/bin/python");
        let ask = "from e2b_code_interpreter import Sandbox, SandboxException\n\
                   r = Sandbox.create(timeout=60)\n\
                   try: print(r.run_code('1', timeout=25))\n\
                   except SandboxException as error: print(error)\n\
                   print(r.commands.run('echo fine').stdout, r.kill())";
        let said = server.client(&python, &["-c", ask]);
        let expected = "500 Internal Server Error: the interpreter of this sandbox ended; \
                        the next call starts it again\nfine\n True\n";
        assert_eq!(said, expected, "{liar}");
    }
}
