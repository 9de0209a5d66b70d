//! `bulkhead image ls`: the images that Bulkhead made or unpacked.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bulkhead_image::{
    Images,
    managed::{Managed, Purpose, list},
};
use bulkhead_spec::{Bytes, Span};
use serde_json::{Value, json};

use super::daemon::{self, Daemon};
use crate::{
    args::image::ListArgs,
    codes::Code,
    config::{Environment, Paths, Who},
    engine,
    failure::Failure,
    printer::Printer,
};

/// The images of one place.
pub(super) struct Shelf {
    /// What the place is called.
    pub(super) name: &'static str,
    /// What lies there.
    pub(super) images: Vec<Managed>,
    /// How it is emptied.
    pub(super) keeper: Keeper,
}

/// Who keeps images.
pub(super) enum Keeper {
    /// A daemon.
    Daemon(Box<Daemon>),
    /// The native backend's store.
    Store(Images),
}

/// Lists.
pub(super) fn run(
    args: &ListArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let shelves = engine::runtime()?.block_on(shelves(environment, printer))?;
    let all = || shelves.iter().flat_map(|at| at.images.iter().map(|it| (at.name, it)));
    if args.json {
        let images: Vec<Value> = all().map(|(at, it)| in_json(at, it)).collect();
        let all = json!({ "schema_version": 1, "images": images });
        printer.payload(&format!("{all}\n"))?;
        return Ok(0);
    }
    let lines: Vec<String> = all().map(|(at, it)| line(at, it)).collect();
    printer.payload(&lines.concat())?;
    Ok(0)
}

/// Every place that keeps images of ours. A daemon that does not answer is told of: what it keeps
/// cannot be seen.
pub(super) async fn shelves(
    environment: &Environment,
    printer: &Printer,
) -> Result<Vec<Shelf>, Failure> {
    let failed = |error: bollard::errors::Error| Failure::from_error(Code::ImageBuild, &error);
    let mut found = Vec::new();
    match daemon::connect(environment).await {
        Ok(daemon) => {
            let images = list(&daemon.docker).await.map_err(failed)?;
            let name = daemon.facts.product.name();
            found.push(Shelf { name, images, keeper: Keeper::Daemon(Box::new(daemon)) });
        }
        Err(failure) => {
            printer.detail(&format!("{}: only what is unpacked here", failure.what));
        }
    }
    let tell: engine::Tell = Arc::new(|_| ());
    if let Some(store) =
        engine::images(&Paths::find(environment, Who::current()), environment, &tell)
    {
        let images = store.kept().map_err(|error| Failure::from_error(Code::Image, &error))?;
        found.push(Shelf { name: "native", images, keeper: Keeper::Store(store) });
    }
    Ok(found)
}

/// One image in a line.
pub(super) fn line(at: &str, image: &Managed) -> String {
    let name = image.tags.first().map_or("-", String::as_str);
    let id = short(&image.id);
    let purpose = match (image.purpose, image.used) {
        (Purpose::Cache, _) => "cache",
        (Purpose::Image, true) => "in use",
        (Purpose::Image, false) => "unused",
    };
    let size = Bytes(image.size).to_string();
    let age = age(image).unwrap_or_else(|| "-".to_owned());
    format!("{name:48} {id} {at:6} {size:>10} {age:>8} {purpose}\n")
}

fn short(id: &str) -> &str {
    id.strip_prefix("sha256:").and_then(|it| it.get(..12)).unwrap_or(id)
}

fn age(image: &Managed) -> Option<String> {
    let age = SystemTime::now().duration_since(image.since?).ok()?;
    let unit = if age.as_secs() < 86_400 { 60 } else { 86_400 };
    Some(Span(Duration::from_secs(age.as_secs() / unit * unit)).to_string())
}

/// One image for programs.
pub(super) fn in_json(at: &str, image: &Managed) -> Value {
    let since = image.since.and_then(|it| it.duration_since(SystemTime::UNIX_EPOCH).ok());
    json!({
        "id": image.id,
        "at": at,
        "tags": image.tags,
        "size": image.size,
        "since": since.map(|it| it.as_secs()),
        "purpose": match image.purpose { Purpose::Image => "image", Purpose::Cache => "cache" },
        "used": image.used,
    })
}
