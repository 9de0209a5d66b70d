//! One configuration file: found, read and understood, or refused with the place of the mistake.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use bulkhead_spec::{escape, escape_bytes};
use rustix::fs::{Mode, OFlags};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    ConfigError, Origin,
    keys::{KEYS, Key, NOTHING, find},
    layer::{Layer, Sourced},
    suggest::nearest,
};

/// The only version of the format that there is.
const SCHEMA_VERSION: &str = "1";
const MOST: u64 = 1 << 20;

/// A file as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// All that it holds.
    pub(crate) text: String,
}

/// Whether a symbolic link leads to the file or is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// The user's own file may lie elsewhere.
    Followed,
    /// A file of the repository might lead anywhere.
    Refused,
}

impl Source {
    /// The file at `path`, or `None` where there is none.
    ///
    /// A file that is there and cannot be read is an error: it might hold a ceiling.
    pub(crate) fn read(path: &Path, links: Links) -> Result<Option<Self>, ConfigError> {
        let failed = |source| ConfigError::Read { path: shown(path), source };
        match open(path, links) {
            Ok(mut file) => {
                let text = read_text(&mut file).map_err(failed)?;
                Ok(Some(Self { path: path.to_owned(), text }))
            }
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// What the file says.
    pub(crate) fn layer(&self) -> Result<Layer, ConfigError> {
        let document = DeTable::parse(&self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            ConfigError::Syntax { place: self.place(at), why: escape(error.message()) }
        })?;
        let mut layer = Layer::default();
        self.read_table(&mut layer, "", document.get_ref())?;
        layer.imply_network();
        Ok(layer)
    }

    fn read_table(
        &self,
        layer: &mut Layer,
        table: &str,
        entries: &DeTable<'_>,
    ) -> Result<(), ConfigError> {
        for (name, value) in entries {
            let dotted = format!("{table}{}", name.get_ref());
            match (dotted.as_str(), value.get_ref()) {
                ("env", DeValue::Table(variables)) => self.read_env(layer, variables)?,
                (
                    "limits" | "egress" | "pool" | "rooms" | "reserve" | "ceiling",
                    DeValue::Table(inner),
                ) => {
                    self.read_table(layer, &format!("{dotted}."), inner)?;
                }
                ("env" | "limits" | "egress" | "pool" | "rooms" | "reserve" | "ceiling", _) => {
                    return Err(self.wrong(&dotted, value, "it must be a table".to_owned()));
                }
                ("schema_version", version) => self.check_version(value, version)?,
                (dotted, _) => match find(dotted) {
                    Some(key) => self.read_value(layer, key, value)?,
                    None => return Err(self.unknown(dotted, table, name)),
                },
            }
        }
        Ok(())
    }

    fn read_value(
        &self,
        layer: &mut Layer,
        key: &'static Key,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let items: Vec<&Spanned<DeValue<'_>>> = match (value.get_ref(), key.shape.is_list()) {
            (DeValue::Array(items), true) => items.iter().collect(),
            (_, true) => {
                return Err(self.wrong(key.name, value, "it must be a list".to_owned()));
            }
            (_, false) => vec![value],
        };
        if items.is_empty() && ["ceiling.mounts", "ceiling.images"].contains(&key.name) {
            let origin = self.origin(value.span().start);
            (key.set)(layer, NOTHING, &origin)
                .map_err(|why| self.wrong(key.name, value, why))?;
        }
        for item in items {
            let text = scalar(item.get_ref()).ok_or_else(|| {
                let kind = item.get_ref().type_str();
                self.wrong(key.name, item, format!("it cannot be of the type {kind}"))
            })?;
            let origin = self.origin(item.span().start);
            (key.set)(layer, &text, &origin).map_err(|why| self.wrong(key.name, item, why))?;
        }
        Ok(())
    }

    fn read_env(&self, layer: &mut Layer, entries: &DeTable<'_>) -> Result<(), ConfigError> {
        for (name, value) in entries {
            let key = format!("env.{}", name.get_ref());
            let text = scalar(value.get_ref())
                .ok_or_else(|| self.wrong(&key, value, "it must be a text".to_owned()))?;
            let origin = self.origin(name.span().start);
            let name = name.get_ref().as_ref().into();
            layer.env.insert(name, Sourced { value: text.into(), origin });
        }
        Ok(())
    }

    fn check_version(
        &self,
        at: &Spanned<DeValue<'_>>,
        version: &DeValue<'_>,
    ) -> Result<(), ConfigError> {
        if scalar(version).as_deref() == Some(SCHEMA_VERSION) {
            return Ok(());
        }
        let why = format!("this Bulkhead knows version {SCHEMA_VERSION} of the format only");
        Err(self.wrong("schema_version", at, why))
    }

    fn unknown(&self, dotted: &str, table: &str, at: &Spanned<impl Sized>) -> ConfigError {
        let tables = [
            "schema_version",
            "env",
            "limits",
            "egress",
            "pool",
            "rooms",
            "reserve",
            "ceiling",
        ];
        let names = || KEYS.iter().map(|key| key.name).chain(tables);
        let here = names().filter(|name| name.starts_with(table));
        // A key in the wrong table is as common a slip as a wrong letter.
        let bare = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
        let moved = || {
            let last = dotted.rsplit('.').next().unwrap_or(dotted);
            let meant = nearest(last, names().map(bare))?;
            names().find(|name| bare(name) == meant)
        };
        let meant = nearest(dotted, here).or_else(moved).map(str::to_owned);
        ConfigError::UnknownKey {
            place: self.place(at.span().start),
            key: escape(dotted),
            meant,
        }
    }

    fn wrong(&self, key: &str, at: &Spanned<DeValue<'_>>, why: String) -> ConfigError {
        ConfigError::Value { place: self.place(at.span().start), key: escape(key), why }
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::File { path: self.path.clone(), line: self.position(offset).0 }
    }

    /// `file:line:column`.
    fn place(&self, offset: usize) -> String {
        let (line, column) = self.position(offset);
        format!("{}:{line}:{column}", shown(&self.path))
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// A single value as the text that a flag would take.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Integer(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => None,
    }
}

/// Opened so that a pipe or a device in its place cannot hang or surprise us.
fn open(path: &Path, links: Links) -> io::Result<File> {
    let links = match links {
        Links::Followed => OFlags::empty(),
        Links::Refused => OFlags::NOFOLLOW,
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | links;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        Err(rustix::io::Errno::LOOP) => Err(io::Error::other("it is a symbolic link")),
        Err(errno) => Err(errno.into()),
    }
}

fn read_text(file: &mut File) -> io::Result<String> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    if MOST < file.take(MOST + 1).read_to_string(&mut text)?.try_into().unwrap_or(u64::MAX) {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    Ok(text)
}

fn absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(code) if [
        rustix::io::Errno::NOENT,
        rustix::io::Errno::NOTDIR,
    ].iter().any(|errno| errno.raw_os_error() == code))
}

/// A path for people.
pub(crate) fn shown(path: &Path) -> String {
    escape_bytes(path.as_os_str().as_encoded_bytes())
}
