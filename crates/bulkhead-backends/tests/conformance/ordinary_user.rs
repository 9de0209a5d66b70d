//! The suite again, as somebody without privileges.

use std::{
    fs::File,
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    process::{Command, Output},
};

use bulkhead_spec::Guarantee;
use libtest_mimic::Failed;

use crate::{attack::Attack, claims::Claims, errand::Errand, makers::Maker};

/// A user and group that nobody has; nothing that is tried here needs a name for it.
pub(crate) const SOMEBODY: u32 = 12_345;

/// What the backend of `maker` claims for an ordinary user.
pub(crate) fn claims(maker: &Maker) -> Result<Claims, Failed> {
    let said = send(&Errand::Claims(maker.clone()))?;
    let words = String::from_utf8_lossy(&said.stdout).into_owned();
    if !said.status.success() {
        return Err(format!("an ordinary user could not be asked: {words}").into());
    }
    Ok(Claims::from_words(&words))
}

/// Tries `attack` as an ordinary user.
pub(crate) fn must_fail(
    maker: &Maker,
    guarantee: Guarantee,
    attack: &'static Attack,
) -> Result<(), Failed> {
    succeeded(send(&Errand::Attack(maker.clone(), guarantee, attack))?)
}

/// Whether files that an ordinary user has made are that user's.
pub(crate) fn owns(maker: &Maker) -> Result<(), Failed> {
    succeeded(send(&Errand::Owners(maker.clone()))?)
}

fn succeeded(said: Output) -> Result<(), Failed> {
    if said.status.success() {
        return Ok(());
    }
    let why = [said.stdout, said.stderr].concat();
    Err(format!("{}: {}", said.status, String::from_utf8_lossy(&why)).into())
}

fn send(errand: &Errand) -> Result<Output, Failed> {
    // By descriptor, because the directory of this program may be closed to others.
    let program = File::open(std::env::current_exe()?)?;
    #[expect(clippy::disallowed_methods, reason = "it is this program that is started")]
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.args(errand.to_words()).uid(SOMEBODY).gid(SOMEBODY).env_clear().current_dir("/");
    Ok(command.output()?)
}
