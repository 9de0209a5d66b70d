//! From a plan to the steps that build it. Pure: snapshot-tested without a kernel.

mod dev;
mod disk;
mod paths;
mod shares;

use std::{ffi::CString, fmt, path::Path};

use bulkhead_linux::{
    doors::Door,
    mounts::Attributes,
    seccomp::filter,
    steps::{Groups, Kind, Place, Reach, Step, Way},
    walls::Walls,
};
use bulkhead_policy::Plan;
use bulkhead_spec::{self as spec, escape_bytes};

pub(super) use self::disk::parts;
use self::paths::Steps;
use super::{
    frame::Made,
    image::Layers,
    root,
    shape::{Parts, Shape},
    survey::{Entry, House, Survey},
};
use crate::{
    doors::wanted,
    identity::{INSIDE, Identity},
    props,
    syscalls::profile,
    workspace::share::Share,
};

/// Room for the directories of the sandbox itself, on top of what the plan allows.
const OWN_INODES: u64 = 512;
const OWN_BYTES: u64 = 1 << 20;
/// What a plan without limits still gets: tmpfs alone would take half of the machine.
const MOST_BYTES: u64 = 1 << 40;
const MOST_INODES: u64 = 100_000_000;

/// Where settings are that sandboxes differ in: `/etc` has links to them.
const OWN_SETTINGS: &str = "/var/settings";

/// One line of a blueprint.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A step that is ready.
    Do(Step),
    /// Wait for the parent, and enter the cgroups.
    Join,
    /// Wait for the next list.
    Receive,
    /// Open doors in the sandbox's network.
    Doors(Vec<Door>),
    /// Hand the base to the parent.
    Hand,
    /// A part of the frame, by its name.
    Frame { part: &'static str, attributes: Attributes, target: Place },
    /// A part of the host's tree whose owner appears as the sandbox's user.
    Show { share: Share, attributes: Attributes, target: Place },
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do(step) => step.fmt(out),
            Self::Join => Step::Join { orders: -1 }.fmt(out),
            Self::Receive => out.write_str("wait for the next list"),
            Self::Hand => Step::Hand { to: -1 }.fmt(out),
            Self::Frame { part, target, .. } => {
                write!(out, "show `{part}` of the frame at `{target}`")
            }
            Self::Doors(doors) => Step::Doors { doors: doors.clone().into(), to: -1 }.fmt(out),
            Self::Show { share, attributes, target } => {
                let from = escape_bytes(share.from.as_os_str().as_encoded_bytes());
                let target = escape_bytes(target.path.to_bytes());
                write!(out, "show `{from}` at `{target}` {attributes:?}")
            }
        }
    }
}

/// The first list, which needs no look at the host: identity and the base. The child does it while
/// the parent looks.
pub(super) fn first(identity: &Identity, guest: Option<Line>) -> Vec<Line> {
    let mut steps = Steps::new(Way::Ours);
    steps.push(Step::Session);
    let groups = match identity {
        Identity::Mapped { .. } => Groups::Left,
        Identity::Own { uid, gid } => {
            let uid = bulkhead_linux::birth::map_line(INSIDE, *uid);
            let gid = bulkhead_linux::birth::map_line(INSIDE, *gid);
            steps.push(Step::MapSelf { uid, gid });
            Groups::Kept
        }
    };
    steps.push(Step::Become { id: INSIDE, groups });
    steps.push(Step::Hostname(c"bulkhead".to_owned()));
    steps.push(Step::Private);
    let options = format!("size={OWN_BYTES},nr_inodes={OWN_INODES},mode=0755");
    steps.push(Step::Base { options: CString::new(options).unwrap_or_default() });
    lay_base(&mut steps);
    steps.lines.extend(guest);
    steps.lines.push(Line::Receive);
    steps.lines
}

/// The second list: what every sandbox on this host sees, made while nobody knows the plan yet.
/// Of another root nothing is known then.
pub(super) fn second(shape: Shape, house: &House) -> Unfinished {
    let root = match shape.root {
        Parts::Host => Way::Ours,
        Parts::Other => Way::Foreign,
    };
    list(shape, house, Steps::new(root))
}

/// The same with a frame, which is laid somewhere; and what it consists of.
pub(super) fn second_framed(shape: Shape, house: &House) -> (Unfinished, Vec<Made>) {
    let mut unfinished = list(shape, house, Steps::framed(Way::Ours));
    let frame = unfinished.steps.frame();
    (unfinished, frame)
}

fn list(shape: Shape, house: &House, mut steps: Steps) -> Unfinished {
    if shape.root == Parts::Host {
        steps.again(c"root", paths::base(c"new"));
        own(&mut steps, house, None);
        settings(&mut steps);
    }
    // What is held stays held until the guest is executed; this is done while nobody waits for it.
    steps.push(Step::Capabilities);
    steps.lines.push(Line::Receive);
    let lines = std::mem::take(&mut steps.lines);
    Unfinished { lines, steps }
}

/// A tree of which a part is made.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// The list that makes this part.
    pub(super) lines: Vec<Line>,
    /// What is known of it.
    steps: Steps,
}

