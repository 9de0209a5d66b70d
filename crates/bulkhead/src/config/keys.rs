//! Every key there is: its name, what it means, how it is read and shown.
//!
//! Files, variables, `config show` and the JSON Schema all come from this one table.

use bulkhead_spec::{
    Bytes, Cpus, EnvFiles, Guarantee, Label, Network, Preset, Pull, Span, escape,
};
use serde_json::{Value, json};

use super::{
    Origin, house,
    layer::{Choice, Deadline, Layer, RuntimeName, Sourced, allowed},
    way_out::{self, RunName},
};
use crate::{image::ImageText, share::Share};

/// The item that stands for an empty list: of a ceiling, that allows nothing.
pub(crate) const NOTHING: &str = "none";

/// One key of the configuration.
pub(crate) struct Key {
    /// Its name, with the table that it is in.
    pub(crate) name: &'static str,
    /// What it means, in a sentence.
    pub(crate) says: &'static str,
    /// What its value looks like.
    pub(crate) shape: Shape,
    /// The variable that sets it too.
    pub(crate) variable: Option<&'static str>,
    /// Reads one value (of a list: one item) into a layer.
    pub(crate) set: fn(&mut Layer, &str, &Origin) -> Result<(), String>,
    /// The value in a layer.
    pub(crate) show: fn(&Layer) -> Option<Value>,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `512m`, or a number of bytes.
    Size,
    /// A whole number.
    Count,
    /// `1.5`.
    Number,
    /// `5m`, or a number of seconds.
    Time,
    /// Like `Time`, or `none`.
    Deadline,
    /// A name of letters, digits, `-`, `_` and `.`.
    Name,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of the names of guarantees, or `all`.
    Guarantees,
    /// A list of `SRC:DST[:ro|:rw|:private]`.
    Shares,
    /// A list of absolute paths.
    Paths,
    /// A list of hosts, or of other things that are written like them.
    Texts,
    /// A text.
    Text,
}

impl Shape {
    /// Whether values come in a list.
    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::Guarantees | Self::Shares | Self::Paths | Self::Texts)
    }
}

/// The key of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// What `layer` says for the key of that name.
pub(crate) fn value_of(layer: &Layer, name: &str) -> Option<Value> {
    find(name).and_then(|key| (key.show)(layer))
}

/// A value that can be read from text and shown again.
trait Setting: Sized {
    fn read(text: &str) -> Result<Self, String>;
    fn shown(&self) -> Value;
}

macro_rules! setting {
    ($type:ty, $read:expr, $shown:expr) => {
        impl Setting for $type {
            fn read(text: &str) -> Result<Self, String> {
                let read: fn(&str) -> Result<Self, String> = $read;
                read(text)
            }

            fn shown(&self) -> Value {
                let shown: fn(&Self) -> Value = $shown;
                shown(self)
            }
        }
    };
}

setting!(Bytes, parsed, |it| size(*it));
setting!(Cpus, parsed, |it| json!(it));
setting!(u32, whole, |it| json!(it));
setting!(u64, whole, |it| json!(it));
setting!(Span, parsed, |it| json!(time(*it)));
setting!(Choice, parsed, |it| json!(it.name()));
setting!(RuntimeName, parsed, |it| json!(it.as_str()));
setting!(Deadline, |text| parsed(text).map_err(|error| format!("{error}, or `none`")), |it| {
    match it {
        Deadline::After(span) => json!(time(*span)),
        Deadline::Never => json!("none"),
    }
});
setting!(Network, |text| word(text, "network", &NETWORKS), |it| json!(it));
setting!(Preset, parsed, |it| json!(it));
setting!(EnvFiles, |text| word(text, "way to treat `.env` files", &ENV_FILES), |it| json!(it));

setting!(Pull, |text| word(text, "time to ask a registry", &PULLS), |it| json!(it));
setting!(Label, parsed, |it| json!(it.as_str()));
setting!(RunName, parsed, |it| json!(it.0));
setting!(ImageText, anchored, |it| json!(it.to_string()));

