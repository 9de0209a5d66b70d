//! The jobs: small projects of the kinds that agents work on, generated on the spot.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// What `--only` knows.
pub(super) const NAMES: [&str; 6] = ["gcc", "cargo", "python", "git", "node", "tar"];

/// A job, and how to lay it out in an empty directory.
pub(super) struct Job {
    pub(super) name: &'static str,
    /// Writes what the job needs; the shell script that does it, or why it cannot be done here.
    pub(super) prepare: fn(&Path) -> Result<Result<String, String>, Trouble>,
}

pub(super) fn all() -> Vec<Job> {
    vec![
        Job { name: "gcc", prepare: gcc },
        Job { name: "cargo", prepare: cargo },
        Job { name: "python", prepare: python },
        Job { name: "git", prepare: git },
        Job { name: "node", prepare: node },
        Job { name: "tar", prepare: tar },
    ]
}

/// Forty C files, compiled by two jobs of make, linked and run.
fn gcc(dir: &Path) -> Result<Result<String, String>, Trouble> {
    const FILES: usize = 40;
    for program in ["gcc", "make"] {
        if programs::find(program).is_none() {
            return Ok(Err(format!("{program} is not installed")));
        }
    }
    let mut main = String::from("#include <stdio.h>\n");
    let mut calls = String::new();
    for file in 0..FILES {
        let mut source =
            String::from("#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n");
        for function in 0..12 {
            writeln!(
                source,
                "static int step_{function}(int x) {{ char b[64]; int s = 0; \
                 for (int i = 0; i < x % 32; i++) {{ snprintf(b, sizeof b, \"%d\", i * x); \
                 s += (int)strlen(b) ^ (atoi(b) * {function}); }} return s; }}"
            )
            .or_trouble(unwritten)?;
        }
        let sum: Vec<String> = (0..12).map(|it| format!("step_{it}(x)")).collect();
        writeln!(source, "int part_{file}(int x) {{ return {}; }}", sum.join(" + "))
            .or_trouble(unwritten)?;
        put(dir, &format!("part_{file}.c"), &source)?;
        writeln!(main, "int part_{file}(int);").or_trouble(unwritten)?;
        write!(calls, "s ^= part_{file}(s + 3); ").or_trouble(unwritten)?;
    }
    writeln!(main, "int main(void) {{ int s = 1; {calls} printf(\"%d\\n\", s); return 0; }}")
        .or_trouble(unwritten)?;
    put(dir, "main.c", &main)?;
    put(
        dir,
        "Makefile",
        "OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\n\
         CFLAGS := -O2\n\
         app: $(OBJECTS)\n\t$(CC) -o $@ $^\n",
    )?;
    Ok(Ok("make -s -j2 && ./app".to_owned()))
}

