//! What this program does when the suite starts it again, in another process.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use bulkhead_spec::Guarantee;
use libtest_mimic::Failed;

use crate::{
    attack::Attack, attacks_on, claims::Claims, host, makers::Maker, nothing_survives,
};

const MARK: &str = "errand";

/// What it is started for.
pub(crate) enum Errand {
    /// Tell what the native backend claims.
    Claims,
    /// Try one attack on it.
    Attack(Guarantee, &'static Attack),
    /// Make a sandbox and wait.
    Hold {
        /// Of which backend.
        maker: Maker,
        /// What is worked on in it.
        workspace: PathBuf,
        /// Where the backend keeps what it must find again.
        places: PathBuf,
    },
}

impl Errand {
    /// The errand that `words` name, if they name one.
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match *words.as_slice() {
            [MARK, "claims"] => Some(Self::Claims),
            [MARK, "attack", guarantee, name] => {
                let guarantee = guarantee.parse().ok()?;
                let attack = attacks_on(guarantee).iter().find(|it| it.name == name)?;
                Some(Self::Attack(guarantee, attack))
            }
            [MARK, "hold", backend, workspace, places] => Some(Self::Hold {
                maker: Maker::parse(backend)?,
                workspace: workspace.into(),
                places: places.into(),
            }),
            _ => None,
        }
    }

    /// The words by which it is known.
    pub(crate) fn to_words(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let words = match self {
            Self::Claims => vec!["claims".to_owned()],
            Self::Attack(guarantee, attack) => {
                vec!["attack".to_owned(), guarantee.to_string(), attack.name.to_owned()]
            }
            Self::Hold { maker, workspace, places } => {
                vec!["hold".to_owned(), maker.to_words(), shown(workspace), shown(places)]
            }
        };
        [vec![MARK.to_owned()], words].concat()
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failed> {
        match self {
            Self::Claims => {
                let kept = tempfile::tempdir()?;
                host::say(&Claims::of(&*Maker::Native.make(kept.path())?).to_words());
            }
            Self::Attack(_, attack) => {
                let kept = tempfile::tempdir()?;
                attack.must_fail(&*Maker::Native.make(kept.path())?)?;
            }
            Self::Hold { maker, workspace, places } => hold(&maker, workspace, places)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Nothing here makes a directory that it must remove: it will be killed.
fn hold(maker: &Maker, workspace: PathBuf, places: PathBuf) -> Result<(), Failed> {
    let backend = maker.make(&places)?;
    let held = nothing_survives::hold(&*backend, workspace, places)?;
    host::say(&format!("held {held}"));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
