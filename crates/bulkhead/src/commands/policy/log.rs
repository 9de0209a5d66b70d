//! What sandboxes reached and were refused, from the record.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
};

use bulkhead_spec::escape;
use serde_json::Value;

use crate::{
    args::policy::{InitArgs, LogArgs},
    codes::Code,
    commands::current_dir,
    config::{ConfigError, Environment, PROJECT_FILE, Paths, Who, shown},
    failure::Failure,
    printer::Printer,
};

/// Prints the lines of the record that are about the way out.
pub(super) fn run(
    args: &LogArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let wanted = |it: &Value| {
        let of = args.sandbox.as_ref().is_none_or(|name| it["sandbox"] == name.as_str());
        of && (!args.denied || it["egress"] == "denied")
    };
    let mut lines = Vec::new();
    for event in egress_events(environment)?.into_iter().filter(wanted) {
        lines.push(if args.json { format!("{event}\n") } else { told(&event) });
    }
    printer.payload(&lines.concat())?;
    Ok(0)
}

/// Writes the rules that would allow what a run has reached.
pub(super) fn init(
    args: &InitArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let of_run = |it: &Value| it["sandbox"] == args.from.as_str() && it["egress"] == "allowed";
    let mut ports: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in egress_events(environment)?.into_iter().filter(of_run) {
        let host = event.get("host").and_then(Value::as_str);
        let port = event.get("port").and_then(Value::as_u64);
        if let (Some(host), Some(port)) = (host, port) {
            ports.entry(host.to_owned()).or_default().push(port);
        }
    }
    if ports.is_empty() {
        let what =
            format!("the record knows nothing that `{}` has reached", escape(&args.from));
        return Err(Failure::new(Code::Argument, what)
            .hint("observe a run first: bulkhead run --name NAME --net observe -- PROGRAM"));
    }
    let mut rules = Vec::new();
    for (host, ports) in ports {
        let web = |port: &u64| matches!(port, 80 | 443);
        if ports.iter().any(web) {
            rules.push(host.clone());
        }
        rules.extend(ports.iter().filter(|it| !web(it)).map(|port| format!("{host}:{port}")));
    }
    rules.dedup();
    let listed: Vec<String> = rules.iter().map(|it| format!("    {it:?},\n")).collect();
    let listed = listed.concat();
    let text = format!(
        "# What `{}` has reached; what is not here is refused.\nnetwork = \"proxy\"\n\n[egress]\nobserved = {:?}\nallow = [\n{listed}]\n",
        escape(&args.from),
        escape(&args.from)
    );
    if !args.write {
        printer.payload(&text)?;
        return Ok(0);
    }
    write(&text, printer)
}

fn write(text: &str, printer: &Printer) -> Result<u8, Failure> {
    let path = current_dir()?.join(PROJECT_FILE);
    let failed = |error: io::Error| {
        let failure = Failure::new(Code::System, format!("could not write `{}`", shown(&path)));
        failure.because(error).hint("leave out --write and add the rules by hand")
    };
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    printer.note(&format!("wrote `{}`; type: bulkhead trust", shown(&path)));
    Ok(0)
}

/// The events of the record that are about the way out, in their order.
fn egress_events(environment: &Environment) -> Result<Vec<Value>, Failure> {
    let paths = Paths::find(environment, Who::current());
    let path = paths.events().ok_or(ConfigError::Homeless)?;
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let what = format!("could not read the record in `{}`", shown(&path));
            return Err(Failure::new(Code::Record, what).because(error));
        }
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    // Most lines are about other things; only those that can be of this kind are read.
    let ours = lines.filter(|it| it.contains("\"event\":\"egress\""));
    Ok(ours.filter_map(|it| serde_json::from_str(&it).ok()).collect())
}

/// One event for people.
fn told(event: &Value) -> String {
    let text = |key: &str| escape(event[key].as_str().unwrap_or_default());
    let number = |key: &str| event[key].as_u64().unwrap_or_default();
    let (sandbox, host, port) = (text("sandbox"), text("host"), number("port"));
    let rest = match event["egress"].as_str().unwrap_or_default() {
        "allowed" => {
            format!("allowed {host}:{port} by `{}` ({})", text("rule"), text("origin"))
        }
        "denied" => format!("denied  {host}:{port} ({})", text("reason")),
        "closed" => {
            format!("closed  {host}:{port} {} up, {} down", number("up"), number("down"))
        }
        "request" => format!(
            "request {} {host}:{port}{} {}",
            text("method"),
            text("path"),
            number("status")
        ),
        "secret_used" => format!("secret  {} for {host}", text("name")),
        "budget_low" => format!("budget  {} is low", text("budget")),
        "budget_spent" => format!("budget  {} is spent", text("budget")),
        "rules_changed" => {
            format!("rules   {} allow, {} deny", number("allow"), number("deny"))
        }
        other => escape(other),
    };
    format!("{sandbox} {rest}\n")
}
