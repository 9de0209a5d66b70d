//! `bulkhead image scan`: known weaknesses of an image, found by trivy or grype.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bulkhead_image::managed::{Purpose, list};
use serde_json::Value;

use super::{build, daemon};
use crate::{
    args::image::{Level, ScanArgs},
    codes::Code,
    commands::current_dir,
    config::{Environment, shown},
    engine,
    failure::Failure,
    printer::Printer,
};

/// A scanner, and how it is asked for SARIF.
struct Scanner {
    name: &'static str,
    args: fn(&str) -> Vec<String>,
}

const SCANNERS: [Scanner; 2] = [
    Scanner {
        name: "trivy",
        args: |image| {
            let words = ["image", "--quiet", "--format", "sarif", "--", image];
            words.map(str::to_owned).to_vec()
        },
    },
    Scanner {
        name: "grype",
        args: |image| {
            let image = format!("docker:{image}");
            ["--quiet", "--output", "sarif", "--", &image].map(str::to_owned).to_vec()
        },
    },
];

/// Scans.
pub(super) fn run(
    args: &ScanArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let found = SCANNERS.iter().find_map(|it| Some((it, installed(it.name, environment)?)));
    let Some((scanner, program)) = found else {
        return Err(Failure::new(Code::Argument, "neither trivy nor grype is installed")
            .hint("install one of them so that it is on the PATH"));
    };
    let (image, host) = engine::runtime()?.block_on(chosen(args, environment))?;
    printer.note(&format!("{} looks at {image}", scanner.name));
    let sarif = scanned(scanner, &program, &image, &host)?;
    let levels = levels(&sarif).ok_or_else(|| {
        Failure::new(Code::ImageBuild, format!("{} did not write SARIF", scanner.name))
    })?;
    match &args.output {
        None => printer.payload(&format!("{sarif}\n"))?,
        Some(path) => std::fs::write(path, format!("{sarif}\n")).map_err(|error| {
            Failure::new(Code::Argument, format!("could not write `{}`", shown(path)))
                .because(error)
        })?,
    }
    let count = |level: Level| levels.iter().filter(|it| **it == level).count();
    printer.note(&format!(
        "{} errors, {} warnings, {} notes",
        count(Level::Error),
        count(Level::Warning),
        count(Level::Note)
    ));
    let bad = args.fail_on.is_some_and(|least| levels.iter().any(|it| *it >= least));
    Ok(u8::from(bad))
}

/// Where `name` is on the caller's PATH.
pub(super) fn installed(name: &str, environment: &Environment) -> Option<PathBuf> {
    let path = environment.get("PATH")?;
    std::env::split_paths(path)
        .filter(|it| it.is_absolute())
        .map(|dir| dir.join(name))
        .find(|it| rustix::fs::access(it, rustix::fs::Access::EXEC_OK).is_ok() && it.is_file())
}

/// The image that is meant, and the daemon that has it.
async fn chosen(
    args: &ScanArgs,
    environment: &Environment,
) -> Result<(String, String), Failure> {
    let daemon = daemon::connect(environment).await?;
    let host = daemon.facts.address.to_string();
    if let Some(image) = &args.image {
        if image.starts_with('-') {
            return Err(Failure::new(Code::Argument, "an image does not start with `-`"));
        }
        return Ok((image.clone(), host));
    }
    let prefix = format!("{}:", build::name(&current_dir()?));
    let images = list(&daemon.docker)
        .await
        .map_err(|error| Failure::from_error(Code::ImageBuild, &error))?;
    let own = images.iter().filter(|it| it.purpose == Purpose::Image);
    let named = own.filter_map(|it| {
        Some((it.since, it.tags.iter().find(|tag| tag.starts_with(&prefix))?))
    });
    let last = named.max_by_key(|it| it.0).map(|it| it.1.clone());
    let last = last.ok_or_else(|| {
        Failure::new(Code::ImageBuild, "no image was built for this directory")
            .hint("build one with `bulkhead image build`, or name one")
    })?;
    Ok((last, host))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user's own scanner, on the user's own daemon"
)]
fn scanned(
    scanner: &Scanner,
    program: &Path,
    image: &str,
    host: &str,
) -> Result<Value, Failure> {
    let output = Command::new(program)
        .args((scanner.args)(image))
        .env("DOCKER_HOST", host)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| {
            Failure::new(Code::System, format!("could not start `{}`", shown(program)))
                .because(error)
        })?;
    let name = scanner.name;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let failure = Failure::new(Code::ImageBuild, format!("{name} did not write SARIF"));
        failure.because(format!("it ended with {}", output.status)).because(error)
    })
}

/// The level of each finding; nothing if it is no SARIF.
fn levels(sarif: &Value) -> Option<Vec<Level>> {
    let runs = sarif.get("runs")?.as_array()?;
    let results = runs.iter().filter_map(|it| it.get("results")?.as_array()).flatten();
    let level = |it: &Value| match it.get("level").and_then(Value::as_str) {
        Some("error") => Level::Error,
        Some("note" | "none") => Level::Note,
        // What SARIF says about a finding without one.
        Some(_) | None => Level::Warning,
    };
    Some(results.map(level).collect())
}
