//! Which image: as it is written, and as it is found.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use bulkhead_spec::{HostPath, ImageSource, Reference, escape};

use crate::{codes::Code, config::shown, failure::Failure};

/// What is written after `--image`, taken apart and not looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageText {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// No image: the host's own programs.
    None,
    Registry(Reference),
    Daemon(Reference),
    Layout(PathBuf, Option<String>),
    Archive(PathBuf, Option<String>),
    /// One of the two, to be seen by what is there.
    Path(PathBuf),
}

impl FromStr for ImageText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = |it: &str| it.parse::<Reference>().map_err(|error| error.to_string());
        let kind = match text.split_once(':') {
            _ if text == "none" => Kind::None,
            _ if text.starts_with(['/', '.', '~']) => Kind::Path(text.into()),
            Some(("oci", rest)) => {
                let (path, tag) = parted(rest)?;
                Kind::Layout(path, tag)
            }
            Some(("docker-archive" | "oci-archive", rest)) => {
                let (path, name) = parted(rest)?;
                Kind::Archive(path, name)
            }
            Some(("docker-daemon", rest)) => Kind::Daemon(name(rest)?),
            Some(("docker", rest)) if rest.starts_with("//") => {
                Kind::Registry(name(rest.trim_start_matches('/'))?)
            }
            Some(_) | None => Kind::Registry(name(text)?),
        };
        Ok(Self { text: text.to_owned(), kind })
    }
}

/// `PATH[:NAME]`
fn parted(text: &str) -> Result<(PathBuf, Option<String>), String> {
    let (path, name) = match text.split_once(':') {
        Some((path, name)) => (path, Some(name.to_owned())),
        None => (text, None),
    };
    if path.is_empty() || name.as_deref() == Some("") {
        return Err(format!("`{}` is not PATH or PATH:NAME", escape(text)));
    }
    Ok((path.into(), name))
}

impl fmt::Display for ImageText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&escape(&self.text))
    }
}

impl ImageText {
    /// Whether it means the same wherever it is said.
    pub(crate) fn is_anchored(&self) -> bool {
        match &self.kind {
            Kind::None | Kind::Registry(_) | Kind::Daemon(_) => true,
            Kind::Layout(path, _) | Kind::Archive(path, _) | Kind::Path(path) => {
                path.is_absolute() || path.starts_with("~")
            }
        }
    }

    /// Where the image is; `None` for no image.
    pub(crate) fn find(&self, home: Option<&Path>) -> Result<Option<ImageSource>, Failure> {
        let real = |path: &Path| self.real(path, home);
        Ok(Some(match &self.kind {
            Kind::None => return Ok(None),
            Kind::Registry(name) => ImageSource::Registry(name.clone()),
            Kind::Daemon(name) => ImageSource::Daemon(name.clone()),
            Kind::Layout(path, tag) => {
                ImageSource::Layout { dir: real(path)?, tag: tag.clone() }
            }
            Kind::Archive(path, name) => {
                ImageSource::Archive { file: real(path)?, name: name.clone() }
            }
            Kind::Path(path) => {
                let found = real(path)?;
                if !found.as_path().is_dir() {
                    ImageSource::Archive { file: found, name: None }
                } else if found.as_path().join("index.json").is_file() {
                    ImageSource::Layout { dir: found, tag: None }
                } else {
                    return Err(self
                        .failed("the directory has no `index.json`, so it is no OCI layout")
                        .hint(format!(
                            "a plain directory tree is used with: --rootfs {}",
                            shown(path)
                        )));
                }
            }
        }))
    }

    fn real(&self, path: &Path, home: Option<&Path>) -> Result<HostPath, Failure> {
        let path = match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => home.join(rest),
            (Ok(_) | Err(_), _) => path.to_owned(),
        };
        let real = path.canonicalize().map_err(|error| self.failed(error))?;
        HostPath::try_from(real).map_err(|error| self.failed(error))
    }

    fn failed(&self, why: impl fmt::Display) -> Failure {
        Failure::new(Code::Image, format!("cannot use the image `{self}`")).because(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        text.parse::<ImageText>().unwrap().kind
    }

    #[test]
    fn each_way_to_name_an_image_is_understood() {
        let registry = |it: &str| Kind::Registry(it.parse().unwrap());
        for (text, expected) in [
            ("none", Kind::None),
            ("debian:12", registry("docker.io/library/debian:12")),
            ("docker://r.example/x", registry("r.example/x:latest")),
            ("oci:layout", Kind::Layout("layout".into(), None)),
            ("oci:/a/b:1.2", Kind::Layout("/a/b".into(), Some("1.2".to_owned()))),
            ("docker-archive:x.tar", Kind::Archive("x.tar".into(), None)),
            (
                "docker-archive:/x.tar:team/tool:1",
                Kind::Archive("/x.tar".into(), Some("team/tool:1".to_owned())),
            ),
            ("docker-daemon:tool", Kind::Daemon("tool".parse().unwrap())),
            ("./x.tar", Kind::Path("./x.tar".into())),
            ("/x:y", Kind::Path("/x:y".into())),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        for wrong in ["", "oci:", "oci::x", "docker-archive:", "docker-daemon:", "A", "oci:x:"]
        {
            assert!(wrong.parse::<ImageText>().is_err(), "{wrong}");
        }
    }
}
