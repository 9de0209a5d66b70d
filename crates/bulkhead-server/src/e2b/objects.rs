//! Rooms as E2B's clients see them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::network;
use crate::{
    clock::rfc3339,
    house::{House, Tenant},
};

/// What is spoken inside a room. Clients decide by it what they may ask for.
pub(crate) const ENVD_VERSION: &str = "0.6.13";

/// A sandbox that is wanted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSandbox {
    #[serde(rename = "templateID")]
    pub(crate) template_id: String,
    pub(crate) timeout: Option<u64>,
    #[serde(default)]
    pub(crate) auto_pause: bool,
    pub(crate) auto_pause_memory: Option<bool>,
    pub(crate) auto_resume: Option<AutoResume>,
    pub(crate) secure: Option<bool>,
    #[serde(rename = "allow_internet_access")]
    pub(crate) allow_internet_access: Option<bool>,
    pub(crate) network: Option<network::Wish>,
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    pub(crate) env_vars: Option<BTreeMap<String, String>>,
    pub(crate) mcp: Option<Value>,
    pub(crate) volume_mounts: Option<Vec<VolumeMount>>,
}

/// A volume, and where the room sees it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct VolumeMount {
    pub(crate) name: String,
    pub(crate) path: String,
}

/// Whether traffic wakes a frozen room.
#[derive(Debug, Deserialize)]
pub(crate) struct AutoResume {
    #[serde(default)]
    pub(crate) enabled: bool,
}

/// A room, just made or connected to.
pub(crate) fn sandbox(house: &House, tenant: &Tenant) -> Value {
    let mut object = json!({
        "templateID": tenant.facts.template,
        "sandboxID": tenant.id,
        "clientID": "bulkhead",
        "envdVersion": ENVD_VERSION,
        "alias": tenant.facts.template,
    });
    set(&mut object, "envdAccessToken", tenant.facts.access.as_deref());
    set(&mut object, "trafficAccessToken", tenant.facts.traffic.as_deref());
    set(&mut object, "domain", house.domain.as_deref());
    object
}

/// A room in a list.
pub(crate) fn listed(house: &House, tenant: &Tenant) -> Value {
    let (processors, memory, disk) = house.size();
    json!({
        "templateID": tenant.facts.template,
        "alias": tenant.facts.template,
        "sandboxID": tenant.id,
        "clientID": "bulkhead",
        "envdVersion": ENVD_VERSION,
        "startedAt": rfc3339(tenant.facts.started_at()),
        "endAt": rfc3339(tenant.ends_at()),
        "cpuCount": processors,
        "memoryMB": memory,
        "diskSizeMB": disk,
        "state": if tenant.is_paused() { "paused" } else { "running" },
        "metadata": tenant.facts.metadata,
    })
}

/// Everything about a room.
pub(crate) fn detail(house: &House, tenant: &Tenant) -> Value {
    let mut object = listed(house, tenant);
    set(&mut object, "envdAccessToken", tenant.facts.access.as_deref());
    set(&mut object, "domain", house.domain.as_deref());
    if let Some(object) = object.as_object_mut() {
        let on_timeout = if tenant.facts.auto_pause { "pause" } else { "kill" };
        let lifecycle =
            json!({ "onTimeout": on_timeout, "autoResume": tenant.facts.auto_resume });
        object.insert("lifecycle".to_owned(), lifecycle);
        let network = tenant.network();
        let internet = network.reaches_anybody(house.has_network());
        object.insert("allowInternetAccess".to_owned(), internet.into());
        object.insert("network".to_owned(), json!(network));
    }
    object
}

fn set(object: &mut Value, name: &str, value: Option<&str>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(name.to_owned(), value.into());
    }
}