/// A crate without dependencies, built and run.
fn cargo(dir: &Path) -> Result<Result<String, String>, Trouble> {
    if programs::find("cargo").is_none() {
        return Ok(Err("cargo is not installed".to_owned()));
    }
    put(
        dir,
        "Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    )?;
    let mut main = String::new();
    let mut calls = String::new();
    for module in 0..30 {
        let mut source = String::from("use std::collections::BTreeMap;\n");
        for item in 0..10 {
            writeln!(
                source,
                "#[derive(Debug, Clone, PartialEq, Default)]\n\
                 pub struct Item{item} {{ pub name: String, pub parts: BTreeMap<u32, Vec<u64>> }}\n\
                 impl Item{item} {{ pub fn weigh(&self) -> u64 {{ self.parts.iter()\n\
                 .map(|(key, part)| u64::from(*key) + part.iter().sum::<u64>()).sum() }} }}"
            )
            .or_trouble(unwritten)?;
        }
        let weights: Vec<String> =
            (0..10).map(|it| format!("Item{it}::default().weigh()")).collect();
        writeln!(source, "pub fn weigh() -> u64 {{ {} }}", weights.join(" + "))
            .or_trouble(unwritten)?;
        put(dir, &format!("src/part{module}.rs"), &source)?;
        writeln!(main, "#[allow(dead_code)] mod part{module};").or_trouble(unwritten)?;
        write!(calls, "part{module}::weigh() + ").or_trouble(unwritten)?;
    }
    writeln!(main, "fn main() {{ assert_eq!({calls}0, 0); }}").or_trouble(unwritten)?;
    put(dir, "src/main.rs", &main)?;
    Ok(Ok("cargo build --offline --quiet && target/debug/app".to_owned()))
}

/// Half computing, half many small files.
fn python(dir: &Path) -> Result<Result<String, String>, Trouble> {
    put(
        dir,
        "work.py",
        "import hashlib, json, os\n\
         words = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(200000)]\n\
         words.sort()\n\
         assert json.loads(json.dumps(words)) == words\n\
         os.mkdir('files')\n\
         for i in range(6000):\n\
         \x20   with open(f'files/{i}.txt', 'w') as f: f.write(words[i] * 8)\n\
         total = 0\n\
         for name in os.listdir('files'):\n\
         \x20   with open(f'files/{name}') as f: total += len(f.read())\n\
         \x20   os.rename(f'files/{name}', f'files/{name}.bak')\n\
         assert total == 6000 * 64 * 8\n\
         for name in os.listdir('files'): os.remove(f'files/{name}')\n\
         os.rmdir('files')\n",
    )?;
    Ok(script_of("python3", "work.py"))
}

/// 2,000 files recorded in a repository. It is made beforehand: inside, what makes a repository
/// (its hooks and configuration) is protected.
fn git(dir: &Path) -> Result<Result<String, String>, Trouble> {
    let Some(git) = programs::find("git") else {
        return Ok(Err("git is not installed".to_owned()));
    };
    for file in 0..2000 {
        let line = format!("line of file {file}\n");
        put(dir, &format!("tree/{}/{file}.txt", file % 40), &line.repeat(20 + file % 50))?;
    }
    programs::output(
        programs::command(&git).args(["init", "--quiet", "--template="]).current_dir(dir),
    )?;
    let git = format!(
        "{} -c user.name=bench -c user.email=bench@localhost -c gc.auto=0",
        git.display()
    );
    Ok(Ok(format!(
        "{git} add . && {git} commit --quiet -m one && {git} status --short && \
         for i in 1 2 3 4 5 6; do echo $i >> tree/0/0.txt; {git} diff --stat; \
         {git} commit --quiet -a -m more; done; {git} log --stat --oneline"
    )))
}

/// Computing, compressing and small files in JavaScript.
fn node(dir: &Path) -> Result<Result<String, String>, Trouble> {
    put(
        dir,
        "work.js",
        "const fs = require('fs'), zlib = require('zlib'), assert = require('assert');\n\
         const words = [];\n\
         let x = 1;\n\
         for (let i = 0; i < 200000; i++) { x = (x * 48271) % 2147483647; words.push('w' + x); }\n\
         words.sort();\n\
         const text = JSON.stringify(words);\n\
         assert.deepStrictEqual(JSON.parse(text), words);\n\
         assert.strictEqual(zlib.gunzipSync(zlib.gzipSync(text)).toString(), text);\n\
         fs.mkdirSync('files');\n\
         for (let i = 0; i < 3000; i++) fs.writeFileSync('files/' + i, words[i].repeat(50));\n\
         let total = 0;\n\
         for (const name of fs.readdirSync('files')) total += fs.readFileSync('files/' + name).length;\n\
         assert(total > 3000);\n\
         fs.rmSync('files', { recursive: true });\n",
    )?;
    Ok(script_of("node", "work.js"))
}

/// A tree packed and unpacked.
fn tar(dir: &Path) -> Result<Result<String, String>, Trouble> {
    let mut state: u32 = 1;
    for file in 0..1500 {
        let mut text = String::new();
        for _ in 0..400 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            write!(text, "{:x} ", state >> 12).or_trouble(unwritten)?;
        }
        put(dir, &format!("tree/{}/{file}.txt", file % 30), &text.repeat(4))?;
    }
    Ok(Ok("tar -czf tree.tar.gz tree && mkdir out && tar -xzf tree.tar.gz -C out && \
           diff -r tree out/tree"
        .to_owned()))
}

/// An interpreter by its full name, so that both sides use the same one.
fn script_of(interpreter: &str, script: &str) -> Result<String, String> {
    match programs::find(interpreter) {
        Some(path) => Ok(format!("{} {script}", path.display())),
        None => Err(format!("{interpreter} is not installed")),
    }
}

fn put(dir: &Path, name: &str, text: &str) -> Result<(), Trouble> {
    let path = dir.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .or_trouble(|| format!("could not make `{}`", parent.display()))?;
    }
    fs::write(&path, text).or_trouble(|| format!("could not write `{}`", path.display()))
}

fn unwritten() -> String {
    "could not generate a file".to_owned()
}
