//! `bulkhead key`: who may use the server.

use std::time::{SystemTime, UNIX_EPOCH};

use bulkhead_server::{KeyError, Keys, Scope};
use bulkhead_spec::escape;

use crate::{
    args::serve::{KeyScope, KeyVerb},
    codes::Code,
    config::{ConfigError, Environment, Paths, Who},
    failure::Failure,
    printer::Printer,
};

/// The file of keys.
pub(crate) fn keys(environment: &Environment) -> Result<Keys, Failure> {
    let paths = Paths::find(environment, Who::current());
    let state = paths.state.ok_or(ConfigError::Homeless)?;
    Ok(Keys::at(&state.join("keys.json")))
}

/// Makes, lists or removes keys.
pub(crate) fn run(
    verb: &KeyVerb,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let keys = keys(environment)?;
    let failed = |error: KeyError| Failure::from_error(Code::Record, &error);
    match verb {
        KeyVerb::Create(args) => {
            let scope = match args.scope {
                KeyScope::Read => Scope::Read,
                KeyScope::Run => Scope::Run,
                KeyScope::Admin => Scope::Admin,
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let expires = args.expires.map(|it| (now + it.0).as_secs());
            let secret = keys.make(&args.name, scope, expires).map_err(failed)?;
            printer.payload(&format!("{secret}\n"))?;
            printer.note("this key is not shown again");
        }
        KeyVerb::Ls => {
            for key in keys.list().map_err(failed)? {
                let scope = format!("{:?}", key.scope).to_lowercase();
                let expires =
                    key.expires.map_or_else(String::new, |it| format!("  until {it}"));
                printer.payload(&format!("{}  {scope}{expires}\n", escape(&key.name)))?;
            }
        }
        KeyVerb::Rm(args) => {
            if !keys.remove(&args.name).map_err(failed)? {
                let what = format!("there is no key `{}`", escape(&args.name));
                return Err(Failure::new(Code::Argument, what));
            }
        }
    }
    Ok(0)
}