const PULLS: [(&str, Pull); 3] =
    [("never", Pull::Never), ("missing", Pull::Missing), ("always", Pull::Always)];
const NETWORKS: [(&str, Network); 4] = [
    ("none", Network::None),
    ("proxy", Network::Proxy),
    ("observe", Network::Observe),
    ("open", Network::Open),
];
const ENV_FILES: [(&str, EnvFiles); 2] =
    [("hidden", EnvFiles::Hidden), ("shown", EnvFiles::Shown)];

/// Reads the name of a network.
pub(crate) fn network(text: &str) -> Result<Network, String> {
    Network::read(text)
}

/// Reads when a registry is asked.
pub(crate) fn pull(text: &str) -> Result<Pull, String> {
    Pull::read(text)
}

/// An image, in a file that may be read from anywhere.
fn anchored(text: &str) -> Result<ImageText, String> {
    let image: ImageText = parsed(text)?;
    if image.is_anchored() {
        return Ok(image);
    }
    Err(format!("the path in `{image}` is neither absolute nor below `~`"))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{}` is not a whole number in range", escape(text)))
}

fn word<T: Copy>(text: &str, what: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("`{}` is not a {what}; known are {}", escape(text), names.join(", "))
    })
}

/// In the largest unit that loses nothing.
fn size(Bytes(bytes): Bytes) -> Value {
    let units = [(1_u64 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")];
    let exact = units.iter().find(|(scale, _)| bytes != 0 && bytes.is_multiple_of(*scale));
    exact.map_or(json!(bytes), |(scale, unit)| json!(format!("{}{unit}", bytes / scale)))
}

fn time(span: Span) -> String {
    if span.0.subsec_millis() == 0 {
        span.to_string()
    } else {
        format!("{}ms", span.0.as_millis())
    }
}

fn put<T: Setting>(slot: &mut Option<T>, text: &str) -> Result<(), String> {
    *slot = Some(T::read(text)?);
    Ok(())
}

/// A key with one value, kept in the field `$($at).+` of a layer.
macro_rules! key {
    ($name:literal, $shape:expr, $variable:expr, $($at:ident).+, $says:literal) => {
        Key {
            name: $name,
            says: $says,
            shape: $shape,
            variable: $variable,
            set: |layer, text, origin| {
                put(&mut layer.$($at).+, text)?;
                layer.origins.insert($name, origin.clone());
                Ok(())
            },
            show: |layer| layer.$($at).+.as_ref().map(Setting::shown),
        }
    };
}

const WALLED: Shape = Shape::Word(&["auto", "native", "docker", "podman", "none"]);
const OPENNESS: Shape = Shape::Word(&["none", "proxy", "observe", "open"]);
const PRESETS: Shape = Shape::Word(&["locked", "balanced", "open"]);
const PULL: Shape = Shape::Word(&["never", "missing", "always"]);
const VISIBILITY: Shape = Shape::Word(&["hidden", "shown"]);

/// Every key, in the order in which they are shown. `[env]` is a table of any names.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    key!("backend", WALLED, Some("BULKHEAD_BACKEND"), backend, "Who builds the sandbox; `none` runs the program without any wall."),
    key!("runtime", Shape::Name, Some("BULKHEAD_RUNTIME"), runtime, "What a container daemon starts the sandbox with, such as `runsc` (gVisor)."),
    key!("network", OPENNESS, Some("BULKHEAD_NET"), network, "What the sandbox may talk to."),
    key!("image", Shape::Text, Some("BULKHEAD_IMAGE"), image, "The image that programs run in; `none` for the host's own programs."),
    key!("pull", PULL, Some("BULKHEAD_PULL"), pull, "When a registry is asked for the image."),
    key!("env-files", VISIBILITY, Some("BULKHEAD_ENV_FILES"), env_files, "Whether the workspace's `.env` files look empty inside."),
    key!("kill-after", Shape::Time, Some("BULKHEAD_KILL_AFTER"), kill_after, "How long a program may tidy up after it was asked to stop."),
    Key { name: "require", says: "Guarantees without which nothing is run.", shape: Shape::Guarantees, variable: None, set: add_require, show: show_require },
    Key { name: "mounts", says: "Host files and directories to share besides the workspace.", shape: Shape::Shares, variable: None, set: add_mount, show: show_mounts },
    key!("limits.memory", Shape::Size, Some("BULKHEAD_MEMORY"), limits.memory, "Memory of the whole sandbox, without swap."),
    key!("limits.cpus", Shape::Number, Some("BULKHEAD_CPUS"), limits.cpus, "Processors that it may keep busy."),
    key!("limits.pids", Shape::Count, Some("BULKHEAD_PIDS"), limits.pids, "Live processes and threads."),
    key!("limits.disk", Shape::Size, Some("BULKHEAD_DISK"), limits.disk, "What it writes outside the workspace."),
    key!("limits.inodes", Shape::Count, Some("BULKHEAD_INODES"), limits.inodes, "Files and directories that it makes outside the workspace."),
    key!("limits.cpu-time", Shape::Time, Some("BULKHEAD_CPU_TIME"), limits.cpu_time, "Processor time of all its programs together."),
    key!("limits.timeout", Shape::Deadline, Some("BULKHEAD_TIMEOUT"), timeout, "How long a program may run."),
    key!("limits.output", Shape::Size, Some("BULKHEAD_OUTPUT"), limits.output, "What a program may print."),
    key!("limits.files", Shape::Count, Some("BULKHEAD_FILES"), limits.files, "Open files of one process."),
    key!("egress.preset", PRESETS, Some("BULKHEAD_PRESET"), way_out.preset, "A ready-made set of rules about what may be reached."),
    key!("egress.network", Shape::Text, None, way_out.network, "The private network to join."),
    key!("egress.observed", Shape::Text, None, way_out.observed, "The run whose hosts the rules of the same file are; what differs is shown after each run."),
    Key { name: "egress.allow", says: "Hosts that may be reached: rules or groups.", shape: Shape::Texts, variable: None, set: way_out::add_allow, show: way_out::show_allow },
    Key { name: "egress.deny", says: "Hosts that may not, whatever else allows them.", shape: Shape::Texts, variable: None, set: way_out::add_deny, show: way_out::show_deny },
    Key { name: "egress.secrets", says: "Variables that hold placeholders inside, and the hosts that get their values.", shape: Shape::Texts, variable: None, set: way_out::add_secret, show: way_out::show_secrets },
    Key { name: "egress.budgets", says: "How much may be spent at which hosts.", shape: Shape::Texts, variable: None, set: way_out::add_budget, show: way_out::show_budgets },
    key!("egress.connections", Shape::Count, None, way_out.limits.connections, "Connections to the world at one time."),
    key!("egress.up", Shape::Size, None, way_out.limits.up, "What may be sent to the world."),
    key!("egress.down", Shape::Size, None, way_out.limits.down, "What may come from the world."),
    key!("egress.requests", Shape::Count, None, way_out.limits.requests, "Connections and requests to the world in all."),
    key!("pool.size", Shape::Count, Some("BULKHEAD_POOL"), house.pool, "Rooms that wait, made ahead, for whoever wants one."),
    key!("rooms.most", Shape::Count, None, house.most, "Rooms of one user at one time."),
    Key { name: "rooms.per-label", says: "Rooms with the same value of a label at one time: LABEL=COUNT.", shape: Shape::Texts, variable: None, set: house::add_per_label, show: house::show_per_label },
    key!("reserve.memory", Shape::Size, None, house.kept.memory, "Memory of the host that no new sandbox may eat into."),
    key!("reserve.pids", Shape::Count, None, house.kept.pids, "Processes of the host that no new room may eat into."),
    key!("reserve.disk", Shape::Size, None, house.kept.disk, "Disk, where rooms are written down, that no new room may eat into."),
    key!("reserve.inodes", Shape::Count, None, house.kept.inodes, "Files that can be made there, which no new room may eat into."),
    key!("reserve.files", Shape::Count, None, house.kept.files, "Open files of the host that no new room may eat into."),
    key!("ceiling.memory", Shape::Size, None, ceiling.limits.memory, "The most memory that may be asked for."),
    key!("ceiling.cpus", Shape::Number, None, ceiling.limits.cpus, "The most processors that may be asked for."),
    key!("ceiling.pids", Shape::Count, None, ceiling.limits.pids, "The most processes and threads that may be asked for."),
    key!("ceiling.disk", Shape::Size, None, ceiling.limits.disk, "The most disk that may be asked for."),
    key!("ceiling.inodes", Shape::Count, None, ceiling.limits.inodes, "The most files that may be asked for."),
    key!("ceiling.cpu-time", Shape::Time, None, ceiling.limits.cpu_time, "The most processor time that may be asked for."),
    key!("ceiling.timeout", Shape::Time, None, ceiling.limits.timeout, "The longest run that may be asked for."),
    key!("ceiling.output", Shape::Size, None, ceiling.limits.output, "The most output that may be asked for."),
    key!("ceiling.files", Shape::Count, None, ceiling.limits.files, "The most open files that may be asked for."),
    key!("ceiling.network", OPENNESS, None, ceiling.network, "The widest network that may be asked for."),
    Key { name: "ceiling.allow", says: "Hosts beyond which nothing may be reached.", shape: Shape::Texts, variable: None, set: way_out::add_reachable, show: way_out::show_reachable },
    Key { name: "ceiling.deny", says: "Hosts that nobody may reach.", shape: Shape::Texts, variable: None, set: way_out::add_unreachable, show: way_out::show_unreachable },
    key!("ceiling.connections", Shape::Count, None, ceiling.egress.limits.connections, "The most connections to the world at one time."),
    key!("ceiling.up", Shape::Size, None, ceiling.egress.limits.up, "The most that may be sent to the world."),
    key!("ceiling.down", Shape::Size, None, ceiling.egress.limits.down, "The most that may come from the world."),
    key!("ceiling.requests", Shape::Count, None, ceiling.egress.limits.requests, "The most connections and requests to the world."),
    Key { name: "ceiling.mounts", says: "Directories under which mounts and workspaces are allowed.", shape: Shape::Paths, variable: None, set: add_allowed, show: show_allowed },
    Key { name: "ceiling.images", says: "Registries, or paths on them, from which images are allowed; `local` for those on this host.", shape: Shape::Texts, variable: None, set: add_image_rule, show: show_image_rules },
];

fn add_require(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    let named = if text == "all" { Guarantee::ALL.to_vec() } else { vec![parsed(text)?] };
    let sourced = |value| Sourced { value, origin: origin.clone() };
    layer.require.extend(named.into_iter().map(sourced));
    Ok(())
}

fn show_require(layer: &Layer) -> Option<Value> {
    let names: Vec<String> = layer.require.iter().map(|it| it.value.to_string()).collect();
    (!names.is_empty()).then(|| json!(names))
}

fn add_mount(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    let share = Share::parse(text.as_ref()).map_err(|error| error.to_string())?;
    if !share.from.is_absolute() && !share.from.starts_with("~") {
        return Err(format!("`{}` is neither absolute nor below `~`", escape(text)));
    }
    layer.mounts.push(Sourced { value: share, origin: origin.clone() });
    Ok(())
}

fn show_mounts(layer: &Layer) -> Option<Value> {
    let shares: Vec<String> = layer.mounts.iter().map(|it| it.value.written()).collect();
    (!shares.is_empty()).then(|| json!(shares))
}

fn add_allowed(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    allowed(&mut layer.ceiling, text)?;
    layer.origins.insert("ceiling.mounts", origin.clone());
    Ok(())
}

fn add_image_rule(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    let rules = layer.ceiling.images.get_or_insert_default();
    if text != NOTHING {
        rules.insert(parsed(text)?);
    }
    layer.origins.insert("ceiling.images", origin.clone());
    Ok(())
}

fn show_image_rules(layer: &Layer) -> Option<Value> {
    layer.ceiling.images.as_ref().map(|rules| json!(rules))
}

fn show_allowed(layer: &Layer) -> Option<Value> {
    layer.ceiling.mounts.as_ref().map(|roots| json!(roots))
}
