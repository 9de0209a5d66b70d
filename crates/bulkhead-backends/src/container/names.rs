//! What users are called inside.
//!
//! Programs look their own name up (`whoami`, ssh, every `os.userInfo()`), and the user of a sandbox
//! is nobody that an image knows. So a sandbox gets a list of users of its own: where it has the
//! agent's image, the same as a native one; where it has another, that image's and its own.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use bollard::{
    models::ContainerCreateBody,
    query_parameters::{CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder},
};
use bulkhead_policy::Plan;
use bulkhead_spec::{Root, escape};
use futures_util::StreamExt as _;

use super::{
    Container,
    client::Daemon,
    lower::{INSTANCE, Image, User},
};
use crate::BackendError;

/// The most that is read of an image's list.
const MOST: usize = 64 << 10;

/// An image's own users and groups, as text of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    passwd: String,
    group: String,
}

impl Names {
    /// Those of a sandbox that has the host's programs, or what stands for them.
    fn plain() -> Self {
        Self {
            passwd: "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
                     nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                .to_owned(),
            group: "root:x:0:\nnogroup:x:65534:\n".to_owned(),
        }
    }

    /// With a name for `user`, whose home is `home`, unless it has one.
    fn with(mut self, user: User, home: &str) -> Self {
        let (uid, gid) = user.inside();
        let knows = |list: &str, id: u32| {
            let id = id.to_string();
            list.lines().any(|line| line.split(':').nth(2) == Some(id.as_str()))
        };
        if !knows(&self.passwd, uid) {
            let line = format!("sandbox:x:{uid}:{gid}:sandbox:{home}:/bin/sh\n");
            self.passwd.push_str(&line);
        }
        if !knows(&self.group, gid) {
            let line = format!("sandbox:x:{gid}:\n");
            self.group.push_str(&line);
        }
        self
    }

    /// Writes both lists to `dir`.
    fn write(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)?;
        for (name, text) in [("passwd", &self.passwd), ("group", &self.group)] {
            let draft = dir.join(format!(".{name}-{}", std::process::id()));
            std::fs::write(&draft, text)?;
            // Whatever the caller's mask: everybody inside reads them.
            std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o444))?;
            std::fs::rename(&draft, dir.join(name))?;
        }
        Ok(())
    }
}

/// The users of the image of `plan`, as it ships them; read once for each image.
pub(super) async fn of(
    container: &Container,
    plan: &Plan,
    image: &Image,
) -> Result<Names, BackendError> {
    match plan.root() {
        Root::Host | Root::Directory(_) => return Ok(Names::plain()),
        Root::Image(_) => {}
    }
    let dir = container.images().join(image.file_name());
    let read = |name: &str| std::fs::read_to_string(dir.join(name));
    if let (Ok(passwd), Ok(group)) = (read("passwd"), read("group")) {
        return Ok(Names { passwd, group });
    }
    let names = read_from(&container.daemon, &image.id, &container.instance).await?;
    names.write(&dir).map_err(|source| BackendError::System {
        action: "remember the users of an image",
        source,
    })?;
    Ok(names)
}

/// Lays the lists of a sandbox out below `dir`, and says where.
pub(super) fn lay(names: Names, user: User, plan: &Plan, dir: &Path) -> io::Result<PathBuf> {
    let home = plan.home().to_string();
    // A directory for each kind of user: they differ by nothing else.
    let (uid, gid) = user.inside();
    let kind = format!("{uid}-{gid}{}", home.replace('/', "-"));
    let dir = dir.join(kind);
    names.with(user, &home).write(&dir)?;
    Ok(dir)
}

/// Reads both lists out of a container that is never started.
async fn read_from(
    daemon: &Daemon,
    image: &str,
    instance: &str,
) -> Result<Names, BackendError> {
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/never".to_owned()]),
        labels: Some([(INSTANCE.to_owned(), instance.to_owned())].into()),
        network_disabled: Some(true),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().build();
    let made = daemon.docker.create_container(Some(options), body).await;
    let id = made.map_err(daemon.failed("look into an image"))?.id;
    let passwd = read_file(daemon, &id, "/etc/passwd").await;
    let group = read_file(daemon, &id, "/etc/group").await;
    daemon.remove(&id).await?;
    Ok(Names { passwd: passwd.unwrap_or_default(), group: group.unwrap_or_default() })
}

/// A small regular file of text, if it is one.
async fn read_file(daemon: &Daemon, container: &str, path: &str) -> Option<String> {
    let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
    let mut stream = daemon.docker.download_from_container(container, Some(options));
    let mut archive = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        archive.extend_from_slice(&chunk);
        if MOST < archive.len() {
            break;
        }
    }
    file_in(&archive).filter(|it| is_list(it))
}

/// The content of the one regular file in a tar archive.
fn file_in(archive: &[u8]) -> Option<String> {
    let (header, rest) = archive.split_at_checked(512)?;
    let octal = std::str::from_utf8(header.get(124..135)?).ok()?;
    let size = usize::from_str_radix(octal.trim_matches(['\0', ' ']), 8).ok()?;
    let regular = matches!(header.get(156)?, b'0' | 0);
    let content = rest.get(..size).filter(|_| regular && size < MOST)?;
    String::from_utf8(content.to_vec()).ok()
}

/// Whether `text` is lines of fields, and nothing that could be taken for more.
fn is_list(text: &str) -> bool {
    let plain = |line: &str| escape(line) == line && line.contains(':');
    text.is_empty() || text.ends_with('\n') && text.lines().all(|it| it.is_empty() || plain(it))
}

#[cfg(test)]
mod tests {
    use super::{Names, file_in, is_list};
    use crate::container::lower::{User, Users};

    fn user(uid: u32, gid: u32) -> User {
        User { uid, gid, namespace: Users::Usual }
    }

    #[test]
    fn a_user_gets_a_name_unless_the_image_has_one() {
        let names = Names {
            passwd: "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n"
                .to_owned(),
            group: "root:x:0:\n".to_owned(),
        };
        assert_eq!(names.clone().with(user(1000, 0), "/home/sandbox"), names);
        let grown = names.clone().with(user(100, 1000), "/home/sandbox");
        assert_eq!(
            grown.passwd,
            format!("{}sandbox:x:100:1000:sandbox:/home/sandbox:/bin/sh\n", names.passwd)
        );
        assert_eq!(grown.group, "root:x:0:\nsandbox:x:1000:\n");
    }

    #[test]
    fn only_a_small_regular_file_of_fields_is_read() {
        let tar = |kind: u8, size: &str, content: &[u8]| {
            let mut archive = vec![0; 512];
            archive[124..135].copy_from_slice(format!("{size:0>11}").as_bytes());
            archive[156] = kind;
            archive.extend_from_slice(content);
            archive
        };
        assert_eq!(file_in(&tar(b'0', "5", b"a:b:c and more")).as_deref(), Some("a:b:c"));
        assert_eq!(file_in(&tar(b'2', "5", b"a:b:c")), None);
        assert_eq!(file_in(&tar(b'0', "7777777777", b"a:b:c")), None);
        assert_eq!(file_in(b"short"), None);
        assert!(is_list("root:x:0:0::/:/bin/sh\n\n"));
        assert!(!is_list("root:x:0:0::/:\u{1b}[2J\n"));
        assert!(!is_list("root:x:0"));
        assert!(!is_list("<html>\n"));
    }
}
