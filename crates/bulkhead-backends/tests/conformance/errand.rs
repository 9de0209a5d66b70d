//! What this program does when the suite starts it again, in another process.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use bulkhead_spec::Guarantee;
use libtest_mimic::Failed;

use crate::{
    attack::Attack,
    attacks_on,
    claims::Claims,
    host,
    makers::{self, Maker},
    nothing_survives, owners,
};

const MARK: &str = "errand";

/// What it is started for.
pub(crate) enum Errand {
    /// Tell what a backend claims.
    Claims(Maker),
    /// Try one attack on it.
    Attack(Maker, Guarantee, &'static Attack),
    /// Look whose the files are that it makes.
    Owners(Maker),
    /// The same behind a daemon that remaps users.
    Remap,
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
            [MARK, "claims", backend] => Some(Self::Claims(Maker::parse(backend)?)),
            [MARK, "attack", backend, guarantee, name] => {
                let guarantee = guarantee.parse().ok()?;
                let attack = attacks_on(guarantee).iter().find(|it| it.name == name)?;
                Some(Self::Attack(Maker::parse(backend)?, guarantee, attack))
            }
            [MARK, "owners", backend] => Some(Self::Owners(Maker::parse(backend)?)),
            [MARK, "remap"] => Some(Self::Remap),
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
            Self::Claims(maker) => vec!["claims".to_owned(), maker.to_words()],
            Self::Attack(maker, guarantee, attack) => vec![
                "attack".to_owned(),
                maker.to_words(),
                guarantee.to_string(),
                attack.name.to_owned(),
            ],
            Self::Owners(maker) => vec!["owners".to_owned(), maker.to_words()],
            Self::Remap => vec!["remap".to_owned()],
            Self::Hold { maker, workspace, places } => {
                vec!["hold".to_owned(), maker.to_words(), shown(workspace), shown(places)]
            }
        };
        [vec![MARK.to_owned()], words].concat()
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failed> {
        match self {
            Self::Claims(maker) => {
                let kept = tempfile::tempdir()?;
                host::say(&Claims::of(&*maker.make(kept.path())?).to_words());
            }
            Self::Attack(maker, _, attack) => {
                let kept = tempfile::tempdir()?;
                let backend = maker.make(kept.path())?;
                makers::note(&*backend, &maker);
                attack.must_fail(&*backend)?;
            }
            Self::Owners(maker) => {
                let kept = tempfile::tempdir()?;
                owners::check(&*maker.make(kept.path())?)?;
            }
            Self::Remap => owners::behind_a_remapping_daemon()?,
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
