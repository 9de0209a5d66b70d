//! What Bulkhead could not do, ready to be printed.

use std::error::Error;

use bulkhead_backends::BackendError;
use bulkhead_engine::{RunError, rooms::Busy};
use bulkhead_policy::Denial;
use serde_json::{Value, json};

use crate::{codes::Code, config::ConfigError};

/// As sysexits.h has it: it may work later.
const BUSY: u8 = 75;

/// One thing that Bulkhead could not do.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Which kind of thing.
    pub(crate) code: Code,
    /// What could not be done.
    pub(crate) what: String,
    /// Why, from the nearest cause to the last.
    pub(crate) causes: Vec<String>,
    /// What to do about it.
    pub(crate) hints: Vec<String>,
    /// The exit code, where it is not the usual one of the verb.
    pub(crate) exit: Option<u8>,
}

impl Failure {
    /// A failure without further causes.
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), causes: Vec::new(), hints: Vec::new(), exit: None }
    }

    /// A failure with the message and all sources of `error`.
    pub(crate) fn from_error(code: Code, error: &dyn Error) -> Self {
        let causes = std::iter::successors(error.source(), |&it| it.source());
        let causes = causes.map(ToString::to_string).collect();
        Self { causes, ..Self::new(code, error.to_string()) }
    }

    /// With another cause.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "mostly errors that are over with this")]
    pub(crate) fn because(mut self, cause: impl ToString) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    /// With another hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What the engine could not do.
    pub(crate) fn of_run(error: &RunError) -> Self {
        let failure = match error {
            RunError::Denied(denial) => Self::denied(denial),
            RunError::Unplaced { because, .. } => {
                let failure = Self::new(Code::Unplaced, error.to_string());
                let failure = because.iter().fold(failure, Self::because);
                failure.hint("type: bulkhead doctor")
            }
            RunError::Backend(backend) => Self::backend(backend),
            RunError::Busy(busy) => Self::busy(busy),
            RunError::Gone | RunError::Room { .. } | RunError::File(_) => Self::from_error(Code::Room, error),
            RunError::Secret { .. } => Self::from_error(Code::Secret, error),
            RunError::WayOut(_) => Self::from_error(Code::WayOut, error),
            RunError::Ledger { .. } => Self::from_error(Code::Record, error).hint(
                "look at the space and the permissions there; BULKHEAD_HOME names another place",
            ),
        };
        Self { exit: Some(error.exit_code()), ..failure }
    }

    /// There is no place for it now.
    pub(crate) fn busy(busy: &Busy) -> Self {
        let again = format!("try again in {}s", busy.retry.as_secs());
        let failure = Self::from_error(Code::Full, busy);
        let failure = failure.hint(again).hint("end rooms that nobody needs: bulkhead ls");
        Self { exit: Some(BUSY), ..failure }
    }

    fn denied(denial: &Denial) -> Self {
        let origin = "`bulkhead config show --origin` says who set the ceiling";
        let (code, hint) = match denial {
            Denial::TooMuch { .. } | Denial::Network { .. } | Denial::Image { .. } => {
                (Code::Denied, Some(origin))
            }
            Denial::Mount(_) => (Code::Share, Some(origin)),
            Denial::Dangerous(_) | Denial::Reserved(_) => (Code::Share, None),
            Denial::Dir(_) => (Code::WorkDir, None),
            Denial::NoEntry(_) => (Code::Image, None),
            Denial::TooLittle { .. } | Denial::NoProgram | Denial::Malformed(_) => {
                (Code::Denied, None)
            }
        };
        let failure = Self::from_error(code, denial);
        hint.into_iter().fold(failure, Self::hint)
    }

    fn backend(error: &BackendError) -> Self {
        let (code, hint) = match error {
            BackendError::NotFound { .. } => (
                Code::NotFound,
                Some(
                    "inside are /usr, the toolchains on the PATH, the workspace and what --mount \
                     shares; a script also needs the program that its first line names",
                ),
            ),
            BackendError::NotExecutable { .. } => (Code::NotExecutable, None),
            BackendError::Dir { .. } => (Code::WorkDir, None),
            BackendError::Share { .. } => (Code::Share, None),
            BackendError::Image { .. } => (Code::Image, None),
            BackendError::Daemon { .. } => (Code::Daemon, None),
            BackendError::Build { .. }
            | BackendError::System { .. }
            | BackendError::Unsupported { .. }
            | BackendError::Guest(_) => (Code::Build, None),
        };
        let failure = Self::from_error(code, error);
        hint.or(error.hint()).into_iter().fold(failure, Self::hint)
    }

    /// What another Bulkhead wrote with [`Failure::json`].
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let error = value.get("error")?;
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let name = text("code")?;
        let code = Code::ALL.iter().copied().find(|it| it.name() == name)?;
        let causes = error.get("causes").and_then(Value::as_array).cloned();
        let causes = causes.unwrap_or_default();
        let exit = error.get("exit_code").and_then(Value::as_u64);
        Some(Self {
            code,
            what: text("message")?,
            causes: causes.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            hints: text("hint").into_iter().filter(|it| !it.is_empty()).collect(),
            exit: exit.and_then(|it| u8::try_from(it).ok()),
        })
    }

    /// For programs.
    pub(crate) fn json(&self, exit: u8) -> Value {
        json!({ "error": {
            "code": self.code.name(),
            "message": self.what,
            "causes": self.causes,
            "hint": self.hints.join("; "),
            "exit_code": exit,
        }})
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let code = match &error {
            ConfigError::Read { .. } | ConfigError::Syntax { .. } => Code::ConfigFile,
            ConfigError::UnknownKey { .. } => Code::UnknownKey,
            ConfigError::Value { .. } | ConfigError::Variable { .. } => Code::BadValue,
            ConfigError::Untrusted { .. } => Code::Untrusted,
            ConfigError::Homeless | ConfigError::Store { .. } => Code::Record,
        };
        let failure = Self::from_error(code, &error);
        match error {
            ConfigError::UnknownKey { meant: Some(meant), .. } => {
                failure.hint(format!("did you mean `{meant}`?"))
            }
            ConfigError::UnknownKey { meant: None, .. } => {
                failure.hint("`bulkhead config schema` lists all keys")
            }
            ConfigError::Untrusted { path, widens } => {
                let failure = widens.into_iter().fold(failure, Self::because);
                failure.hint(format!("read `{path}`; if you agree, type: bulkhead trust"))
            }
            ConfigError::Homeless => failure.hint("set HOME or BULKHEAD_HOME"),
            ConfigError::Read { .. }
            | ConfigError::Syntax { .. }
            | ConfigError::Value { .. }
            | ConfigError::Variable { .. }
            | ConfigError::Store { .. } => failure,
        }
    }
}
