//! Real tests of small projects, in images that `image init` describes.
//!
//! Registries cannot be reached, so the base images are made of Debian's packages, under the names
//! that the generated Dockerfiles start from.

use std::{fs, path::Path};

use crate::{
    dockerd::{Dockerd, bases},
    host::Host,
};

struct Case {
    files: &'static [(&'static str, &'static str)],
    program: &'static [&'static str],
    says: &'static str,
}

const CASES: &[Case] = &[
    Case {
        files: &[
            ("go.mod", "module example.test/hello\n\ngo 1.19\n"),
            ("hello.go", "package hello\n\nfunc Two() int { return 2 }\n"),
            (
                "hello_test.go",
                "package hello\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\
                 \tif Two() != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
            ),
        ],
        program: &["go", "test", "./..."],
        says: "ok  \texample.test/hello",
    },
    Case {
        files: &[
            ("package.json", "{\"name\":\"hello\",\"scripts\":{\"test\":\"node --test\"}}\n"),
            (
                "package-lock.json",
                "{\"name\":\"hello\",\"lockfileVersion\":3,\"packages\":{\"\":{\"name\":\"hello\"}}}\n",
            ),
            (
                "hello.test.js",
                "require('node:test')('two', () => require('node:assert').equal(1 + 1, 2));\n",
            ),
        ],
        program: &["npm", "test"],
        says: "# pass 1",
    },
    Case {
        files: &[
            ("requirements.txt", "pytest\n"),
            ("test_hello.py", "def test_two():\n    assert 1 + 1 == 2\n"),
        ],
        program: &["pytest"],
        says: "1 passed",
    },
    Case {
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
            ),
            (
                "Cargo.lock",
                "version = 3\n\n[[package]]\nname = \"hello\"\nversion = \"0.1.0\"\n",
            ),
            ("src/lib.rs", "#[test]\nfn two() {\n    assert_eq!(1 + 1, 2);\n}\n"),
        ],
        program: &["cargo", "test", "--locked"],
        says: "1 passed",
    },
];

const PACKAGES: &str = "golang-go,gcc,libc6-dev,nodejs,npm,python3,python3-venv,python3-pip,\
    python3-pytest,python-is-python3,cargo,rustc";

/// Where the tree is kept: to make it takes longer than all the rest.
const KEPT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/toolchains.tar");

/// One tree with all toolchains, under every name that is asked for.
fn import_bases(dockerd: &Dockerd, names: &[String]) {
    let (recipe, made_by) = (format!("{KEPT}.packages"), fs::read_to_string("/etc/os-release"));
    let made_by = format!("{PACKAGES}\n{}", made_by.unwrap());
    let kept = fs::read_to_string(&recipe).is_ok_and(|it| it == made_by);
    if !kept || !Path::new(KEPT).exists() {
        make_base(&format!("{KEPT}.draft.tar"));
        fs::rename(format!("{KEPT}.draft.tar"), KEPT).unwrap();
        fs::write(recipe, made_by).unwrap();
    }
    dockerd.import(KEPT, names);
}

fn make_base(tar: &str) {
    let host = Host::new();
    let script = format!(
        "mmdebstrap --quiet --variant=minbase --aptopt='Apt::Install-Recommends \"false\"' \
         --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
         --include={PACKAGES} \"$(. /etc/os-release; echo $VERSION_CODENAME)\" {tar} \
         $(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
              /etc/apt/sources.list.d/*.sources 2>/dev/null)"
    );
    let mut command = host.program("/bin/sh");
    let command = command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").args(["-ec", &script]);
    let ran = host.ended(command);
    assert_eq!(ran.code, Some(0), "{}", ran.shown());
}

#[test]
#[ignore = "makes a gigabyte of toolchains and starts a Docker daemon; test.sh --images does"]
fn tests_of_four_languages_pass_on_a_workspace_that_cannot_be_written() {
    let dockerd = Dockerd::start();
    let hosts: Vec<Host> = CASES.iter().map(|_| Host::new()).collect();
    let mut names = Vec::new();
    for (case, host) in CASES.iter().zip(&hosts) {
        for (path, text) in case.files {
            host.write(&format!("project/{path}"), text);
        }
        dockerd.ok(host, &["image", "init", "--offline"]);
        let file = host.project().join(".sandbox/Dockerfile");
        names.extend(bases(&fs::read_to_string(file).unwrap()));
    }
    names.sort();
    names.dedup();
    import_bases(&dockerd, &names);
    for (case, host) in CASES.iter().zip(&hosts) {
        let image = dockerd.ok(host, &["image", "build", "--no-pull"]);
        works(&dockerd, image.trim(), &host.project(), case);
        // Twice the same, also with real package managers at work.
        let id = |args: &[&str]| {
            let built =
                dockerd.ok(host, &[&["image", "build", "--no-pull", "--json"], args].concat());
            serde_json::from_str::<serde_json::Value>(&built).unwrap()["id"].clone()
        };
        assert_eq!(id(&[]), id(&["--no-cache"]), "{:?}", case.program);
    }
}

fn works(dockerd: &Dockerd, image: &str, project: &Path, case: &Case) {
    // Whoever runs inside must be able to read it.
    fs::set_permissions(
        project.parent().unwrap(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let share = format!("{}:/workspace:ro", project.display());
    let mut line =
        String::from("mkdir /workspace/owned 2>/dev/null && exit 9; cd /workspace; ");
    line += &case.program.join(" ");
    let ran = dockerd.docker([
        "run",
        "--rm",
        "--read-only",
        "--network=none",
        "--cap-drop=ALL",
        "--volume",
        &share,
        "--tmpfs",
        "/tmp:exec,mode=1777",
        image,
        "sh",
        "-c",
        &line,
    ]);
    assert_eq!(ran.code, Some(0), "{:?}: {}", case.program, ran.shown());
    assert!(ran.stdout.contains(case.says), "{:?}: {}", case.program, ran.shown());
}
