//! An image without the marks of when and where it was built.
//!
//! A builder writes the time of day into every file that it makes and into the description of the
//! image. Here, what a daemon has exported is written again: times no later than [`EPOCH`], entries
//! sorted, descriptions without names of containers and machines. So the same files give the same
//! image, to the byte. Layers of the base stay as they are: others share them.

mod layer;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use crate::EPOCH;

/// More of a description than that is an attack.
const MOST_JSON: u64 = 16 << 20;

/// What becomes of the image.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rewrite {
    /// `name:tag` of the result.
    pub(crate) tag: String,
    /// Labels that are set.
    pub(crate) labels: BTreeMap<String, String>,
    /// The layers of each image that may be the base.
    pub(crate) bases: Vec<Vec<String>>,
    /// Whether they are written again.
    pub(crate) shared: Shared,
}

/// What becomes of layers that the base has as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shared {
    /// They are only named: most daemons read no layer that they have, and a base is large.
    #[default]
    Named,
    /// They are written, for daemons that read everything.
    Written,
}

/// Reads what `docker save` wrote of one image, and writes what `docker load` reads.
pub(crate) fn normalise(
    saved: &mut File,
    rewrite: &Rewrite,
    into: &mut File,
) -> io::Result<()> {
    let index = index(saved)?;
    let manifest: Value = json_at(saved, &index, "manifest.json")?;
    let image = manifest.get(0).ok_or_else(|| broken("there is no image in it"))?;
    let text =
        |it: &Value| it.as_str().map(str::to_owned).ok_or_else(|| broken("a name is none"));
    let config_at = text(image.get("Config").unwrap_or(&Value::Null))?;
    let layers = image.get("Layers").and_then(Value::as_array);
    let layers: Vec<String> = layers
        .ok_or_else(|| broken("no layers"))?
        .iter()
        .map(text)
        .collect::<Result<_, _>>()?;
    let mut config: Value = json_at(saved, &index, &config_at)?;
    let own = diff_ids(&config);
    let shared = shared(&own, &rewrite.bases);

    let mut out = Builder::new(BufWriter::new(into));
    let mut digests = Vec::new();
    let mut names = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        let place = index.get(layer).ok_or_else(|| broken("a layer is missing"))?;
        let known = own.get(at).filter(|_| at < shared && rewrite.shared == Shared::Named);
        if let Some(digest) = known.and_then(|it| it.strip_prefix("sha256:")) {
            names.push(format!("{digest}.tar"));
            digests.push(format!("sha256:{digest}"));
            continue;
        }
        let mut scratch = tempfile::tempfile()?;
        let digest = if at < shared {
            layer::plain(saved, *place, &mut scratch)?
        } else {
            let mut plain = tempfile::tempfile()?;
            layer::plain(saved, *place, &mut plain)?;
            layer::rewrite(&mut plain, &mut scratch)?
        };
        let name = format!("{digest}.tar");
        let size = scratch.seek(SeekFrom::End(0))?;
        scratch.rewind()?;
        if !names.contains(&name) {
            append(&mut out, &name, size, &mut scratch)?;
        }
        names.push(name);
        digests.push(format!("sha256:{digest}"));
    }
    describe(&mut config, rewrite, &digests)?;
    finish(out, &config, &rewrite.tag, &names)?;
    Ok(())
}

/// Packs the plain archive of a root filesystem as an image called `tag`, as `docker load` reads it.
/// Returns the image's id and the size of its files.
pub fn pack_rootfs(
    plain: &mut File,
    tag: &str,
    config: &Value,
    into: &mut File,
) -> io::Result<(String, u64)> {
    let mut scratch = tempfile::tempfile()?;
    let digest = layer::rewrite(plain, &mut scratch)?;
    let size = scratch.seek(SeekFrom::End(0))?;
    scratch.rewind()?;
    let mut out = Builder::new(BufWriter::new(into));
    let name = format!("{digest}.tar");
    append(&mut out, &name, size, &mut scratch)?;
    let about = json!({
        "architecture": architecture(),
        "os": "linux",
        "created": crate::EPOCH_TEXT,
        "config": config,
        "history": [{ "created": crate::EPOCH_TEXT, "created_by": "bulkhead image bootstrap" }],
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
    });
    let id = finish(out, &about, tag, &[name])?;
    Ok((id, size))
}

