//! The smallest root filesystem and OCI bundle, the same for every container peer.
//!
//! No image can be expected to be pulled where the bench runs, so it is made of static busybox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// Where the parts lie.
pub(crate) struct Bundle {
    /// A directory with `bin/true`.
    pub(crate) rootfs: PathBuf,
    /// A directory with `config.json`, which points to the root filesystem.
    pub(crate) dir: PathBuf,
}

impl Bundle {
    /// Makes both. `cgroup` is the path that the containers' own cgroups are made under.
    pub(crate) fn make(scratch: &Scratch, cgroup: &str) -> Result<Self, Trouble> {
        let busybox = programs::find("busybox")
            .ok_or_else(|| Trouble::new("busybox is not installed (package busybox-static)"))?;
        let rootfs = scratch.dir("rootfs")?;
        for dir in ["bin", "proc", "dev", "sys", "tmp", "etc"] {
            scratch.dir(&format!("rootfs/{dir}"))?;
        }
        let unmade = || format!("could not fill `{}`", rootfs.display());
        fs::copy(busybox, rootfs.join("bin/busybox")).or_trouble(unmade)?;
        for applet in ["true", "sh", "sleep"] {
            symlink("busybox", rootfs.join("bin").join(applet)).or_trouble(unmade)?;
        }
        let dir = scratch.dir("bundle")?;
        let config = config(&rootfs.display().to_string(), cgroup).to_string();
        fs::write(dir.join("config.json"), config).or_trouble(unmade)?;
        Ok(Self { rootfs, dir })
    }
}

/// What `bulkhead run` also has: own namespaces, no capabilities, memory, CPU and pids limits.
fn config(rootfs: &str, cgroup: &str) -> Value {
    let tmpfs = |destination: &str| {
        json!({ "destination": destination, "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "mode=755", "size=64m"] })
    };
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|it| json!({ "type": it }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bin/true"],
            "env": ["PATH=/bin"],
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": true,
        },
        "root": { "path": rootfs, "readonly": true },
        "hostname": "bench",
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            tmpfs("/dev"),
            tmpfs("/tmp"),
        ],
        "linux": {
            "cgroupsPath": format!("{cgroup}/bundle"),
            "resources": {
                "memory": { "limit": 512 * 1024 * 1024 },
                "pids": { "limit": 64 },
                "cpu": { "quota": 100_000, "period": 100_000 },
            },
            "namespaces": namespaces,
        },
    })
}