impl Unfinished {
    /// The last list: what only this plan has.
    pub(super) fn rest(self, plan: &Plan, house: &House, survey: &Survey) -> Vec<Line> {
        let mut steps = self.steps;
        steps.push(Step::Resize { options: base_options(plan) });
        disk::begin(&mut steps, survey);
        match &survey.root {
            Some(share) => {
                let layers = survey.layers.as_ref();
                let names = layers.map(|it| it.names.as_slice());
                let place = disk::Changes { at: 0, disk: &survey.disk };
                shares::private(&mut steps, share, names, (place, paths::base(c"new")));
                own(&mut steps, house, layers);
            }
            None => user(&mut steps, plan),
        }
        nameplate(&mut steps, plan, survey);
        names(&mut steps, plan, survey);
        notes(&mut steps, plan);
        disk::temporary(&mut steps, survey);
        home(&mut steps, plan, survey);
        shares::lower(&mut steps, plan, survey);
        if survey.root.is_none() {
            steps.push(Step::Restrict {
                target: c"new".to_owned(),
                attributes: Attributes::ReadOnly,
                reach: Reach::Alone,
            });
        }
        leave(&mut steps, plan.network(), wanted(plan));
        steps.lines
    }
}

/// The end of every list.
fn leave(steps: &mut Steps, network: spec::Network, doors: Vec<Door>) {
    match network {
        // Doors are made with devices of the host.
        spec::Network::Proxy | spec::Network::Observe => steps.lines.push(Line::Doors(doors)),
        spec::Network::None | spec::Network::Open => {}
    }
    // The cgroups come last: in v1 the parent makes them while all this is done.
    steps.lines.extend([Line::Hand, Line::Do(Step::Enter), Line::Join]);
}

fn base_options(plan: &Plan) -> CString {
    let limits = plan.limits();
    let size = limits.disk.map_or(MOST_BYTES, |it| it.0).saturating_add(OWN_BYTES);
    let inodes = limits.inodes.unwrap_or(MOST_INODES).saturating_add(OWN_INODES);
    CString::new(format!("size={size},nr_inodes={inodes}")).unwrap_or_default()
}

/// The directories of the base.
fn lay_base(steps: &mut Steps) {
    for (path, mode) in [
        (c"root", 0o755),
        (c"new", 0o755),
        (c"home", 0o700),
        (c"tmp", 0o1777),
        (c"vartmp", 0o1777),
        (c"shm", 0o1777),
        (c"run", 0o755),
        (c"empty", 0o755),
    ] {
        steps.push(Step::Dir { path: paths::base(path), mode });
    }
    let note = Step::File {
        path: paths::base(c"empty/PROTECTED-BY-BULKHEAD"),
        content: props::NOTE.as_bytes().into(),
    };
    steps.push(note);
    steps.push(Step::Dir { path: paths::base(c"blank"), mode: 0o755 });
    let blank = Step::File { path: paths::base(c"blank/file"), content: Box::default() };
    steps.push(blank);
    steps.push(Step::Dir { path: paths::base(c"blank/dir"), mode: 0o755 });
    // What lies on many places is restricted once.
    steps.bind(c"blank", None, paths::base(c"blank"), Attributes::Inert);
}

/// The sandbox's own tree: programs, settings, private directories, `/proc`, `/dev`.
fn own(steps: &mut Steps, house: &House, layers: Option<&Layers>) {
    if !house.own.is_empty() {
        // Much of it is shown, and none of it is anybody's but the administrator's.
        steps.push(Step::Dir { path: paths::base(c"etc"), mode: 0o755 });
        steps.bind(c"/etc", None, paths::base(c"etc"), Attributes::ReadOnly);
        if steps.is_framed() {
            framed(steps, "etc", Attributes::ReadOnly);
        }
    }
    for entry in &house.own {
        match entry {
            Entry::Link { path, to } => steps.link(path, to),
            Entry::Is { path, stamp, .. } if steps.copy(path, *stamp) => {}
            Entry::Is { path, looked, .. } if path.starts_with("/etc") => {
                steps.show_again(&paths::staged(path), path, looked.kind);
            }
            Entry::Is { path, looked, .. } => steps.show(path, *looked, Attributes::ReadOnly),
        }
    }
    let linked = layers.is_some_and(|it| it.linked_var_tmp);
    for (source, target) in [(c"tmp", "/tmp"), (c"vartmp", "/var/tmp"), (c"run", "/run")] {
        if target != "/var/tmp" || !linked {
            steps.private(source, target.as_ref());
        }
    }
    if let Some(layers) = layers {
        for (path, content) in &layers.files {
            steps.rewrite(path, content);
        }
        layers.dir.iter().for_each(|dir| steps.dir_all(dir));
    }
    steps.dir_all("/proc".as_ref());
    let target = steps.place("/proc".as_ref());
    steps.push(Step::Mount { kind: Kind::Proc, target });
    dev::mask_proc(steps);
    dev::lower(steps, house);
}

/// Shows a part of the frame in the root.
fn framed(steps: &mut Steps, part: &'static str, attributes: Attributes) {
    let path = Path::new("/").join(part);
    steps.dir_all(&path);
    let target = steps.place(&path);
    steps.lines.push(Line::Frame { part, attributes, target });
}