/// The name that images have for this kind of machine.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes the description and what says where everything is.
fn finish(
    mut out: Builder<BufWriter<&mut File>>,
    config: &Value,
    tag: &str,
    layers: &[String],
) -> io::Result<String> {
    let config = serde_json::to_vec(config)?;
    let id = hex(&Sha256::digest(&config));
    let name = format!("{id}.json");
    append_bytes(&mut out, &name, &config)?;
    let manifest = json!([{ "Config": name, "RepoTags": [tag], "Layers": layers }]);
    append_bytes(&mut out, "manifest.json", &serde_json::to_vec(&manifest)?)?;
    out.into_inner()?.flush()?;
    Ok(format!("sha256:{id}"))
}

/// Where a file of an archive is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    start: u64,
    size: u64,
}

/// The files of an archive. A link stands for what it leads to: older daemons link equal layers.
fn index(saved: &mut File) -> io::Result<BTreeMap<String, Place>> {
    saved.rewind()?;
    let mut found = BTreeMap::new();
    let mut links = Vec::new();
    let mut archive = Archive::new(&mut *saved);
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let link = matches!(entry.header().entry_type(), EntryType::Symlink | EntryType::Link);
        if let Some(target) = entry.link_name()?.filter(|_| link) {
            links.push((path, target.to_string_lossy().into_owned()));
        } else {
            let place = Place { start: entry.raw_file_position(), size: entry.size() };
            found.insert(path, place);
        }
    }
    for (path, target) in links {
        let target = target.trim_start_matches("../");
        if let Some(place) = found.get(target).copied() {
            found.insert(path, place);
        }
    }
    Ok(found)
}

fn json_at(saved: &mut File, index: &BTreeMap<String, Place>, name: &str) -> io::Result<Value> {
    let place = index.get(name).ok_or_else(|| broken("its description is missing"))?;
    if place.size > MOST_JSON {
        return Err(broken("its description is too long"));
    }
    saved.seek(SeekFrom::Start(place.start))?;
    Ok(serde_json::from_reader(Read::take(&mut *saved, place.size))?)
}

/// The digests of the layers, as the description has them.
fn diff_ids(config: &Value) -> Vec<String> {
    let own = config.pointer("/rootfs/diff_ids").and_then(Value::as_array);
    own.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// How many layers are those of a base.
fn shared(own: &[String], bases: &[Vec<String>]) -> usize {
    let starts = |base: &&Vec<String>| own.starts_with(base);
    bases.iter().filter(starts).map(Vec::len).max().unwrap_or(0)
}

/// Writes the description again, with only what belongs to the image.
fn describe(config: &mut Value, rewrite: &Rewrite, digests: &[String]) -> io::Result<()> {
    let time = Value::from(crate::EPOCH_TEXT);
    let all = config.as_object_mut().ok_or_else(|| broken("its description is no object"))?;
    for field in ["container", "container_config", "docker_version", "parent", "id"] {
        all.remove(field);
    }
    all.insert("created".to_owned(), time.clone());
    let rootfs = json!({ "type": "layers", "diff_ids": digests });
    all.insert("rootfs".to_owned(), rootfs);
    for step in all.get_mut("history").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(step) = step.as_object_mut() {
            step.insert("created".to_owned(), time.clone());
            // BuildKit notes who wrote each step; the classic builder does not.
            step.remove("comment");
        }
    }
    let inner = all.entry("config").or_insert_with(|| Value::Object(Map::new()));
    let inner =
        inner.as_object_mut().ok_or_else(|| broken("its configuration is no object"))?;
    // The image of the step before, which was built at some time of day.
    inner.remove("Image");
    inner.remove("Hostname");
    inner.remove("Domainname");
    let labels = inner.entry("Labels").or_insert(Value::Null);
    let mut kept = labels.as_object().cloned().unwrap_or_default();
    let set = |(name, value): (&String, &String)| (name.clone(), Value::from(value.as_str()));
    kept.extend(rewrite.labels.iter().map(set));
    *labels = Value::Object(kept);
    Ok(())
}

fn append(
    out: &mut Builder<impl Write>,
    name: &str,
    size: u64,
    from: &mut impl Read,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_mtime(EPOCH);
    header.set_size(size);
    out.append_data(&mut header, name, from)
}

fn append_bytes(out: &mut Builder<impl Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let size = bytes.len().try_into().unwrap_or(u64::MAX);
    append(out, name, size, &mut &*bytes)
}

pub(crate) fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the exported image is broken: {why}"))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}
