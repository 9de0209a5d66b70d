//! Java: the version by the build file, Maven or Gradle by which one there is.

use super::{Fetch, Found, Wanted, words};
use crate::tree::Tree;

/// Parts of coordinates that bring native libraries for glibc.
const NATIVE: &[&str] = &[
    "netty-tcnative",
    "sqlite-jdbc",
    "rocksdbjni",
    "jna",
    "javacpp",
    "tensorflow",
    "lwjgl",
    "onnxruntime",
    "jffi",
    "snappy-java",
    "zstd-jni",
    "duckdb_jdbc",
];

const GRADLE: [&str; 2] = ["build.gradle.kts", "build.gradle"];

pub(super) fn find(tree: &Tree) -> Found {
    let maven = tree.text("pom.xml");
    let gradle = GRADLE.iter().find_map(|it| tree.text(it));
    let text = maven.or(gradle).unwrap_or_default();
    let native = NATIVE.iter().find(|it| text.contains(*it));
    let fetch = if maven.is_some() { of_maven(tree) } else { of_gradle(tree) };
    // A wrapper fetches its own tool; without one the image must have it.
    let base = match (maven.is_some(), tree.has("mvnw"), tree.has("gradlew")) {
        (true, false, _) => Some("maven:3.9.11-eclipse-temurin-{line}"),
        (false, _, false) => Some("gradle:8.14.3-jdk{line}"),
        (true, true, _) | (false, _, true) => None,
    };
    Found {
        wanted: version(tree, maven, gradle),
        glibc: native.map(|it| format!("{it} brings a native library")),
        fetch,
        base,
        notes: Vec::new(),
    }
}

fn version(tree: &Tree, maven: Option<&str>, gradle: Option<&str>) -> Wanted {
    let own = tree.text(".java-version").and_then(|it| feature(it.trim()));
    let own = own.and_then(|it| Wanted::range(it, ".java-version"));
    let by_maven = || {
        let text = maven?;
        let tags =
            ["maven.compiler.release", "java.version", "maven.compiler.target", "release"];
        let said = tags.iter().find_map(|tag| feature(element(text, tag)?))?;
        Wanted::range(said, "pom.xml")
    };
    let by_gradle = || {
        let text = gradle?;
        let words = ["JavaLanguageVersion.of(", "JavaVersion.VERSION_", "jvmToolchain("];
        let said = words.iter().find_map(|word| feature(text.split(word).nth(1)?))?;
        Wanted::range(said, "build.gradle")
    };
    own.or_else(by_maven).or_else(by_gradle).unwrap_or(Wanted::Any)
}

/// `17` of `17.0.2`, `8` of `1.8`.
fn feature(text: &str) -> Option<&str> {
    let text = text.trim();
    let text = text.strip_prefix("1.").or(text.strip_prefix("1_")).unwrap_or(text);
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).filter(|it| !it.is_empty())
}

/// What stands in the first `<tag>`.
fn element<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let after = text.split_once(&format!("<{tag}>"))?.1;
    after.split_once("</").map(|(inside, _)| inside)
}

fn of_maven(tree: &Tree) -> Fetch {
    let pom = |it: &&str| *it == "pom.xml" || it.ends_with("/pom.xml");
    let mut copy: Vec<String> = tree.names().filter(pom).map(str::to_owned).collect();
    let wrapped = tree.has("mvnw");
    if wrapped {
        let parts = |it: &&str| *it == "mvnw" || it.starts_with(".mvn/");
        copy.extend(tree.names().filter(parts).map(str::to_owned));
    }
    let program = if wrapped { "./mvnw" } else { "mvn" };
    let line = [program, "--batch-mode", "-Dmaven.repo.local=/opt/m2", "dependency:go-offline"];
    Fetch {
        copy,
        run: vec![words(["mkdir", "-p", "/opt/m2"]), words(line)],
        cache: None,
        keep: vec![("/opt/m2", "/opt/m2")],
    }
}

fn of_gradle(tree: &Tree) -> Fetch {
    let part = |it: &&str| {
        let name = it.rsplit('/').next().unwrap_or(it);
        let known =
            ["gradlew", "gradle.properties", "gradle-wrapper.jar", "libs.versions.toml"];
        known.contains(&name)
            || name == "gradle-wrapper.properties"
            || name.starts_with("build.gradle")
            || name.starts_with("settings.gradle")
    };
    let wrapped = tree.has("gradlew");
    let program = if wrapped { "./gradlew" } else { "gradle" };
    let line = [program, "--no-daemon", "--gradle-user-home", "/opt/gradle", "dependencies"];
    Fetch {
        copy: tree.names().filter(part).map(str::to_owned).collect(),
        run: vec![words(["mkdir", "-p", "/opt/gradle"]), words(line)],
        cache: None,
        keep: vec![("/opt/gradle", "/opt/gradle")],
    }
}
