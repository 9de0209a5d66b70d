//! A booted guest, from its start to its end.
//!
//! Invariant: no QEMU outlives the value that started it, nor the chore itself.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::at;
use super::image::Image;
use super::job::{self, Job, Mark, Report};
use super::recipe;
use crate::print;
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// What executes the guest's instructions.
#[derive(Clone, Copy)]
pub(super) enum Engine {
    /// Translation: slower, and works on every host.
    Tcg,
    /// The host's processor, where it lets us.
    Kvm,
}

/// How a machine is run.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) engine: Engine,
    pub(super) limit: Duration,
}

/// A running guest and what it has said that nobody has heard yet.
pub(super) struct Machine {
    child: Child,
    lines: Receiver<Vec<u8>>,
    heard: Vec<Report>,
    mark: Mark,
    deadline: Instant,
    terms: Terms,
    directory: PathBuf,
}

impl Machine {
    /// Boots the image with the job, whose scripts and console log live in `directory`.
    pub(super) fn boot(
        image: &Image,
        job: Job,
        directory: &Path,
        terms: Terms,
    ) -> Result<Self, Trouble> {
        write_job(&job, directory)?;
        let mut command = qemu(image, &job, directory, terms.engine);
        let mut child = command.spawn().or_trouble(|| "could not start QEMU".to_owned())?;
        let lines = child.stdout.take().map_or_else(|| channel().1, lines_of);
        Ok(Self {
            child,
            lines,
            heard: Vec::new(),
            mark: job.mark,
            deadline: Instant::now() + terms.limit,
            terms,
            directory: directory.to_owned(),
        })
    }

    /// The next thing that the guest says, while there is time for it.
    pub(super) fn hear(&mut self) -> Result<Report, Trouble> {
        loop {
            if let Some(report) = self.heard.pop() {
                return Ok(report);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.heard = self.mark.reports_in(&line);
                    self.heard.reverse();
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Trouble::new(format!(
                        "the guest had not ended after {:?}",
                        self.terms.limit
                    )));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Trouble::new(format!(
                        "the guest ended before its job did; its last words:\n{}",
                        self.last_words()
                    )));
                }
            }
        }
    }

    /// The end of the guest's console, which says why it did not get further.
    fn last_words(&self) -> String {
        let log = fs::read(self.directory.join("console.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let from = lines.len().saturating_sub(20);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Not asked to shut down: its disk is a throw-away view of the image.
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(trouble) = ended.or_trouble(|| "could not end QEMU".to_owned()) {
            print::trouble(&trouble);
        }
    }
}

/// Hands over the lines of the pipe as they come, on a thread that ends with the pipe.
fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|it| it > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                break;
            }
        }
    });
    receiver
}

fn write_job(job: &Job, directory: &Path) -> Result<(), Trouble> {
    fs::create_dir_all(directory).or_trouble(|| at(directory))?;
    // Exists on the host as well, because the guest's view of the share is read-only.
    let temporary = job.share.join("target/tmp");
    fs::create_dir_all(&temporary).or_trouble(|| at(&temporary))?;
    for script in job::scripts(job) {
        let path = directory.join(script.name);
        fs::write(&path, script.text).or_trouble(|| at(&path))?;
    }
    Ok(())
}

fn qemu(image: &Image, job: &Job, directory: &Path, engine: Engine) -> Command {
    // setpriv, so that the kernel ends the machine if the chore itself is killed.
    let mut command = programs::command("setpriv");
    command
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-machine", "q35", "-m", "2G", "-smp", "2"]);
    match engine {
        // A translated cmpxchg16b is not atomic between the guest's processors.
        Engine::Tcg => command.args(["-accel", "tcg,thread=multi", "-cpu", "max,-cx16"]),
        Engine::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
    };
    command
        .arg("-kernel")
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(&image.initrd)
        .args(["-append", "console=ttyS0 rw quiet panic=-1 mitigations=off"]);
    let console = option(&directory.join("console.log"));
    let disk = option(&image.disk);
    let port = recipe::OUTPUT_PORT;
    for (flag, value) in [
        ("-serial", format!("file:{console}")),
        ("-drive", format!("if=none,id=disk,format=raw,snapshot=on,file={disk}")),
        ("-device", "virtio-blk-pci,drive=disk".to_owned()),
        ("-device", "virtio-serial-pci".to_owned()),
        ("-chardev", "stdio,id=out,signal=off".to_owned()),
        ("-device", format!("virtserialport,chardev=out,name={port}")),
    ] {
        command.arg(flag).arg(value);
    }
    offer(&mut command, recipe::JOB_TAG, directory);
    offer(&mut command, job::SHARE_TAG, &job.share);
    // A pipe that nobody writes to: at the end of its input QEMU would close the channel.
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Offers a directory of the host to the guest, read-only.
fn offer(command: &mut Command, tag: &str, directory: &Path) {
    let path = option(directory);
    command
        .arg("-fsdev")
        .arg(format!(
            "local,id={tag},security_model=none,readonly=on,multidevs=remap,path={path}"
        ))
        .arg("-device")
        .arg(format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
}

/// The path as it stands in an option of QEMU, where a comma ends a value.
fn option(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}
