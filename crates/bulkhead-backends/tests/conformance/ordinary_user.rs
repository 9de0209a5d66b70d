//! The suite again, as somebody without privileges.
//!
//! Root starts this same program as another user, with one errand.

use std::{
    fs::File,
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    process::{Command, ExitCode, Output},
};

use bulkhead_backends::Native;
use bulkhead_spec::Guarantee;
use libtest_mimic::Failed;

use crate::{attack::Attack, attacks_on, claims::Claims, host};

/// A user and group that nobody has; nothing that is tried here needs a name for it.
const SOMEBODY: u32 = 12_345;

const CLAIMS: &str = "errand:claims";
const ATTACK: &str = "errand:attack:";

/// What a child is started for.
pub(crate) enum Errand {
    /// Tell what is claimed.
    Claims,
    /// Try one attack.
    Attack(&'static Attack),
}

impl Errand {
    /// The errand that `word` names, if it names one.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        if word == CLAIMS {
            return Some(Self::Claims);
        }
        let (guarantee, name) = word.strip_prefix(ATTACK)?.split_once(':')?;
        let mut attacks = attacks_on(guarantee.parse().ok()?).iter();
        attacks.find(|it| it.name == name).map(Self::Attack)
    }

    pub(crate) fn run(self, native: &Native) -> ExitCode {
        match self {
            Self::Claims => {
                host::say(&Claims::of(native).to_words());
                ExitCode::SUCCESS
            }
            Self::Attack(attack) => match attack.must_fail(native) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failed) => {
                    host::say(failed.message().unwrap_or("failed"));
                    ExitCode::FAILURE
                }
            },
        }
    }
}

/// What the native backend claims for an ordinary user.
pub(crate) fn claims() -> Result<Claims, Failed> {
    let said = send(CLAIMS)?;
    let words = String::from_utf8_lossy(&said.stdout).into_owned();
    if !said.status.success() {
        return Err(format!("an ordinary user could not be asked: {words}").into());
    }
    Ok(Claims::from_words(&words))
}

/// Tries `attack` as an ordinary user.
pub(crate) fn must_fail(guarantee: Guarantee, attack: &Attack) -> Result<(), Failed> {
    let said = send(&format!("{ATTACK}{guarantee}:{}", attack.name))?;
    if said.status.success() {
        return Ok(());
    }
    let why = [said.stdout, said.stderr].concat();
    Err(format!("{}: {}", said.status, String::from_utf8_lossy(&why)).into())
}

fn send(errand: &str) -> Result<Output, Failed> {
    // By descriptor, because the directory of this program may be closed to others.
    let program = File::open(std::env::current_exe()?)?;
    #[expect(clippy::disallowed_methods, reason = "it is this program that is started")]
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg(errand).uid(SOMEBODY).gid(SOMEBODY).env_clear().current_dir("/");
    Ok(command.output()?)
}
