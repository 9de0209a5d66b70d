//! `bulkhead doctor`: what this host can enforce, and what to type to get the rest.

use bulkhead_backends::{Backend, Finding, State};
use bulkhead_policy::Policy;
use bulkhead_spec::{Guarantee, Guarantees, Spec};
use serde_json::{Value, json};

use super::sysctl::{self, Advice};
use crate::{
    args::JsonArgs,
    config::{Choice, Environment, Paths, Who},
    engine,
    failure::Failure,
    printer::{Paint, Printer},
};

/// Examines the host. The exit code is 0 if some backend can wall a program in, else 1.
pub(crate) fn run(
    args: &JsonArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let paths = Paths::find(environment, Who::current());
    let found: Vec<Examined> = engine::backends(Choice::Auto, &paths, environment)?
        .iter()
        .map(|backend| Examined::new(backend.as_ref()))
        .collect();
    let host = Host::look();
    let advice = sysctl::advice();
    let text = if args.json {
        format!("{:#}\n", in_json(&host, &found, &advice))
    } else {
        in_text(&host, &found, &advice, printer)
    };
    printer.payload(&text)?;
    Ok(u8::from(!found.iter().any(Examined::is_usable)))
}

/// One backend, looked at.
struct Examined {
    name: &'static str,
    findings: Vec<Finding>,
    /// Promises without which nothing is run there.
    lacking: Guarantees,
}

impl Examined {
    fn new(backend: &dyn Backend) -> Self {
        let findings = backend.findings();
        let upheld = |it: &&Finding| matches!(it.state, State::Upheld { .. });
        let upheld: Guarantees =
            findings.iter().filter(upheld).map(|it| it.guarantee).collect();
        // What every sandbox requires of which nobody asked anything.
        let plainest = bulkhead_policy::resolve(Spec::default(), &Policy::default());
        let required =
            plainest.map_or_else(|_| Guarantees::all(), |plan| plan.require().clone());
        Self { name: backend.name(), findings, lacking: required.missing_from(&upheld) }
    }

    fn is_usable(&self) -> bool {
        self.lacking.is_empty()
    }
}

/// What there is to say about the host itself.
struct Host {
    kernel: String,
    user: String,
    cgroups: &'static str,
}

impl Host {
    fn look() -> Self {
        let name = rustix::system::uname();
        let part = |it: &std::ffi::CStr| it.to_string_lossy().into_owned();
        let kernel = format!("{} {}", part(name.release()), part(name.machine()));
        let uid = rustix::process::getuid();
        let user =
            if uid.is_root() { "root".to_owned() } else { format!("uid {}", uid.as_raw()) };
        let there = |path: &str| std::path::Path::new(path).exists();
        let cgroups = if there("/sys/fs/cgroup/cgroup.controllers") {
            "v2"
        } else if there("/sys/fs/cgroup/unified") {
            "v1 and v2 (hybrid)"
        } else if there("/sys/fs/cgroup") {
            "v1"
        } else {
            "none"
        };
        Self { kernel, user, cgroups }
    }
}

fn in_json(host: &Host, found: &[Examined], advice: &[Advice]) -> Value {
    let backend = |it: &Examined| {
        json!({
            "name": it.name,
            "usable": it.is_usable(),
            "lacking": it.lacking,
            "findings": it.findings,
        })
    };
    let backends: Vec<Value> = found.iter().map(backend).collect();
    json!({
        "schema_version": 1,
        "kernel": host.kernel,
        "user": host.user,
        "cgroups": host.cgroups,
        "backends": backends,
        "sysctls": advice,
    })
}

fn in_text(host: &Host, found: &[Examined], advice: &[Advice], printer: &Printer) -> String {
    let mut lines = vec![format!(
        "kernel   {}\nuser     {}\ncgroups  {}\n",
        host.kernel, host.user, host.cgroups
    )];
    for backend in found {
        let state = if backend.is_usable() {
            printer.painted(Paint::Green, "usable")
        } else {
            printer.painted(Paint::Red, "not usable")
        };
        let title = printer.painted(Paint::Bold, backend.name);
        lines.push(format!("\nbackend {title}: {state}\n"));
        lines.extend(backend.findings.iter().map(|it| line(it, printer)));
        // The engine's own, on top of every backend.
        let own =
            Finding::upheld(Guarantee::OutputBounded, "the engine counts what is printed");
        lines.push(line(&own, printer));
    }
    let open: Vec<&Advice> = advice.iter().filter(|it| !it.is_followed()).collect();
    if !open.is_empty() {
        let title =
            printer.painted(Paint::Bold, "kernel settings that would make this host harder");
        lines.push(format!("\n{title}\n"));
    }
    lines.extend(open.iter().map(|it| format!("  {it}\n")));
    lines.concat()
}

fn line(finding: &Finding, printer: &Printer) -> String {
    let name = finding.guarantee.to_string();
    match &finding.state {
        State::Upheld { by } => {
            format!("  {} {name:22} {by}\n", printer.painted(Paint::Green, "upheld "))
        }
        State::Missing { why, hint } => {
            let mark = printer.painted(Paint::Yellow, "missing");
            let hint = hint.as_ref().map(|it| format!("{:33}{it}\n", "")).unwrap_or_default();
            format!("  {mark} {name:22} {why}\n{hint}")
        }
    }
}
