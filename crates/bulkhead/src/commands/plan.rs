//! `bulkhead plan`: what would be enforced for a program, and by what. Builds nothing.

mod way_out;

use bulkhead_backends::{Finding, State};
use bulkhead_engine::Placed;
use bulkhead_policy::Plan;
use bulkhead_spec::{Access, Limits, Mount, Network, Root, Terminal, escape_bytes};
use serde_json::json;

use super::{
    examined::{Examined, examine},
    image,
};
use crate::{
    agents::Agent,
    args::run::{Ask, PlanArgs},
    config::{Environment, Layer},
    console, engine,
    failure::Failure,
    printer::{Format, Paint, Printer, Talk},
    share,
    wish::Wish,
};

/// Shows the plan.
pub(crate) fn run(
    args: &PlanArgs,
    environment: Environment,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    show(&args.ask, args.json.into(), environment, printer)
}

/// Shows what `ask` would get.
pub(crate) fn show(
    ask: &Ask,
    format: Format,
    environment: Environment,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    printer.talk = (&ask.talk).into();
    let caller = console::look(&ask.console)?;
    let wish = Wish::of(ask, caller, environment)?;
    wish.warnings.iter().for_each(|it| printer.warning(it));
    wish.details.iter().for_each(|it| printer.detail(it));
    let runtime = engine::runtime()?;
    let mut offer = runtime.block_on(engine::offer(&(&wish).into()))?;
    if offer.daemon(&(&wish).into()).is_some() {
        image::foretold(&wish)?.iter().for_each(|it| printer.note(it));
    }
    let engine = engine::silent(wish.policy, std::mem::take(&mut offer.backends));
    let id = ask.name.clone().unwrap_or_else(|| "bh-plan".to_owned());
    let placed = runtime.block_on(engine.place(&id, wish.spec, wish.exec));
    let placed = placed.map_err(|error| offer.unplaced(&error))?;
    let others = runtime.block_on(examine(&wish.paths, &wish.environment))?;
    let steps = placed.backend.describe(&placed.plan);
    let steps = steps.map_err(|error| Failure::of_run(&error.into()))?;
    let text = match format {
        Format::Json => {
            format!("{:#}\n", in_json(&placed, wish.agent.as_ref(), &others, &steps))
        }
        Format::Text => {
            let agent = wish.agent.map(|it| format!("{:10} {}\n", "agent", it.summary()));
            agent.unwrap_or_default()
                + &in_text(&placed, &wish.layer, &others, printer)
                + &steps_in_text(&steps, printer)
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

fn in_json(
    placed: &Placed<'_>,
    agent: Option<&Agent>,
    all: &[Examined],
    steps: &[String],
) -> serde_json::Value {
    let required = placed.plan.require();
    let backends: Vec<serde_json::Value> = all.iter().map(|it| it.json(required)).collect();
    json!({
        "schema_version": 1,
        "agent": agent.map(|it| &it.name),
        "backend": placed.backend.name(),
        "plan": placed.plan,
        "exec": placed.exec,
        "upheld": placed.upheld,
        "missing": placed.missing,
        "findings": placed.backend.findings(),
        "backends": backends,
        "steps": steps,
    })
}

fn in_text(placed: &Placed<'_>, layer: &Layer, all: &[Examined], printer: &Printer) -> String {
    let plan = &placed.plan;
    let exec = &placed.exec;
    let words: Vec<String> =
        exec.argv().iter().map(|word| escape_bytes(word.as_encoded_bytes())).collect();
    let names: Vec<String> =
        exec.env().keys().map(|name| escape_bytes(name.as_encoded_bytes())).collect();
    let terminal = exec.terminal().map_or("none".to_owned(), |Terminal { rows, columns }| {
        format!("its own, {columns}×{rows}")
    });
    let mut rows = vec![
        ("backend", placed.backend.name().to_owned()),
        ("program", words.join(" ")),
        ("starts in", exec.dir().to_string()),
        ("terminal", terminal),
        ("root", root(plan.root())),
        ("workspace", workspace(plan)),
        ("home", format!("{} (private, empty)", plan.home())),
        ("network", network(plan.network())),
        ("variables", names.join(" ")),
    ];
    rows.extend(way_out::rows(plan, placed.backend.catches()));
    rows.extend(plan.mounts().iter().map(|mount| ("share", shared(mount))));
    rows.extend(limits(plan.limits(), layer).into_iter().map(|limit| ("limit", limit)));
    let rows = rows.into_iter().map(|(name, value)| format!("{name:10} {value}\n"));
    let promises =
        placed.backend.findings().iter().map(|it| promise(it, plan, printer)).collect();
    let title = |text: &str| format!("\n{}\n", printer.painted(Paint::Bold, text));
    let others = all.iter().filter(|it| it.name != placed.backend.name());
    let others = others.map(|it| other(it, plan, printer)).collect();
    let rows = rows.collect::<Vec<String>>();
    let (first, second) = (title("guarantees"), title("other backends"));
    [rows, vec![first], promises, vec![second], others].concat().concat()
}

/// What another backend would make of it.
fn other(backend: &Examined, plan: &Plan, printer: &Printer) -> String {
    let (mark, why) = match (&backend.findings, backend.lacking(plan.require())) {
        (Err(failure), _) => (printer.painted(Paint::Yellow, "absent "), failure.what.clone()),
        (Ok(_), Some(lacking)) if !lacking.is_empty() => {
            (printer.painted(Paint::Yellow, "lacking"), lacking.to_string())
        }
        (Ok(_), _) => {
            let type_it = format!("upholds all of it too: --backend {}", backend.name);
            (printer.painted(Paint::Green, "able   "), type_it)
        }
    };
    format!("  {mark} {:22} {why}\n", backend.name)
}

/// Two hundred lines that few want to read.
fn steps_in_text(steps: &[String], printer: &Printer) -> String {
    if printer.talk != Talk::Verbose {
        return String::new();
    }
    let steps: Vec<String> = steps.iter().map(|step| format!("  {step}\n")).collect();
    format!("\n{}\n{}", printer.painted(Paint::Bold, "steps"), steps.concat())
}

fn root(root: &Root) -> String {
    match root {
        Root::Host => "the host's own programs, read-only".to_owned(),
        Root::Directory(dir) => format!("`{dir}`; changes are private"),
        Root::Image(image) => format!("the image `{}`; changes are private", image.source),
    }
}

fn workspace(plan: &Plan) -> String {
    plan.workspace().map_or("none".to_owned(), |it| {
        let hidden = match it.env_files {
            bulkhead_spec::EnvFiles::Hidden => ", `.env` files look empty",
            bulkhead_spec::EnvFiles::Shown => "",
        };
        format!("{} ({}{hidden})", it.dir, access(it.access))
    })
}

fn access(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "read-write",
        Access::Private => "changes are private",
    }
}

fn network(network: Network) -> String {
    match network {
        Network::None => "none".to_owned(),
        Network::Proxy => "proxy: the hosts that rules allow".to_owned(),
        Network::Observe => "observe: every public host, written down".to_owned(),
        Network::Open => "open: whatever this host can talk to".to_owned(),
    }
}

fn shared(mount: &Mount) -> String {
    let word = share::word(mount.access);
    if mount.from.as_path() == mount.to.as_path() {
        return format!("{} ({word})", mount.to);
    }
    format!("{} at {} ({word})", mount.from, mount.to)
}

/// Each limit, and who asked for it.
fn limits(limits: &Limits, layer: &Layer) -> Vec<String> {
    let Limits { memory, cpus, pids, disk, inodes, cpu_time, timeout, output, files } = limits;
    let shown = [
        ("limits.memory", memory.map(|it| format!("memory {it}"))),
        ("limits.cpus", cpus.map(|it| format!("{it} CPUs"))),
        ("limits.pids", pids.map(|it| format!("{it} processes"))),
        ("limits.disk", disk.map(|it| format!("disk {it}"))),
        ("limits.inodes", inodes.map(|it| format!("{it} files on disk"))),
        ("limits.cpu-time", cpu_time.map(|it| format!("CPU time {it}"))),
        ("limits.timeout", timeout.map(|it| format!("time {it}"))),
        ("limits.output", output.map(|it| format!("output {it}"))),
        ("limits.files", files.map(|it| format!("{it} open files"))),
    ];
    let origin =
        |key| layer.origins.get(key).map_or("built-in".to_owned(), ToString::to_string);
    shown
        .into_iter()
        .filter_map(|(key, text)| Some(format!("{} ({})", text?, origin(key))))
        .collect()
}

fn promise(finding: &Finding, plan: &Plan, printer: &Printer) -> String {
    let name = finding.guarantee.to_string();
    let wanted = if plan.require().contains(finding.guarantee) { "required" } else { "" };
    match &finding.state {
        State::Upheld { by } => {
            let mark = printer.painted(Paint::Green, "upheld ");
            format!("  {mark} {name:22} {wanted:8} {by}\n")
        }
        State::Missing { why, hint: _ } => {
            let mark = printer.painted(Paint::Yellow, "missing");
            format!("  {mark} {name:22} {wanted:8} {why}\n")
        }
    }
}
