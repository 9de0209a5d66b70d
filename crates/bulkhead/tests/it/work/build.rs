//! Compilers: C with make, Rust with cargo.

use super::Work;

const MAKEFILE: &str = "hello: main.o greet.o
\t$(CC) -o $@ $^
%.o: %.c
\t$(CC) -g -O2 -Wall -Werror -c -o $@ $<
test: hello
\t./hello | grep -q '^hello from 3$$'
";

fn c_is_built(work: &Work) {
    work.write("Makefile", MAKEFILE);
    work.write(
        "greet.c",
        "#include <stdio.h>\nvoid greet(int n) { printf(\"hello from %d\\n\", n); }\n",
    );
    work.write("main.c", "void greet(int);\nint main(void) { greet(3); return 0; }\n");
    work.inside("make -s -j2 && make -s test");
    assert_eq!(work.outside("./hello"), "hello from 3\n");
    assert_eq!(work.inside("make -s && ./hello && make -s -q"), "hello from 3\n");
}

#[test]
fn c_is_built_and_tested() {
    c_is_built(&Work::new());
}

#[test]
fn c_is_built_and_tested_by_an_ordinary_user() {
    c_is_built(&Work::of_ordinary_user());
}

#[test]
fn c_is_built_and_tested_on_a_project_of_another() {
    c_is_built(&Work::on_a_project_of_another());
}

/// The caller's own toolchain, wherever it is: under the home, as rustup puts it, or elsewhere.
fn with_cargo() -> Work {
    let names = ["HOME", "PATH", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
    let found = names.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    found.fold(Work::new(), |work, (name, value)| work.with(name, value.to_str().unwrap()))
}

#[test]
fn rust_is_built_and_tested_with_the_callers_toolchain() {
    let work = with_cargo();
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    work.write("Cargo.toml", &format!("{manifest}[workspace]\n"));
    work.write("src/lib.rs", "pub fn add(a: u32, b: u32) -> u32 { a + b }\n");
    work.write("src/main.rs", "fn main() { println!(\"{}\", small::add(1, 2)); }\n");
    work.write("tests/it.rs", "#[test]\nfn adds() { assert_eq!(small::add(1, 2), 3); }\n");
    let cargo = |args: &[&str]| {
        let args = [&["-e", "RUSTUP_TOOLCHAIN", "--", "cargo"], args].concat();
        let ran = work.run(&args);
        assert_eq!(ran.code, Some(0), "{}", ran.shown());
        ran.stdout
    };
    cargo(&["build"]);
    assert_eq!(work.outside("target/debug/small"), "3\n");
    let tested = cargo(&["test", "--offline"]);
    assert!(tested.contains("test adds ... ok"), "{tested}");
    assert_eq!(cargo(&["run", "--quiet"]), "3\n");
}
