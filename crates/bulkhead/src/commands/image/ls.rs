//! `bulkhead image ls`: the images that Bulkhead made.

use std::time::{Duration, SystemTime};

use bulkhead_image::managed::{Managed, Purpose, list};
use bulkhead_spec::{Bytes, Span};
use serde_json::{Value, json};

use super::daemon;
use crate::{
    args::image::ListArgs, codes::Code, config::Environment, engine, failure::Failure,
    printer::Printer,
};

/// Lists.
pub(super) fn run(
    args: &ListArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let images = engine::runtime()?.block_on(async {
        let daemon = daemon::connect(environment).await?;
        list(&daemon.docker)
            .await
            .map_err(|error| Failure::from_error(Code::ImageBuild, &error))
    })?;
    if args.json {
        let images: Vec<Value> = images.iter().map(in_json).collect();
        let all = json!({ "schema_version": 1, "images": images });
        printer.payload(&format!("{all}\n"))?;
        return Ok(0);
    }
    let lines: Vec<String> = images.iter().map(line).collect();
    printer.payload(&lines.concat())?;
    Ok(0)
}

/// One image in a line.
pub(super) fn line(image: &Managed) -> String {
    let name = image.tags.first().map_or("-", String::as_str);
    let id = short(&image.id);
    let purpose = match (image.purpose, image.used) {
        (Purpose::Cache, _) => "cache",
        (Purpose::Image, true) => "in use",
        (Purpose::Image, false) => "unused",
    };
    let size = Bytes(image.size).to_string();
    let age = age(image).unwrap_or_else(|| "-".to_owned());
    format!("{name:48} {id} {size:>10} {age:>8} {purpose}\n")
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
pub(super) fn in_json(image: &Managed) -> Value {
    let since = image.since.and_then(|it| it.duration_since(SystemTime::UNIX_EPOCH).ok());
    json!({
        "id": image.id,
        "tags": image.tags,
        "size": image.size,
        "since": since.map(|it| it.as_secs()),
        "purpose": match image.purpose { Purpose::Image => "image", Purpose::Cache => "cache" },
        "used": image.used,
    })
}
