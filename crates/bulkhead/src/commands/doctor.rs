//! `bulkhead doctor`: what this host can enforce, and what to type to get the rest.

use bulkhead_backends::{Finding, State, container::Caution};
use bulkhead_policy::Policy;
use bulkhead_spec::{Guarantee, Guarantees, Spec};
use serde_json::{Value, json};

use super::{
    examined::{Examined, examine},
    sysctl::{self, Advice},
};
use crate::{
    args::JsonArgs,
    config::{Environment, Paths, Who},
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
    let found = engine::runtime()?.block_on(examine(&paths, environment))?;
    let required = plainest();
    let host = Host::look();
    let advice = sysctl::advice();
    let text = if args.json {
        format!("{:#}\n", in_json(&host, &found, &required, &advice))
    } else {
        in_text(&host, &found, &required, printer) + &advised(&advice, printer)
    };
    printer.payload(&text)?;
    Ok(u8::from(!found.iter().any(|it| it.is_usable(&required))))
}

/// What every sandbox requires of which nobody asked anything.
pub(crate) fn plainest() -> Guarantees {
    let plainest = bulkhead_policy::resolve(Spec::default(), &Policy::default());
    plainest.map_or_else(|_| Guarantees::all(), |plan| plan.require().clone())
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

fn in_json(host: &Host, found: &[Examined], required: &Guarantees, advice: &[Advice]) -> Value {
    let backends: Vec<Value> = found.iter().map(|it| it.json(required)).collect();
    json!({
        "schema_version": 1,
        "kernel": host.kernel,
        "user": host.user,
        "cgroups": host.cgroups,
        "backends": backends,
        "sysctls": advice,
    })
}

fn in_text(
    host: &Host,
    found: &[Examined],
    required: &Guarantees,
    printer: &Printer,
) -> String {
    let mut lines = vec![format!(
        "kernel   {}\nuser     {}\ncgroups  {}\n",
        host.kernel, host.user, host.cgroups
    )];
    for backend in found {
        lines.extend(about(backend, required, printer));
    }
    lines.concat()
}

/// All that there is to say about one backend.
fn about(backend: &Examined, required: &Guarantees, printer: &Printer) -> Vec<String> {
    let state = match &backend.findings {
        Ok(_) if backend.is_usable(required) => printer.painted(Paint::Green, "usable"),
        Ok(_) => printer.painted(Paint::Red, "not usable"),
        Err(_) => printer.painted(Paint::Yellow, "not available"),
    };
    let title = printer.painted(Paint::Bold, backend.name);
    let mut lines = vec![format!("\nbackend {title}: {state}\n")];
    let daemon = backend.daemon.as_ref();
    lines.extend(daemon.iter().flat_map(|it| it.lines()).map(|it| format!("  {it}\n")));
    match &backend.findings {
        Ok(findings) => {
            lines.extend(findings.iter().map(|it| line(it, printer)));
            // The engine's own, on top of every backend.
            let own =
                Finding::upheld(Guarantee::OutputBounded, "the engine counts what is printed");
            lines.push(line(&own, printer));
        }
        Err(failure) => {
            let what = [vec![failure.what.clone()], failure.causes.clone()].concat().join(": ");
            lines.push(format!("  {what}\n"));
            lines.extend(failure.hints.iter().map(|it| format!("  {it}\n")));
        }
    }
    for Caution { what, hint } in daemon.iter().flat_map(|it| &it.cautions) {
        let mark = printer.painted(Paint::Yellow, "caution");
        lines.push(format!("  {mark} {what}\n          {hint}\n"));
    }
    lines
}

/// Kernel settings that nobody has to have.
fn advised(advice: &[Advice], printer: &Printer) -> String {
    let open: Vec<&Advice> = advice.iter().filter(|it| !it.is_followed()).collect();
    if open.is_empty() {
        return String::new();
    }
    let title =
        printer.painted(Paint::Bold, "kernel settings that would make this host harder");
    let lines: Vec<String> = open.iter().map(|it| format!("  {it}\n")).collect();
    format!("\n{title}\n{}", lines.concat())
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