/// Settings that are not the host's: those that are the same in every sandbox, and links to the others.
fn settings(steps: &mut Steps) {
    steps.file("/etc/group", &format!("{}sandbox:x:{INSIDE}:\n", root::GROUP));
    steps.file("/etc/hosts", root::HOSTS);
    steps.file("/etc/nsswitch.conf", root::NSSWITCH);
    for name in ["hostname", "machine-id", "passwd", "resolv.conf"] {
        steps.link(&Path::new("/etc").join(name), setting(name).as_ref());
    }
    steps.file(&setting("hostname"), "bulkhead\n");
}

/// Who programs are.
fn user(steps: &mut Steps, plan: &Plan) {
    let user = format!("sandbox:x:{INSIDE}:{INSIDE}:sandbox:{}:/bin/bash\n", plan.home());
    steps.file(&setting("passwd"), &format!("{}{user}", root::PASSWD));
}

/// Where a setting is that sandboxes differ in.
fn setting(name: &str) -> String {
    format!("{OWN_SETTINGS}/{name}")
}

fn home(steps: &mut Steps, plan: &Plan, survey: &Survey) {
    // Where somebody has been before, they are there, or were changed or removed.
    let files = plan.home_files().iter().filter(|_| !plan.disk().is_used());
    for (name, content) in files {
        let path = disk::within("home", name, survey);
        steps.push(Step::File { path, content: content.as_bytes().into() });
    }
    disk::show(steps, "home", plan.home().as_path(), survey);
}

/// What tells this machine from others.
fn nameplate(steps: &mut Steps, plan: &Plan, survey: &Survey) {
    let Some(plate) = plan.nameplate() else { return };
    let host = CString::new(plate.host.as_str()).unwrap_or_default();
    steps.push(Step::Hostname(host));
    let files = [
        ("hostname", format!("{}\n", plate.host)),
        ("machine-id", format!("{}\n", plate.machine)),
    ];
    // An image whose `/etc` is no directory of its own gets none of our settings.
    let settings = survey.layers.as_ref().is_none_or(|it| !it.files.is_empty());
    for (name, content) in files.iter().filter(|_| settings) {
        let path = match survey.root {
            None => setting(name),
            Some(_) => format!("/etc/{name}"),
        };
        steps.rewrite(&path, content);
    }
    let boot = Path::new("/proc/sys/kernel/random/boot_id");
    let content = format!("{}\n", plate.boot).into_bytes().into();
    steps.push(Step::File { path: paths::base(c"boot-id"), content });
    let target = steps.place(boot);
    steps.bind(c"boot-id", None, target, Attributes::Inert);
}

/// What programs are told by files of ours.
fn notes(steps: &mut Steps, plan: &Plan) {
    if plan.notes().is_empty() {
        return;
    }
    steps.push(Step::Dir { path: paths::base(c"run/bulkhead"), mode: 0o755 });
    for (name, content) in plan.notes() {
        let path = CString::new(format!("run/bulkhead/{name}")).unwrap_or_default();
        let content = content.as_slice().into();
        steps.push(Step::File { path: paths::base(&path), content });
    }
}

/// Who is asked for names.
fn names(steps: &mut Steps, plan: &Plan, survey: &Survey) {
    let content = match plan.network() {
        spec::Network::None => root::NO_NAMES,
        spec::Network::Proxy | spec::Network::Observe => root::OUR_NAMES,
        spec::Network::Open => match &survey.names {
            Some(names) => names,
            None => return,
        },
    };
    match survey.root {
        None => steps.file(&setting("resolv.conf"), content),
        // Without a network it does not matter whom the root's own file names.
        Some(_) if plan.network() == spec::Network::None => {}
        Some(_) => steps.rewrite("/etc/resolv.conf", content),
    }
}

pub(super) fn walls(plan: &Plan, survey: &Survey, identity: &Identity) -> Walls {
    let mut writable: Vec<Vec<u8>> = ["/tmp", "/var/tmp", "/run", "/dev/shm", "/proc"]
        .map(|it| it.as_bytes().to_vec())
        .into();
    writable.push(plan.home().as_path().as_os_str().as_encoded_bytes().to_vec());
    if survey.root.is_some() {
        writable.push(b"/".to_vec());
    }
    let tmpfs = plan.tmpfs().iter().map(spec::GuestPath::as_path);
    let shares = survey.shares.iter().filter(|it| it.access != spec::Access::ReadOnly);
    let paths = shares.map(|it| it.to.as_path()).chain(tmpfs);
    writable.extend(paths.map(|it| it.as_os_str().as_encoded_bytes().to_vec()));
    let limits = plan.limits();
    Walls {
        writable,
        filter: filter(profile(plan)),
        processes: match identity {
            Identity::Mapped { .. } => None,
            // Counted in the sandbox's own user namespace; one more for the guest, which is none of
            // the program's.
            Identity::Own { .. } => limits.pids.map(|it| u64::from(it) + 1),
        },
        files: limits.files.map(u64::from),
    }
}
