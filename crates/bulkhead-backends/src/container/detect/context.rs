//! Docker's contexts: daemons that the user has given names.

use std::path::Path;

use bulkhead_spec::escape;
use serde::Deserialize;

use super::{Address, Disk};

/// The context that is to be used and that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no Docker context `{}`, which {by} names", escape(.name))]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// Who names it.
    pub by: &'static str,
}

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "currentContext")]
    current: Option<String>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Endpoints")]
    endpoints: Endpoints,
}

#[derive(Deserialize)]
struct Endpoints {
    docker: Option<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(rename = "Host")]
    host: Option<String>,
}

/// The daemon of the context in use; nothing where that is the default one.
pub(super) fn current(
    named: Option<&str>,
    config: Option<&Path>,
    disk: &dyn Disk,
) -> Result<Option<(Address, String)>, Unknown> {
    let (name, by) = match (named, config) {
        (Some(name), _) => (Some(name.to_owned()), "DOCKER_CONTEXT"),
        (None, Some(dir)) => (chosen(dir, disk), "`docker context use`"),
        (None, None) => (None, ""),
    };
    let Some(name) = name.filter(|it| !it.is_empty() && it != "default") else {
        return Ok(None);
    };
    let host = config.and_then(|dir| host(&name, dir, disk));
    let host = host.ok_or_else(|| Unknown { name: name.clone(), by })?;
    Ok(Some((Address::parse(&host), format!("the Docker context `{}`", escape(&name)))))
}

fn chosen(config: &Path, disk: &dyn Disk) -> Option<String> {
    let text = disk.text(&config.join("config.json"))?;
    serde_json::from_str::<Config>(&text).ok()?.current
}

/// Contexts lie in directories that are named by a digest; each says its name itself.
fn host(name: &str, config: &Path, disk: &dyn Disk) -> Option<String> {
    let metas = disk.entries(&config.join("contexts/meta"));
    let metas = metas.iter().filter_map(|dir| disk.text(&dir.join("meta.json")));
    let mut metas = metas.filter_map(|text| serde_json::from_str::<Meta>(&text).ok());
    metas.find(|it| it.name == name)?.endpoints.docker?.host
}
